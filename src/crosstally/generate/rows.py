"""How many rows: the number asked for, and rows drawn again from those of a table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crosstally.errors import CrosstallyError

__all__ = ["check_rows", "resample"]


def check_rows(rows: int) -> None:
    """Refuse a negative number of rows."""
    if rows < 0:
        raise CrosstallyError(f"rows must not be negative, got {rows}")


def resample(table: pa.Table, rows: int, random: np.random.Generator) -> pa.Table:
    """As many rows as asked, drawn from the table with replacement."""
    check_rows(rows)
    if table.num_rows == 0 and rows > 0:
        raise CrosstallyError("a table without rows cannot be resampled")
    return table.take(pa.array(random.integers(max(table.num_rows, 1), size=rows)))
