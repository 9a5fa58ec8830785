"""How far people who lie could move a table: the leverage of each group, and who may crowd where.

The unbiased estimate of a cell c of a table over A is linear in the reports. With B running over the sets of attributes
within A, R_B the residuals, and w_gB the weight that group g has in the average of R_B over all groups that tell it,

    T_c = N / prod(n_i, i in A) + sum over g of N / n_g x (sum over the reports y of g of h_g(y)),
    h_g(y) = sum over B of w_gB R_B(y)[c_B] / prod(n_i, i in A but not B).

A liar says the y of greatest h_g; had they been honest, h_g would have been, on average, what their row is worth: at
least the smallest such number over all rows. So m liars among the n_g people of a group move c up by at most
N m / n_g x (greatest over reports - smallest over rows), and down likewise. The weights are those of the error model.

Liars who choose their group fill the ones that move c most. With tokens a group has its share of all liars.

Are the groups as large as their shares say? Whoever crowds into one group to move a table shows here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.local.oracles.oracle import Oracle, centred
from crosstally.local.protocol import Protocol

MOST_CELLS = 1024  # every cell is looked at, since it matters a little which one it is


def max_shift(protocol: Protocol, people: NDArray[np.int64], attributes: Sequence[str], *, liars: float) -> float:
    """How far a share of liars could move a cell of a table, in people, where each group has so many of them."""
    wanted = protocol.schema.subset(*attributes)
    if not 0 <= liars <= 1:
        raise CrosstallyError(f"the share of liars must be from 0 to 1, got {liars!r}")
    if math.prod(wanted.shape) > MOST_CELLS:
        raise CrosstallyError(
            f"how far liars move a table can be told of tables of at most {MOST_CELLS:,} cells, "
            f"got {math.prod(wanted.shape):,}; name fewer attributes"
        )
    table = tuple(protocol.schema.positions[name] for name in wanted.names)
    weights = _weights(protocol, people, table)
    return max(
        (_moved(protocol, people, _leverages(protocol, table, weights, cell), liars) for cell in _cells(wanted.shape)),
        default=0.0,
    )


def _cells(shape: Sequence[int]) -> list[tuple[int, ...]]:
    return list(product(*map(range, shape)))


def _weights(
    protocol: Protocol, people: NDArray[np.int64], table: Sequence[int]
) -> dict[int, dict[tuple[int, ...], float]]:
    """For each group that tells of the table, the weight it has in the average of each set of attributes."""
    precision: dict[int, dict[tuple[int, ...], float]] = {}
    for number, (group, asked) in enumerate(zip(protocol.groups, people.tolist(), strict=True)):
        inside = [axis for axis, place in enumerate(group.attributes) if place in table]
        for order in range(1, len(inside) + 1) if asked else ():
            for axes in combinations(inside, order):
                variance = group.oracle.sampled_variance(axes)
                if variance is not None:
                    own = tuple(group.attributes[axis] for axis in axes)
                    precision.setdefault(number, {})[own] = asked / variance
    total: dict[tuple[int, ...], float] = {}
    for each in precision.values():
        for own, known in each.items():
            total[own] = total.get(own, 0.0) + known
    return {number: {own: known / total[own] for own, known in each.items()} for number, each in precision.items()}


def _leverages(
    protocol: Protocol,
    table: Sequence[int],
    weights: Mapping[int, Mapping[tuple[int, ...], float]],
    cell: Sequence[int],
) -> dict[int, tuple[float, float]]:
    """For each group how far it moves a cell, up and down, if everybody in it lies; as a part of all people."""
    sizes = protocol.schema.shape
    place_of = dict(zip(table, cell, strict=True))
    out = {}
    for number, known in weights.items():
        group = protocol.groups[number]
        wanted = {}
        for own, weight in known.items():
            pointed = np.zeros([sizes[place] for place in own])
            pointed[tuple(place_of[place] for place in own)] = weight / math.prod(
                sizes[place] for place in table if place not in own
            )
            wanted[tuple(group.attributes.index(place) for place in own)] = pointed
        (least, most), (lowest, highest) = group.oracle.extremes(wanted), _extremes_of_rows(group.oracle, wanted)
        out[number] = (most - lowest, highest - least)
    return out


def _extremes_of_rows(oracle: Oracle, wanted: Mapping[tuple[int, ...], NDArray[np.float64]]) -> tuple[float, float]:
    """The least and the most that a row is worth: the mean of what its honest reports say."""
    axes = sorted({axis for own in wanted for axis in own})
    worth = np.zeros([oracle.sizes[axis] for axis in axes])
    for own, weights in wanted.items():
        worth = worth + np.expand_dims(centred(weights), tuple(i for i, axis in enumerate(axes) if axis not in own))
    return float(worth.min()), float(worth.max())


def _moved(
    protocol: Protocol, people: NDArray[np.int64], leverages: Mapping[int, tuple[float, float]], liars: float
) -> float:
    total = int(people.sum())
    if protocol.tokens:
        return total * liars * max(sum(each[side] for each in leverages.values()) for side in (0, 1))
    return max(_crowded(people, leverages, liars * total, side) for side in (0, 1))


def _crowded(people: NDArray[np.int64], leverages: Mapping[int, tuple[float, float]], left: float, side: int) -> float:
    """The move of liars who fill the groups in which one of them moves the cell most, then the next ones."""
    total, moved = int(people.sum()), 0.0
    for number in sorted(leverages, key=lambda each: leverages[each][side] / people[each], reverse=True):
        crowd = min(left, float(people[number]))
        moved, left = moved + total * crowd / float(people[number]) * leverages[number][side], left - crowd
    return moved


# Sizes of groups


FALSE_ALARM = 1e-3
"""How often honest collections are called unusual, at most: in one of a thousand."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupSizes:
    """The reports of each group beside what its share lets expect.

    An honest group's size is binomial, whatever people answer. Each size is compared with both tails of that law, and
    the smallest of all probabilities is multiplied by their number, two for each group (Bonferroni): so an honest
    collection is unusual with a probability of at most ``FALSE_ALARM``, exactly, however small its groups are.
    """

    reports: NDArray[np.int64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, reports: NDArray[np.int64], shares: Sequence[int]) -> GroupSizes:
        """The sizes of groups with these whole shares."""
        whole = np.asarray(shares, np.float64)
        return cls(reports, whole / whole.sum())

    @property
    def expected(self) -> NDArray[np.float64]:
        """How many reports each group is expected to have."""
        return np.asarray(self.shares * self.reports.sum(), np.float64)

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """For each group how likely so large, or so small, a size is, times the number of sizes looked at."""
        from scipy.stats import binom

        number, reports = int(self.reports.sum()), self.reports
        tails = np.minimum(binom.cdf(reports, number, self.shares), binom.sf(reports - 1, number, self.shares))
        return np.asarray(np.minimum(1.0, 2 * len(reports) * tails), np.float64)

    @property
    def unusual(self) -> tuple[int, ...]:
        """The groups whose size chance does not explain, the least likely first; none in an honest collection."""
        found = self.probabilities
        order = np.argsort(found, kind="stable")
        return tuple(order[found[order] < FALSE_ALARM].tolist())
