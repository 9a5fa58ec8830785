"""A column of ids that come again: the unit of protection it suggests, and how many rows units have."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

__all__ = ["RowsOfUnits", "rows_of_units"]

# Round bounds that are suggested, of rows for each unit. Chosen; noise grows with the bound.
_LADDER = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_KEPT = 0.95  # of all units keep all their rows under the bound that is suggested


@dataclass(frozen=True, slots=True, repr=False)
class RowsOfUnits:
    """Confidential: how many units there are, and how many rows they have."""

    units: int
    rows: int
    median: int
    most_of_them: int
    most: int

    @property
    def bound(self) -> int:
        """A round number of rows that nearly all units stay within."""
        place = bisect.bisect_left(_LADDER, self.most_of_them)
        return min(_LADDER[min(place, len(_LADDER) - 1)], self.most)


def rows_of_units(ids: Sequence[pa.Array]) -> RowsOfUnits:
    """How many rows each id has."""
    known = pa.chunked_array(ids, pa.large_string()).drop_null()
    rows = np.sort(known.value_counts().field("counts").to_numpy())
    if not len(rows):
        return RowsOfUnits(0, 0, 0, 0, 0)
    place = int(np.ceil(_KEPT * len(rows))) - 1
    return RowsOfUnits(len(rows), int(rows.sum()), int(rows[len(rows) // 2]), int(rows[place]), int(rows[-1]))
