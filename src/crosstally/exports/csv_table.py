"""An answer as CSV."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

from crosstally.exports.cells import labelled_cells, without_dust
from crosstally.exports.inert import inert

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["csv_text"]


def csv_text(marginal: Marginal, *, level: float | None = None, raw: bool = False) -> str:
    """One line for each cell: its labels, its count, its standard error and the ends of its interval.

    What is not known is empty. Intervals are of 95% where no level is asked. Labels that a spreadsheet would take for
    a formula are made inert, unless they are wanted ``raw``.
    """
    text_of = str if raw else inert
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*map(text_of, marginal.attributes), *marginal.number_columns(), *marginal.interval_columns()])
    for cell in labelled_cells(marginal, level=level):
        errors = (cell.std_error, cell.low, cell.high)
        texts = ["" if math.isnan(each) else repr(each) for each in errors]
        writer.writerow([*map(text_of, cell.labels), repr(without_dust(cell.count)), *texts])
    return text.getvalue()
