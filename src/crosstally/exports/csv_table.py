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


def csv_text(marginal: Marginal, *, raw: bool = False) -> str:
    """One line for each cell: its labels, its count and its standard error (empty when not known).

    Labels that a spreadsheet would take for a formula are made inert, unless they are wanted ``raw``.
    """
    text_of = str if raw else inert
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*map(text_of, marginal.attributes), *marginal.number_columns()])
    for cell in labelled_cells(marginal):
        error = "" if math.isnan(cell.std_error) else repr(cell.std_error)
        writer.writerow([*map(text_of, cell.labels), repr(without_dust(cell.count)), error])
    return text.getvalue()
