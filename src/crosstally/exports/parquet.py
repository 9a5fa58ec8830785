"""An answer as a Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from crosstally.exports.cells import known, labelled_cells
from crosstally.platform_files import whole_file

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["arrow_table", "write_parquet"]


def arrow_table(marginal: Marginal, *, level: float | None = None) -> pa.Table:
    """One row for each cell, as CSV has them: plain texts, then numbers (null when not known)."""
    cells = list(labelled_cells(marginal, level=level))
    columns = {
        name: pa.array([cell.labels[i] for cell in cells], pa.string()) for i, name in enumerate(marginal.attributes)
    }
    count, std_error = marginal.number_columns()
    columns[count] = pa.array([cell.count for cell in cells], pa.float64())
    columns[std_error] = pa.array([known(cell.std_error) for cell in cells], pa.float64())
    low, high = marginal.interval_columns()
    columns[low] = pa.array([known(cell.low) for cell in cells], pa.float64())
    columns[high] = pa.array([known(cell.high) for cell in cells], pa.float64())
    return pa.table(columns)


def write_parquet(marginal: Marginal, path: Path, *, level: float | None = None) -> None:
    """Write the table to a file."""
    with whole_file(path) as file:
        pyarrow.parquet.write_table(arrow_table(marginal, level=level), file)
