"""What a query adds up over rows: the rows themselves, the values of a measure, or the rows that have a value.

A row adds one of a few *extremes* or something between them. Sensitivities and joint costs are convex in what rows add,
so that they are attained at extremes: with all rows of a unit in one cell, or in two where it is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

from crosstally.budget import Neighbours, Sensitivity
from crosstally.schema import Schema

State = tuple[int, int]
"""A row as a measure sees it: its value in steps from the centre, and 1; or 0 and 0 where it is left out."""


@dataclass(frozen=True, slots=True)
class Summed:
    """The rows; or of a measure its ``values``, in steps from its centre, or the rows that have one.

    >>> Summed().to_dict(), Summed("income").to_dict(), Summed("income", values=False).to_dict()
    ({}, {'of': 'income'}, {'having': 'income'})
    """

    measure: str | None = None
    values: bool = True

    def added(self, state: State) -> int:
        """What a row in this state adds."""
        return state[0 if self.values else 1]

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str, *, one_cell: bool) -> Sensitivity:
        """Of a table that sums a measure, of one cell or of several.

        A replaced unit may empty one cell and fill another, or change its values in the same one.
        """
        m, extremes = schema.max_rows, [self.added(state) for state in states_of(self.measure, schema)]
        most = max(map(abs, extremes))
        if Neighbours(neighbours) == Neighbours.ADD_REMOVE:
            return Sensitivity(m * most, m**2 * most**2)
        within = max(extremes) - min(extremes)
        if schema.may_drop:
            within = max(*extremes, 0) - min(*extremes, 0)
        if one_cell:
            return Sensitivity(m * within, m**2 * within**2)
        return Sensitivity(m * max(2 * most, within), m**2 * max(2 * most**2, within**2))

    def to_dict(self) -> dict[str, str]:
        """What a query's JSON says of it; nothing of rows."""
        return {} if self.measure is None else {"of" if self.values else "having": self.measure}


ROWS = Summed()


def states_of(measure: str | None, schema: Schema) -> list[State]:
    """The extreme states of a row that has a cell."""
    assert measure is not None  # tables of rows have their own sensitivity
    own = schema.measure(measure)
    return [(own.low, 1), (own.high, 1), *([(0, 0)] if own.leaves_out else [])]
