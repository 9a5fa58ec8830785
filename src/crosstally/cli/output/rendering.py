"""Answers as people read them: ``1,234 ± 21``, labelled and aligned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from rich.table import Table

from crosstally.cli.output.screen import Screen, grid, printable
from crosstally.exports.selection import Selection

__all__ = ["notes", "show", "title"]

MOST_LINES = 1_000


def title(selection: Selection) -> str:
    """What the table is of."""
    asked = " by ".join(printable(axis.name) for axis in selection.axes) or "number of rows"
    where = " and ".join(f"{printable(axis.name)} = {printable(axis.labels[0])}" for axis in selection.fixed)
    return f"{asked}, where {where}" if where else asked


def notes(selection: Selection) -> list[str]:
    """What must be known to read the numbers."""
    if math.isnan(selection.margin):
        guess = f"The numbers are a guess by {selection.method} from what was measured."
        return [f"± ?: this combination of attributes was never measured, so no error is known. {guess}"]
    if selection.level is None:
        lines = ["±: one standard error. The true count is usually within it, and almost always within twice that."]
    else:
        lines = [f"±: the true count is within this margin with {100 * selection.level:g}% confidence."]
    if selection.error_kind == "estimated":
        lines.append("± is itself estimated from the reports, and right on average over many cells.")
    elif selection.corrected:
        lines.append("Negative counts, if there were any, are corrected; ± is the error before that.")
    return lines


def show(selection: Selection, screen: Screen) -> None:
    """Print the title, the table and the notes."""
    screen.print(title(selection), style="bold")
    screen.print()
    screen.put_table(_table(selection, screen.width))
    screen.print()
    if selection.values.size > MOST_LINES:
        screen.say(f"These are the first lines of {selection.values.size:,} cells; --format csv has all of them.")
    for line in notes(selection):
        screen.say(line, style="dim")


def _table(selection: Selection, width: int) -> Table:
    if len(selection.axes) == 2 and selection.values.size <= MOST_LINES:
        crosstab = _crosstab(selection)
        widest = sum(max(len(line) for line in column) + 3 for column in _columns(crosstab))
        if widest <= width:
            return crosstab
    return _long(selection)


def _long(selection: Selection) -> Table:
    from crosstally.text_table import cell_text

    names = [axis.name for axis in selection.axes]
    table = grid(*names, "count", left=len(names))
    for labels, value in islice(selection.cells(), MOST_LINES):
        table.add_row(*map(printable, labels[: len(names)]), cell_text(value, selection.margin))
    return table


def _crosstab(selection: Selection) -> Table:
    """The first attribute down, the second across."""
    from crosstally.text_table import cell_text

    down, across = selection.axes
    table = grid(f"{down.name} \\ {across.name}", *across.labels)
    for label, row in zip(down.labels, selection.values.reshape(len(down.labels), -1), strict=True):
        table.add_row(printable(label), *(cell_text(float(value), selection.margin) for value in row))
    return table


def _columns(table: Table) -> Sequence[list[str]]:
    return [[str(column.header), *map(str, column.cells)] for column in table.columns]
