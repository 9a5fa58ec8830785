"""Intervals for tables whose values were measured in groups: counts of a group are spread over its values.

u is a cell of the table of groups and pi_k the share of value k in its group, from the one-way table of the attribute,
which was measured in full. The answer is u pi_k. Its error has three parts:

noise     u and pi_k of each replicate of the inference, multiplied;
model     within a group shares may depend on the other attributes. Nobody measured how: each set of attributes that
          holds one in groups gets random interactions, raked back to the cells of groups and to the tables in full (as
          in ``modelled``). Their size follows from that of the same set's interaction between groups, if its groups
          were measured, else from sets of its order (``interactions``). If the interactions z_k of the values of a
          group are independent with standard deviation t, that of the group is about sum pi_k z_k, with standard
          deviation t sqrt(sum pi_k^2). So where groups have s, values have t = s / sqrt(sum pi_k^2), for each attribute
          in groups: twice as much where four values share a group evenly (``stretch``);
people    of u people a value has a binomial number: u pi_k (1 - pi_k), pi_k the product over all attributes in groups.
          If the table of groups was not measured, u pi_k (1 - (1 - f) pi_k), f the share of its coefficients that was
          not.

If an attribute was never measured in full, nothing is known about its shares: a cell holds between zero and the whole
count of its group. The same applies to bounds of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.bounds import BoundedEnds
from crosstally.answers.interactions import interaction_factors
from crosstally.answers.intervals import CoveredEnds, squares_shared, whole_ends
from crosstally.answers.modelled import LEAST, MARGIN, DrawnEnds, ModelledEnds
from crosstally.answers.reconstruct.raking import rake
from crosstally.inference.repeats import Repeats
from crosstally.inference.replicates import Normals
from crosstally.residuals import rebuild
from crosstally.residuals.nested import shares_in_groups
from crosstally.typing import Floats

__all__ = ["InGroups", "SpreadBounds", "SpreadEnds", "spread"]


@dataclass(frozen=True, slots=True, eq=False)
class InGroups:
    """An axis in groups: the group of each value, its share in it, and where the coefficients in full stand."""

    groups: NDArray[np.intp]
    shares: Floats
    full: NDArray[np.intp]

    def stretch(self) -> Floats:
        """For each value how much larger its interactions are than those of its group, if they are independent.

        >>> InGroups(np.array([0, 0, 1]), np.array([0.6, 0.8, 1.0]), np.arange(3)).stretch().tolist()  # 0.36 + 0.64 = 1
        [1.0, 1.0, 1.0]
        """
        return np.asarray(1 / np.sqrt(np.bincount(self.groups, self.shares**2)[self.groups]))

    def in_full(self, repeats: Repeats) -> Floats:
        """The table in full of the truth of the replicates, then of each of them: (tables, values)."""
        return rebuild(repeats.at(self.full), 1)


def spread(stack: NDArray[Any], axes: Mapping[int, InGroups], shares: Mapping[int, Floats] | None = None) -> Floats:
    """For each value the cells of its group, (tables, *shape); times its shares (tables, or one; values) if given."""
    for axis, own in axes.items():
        stack = stack.take(own.groups, axis + 1)
        if shares is not None:
            stack = stack * _along(shares[axis], axis, stack.ndim - 1)
    return stack


class SpreadEnds(DrawnEnds):
    """The intervals of a table spread over values; ``whole`` are those of the table of groups, ``cells`` its cells."""

    def __init__(
        self,
        whole: CoveredEnds | ModelledEnds,
        repeats: Callable[[], Repeats],
        sizes: Callable[[], Mapping[int, Floats]],
        axes: Mapping[int, InGroups],
        *,
        cells: Floats,
        own: Callable[[tuple[int, ...]], Floats | None],
        change: Callable[[Floats], Floats] | None = None,
    ) -> None:
        super().__init__(change)
        self._whole, self._repeats, self._sizes = whole, repeats, sizes
        self._axes, self._cells, self._own = axes, cells, own

    def mapped(self, change: Callable[[Floats], Floats]) -> SpreadEnds:
        """The intervals of what becomes of the table: ``change`` turns a stack of tables into a stack of others."""
        model = self._whole, self._repeats, self._sizes, self._axes
        return SpreadEnds(*model, cells=self._cells, own=self._own, change=change)

    @cached_property
    def _groups_again(self) -> Floats:
        return self._whole.tables() if isinstance(self._whole, CoveredEnds) else self._whole.again()

    @property
    def _shares(self) -> Mapping[int, Floats]:
        """The shares of the release: (1, values)."""
        return {axis: own.shares[None] for axis, own in self._axes.items()}

    def again(self) -> Floats:
        """See DrawnEnds: (1 + replicates, *shape), the truth's table first."""
        repeats = self._repeats()
        shares = {
            axis: np.stack([shares_in_groups(own.groups, row) for row in own.in_full(repeats)])
            for axis, own in self._axes.items()
        }
        return spread(self._groups_again, self._axes, shares)

    def drawn(self) -> Floats:
        """See DrawnEnds: (1 + draws, *shape), the answer first."""
        values = spread(self._cells[None], self._axes, self._shares)
        shape, ndim = values.shape[1:], values.ndim - 1
        sets = [
            axes for n in range(2, ndim + 1) for axes in combinations(range(ndim), n) if set(axes) & set(self._axes)
        ]
        own = {axes: found for axes in sets if (found := self._own(axes)) is not None}
        stretched = {axis: each.stretch() for axis, each in self._axes.items()}
        normals = Normals(self._repeats().seed + 2)
        factors = interaction_factors(normals, self._sizes(), shape, sets, own=own, stretched=stretched)
        groups = self._cells[None]
        if isinstance(self._whole, ModelledEnds):
            moved = self._whole.drawn()[1:]
            groups = moved[np.arange(len(factors)) % len(moved)]
        tables = np.ascontiguousarray(spread(groups, self._axes, self._shares) * factors)
        margins, places = [groups.reshape(len(groups), -1)], [_numbered(self._cells.shape, self._axes)]
        for axis in self._axes:
            margins.append(np.repeat(_one_way(values, axis), len(groups), axis=0))
            places.append(_along(np.arange(shape[axis])[None], axis, ndim)[0])
        rake(tables, margins, places)
        return np.concatenate([values, tables])

    def of_margins(self, again: Floats) -> tuple[Floats, Floats]:
        """See DrawnEnds; the sums are the cells of groups and the tables in full."""
        groups = self._groups_again
        if isinstance(self._whole, CoveredEnds):
            least = squares_shared(groups, self._whole.expected())
            most = np.maximum(self._cells, groups[0]) + MARGIN * np.sqrt(least)
        else:
            least, most = self._whole.of_margins(groups)
        least, most, truth = spread(np.stack([least, most, groups[0]]), self._axes)
        least = least * (again[0] / np.maximum(truth, LEAST)) ** 2
        values = spread(self._cells[None], self._axes, self._shares)
        for axis, own in self._axes.items():
            stack = own.in_full(self._repeats())
            in_full = np.maximum(_one_way(values, axis)[0], stack[0]) + MARGIN * np.sqrt(squares_shared(stack))
            most = np.minimum(most, _along(in_full[None], axis, most.ndim)[0])
        return least, most

    @property
    def free(self) -> Floats:
        """See DrawnEnds: a binomial number of the people of a group has each value."""
        free = 0.0 if isinstance(self._whole, CoveredEnds) else self._whole.free
        return np.asarray(1 - (1 - free) * spread(np.ones((1, *self._cells.shape)), self._axes, self._shares)[0])


