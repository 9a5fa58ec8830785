"""A private choice: which of several tables are farthest from a reference. Only their indices are published.

The score of table T is weight_T x (L1 distance of the counts from reference_T, minus penalty_T); the largest score plus
Gumbel noise wins. Reference, weights and penalties are public, scores are confidential and never leave ``privacy``.

One unit of m rows changes the counts of a table by at most m in L1 when it is added (2 m when it is replaced), and by
the triangle inequality their distance from any reference by no more. So no score moves by more than the largest weight
times that. Noise of scale b on each score makes P(T) proportional to exp(score_T / b): the exponential mechanism, which
costs epsilon = 2 Delta / b, and rho = epsilon^2 / 8 since its loss has a range of epsilon (Dong, Durfee and Rogers
2020; Cesar and Rogers 2021).

The k largest noisy scores, in order, are the k picks of k such choices, each among the candidates that are left: a
pick after others has the softmax law over the rest, since the largest of several Gumbel variables says nothing about
which of the others is next (Durfee and Rogers 2019). So k picks cost k times as much.

A candidate over no attributes stands for "nothing": its score is minus its weight times its penalty, whatever the rows.
What is picked after it is not wanted. With K candidates whose scores are at most 0, and a score of b ln(K / p) for
nothing, anything is picked before it with probability at most p: the odds of each are at most p / K.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Amount, Neighbours, Sensitivity, decimal_text, exact
from crosstally.errors import QueryError
from crosstally.query.operators import GroupMaps
from crosstally.query.queries import Cells, Product, Query
from crosstally.schema import Schema

_MAX_WEIGHT = 2**31  # of a weight over the common denominator: scores of many rows stay within 64 bits
_MAX_PUBLIC = 2**60  # what reference and penalty may add to a score: the counts have as much again, and more


@dataclass(frozen=True, slots=True, init=False)
class Choice(Query):
    """Which of the candidates are farthest from the reference: their indices, from 0 on, the farthest first.

    Noise is added to whole scores: scores times the least common denominator of the weights, so that their sensitivity
    is exact.

    >>> Choice([("sex",), ("age",)], [[10, 10], [5, 5, 10]], weights=["1/2", "1/3"]).whole_weights
    (3, 2)
    """

    candidates: tuple[tuple[str, ...], ...]
    reference: tuple[tuple[int, ...], ...]
    weights: tuple[Fraction, ...]
    penalties: tuple[int, ...]
    picks: int
    groups_of: GroupMaps

    is_choice: ClassVar[bool] = True

    @property
    def is_linear(self) -> bool:
        """It says nothing about counts but which score is largest."""
        return False

    def __init__(
        self,
        candidates: Iterable[Sequence[str]],
        reference: Iterable[Iterable[int]],
        *,
        weights: Iterable[Amount] | None = None,
        penalties: Iterable[int] | None = None,
        picks: int = 1,
        groups: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """A choice between tables.

        Args:
            candidates: The attributes of each table; none for "nothing", which has no cells.
            reference: For each table a whole number for each of its cells, the last attribute fastest.
            weights: A positive number for each table, taken exactly; all 1 by default.
            penalties: A whole number for each table, which its distance must exceed to count; all 0 by default.
            picks: How many candidates are chosen.
            groups: For some attributes the group of each value: candidates count groups. What is measured may have
                other groups.
        """
        tables = tuple(tuple(names) for names in candidates)
        object.__setattr__(self, "candidates", tables)
        object.__setattr__(self, "reference", tuple(_whole_numbers(cells, "the reference") for cells in reference))
        given = [1] * len(tables) if weights is None else weights
        object.__setattr__(self, "weights", tuple(exact(weight, "weight") for weight in given))
        owed = [0] * len(tables) if penalties is None else penalties
        object.__setattr__(self, "penalties", _whole_numbers(owed, "penalties"))
        object.__setattr__(self, "picks", picks)
        maps = sorted((name, _whole_numbers(each, "groups")) for name, each in (groups or {}).items())
        object.__setattr__(self, "groups_of", tuple(maps))
        self._check()

    def _check(self) -> None:
        if not self.candidates or len(set(map(frozenset, self.candidates))) < len(self.candidates):
            raise QueryError("a choice must have at least one candidate, and each table once")
        for names in self.candidates:
            if len(set(names)) < len(names):
                raise QueryError("each candidate of a choice must name each of its attributes once")
        number = len(self.candidates)
        if number == 1 and not self.candidates[0]:
            raise QueryError("a choice must have a table among its candidates, beside nothing")
        if type(self.picks) is not int or not 1 <= self.picks <= number:
            raise QueryError(f"a choice must pick from 1 to {number} of its candidates, got {self.picks!r}")
        for what in ("reference", "weights", "penalties"):
            if len(getattr(self, what)) != number:
                raise QueryError(f"{what} must have one for each of {number} tables, got {len(getattr(self, what))}")
        if max(self.whole_weights) >= _MAX_WEIGHT:
            raise QueryError("weights over their common denominator must be below 2^31")
        for weight, cells, penalty in zip(self.whole_weights, self.reference, self.penalties, strict=True):
            if weight * (sum(map(abs, cells)) + abs(penalty)) >= _MAX_PUBLIC:
                raise QueryError("reference and penalty, times the weight, must add up to less than 2^60")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of some candidate."""
        return tuple(sorted({name for names in self.candidates for name in names}))

    @property
    def tables(self) -> tuple[Product, ...]:
        """The candidates that have cells."""
        maps = dict(self.groups_of)
        own = ({name: maps[name] for name in names if name in maps} for names in self.candidates)
        return tuple(Cells(names, each) for names, each in zip(self.candidates, own, strict=True) if names)

    @property
    def whole_weights(self) -> tuple[int, ...]:
        """The weights times their least common denominator."""
        common = math.lcm(*(weight.denominator for weight in self.weights))
        return tuple(int(weight * common) for weight in self.weights)

    def in_parts(self, parts: int) -> Choice:
        """The same choice from counts in parts of 1: reference and penalties are as many times as large."""
        reference = [[number * parts for number in cells] for cells in self.reference]
        owed = [penalty * parts for penalty in self.penalties]
        return Choice(
            self.candidates,
            reference,
            weights=self.weights,
            penalties=owed,
            picks=self.picks,
            groups=dict(self.groups_of),
        )

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """A single number, or one for each pick; raises unless each reference has the cells of its table."""
        tables = iter(self.tables)
        for names, cells in zip(self.candidates, self.reference, strict=True):
            needed = math.prod(next(tables).shape(schema)) if names else 0
            if len(cells) != needed:
                raise QueryError(
                    f"the reference of {' x '.join(names)} must have {needed:,} numbers, got {len(cells):,}"
                )
        return () if self.picks == 1 else (self.picks,)

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """The sensitivity of any whole score: the largest weight times m, under replacement 2 m."""
        moved = 1 if Neighbours(neighbours) == Neighbours.ADD_REMOVE else 2
        most = max(self.whole_weights) * moved * schema.max_rows
        return Sensitivity(most, most**2)

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The whole score of each candidate, from the cells of all of them in a row. Confidential."""
        ends = np.cumsum([len(cells) for cells in self.reference])
        pieces = np.split(counts.ravel(), ends[:-1])
        distances = [
            np.abs(piece - np.array(cells, np.int64)).sum(dtype=np.int64)
            for piece, cells in zip(pieces, self.reference, strict=True)
        ]
        beyond = np.array(distances, np.int64) - np.array(self.penalties, np.int64)
        return np.asarray(np.array(self.whole_weights, np.int64) * beyond)

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON; weights are exact text."""
        return {
            "choice": {
                "candidates": list(map(list, self.candidates)),
                "reference": list(map(list, self.reference)),
                "weights": list(map(decimal_text, self.weights)),
                "penalties": list(self.penalties),
                "picks": self.picks,
                "groups": {name: list(each) for name, each in self.groups_of},
            }
        }


def _whole_numbers(given: Iterable[int], what: str) -> tuple[int, ...]:
    numbers = tuple(given)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise QueryError(f"{what} must be whole numbers, got {number!r}")
    return tuple(map(int, numbers))
