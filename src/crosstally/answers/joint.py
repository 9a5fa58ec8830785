"""How the cells of an answer vary together with those of all other answers, so that functions of several have errors.

Answers of one release err together: they rest on the same noise. Two things are known about it.

``draws``   the table as it could have come out: E(t), then one table for each replicate of the inference. Row r of one
            answer belongs to row r of every other answer of the release, so any function of several answers, applied
            row by row, varies as it would over releases.
``form``    the same table as a linear function of what was measured, where it is one: variances follow exactly.

Both are worked out when they are first needed. Answers of different releases do not mix unless somebody states that
these are independent: releases about the same people may share a ledger, a refit shares all of its noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from crosstally.answers.changes import Change, Places, combined
from crosstally.answers.linear_form import LinearForm, Source
from crosstally.errors import QueryError
from crosstally.typing import Floats

__all__ = ["Joint", "joined", "root_mean_square"]


def _not_linear() -> None:
    return None


@dataclass(frozen=True, eq=False)
class Joint:
    """How the cells of an answer vary, alone and together with all others of the release.

    ``sources`` are one release, or several that were stated to be independent. ``make_draws`` makes the stack of
    tables, the first that of the truth of the replicates, and ``make_form`` the linear form, None where there is none.
    ``replicates`` says that there is just one draw of each replicate. Tables that have several visit the replicates in
    turn, so that these draws belong to theirs over and over.
    """

    sources: tuple[Source, ...]
    make_draws: Callable[[], Floats]
    make_form: Callable[[], LinearForm | None] = _not_linear
    replicates: bool = False

    @cached_property
    def draws(self) -> Floats:
        """A stack of tables: of the truth of the replicates, then of each of them."""
        return self.make_draws()

    @cached_property
    def form(self) -> LinearForm | None:
        """The table as a linear function of what was measured, where it is one."""
        return self.make_form()

    @cached_property
    def std_error(self) -> Floats:
        """The standard error of each cell: exact where it is linear, otherwise from draws."""
        return root_mean_square(self.draws) if self.form is None else np.sqrt(self.form.variance)

    def changed(self, change: Change) -> Joint:
        """Of what becomes of the table."""
        draws, form = partial(_changed_draws, self, change), partial(_changed_form, self, change)
        return Joint(self.sources, draws, form, self.replicates)

    def combined(
        self, other: Joint, function: np.ufunc, places: Places, *, ndim: int, sign: float | None = None
    ) -> Joint:
        """Of a function of two answers, cell by cell; with a sign it is the first plus sign times the second."""
        draws = partial(_combined_draws, self, other, partial(combined, function, places, ndim))
        linear = partial(_combined_form, self, other, sign, places, ndim) if sign is not None else _not_linear
        return Joint(_together(self, other), draws, linear, self.replicates and other.replicates)

    def beside(self, other: Joint) -> Floats:
        """Its draws, repeated where there is one of each replicate and the other table has several."""
        own, number = self.draws, len(other.draws)
        if not self.replicates or other.replicates or number <= len(own):
            return own
        return np.concatenate([own[:1], own[1 + np.arange(number - 1) % (len(own) - 1)]])


def joined(joints: Sequence[Joint]) -> list[Joint]:
    """The same, stated to be independent where they are of different releases."""
    sources = {source.key: source for joint in joints for source in joint.sources}
    if len({source.measured for source in sources.values()}) < len(sources):
        raise QueryError("answers that rest on the same measurements are not independent; use one release for both")
    return [replace(joint, sources=tuple(sources.values())) for joint in joints]


def root_mean_square(draws: Floats) -> Floats:
    """The root mean square of the distance from the first of a stack of tables to the others."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.sqrt(((draws[1:] - draws[0]) ** 2).mean(axis=0)))


def _together(one: Joint, other: Joint) -> tuple[Source, ...]:
    """The releases that two answers rest on; raises where nobody said that these are independent."""
    if one.sources == other.sources:
        return one.sources
    first, second = ({source.key for source in joint.sources} for joint in (one, other))
    if not (first <= second or second <= first):
        raise QueryError(
            "answers of different releases must not be mixed unless these are independent; "
            "if they are, say so: a, b = ct.analysis.independent(a, b)"
        )
    return one.sources if first >= second else other.sources


# Functions rather than closures, so that an answer can be pickled


def _changed_draws(before: Joint, change: Change) -> Floats:
    return change(before.draws)


def _changed_form(before: Joint, change: Change) -> LinearForm | None:
    return None if change.form is None or before.form is None else change.form(before.form)


def _combined_draws(one: Joint, other: Joint, function: Callable[[Floats, Floats], Floats]) -> Floats:
    first, second = one.beside(other), other.beside(one)
    rows = min(len(first), len(second))  # large tables have fewer rows, the first of all
    return function(first[:rows], second[:rows])


def _combined_form(one: Joint, other: Joint, sign: float, places: Places, ndim: int) -> LinearForm | None:
    if one.form is None or other.form is None:
        return None
    return one.form.placed(places[0], ndim).plus(other.form.placed(places[1], ndim).scaled(sign))
