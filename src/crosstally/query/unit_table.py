"""How many units have how many rows: what a release says about the rows beyond its contribution bound.

The share of rows beyond the bound has no bounded sensitivity: one unit may have any number of rows. Each unit is in one
bin of this table, whatever its number of rows, so that one unit moves it by 1 (by 2 where it is replaced).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Neighbours, Sensitivity
from crosstally.checks import is_whole
from crosstally.errors import QueryError
from crosstally.query.queries import Product, Query
from crosstally.schema import Schema, Unit

_MOST_BINS = 100  # limits what a file may ask for. ``of`` makes at most 44
_MOST_ROWS = 2**31  # of one unit, in the name of a bin
_SINGLE = 10  # numbers of rows within the bound that have a bin of their own; wider bins follow, since each adds noise
# Where bins beyond the bound begin, in steps of a quarter of the bound: rows left out are known to a third, and a unit
# in the last closed bin has four times the bound. More bins would add noise to what they sum to.
_BEYOND = (0, 1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class UnitTable(Query):
    """The number of units by their number of rows: ``first`` is the least number of each bin, and the last is open.

    >>> UnitTable.of(Unit("patient", 3)).first
    (1, 2, 3, 4, 5, 6, 8, 12, 20)
    """

    first: tuple[int, ...]

    of_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", tuple(self.first))
        if not 1 <= len(self.first) <= _MOST_BINS or not all(is_whole(n, 1, _MOST_ROWS) for n in self.first):
            raise QueryError(f"bins of units must be 1 to {_MOST_BINS} whole numbers of at least 1, below 2^31")
        if self.first[0] != 1 or any(low >= high for low, high in pairwise(self.first)):
            raise QueryError("bins of units must begin at one row and increase")

    @classmethod
    def of(cls, unit: Unit) -> UnitTable:
        """The bins for a bound: each number of rows up to 10, wider ones up to the bound, six beyond it."""
        bound = unit.max_rows
        inside = list(range(1, min(bound, _SINGLE) + 1))
        while 2 * inside[-1] < bound and inside[-1] >= _SINGLE:
            inside.append(2 * inside[-1])
        step = -(-bound // 4)
        return cls((*inside, *(bound + 1 + step * times for times in _BEYOND)))

    @property
    def is_linear(self) -> bool:
        """It is not in the counts of rows."""
        return False

    @property
    def attributes(self) -> tuple[str, ...]:
        """None: rows of any values count."""
        return ()

    @property
    def kind(self) -> str:
        """Its kind in words."""
        return "units by number of rows"

    @property
    def tables(self) -> tuple[Any, ...]:
        """Itself: it follows from no table of rows."""
        return (self,)

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """A number for each bin."""
        if schema.unit is None:
            raise QueryError("units by number of rows need a schema with a unit")
        if schema.divided:
            raise QueryError("units by number of rows are beside tables of rows; these tables count each unit once")
        return (len(self.first),)

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:  # noqa: ARG002
        """One unit is in one bin; a replaced one may leave it for another."""
        moved = 1 if Neighbours(neighbours) == Neighbours.ADD_REMOVE else 2
        return Sensitivity(moved, moved)

    def worst_shifts(self, schema: Schema, neighbours: Neighbours | str) -> list[int] | None:
        """See Query."""
        return [1] * self.sensitivity(schema, neighbours).l1

    def counted(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The exact number of units in each bin, from the number of rows of each, at least 1."""
        bins = np.searchsorted(np.array(self.first), rows, side="right") - 1
        return np.bincount(bins, minlength=len(self.first)).astype(np.int64)

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts as they are."""
        return counts

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON."""
        return {"units": list(self.first)}


CountedTable = Product | UnitTable
"""What is counted for a plan: a table of rows, or of units."""
