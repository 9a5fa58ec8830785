"""Answers formatted for people: ``1,234 ± 21`` or ``1,234 (1,190 to 1,280)``, labelled and aligned."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING

from rich.table import Table

from crosstally.cli.output.screen import Screen, grid, printable
from crosstally.exports.formats import margins

if TYPE_CHECKING:
    from crosstally.answers.marginal import Marginal


MOST_LINES = 1_000  # cells of a table on a terminal. Files have all of them


def title(marginal: Marginal) -> str:
    """The title of a table: its attributes and condition."""
    asked = " by ".join(map(printable, marginal.attributes)) or marginal.schema.total_title
    return f"{asked}, where {printable(marginal.where)}" if marginal.where else asked


def notes(marginal: Marginal, level: float | None) -> list[str]:
    """The notes needed to read the numbers."""
    if marginal.shows_intervals:
        from crosstally.answers.marginal import USUAL_LEVEL

        percent = f"{100 * (level or USUAL_LEVEL):g}%"
        sure = f"(... to ...): the {marginal.estimand} is within this interval with {percent} confidence"
        assumption = marginal.error_kind.assumption
        if not assumption:
            corrected = marginal.error_kind == "corrected"
            return [f"{sure}, after the correction of negative cells." if corrected else f"{sure}."]
        guess = "" if marginal.error_kind == "estimated" else f" The count itself is estimated by {marginal.method}."
        return [f"{sure}. {assumption[0].upper()}{assumption[1:]}.{guess}"]
    if marginal.uncertainty is None:
        guess = f"The numbers are estimated by {marginal.method} from what was measured."
        return [f"± ?: this combination of attributes was never measured, so no error is known. {guess}"]
    if level is None:
        usual = "is usually within it, and almost always within twice that"
        lines = [f"±: one standard error. The {marginal.estimand} {usual}."]
    else:
        lines = [f"±: the {marginal.estimand} is within this margin with {100 * level:g}% confidence."]
    if marginal.error_kind == "estimated":
        lines.append("± is itself estimated from the reports, and right on average over many cells.")
    elif marginal.corrected:
        lines.append(
            "Counts are corrected: none is negative, and smaller tables steady larger ones. ± is the error before that."
        )
    return lines


def show(marginal: Marginal, screen: Screen, *, level: float | None = None) -> None:
    """Print the title, the table and the notes: intervals or margins at ``level``, or standard errors."""
    screen.print(title(marginal), style="bold")
    if marginal.quantity != "count":
        screen.say(printable(marginal.caption))
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


def cell_texts(marginal: Marginal, level: float | None) -> list[str]:
    """The cells as text, the last attribute fastest."""
    from crosstally.text_table import cell_text, figure_text, interval_text

    values = marginal.values.ravel().tolist()
    if marginal.shows_intervals:
        ends = marginal.interval() if level is None else marginal.interval(level)
        low, high = (end.ravel().tolist() for end in ends)
        shown = interval_text if marginal.quantity == "count" else partial(figure_text, percent=False)
        return [shown(*each) for each in zip(values, low, high, strict=True)]
    return [cell_text(*each) for each in zip(values, margins(marginal, level).ravel().tolist(), strict=True)]


def _long(marginal: Marginal, level: float | None) -> Table:
    table = grid(*marginal.attributes, marginal.quantity, left=len(marginal.attributes))
    labels = product(*(attribute.labels for attribute in marginal.schema.attributes))
    for own, text in islice(zip(labels, cell_texts(marginal, level), strict=True), MOST_LINES):
        table.add_row(*map(printable, own), text)
    return table


def _crosstab(marginal: Marginal, level: float | None) -> Table:
    """The first attribute down, the second across."""
    down, across = marginal.schema.attributes
    table = grid(f"{down.name} \\ {across.name}", *across.labels)
    texts = cell_texts(marginal, level)
    for i, label in enumerate(down.labels):
        table.add_row(printable(label), *texts[i * across.size : (i + 1) * across.size])
    return table


def _columns(table: Table) -> Sequence[list[str]]:
    return [[str(column.header), *map(str, column.cells)] for column in table.columns]
