"""How answers of a release err together: they rest on the same noise.

``Joint`` knows three things about it.

``draws``   the table as it could have come out: E(t), then one table for each replicate of the inference. Row r of one
            answer belongs to row r of every other answer of the release, so any function of several answers, applied
            row by row, varies as it would over releases.
``form``    the same table as a linear function of what was measured, where it is one: variances follow exactly.
``unshrunk``  the linear estimate itself with its noise drawn anew, before anything is shrunk or corrected.

They are worked out when they are first needed. Answers of different releases do not mix unless somebody states that
these are independent: releases about the same people may share a ledger, a refit shares all of its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from crosstally.answers.changes import Change, Places, combined
from crosstally.answers.linear_form import LinearForm
from crosstally.errors import QueryError
from crosstally.residuals.axes import placed
from crosstally.typing import Floats


class RestsOn(Protocol):
    """What answers rest on: ``digest`` tells measurements apart, ``key`` also what was made of them."""

    @property
    def digest(self) -> int:
        """Of the measurements."""

    @property
    def key(self) -> tuple[object, ...]:
        """The same for answers that err together."""


def not_linear() -> None:
    """What a table has that is not linear in what was measured."""
    return


@dataclass(frozen=True, eq=False)
class Joint:
    """How the cells of an answer vary, alone and together with all others of the release.

    ``sources`` are one release, or several that were stated to be independent. ``make_draws`` makes the stack of
    tables, the first that of the truth of the replicates, and ``make_form`` the linear form, None where there is none.
    ``replicates`` says that there is just one draw of each replicate. Tables that have several visit the replicates in
    turn, so that these draws belong to theirs over and over. ``make_unshrunk`` makes the table as it was measured,
    ``rows`` is the number of rows of the release, NaN where it is not known.
    """

    sources: tuple[RestsOn, ...]
    make_draws: Callable[[], Floats]
    make_form: Callable[[], LinearForm | None] = not_linear
    replicates: bool = False
    make_unshrunk: Callable[[], Floats | None] = not_linear
    rows: float = math.nan

    @cached_property
    def draws(self) -> Floats:
        """A stack of tables: of the truth of the replicates, then of each of them."""
        return self.make_draws()

    @cached_property
    def form(self) -> LinearForm | None:
        """The table as a linear function of what was measured, where it is one."""
        return self.make_form()

    @cached_property
    def unshrunk(self) -> Floats | None:
        """A stack of tables: the linear estimate, then the same with its noise drawn anew; None where there is none.

        Its noise does not depend on the truth, unlike the errors of shrunk and corrected cells: what tests need.
        """
        return self.make_unshrunk()

    @cached_property
    def noise_std_error(self) -> Floats | float:
        """The standard error of the noise in each cell where it is linear; NaN where it is not."""
        return math.nan if self.form is None else np.sqrt(self.form.variance)

    def changed(self, change: Change) -> Joint:
        """Of what becomes of the table."""
        draws, form = partial(_changed_draws, self, change), partial(_changed_form, self, change)
        return Joint(self.sources, draws, form, self.replicates, partial(_changed_unshrunk, self, change), self.rows)

    def combined(
        self, other: Joint, function: np.ufunc, places: Places, *, ndim: int, sign: float | None = None
    ) -> Joint:
        """Of a function of two answers, cell by cell; with a sign it is the first plus sign times the second."""
        cells = partial(combined, function, places, ndim)
        draws, unshrunk = partial(_combined_draws, self, other, cells), partial(_combined_unshrunk, self, other, cells)
        linear = partial(_combined_form, self, other, sign, places, ndim) if sign is not None else not_linear
        return Joint(together([self, other]), draws, linear, self.replicates and other.replicates, unshrunk, self.rows)


def side_by_side(joints: Sequence[Joint]) -> list[Floats]:
    """The draws of several answers, row by row of the same replicates.

    Where there is one draw of each replicate and other tables have several, it is repeated. Large tables have fewer
    rows, the first of all.
    """
    several = [len(joint.draws) for joint in joints if not joint.replicates]
    rows = min(several) if several else min(len(joint.draws) for joint in joints)
    return [repeated(joint.draws, rows) if joint.replicates else joint.draws[:rows] for joint in joints]


def repeated(draws: Floats, rows: int) -> Floats:
    """So many of the draws, those of replicates over and over."""
    if rows <= len(draws):
        return draws[:rows]
    return np.concatenate([draws[:1], draws[1 + np.arange(rows - 1) % (len(draws) - 1)]])


def joined(joints: Sequence[Joint]) -> list[Joint]:
    """The same, stated to be independent where they are of different releases."""
    sources = {source.key: source for joint in joints for source in joint.sources}
    if len({source.digest for source in sources.values()}) < len(sources):
        raise QueryError("answers that rest on the same measurements are not independent; use one release for both")
    return [replace(joint, sources=tuple(sources.values())) for joint in joints]


def root_mean_square(draws: Floats) -> Floats:
    """The root mean square of the distance from the first of a stack of tables to the others."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.sqrt(((draws[1:] - draws[0]) ** 2).mean(axis=0)))


def together(joints: Sequence[Joint]) -> tuple[RestsOn, ...]:
    """The releases that some answers rest on; raises where nobody said that these are independent."""
    found = joints[0].sources
    for joint in joints[1:]:
        first, second = ({source.key for source in sources} for sources in (found, joint.sources))
        if not (first <= second or second <= first):
            raise QueryError(
                "answers of different releases must not be mixed unless these are independent; "
                "if they are, say so: a, b = ct.analysis.independent(a, b)"
            )
        found = found if first >= second else joint.sources
    return found


# Functions rather than closures, so that an answer can be pickled


def _changed_draws(before: Joint, change: Change) -> Floats:
    return change(before.draws)


def _changed_unshrunk(before: Joint, change: Change) -> Floats | None:
    return None if before.unshrunk is None else change(before.unshrunk)


def _changed_form(before: Joint, change: Change) -> LinearForm | None:
    return None if change.form is None or before.form is None else change.form(before.form)


def _combined_draws(one: Joint, other: Joint, function: Callable[[Floats, Floats], Floats]) -> Floats:
    return function(*side_by_side([one, other]))


def _combined_unshrunk(one: Joint, other: Joint, function: Callable[[Floats, Floats], Floats]) -> Floats | None:
    if one.unshrunk is None or other.unshrunk is None:
        return None
    rows = min(len(one.unshrunk), len(other.unshrunk))
    return function(one.unshrunk[:rows], other.unshrunk[:rows])


def _combined_form(one: Joint, other: Joint, sign: float, places: Places, ndim: int) -> LinearForm | None:
    forms = zip((one.form, other.form), places, strict=True)
    first, second = (form and form.mapped(partial(placed, axes=axes, ndim=ndim)) for form, axes in forms)
    return first.plus(second.scaled(sign)) if first and second else None
