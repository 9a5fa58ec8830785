"""An answer as CSV."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

from crosstally.exports.cells import labelled_cells, without_dust

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["csv_text"]


def csv_text(marginal: Marginal, *, level: float | None = None) -> str:
    """One line for each cell: its labels, its count, its standard error and the ends of its interval.

    What is not known is empty. Intervals are of 95% where no level is asked.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*marginal.attributes, *marginal.number_columns(), *marginal.interval_columns()])
    for cell in labelled_cells(marginal, level=level):
        errors = (cell.std_error, cell.low, cell.high)
        texts = ["" if math.isnan(each) else repr(each) for each in errors]
        writer.writerow([*cell.labels, repr(without_dust(cell.count)), *texts])
    return text.getvalue()
