"""What an answer carries about how it came about, so that functions of several answers have the right errors.

Answers of one release err together: they rest on the same noise. An origin knows two things about it.

``draws``   the table as it could have come out: E(t), then one table for each replicate of the inference. Row r of one
            answer belongs to row r of every other answer of the release, so any function of several answers, applied
            row by row, varies as it would over releases.
``linear``  the same table as a linear function of what was measured, where it is one: variances follow exactly.

Both are worked out when they are first needed. Answers of different releases do not mix unless somebody states that
these are independent: releases about the same people may share a ledger, a refit shares all of its noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from crosstally.arithmetic.changes import Change, OfBoth, Then
from crosstally.arithmetic.linear import Linear, Source
from crosstally.errors import QueryError
from crosstally.typing import Floats

__all__ = ["CountEnds", "Origin", "joined"]


class Ends(Protocol):
    """What knows two-sided intervals of the cells of one table, each its own."""

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """The ends of an interval around each of these values that holds the truth with this probability."""


class CountEnds(Protocol):
    """What knows the intervals of a table and of sums of its cells."""

    def mapped(self, change: Callable[[Floats], Floats]) -> Ends:
        """The intervals of what becomes of the table."""


class Origin:
    """How the cells of an answer vary, alone and together with all others of the release."""

    def __init__(
        self,
        sources: Sequence[Source],
        draws: Callable[[], Floats],
        linear: Callable[[], Linear | None],
        *,
        counts: CountEnds | None = None,
        change: Change | None = None,
        replicates: bool = False,
    ) -> None:
        """From the releases it rests on and what makes its parts.

        Args:
            sources: One release, or several that were stated to be independent.
            draws: Makes the stack of tables; the first is that of the truth of the replicates.
            linear: Makes the linear function; None where it is not one.
            counts: Where cells are counts of people, the intervals of the table that they are sums of.
            change: How they are, if not as they are in that table.
            replicates: Whether there is just one draw of each replicate. Tables that have several visit the replicates
                in turn, so that these draws belong to theirs over and over.
        """
        self.sources = tuple(sources)
        self._make_draws, self._make_linear = draws, linear
        self._counts, self._change, self._replicates = counts, change, replicates

    @cached_property
    def draws(self) -> Floats:
        """A stack of tables: of the truth of the replicates, then of each of them."""
        return self._make_draws()

    @cached_property
    def linear(self) -> Linear | None:
        """The table as a linear function of what was measured, where it is one."""
        return self._make_linear()

    @property
    def count_ends(self) -> Ends | None:
        """The intervals of cells that are sums of counts, if the release has its own for these."""
        return None if self._counts is None or self._change is None else self._counts.mapped(self._change)

    def changed(self, change: Change, *, counts: bool = False) -> Origin:
        """The origin of what becomes of the table; ``counts`` says that cells are still counts of people."""
        return Origin(
            self.sources,
            partial(_changed_draws, self, change),
            partial(_changed_linear, self, change),
            counts=self._counts if counts else None,
            change=change if self._change is None else Then(self._change, change),
            replicates=self._replicates,
        )

    def with_another(self, other: Origin, function: OfBoth) -> Origin:
        """The origin of a function of two answers, cell by cell."""
        sources = _together(self, other)
        return Origin(
            sources,
            partial(_both_draws, self, other, function),
            partial(_both_linear, self, other, function),
            replicates=self._replicates and other._replicates,
        )

    def beside(self, sources: Sequence[Source]) -> Origin:
        """The same, stated to be independent of further releases."""
        return Origin(
            sources,
            self._make_draws,
            self._make_linear,
            counts=self._counts,
            change=self._change,
            replicates=self._replicates,
        )

    def beside_draws(self, other: Origin) -> Floats:
        """Its draws, repeated where there is one of each replicate and the other table has several."""
        own, number = self.draws, len(other.draws)
        if not self._replicates or other._replicates or number <= len(own):
            return own
        return np.concatenate([own[:1], own[1 + np.arange(number - 1) % (len(own) - 1)]])


def joined(origins: Sequence[Origin]) -> list[Origin]:
    """The same origins, stated to be independent where they are of different releases."""
    sources = {source.key: source for origin in origins for source in origin.sources}
    if len({source.measured for source in sources.values()}) < len(sources):
        raise QueryError("answers that rest on the same measurements are not independent; use one release for both")
    return [origin.beside(tuple(sources.values())) for origin in origins]


def _together(one: Origin, other: Origin) -> tuple[Source, ...]:
    """The releases that two answers rest on; raises where nobody said that these are independent."""
    if one.sources == other.sources:
        return one.sources
    first, second = ({source.key for source in origin.sources} for origin in (one, other))
    if not (first <= second or second <= first):
        raise QueryError(
            "answers of different releases must not be mixed unless these are independent; "
            "if they are, say so: a, b = ct.analysis.independent(a, b)"
        )
    return one.sources if first >= second else other.sources


# Functions rather than closures, so that an answer can be pickled


def _changed_draws(before: Origin, change: Change) -> Floats:
    return change(before.draws)


def _changed_linear(before: Origin, change: Change) -> Linear | None:
    return change.linear(before.linear) if change.is_linear and before.linear is not None else None


def _both_draws(one: Origin, other: Origin, function: OfBoth) -> Floats:
    first, second = one.beside_draws(other), other.beside_draws(one)
    rows = min(len(first), len(second))  # large tables have fewer rows, the first of all
    return function(first[:rows], second[:rows])


def _both_linear(one: Origin, other: Origin, function: OfBoth) -> Linear | None:
    if function.sign is None or one.linear is None or other.linear is None:
        return None
    return function.linear(one.linear, other.linear)
