"""What a question costs, known before it is answered: in cells of tables that follow from measurements.

Such a cell with its interval takes about 4 CPU microseconds; the most that is answered takes about 20 seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from crosstally.errors import PlanError
from crosstally.query.question import Question
from crosstally.query.where import Where
from crosstally.releases import Release
from crosstally.tables import Marginal

__all__ = ["LARGE", "MOST", "Meter", "TooDearError", "price"]

MOST = 5_000_000
"""The highest cost that is answered: the largest table that follows from measurements, once."""

LARGE = 250_000
"""What costs more, a second or so, waits in a place of its own and does not keep small tables waiting."""

_TABLE = 100  # a table of few cells: what is done once for each
_UNMEASURED = 25
"""A cell of a table that nobody measured, whose gaps are filled in every replicate: 22 to 130 CPU microseconds in
tables of made-up people and in those where only pairs were measured, over 3 to 8 attributes."""
_VALUE = 3
"""A label in a row of SQL: less time than a cell, but objects of Python, which take a hundred bytes each."""


class TooDearError(PlanError):
    """The question costs more than is answered."""

    def __init__(self, message: str = "", cost: int = 0) -> None:
        super().__init__(message)
        self.cost = cost

    @classmethod
    def of(cls, cost: int) -> TooDearError:
        """The error that says what it costs and what to do."""
        return cls(
            f"this question costs {cost:,}, at most {MOST:,} is answered (a cell costs 1, or {_UNMEASURED} in a table "
            "that is modelled): ask for fewer attributes, values or groupings",
            cost,
        )


def price(
    release: Release, tables: Sequence[Sequence[str]], where: Where | None = None, *, labels: bool = False
) -> int:
    """What some tables of a release under one condition cost together.

    With labels they are rows of SQL, each of which has a column for every key of any table.
    """
    added = () if where is None else where.attributes
    keys = len({name for names in tables for name in names}) if labels else 0
    total = 0
    for names in tables:
        joint = tuple(dict.fromkeys((*names, *added)))
        cells = math.prod(release.schema.sizes(joint))
        each = _UNMEASURED if cells <= MOST and _is_modelled(release, joint) else 1
        total += max(_TABLE, each * cells) + _VALUE * keys * math.prod(release.schema.sizes(tuple(names)))
    return total


def _is_modelled(release: Release, names: Sequence[str]) -> bool:
    """Whether intervals of a table fill its gaps in every replicate. Tables with bounds are filled once."""
    if release.nonnegative == "none" or release.covers(*names):
        return False
    return release.estimate.groups is not None or bool(release.estimate.covered(list(combinations(names, 2))).all())


@dataclass(slots=True)
class Meter:
    """Answers tables of a release for SQL so long as all of them together stay below the highest cost."""

    release: Release
    spent: int = 0

    def __call__(self, tables: Sequence[tuple[str, ...]], where: Question | None) -> list[Marginal]:
        """The tables; refused before they are computed where they cost too much."""
        read = None if where is None else Where.of(where, self.release.schema)
        self.spent += price(self.release, tables, read, labels=True)
        if self.spent > MOST:
            raise TooDearError.of(self.spent)
        return self.release.marginals(tables, where=where)
