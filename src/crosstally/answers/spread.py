"""Intervals for tables whose values were measured in groups: counts of a group are spread over its values.

u is a cell of the table of groups and pi_k the share of value k in its group, from the one-way table of the attribute,
which was measured in full. The answer is u pi_k. Its error has three parts:

noise     u and pi_k of each replicate of the inference, multiplied;
model     within a group shares may depend on the other attributes. Nobody measured how: each set of attributes that
          holds one in groups gets random interactions, raked back to the cells of groups and to the tables in full (as
          in ``intervals``). Their size follows from that of the same set's interaction between groups, if its groups
          were measured, else from sets of its order (``interactions``): about half as large again, whatever the
          number of values in a group;
people    of u people a value has a binomial number: u pi_k (1 - pi_k), pi_k the product over all attributes in groups.
          If the table of groups was not measured, u pi_k (1 - (1 - f) pi_k), f the share of its coefficients that was
          not.

If an attribute was never measured in full, nothing is known about its shares: a cell holds between zero and the whole
count of its group. The same applies to bounds of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.changes import Change
from crosstally.answers.interactions import interaction_factors, within_groups
from crosstally.answers.intervals import LEAST, MARGIN, Covered, Modelled, modelled_spread, squares_shared
from crosstally.answers.uncertainty import Spread, Uncertainty, whole_ends
from crosstally.answers.unmeasured.proportional_fitting import rake
from crosstally.inference.bootstrap import Bootstrap, Normals
from crosstally.residuals import rebuild
from crosstally.residuals.axes import placed
from crosstally.residuals.nested import shares_in_groups
from crosstally.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class InGroups:
    """An axis in groups: the group of each value, its share in it, and where the coefficients in full stand."""

    groups: NDArray[np.intp]
    shares: Floats
    full: NDArray[np.intp]

    def in_full(self, bootstrap: Bootstrap) -> Floats:
        """The table in full of the truth of the replicates, then of each of them: (tables, values)."""
        return rebuild(bootstrap.at(self.full), 1)


def spread(stack: NDArray[Any], axes: Mapping[int, InGroups], shares: Mapping[int, Floats] | None = None) -> Floats:
    """For each value the cells of its group, (tables, *shape); times its shares (tables, or one; values) if given."""
    for axis, own in axes.items():
        stack = stack.take(own.groups, axis + 1)
        if shares is not None:
            stack = stack * placed(shares[axis], (axis,), stack.ndim - 1)
    return stack


@dataclass(frozen=True, slots=True, eq=False)
class SpreadOverGroups:
    """A table spread over values: ``whole`` is the table of groups, ``cells`` are its cells.

    ``sizes`` has the law of the size of the interaction of some axes of the table of groups.
    """

    whole: Covered | Modelled
    axes: Mapping[int, InGroups]
    cells: Floats
    sizes: Callable[[tuple[int, ...]], Floats]

    def spread(self, change: Change | None) -> Spread:
        """Of the cells, or of sums of them."""
        groups = self.whole.draws() if isinstance(self.whole, Covered) else self.whole.again()
        again = self._again(groups)
        # A binomial number of the people of a group has each value
        free = 0.0 if isinstance(self.whole, Covered) else self.whole.free
        shares = spread(np.ones((1, *self.cells.shape)), self.axes, self._shares)[0]
        margins = self._of_margins(groups, again)
        return modelled_spread(again, self._drawn(), margins, np.asarray(1 - (1 - free) * shares), change)

    @property
    def _shares(self) -> Mapping[int, Floats]:
        """The shares of the release: (1, values)."""
        return {axis: own.shares[None] for axis, own in self.axes.items()}

    def _again(self, groups: Floats) -> Floats:
        """The table of the truth of the replicates, then of each of them, from those of groups."""
        bootstrap = self.whole.bootstrap()
        shares = {
            axis: np.stack([shares_in_groups(own.groups, row) for row in own.in_full(bootstrap)])
            for axis, own in self.axes.items()
        }
        return spread(groups, self.axes, shares)

    def _drawn(self) -> Floats:
        """The answer, then what random interactions make of it: (1 + draws, *shape)."""
        values = spread(self.cells[None], self.axes, self._shares)
        shape, ndim = values.shape[1:], values.ndim - 1
        sets = [axes for n in range(2, ndim + 1) for axes in combinations(range(ndim), n) if set(axes) & set(self.axes)]
        normals = Normals(self.whole.bootstrap().seed + 2)
        laws = {axes: within_groups(self.sizes(axes)) for axes in sets}
        factors = interaction_factors(normals, shape, laws)
        groups = self.cells[None]
        if isinstance(self.whole, Modelled):
            moved = self.whole.drawn()[1:]
            groups = moved[np.arange(len(factors)) % len(moved)]
        tables = np.ascontiguousarray(spread(groups, self.axes, self._shares) * factors)
        margins, places = [groups.reshape(len(groups), -1)], [_numbered(self.cells.shape, self.axes)]
        for axis in self.axes:
            margins.append(np.repeat(_one_way(values, axis), len(groups), axis=0))
            places.append(placed(np.arange(shape[axis])[None], (axis,), ndim)[0])
        rake(tables, margins, places)
        return np.concatenate([values, tables])

    def _of_margins(self, groups: Floats, again: Floats) -> tuple[Floats, Floats]:
        """The least variance and the greatest count that the cells of groups and the tables in full allow."""
        if isinstance(self.whole, Covered):
            least = squares_shared(groups, self.whole.expected())
            most = np.maximum(self.cells, groups[0]) + MARGIN * np.sqrt(least)
        else:
            least, most = self.whole.of_margins(groups)
        least, most, truth = spread(np.stack([least, most, groups[0]]), self.axes)
        least = least * (again[0] / np.maximum(truth, LEAST)) ** 2
        values = spread(self.cells[None], self.axes, self._shares)
        for axis, own in self.axes.items():
            stack = own.in_full(self.whole.bootstrap())
            in_full = np.maximum(_one_way(values, axis)[0], stack[0]) + MARGIN * np.sqrt(squares_shared(stack))
            most = np.minimum(most, placed(in_full[None], (axis,), most.ndim)[0])
        return least, most


def grouped_bounds(  # noqa: PLR0917 (the first ones are bound by the answer)
    whole: Uncertainty,
    axes: Mapping[int, InGroups],
    cells: Floats,
    change: Change | None,
    values: Floats,
    level: float,
) -> tuple[Floats, Floats]:
    """Bounds of a table spread over values whose shares nobody knows: between nobody and all of the group.

    Where a group has one value only they are those of the group; ``whole`` and ``cells`` are those of groups.
    """
    alone = {axis: (np.bincount(own.groups)[own.groups] == 1)[None] for axis, own in axes.items()}
    low, high = (end[None] for end in whole.interval(cells, level))
    ends = np.concatenate([spread(low, axes, alone), spread(high, axes)])
    low, high = ends if change is None else change(ends)
    return whole_ends(np.minimum(low, values), np.maximum(high, values))


def _one_way(stack: Floats, axis: int) -> Floats:
    return np.asarray(stack.sum(axis=tuple(i for i in range(1, stack.ndim) if i != axis + 1)))


def _numbered(shape: tuple[int, ...], axes: Mapping[int, InGroups]) -> NDArray[np.intp]:
    """The number of the cell of groups that each cell of values is in."""
    out = np.arange(int(np.prod(shape))).reshape(shape)
    for axis, own in axes.items():
        out = out.take(own.groups, axis)
    return out
