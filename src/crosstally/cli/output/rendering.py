"""Answers as people read them: ``1,234 ± 21``, labelled and aligned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from rich.table import Table

from crosstally.cli.output.screen import Screen, grid, printable
from crosstally.exports.cells import labelled_cells, margins

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["notes", "show", "title"]

MOST_LINES = 1_000


def title(marginal: Marginal) -> str:
    """What the table is of."""
    asked = " by ".join(map(printable, marginal.attributes)) or "number of rows"
    return f"{asked}, where {printable(marginal.where)}" if marginal.where else asked


def notes(marginal: Marginal, level: float | None) -> list[str]:
    """What must be known to read the numbers."""
    if marginal.error is None:
        guess = f"The numbers are a guess by {marginal.method} from what was measured."
        return [f"± ?: this combination of attributes was never measured, so no error is known. {guess}"]
    if level is None:
        lines = ["±: one standard error. The true count is usually within it, and almost always within twice that."]
    else:
        lines = [f"±: the true count is within this margin with {100 * level:g}% confidence."]
    if marginal.error_kind == "estimated":
        lines.append("± is itself estimated from the reports, and right on average over many cells.")
    elif marginal.corrected:
        lines.append(
            "Counts are corrected: none is negative, and smaller tables steady larger ones. ± is the error before that."
        )
    return lines


def show(marginal: Marginal, screen: Screen, *, level: float | None = None) -> None:
    """Print the title, the table and the notes; ± is a margin at ``level``, or the standard error."""
    screen.print(title(marginal), style="bold")
    screen.print()
    screen.put_table(_table(marginal, level, screen.width))
    screen.print()
    if marginal.values.size > MOST_LINES:
        screen.say(f"These are the first lines of {marginal.values.size:,} cells; --format csv has all of them.")
    for line in notes(marginal, level):
        screen.say(line, style="dim")


def _table(marginal: Marginal, level: float | None, width: int) -> Table:
    if len(marginal.attributes) == 2 and marginal.values.size <= MOST_LINES:
        crosstab = _crosstab(marginal, level)
        widest = sum(max(len(line) for line in column) + 3 for column in _columns(crosstab))
        if widest <= width:
            return crosstab
    return _long(marginal, level)


def _long(marginal: Marginal, level: float | None) -> Table:
    from crosstally.text_table import cell_text

    table = grid(*marginal.attributes, "count", left=len(marginal.attributes))
    for cell in islice(labelled_cells(marginal, level=level), MOST_LINES):
        table.add_row(*map(printable, cell.labels), cell_text(cell.count, cell.margin))
    return table


def _crosstab(marginal: Marginal, level: float | None) -> Table:
    """The first attribute down, the second across."""
    from crosstally.text_table import cell_text

    down, across = marginal.schema.attributes
    table = grid(f"{down.name} \\ {across.name}", *across.labels)
    for label, *numbers in zip(down.labels, marginal.values, margins(marginal, level), strict=True):
        table.add_row(printable(label), *(cell_text(float(n), float(e)) for n, e in zip(*numbers, strict=True)))
    return table


def _columns(table: Table) -> Sequence[list[str]]:
    return [[str(column.header), *map(str, column.cells)] for column in table.columns]
