"""A table as a page shows it: numbers in rows and columns, in order, with intervals and signs of reliability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import groupby, product

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from crosstally.analysis.quality_flags import reliability_classes
from crosstally.answers.marginal import Marginal
from crosstally.browser.common.site import texts_of
from crosstally.browser.explorer.view import Order, Show, TableView
from crosstally.reliability import PUBLISHED, SIGNS, Reliability
from crosstally.typing import Floats

text = texts_of("explorer")

MAX_SHOWN = 5_000
"""Cells of a table on a page: a browser lays them out in a second, and nobody reads more."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The numbers of the rows shown, of ``all_rows``, with the ends of their intervals (NaN where not known).

    ``classes`` are places in ``PUBLISHED``: how reliable each number is. ``left_out`` is the share of what is counted
    that the other rows hold.
    """

    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    row_labels: Sequence[tuple[str, ...]]
    column_labels: Sequence[tuple[str, ...]]
    _: KW_ONLY
    values: Floats
    low: Floats
    high: Floats
    classes: NDArray[np.intp]
    all_rows: int
    left_out: float
    shares: bool

    @property
    def heads(self) -> list[list[tuple[str, int]]]:
        """The lines above the columns, one for each attribute: labels, and how many columns each stands above."""
        out = []
        for depth in range(len(self.column_names)):
            runs = groupby(self.column_labels, key=lambda labels, depth=depth: labels[: depth + 1])  # type: ignore[misc]
            out.append([(key[-1], len(list(run))) for key, run in runs])
        return out

    @property
    def size(self) -> int:
        """How many cells are shown."""
        return self.values.size

    @property
    def intervals(self) -> bool:
        """Whether any interval is known."""
        return bool(np.isfinite(self.low).any())

    def cells(self, row: int) -> list[tuple[float, float, float, Reliability]]:
        """The cells of a row: number, ends of its interval, and how reliable it is."""
        columns = (each[row].tolist() for each in (self.values, self.low, self.high, self.classes))
        return [(value, low, high, PUBLISHED[place]) for value, low, high, place in zip(*columns, strict=True)]


def grid(marginal: Marginal, shown: Marginal, view: TableView) -> Grid:
    """The table of a view, laid out: counts over its attributes, those of rows first, and the numbers to show."""
    attributes = marginal.schema.attributes
    down, across = attributes[: len(view.rows)], attributes[len(view.rows) :]
    row_labels = tuple(product(*(attribute.labels for attribute in down)))
    column_labels = tuple(product(*(attribute.labels for attribute in across)))
    shape = len(row_labels), len(column_labels)
    counts, values = marginal.values.reshape(shape), shown.values.reshape(shape)
    classes = reliability_classes(shown).reshape(shape)
    low, high = (np.asarray(end, np.float64).reshape(shape) for end in shown.interval(view.level))
    order = _order(counts, view)
    left = counts.sum() - counts[order].sum()
    return Grid(
        view.rows,
        view.columns,
        [row_labels[i] for i in order],
        column_labels,
        values=values[order],
        low=low[order],
        high=high[order],
        classes=classes[order],
        all_rows=shape[0],
        left_out=float(left / counts.sum()) if counts.sum() else 0.0,
        shares=view.show is not Show.COUNT,
    )


def _order(counts: Floats, view: TableView) -> NDArray[np.intp]:
    """Which rows are shown, in order. The top n are the n largest, whatever the order."""
    totals = counts.sum(axis=1)
    largest = np.argsort(-totals, kind="stable")
    kept = largest if view.top is None else largest[: view.top]
    if view.order is Order.SCHEMA:
        return np.sort(kept)
    if view.order is Order.MOST:
        return kept
    return kept[np.argsort(totals[kept], kind="stable")]


# Numbers in words


def cells_markup(grid: Grid, row: int) -> Markup:
    """The cells of a row in HTML: value, sign of reliability and interval.

    Written here and not in the template, which took longer for them than for the rest of the page. They hold numbers
    and words of the catalogue, nothing of the release.
    """
    return Markup("".join(_cell_html(grid.shares, *cell) for cell in grid.cells(row)))  # noqa: S704


def _cell_html(shares: bool, value: float, low: float, high: float, reliability: Reliability) -> str:
    kind, shown = reliability.key, number_text(value, shares=shares)
    ends = f"{number_text(low, shares=shares)} – {number_text(high, shares=shares)}"
    interval = "" if math.isnan(low) else f'<span class="interval">{ends}</span>'
    return f'<td class="number {kind}"><span class="value">{shown}</span>{_SIGN_HTML[kind]}{interval}</td>\n'


def _sign_html(reliability: Reliability) -> str:
    if not SIGNS[reliability]:
        return ""
    words = escape(text(f"reliability.{reliability.key}"))
    return f' <abbr class="sign" title="{words}">{SIGNS[reliability]}</abbr>'


_SIGN_HTML = {each.key: _sign_html(each) for each in PUBLISHED}


def number_text(value: float, *, shares: bool = False) -> str:
    """A number for people: whole counts, shares in percent."""
    if not math.isfinite(value):
        return "–"
    return percent_text(value) if shares else f"{round(value) + 0:,}".replace("-", "−")


def percent_text(share: float) -> str:
    """A share in percent.

    >>> percent_text(0.95), percent_text(0.165), percent_text(0.1234)
    ('95%', '16.5%', '12.3%')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def joined(labels: Sequence[str]) -> str:
    """Several labels as one."""
    return " · ".join(labels)
