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


def csv_text(marginal: Marginal) -> str:
    """One line for each cell: its labels, its count and its standard error (empty when not known)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*marginal.attributes, *marginal.number_columns()])
    for cell in labelled_cells(marginal):
        error = "" if math.isnan(cell.std_error) else repr(cell.std_error)
        writer.writerow([*cell.labels, repr(without_dust(cell.count)), error])
    return text.getvalue()