class SpreadBounds:
    """Bounds of a table spread over values whose shares nobody knows: between nobody and all of the group."""

    def __init__(
        self,
        whole: CoveredEnds | ModelledEnds | BoundedEnds,
        axes: Mapping[int, InGroups],
        *,
        cells: Floats,
        change: Callable[[Floats], Floats] | None = None,
    ) -> None:
        self._whole, self._axes, self._cells, self._change = whole, axes, cells, change

    def mapped(self, change: Callable[[Floats], Floats]) -> SpreadBounds:
        """The bounds of what becomes of the table: ``change`` adds up chosen cells of a stack of tables."""
        return SpreadBounds(self._whole, self._axes, cells=self._cells, change=change)

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """The bounds of each cell; those of the group where it has one value only."""
        alone = {axis: (np.bincount(own.groups)[own.groups] == 1)[None] for axis, own in self._axes.items()}
        low, high = (end[None] for end in self._whole.interval(self._cells, level))
        ends = np.concatenate([spread(low, self._axes, alone), spread(high, self._axes)])
        low, high = ends if self._change is None else self._change(ends)
        return whole_ends(np.minimum(low, values), np.maximum(high, values))


def _along(rows: NDArray[Any], axis: int, ndim: int) -> NDArray[Any]:
    """Rows of values as stacks of tables that have them along one axis."""
    return rows.reshape(len(rows), *(-1 if i == axis else 1 for i in range(ndim)))


def _one_way(stack: Floats, axis: int) -> Floats:
    return np.asarray(stack.sum(axis=tuple(i for i in range(1, stack.ndim) if i != axis + 1)))


def _numbered(shape: tuple[int, ...], axes: Mapping[int, InGroups]) -> NDArray[np.intp]:
    """The number of the cell of groups that each cell of values is in."""
    out = np.arange(int(np.prod(shape))).reshape(shape)
    for axis, own in axes.items():
        out = out.take(own.groups, axis)
    return out
