"""How far adversarial reports could move a table, and a test of whether group sizes match their shares.

The unbiased estimate of a cell c of a table over A is linear in the reports. With B running over the sets of attributes
within A, R_B the residuals, and w_gB the weight of group g in the average of R_B over all groups that measure it,

    T_c = N / prod(n_i, i in A) + sum over g of N / n_g x (sum over the reports y of g of h_g(y)),
    h_g(y) = sum over B of w_gB R_B(y)[c_B] / prod(n_i, i in A but not B).

An adversary reports the y with the largest h_g; an honest report of the same person has an expected h_g of at least
the smallest such expectation over all rows. So m adversarial reports among the n_g of a group move c up by at most
N m / n_g x (greatest over reports - smallest over rows), and down likewise. The weights are those of the error model.

Adversaries who choose their group fill the groups that move c most. With tokens each group has its share of them.
The test of group sizes detects adversaries who crowd into one group.
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

MOST_CELLS = 1024  # every cell is examined, since the influence differs a little between cells


def max_shift(protocol: Protocol, people: NDArray[np.int64], attributes: Sequence[str], *, adversarial: float) -> float:
    """How far a share of adversarial reports could move a cell, in people; ``people`` has the reports of each group."""
    wanted = protocol.schema.subset(*attributes)
    if not 0 <= adversarial <= 1:
        raise CrosstallyError(f"the share of adversarial reports must be from 0 to 1, got {adversarial!r}")
    if math.prod(wanted.shape) > MOST_CELLS:
        raise CrosstallyError(
            f"the influence of adversarial reports can be computed for tables of at most {MOST_CELLS:,} cells, "
            f"got {math.prod(wanted.shape):,}; name fewer attributes"
        )
    table = tuple(protocol.schema.positions[name] for name in wanted.names)
    weights = _weights(protocol, people, table)
    return max(
        (
            _moved(protocol, people, _leverages(protocol, table, weights, cell), adversarial)
            for cell in _cells(wanted.shape)
        ),
        default=0.0,
    )


def _cells(shape: Sequence[int]) -> list[tuple[int, ...]]:
    return list(product(*map(range, shape)))


def _weights(
    protocol: Protocol, people: NDArray[np.int64], table: Sequence[int]
) -> dict[int, dict[tuple[int, ...], float]]:
    """For each group that measures the table, its weight in the average of each set of attributes."""
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
    """How far each group moves a cell, up and down, if all its reports are adversarial; as a share of all people."""
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
    """The smallest and largest expected contribution of a row's honest reports."""
    axes = sorted({axis for own in wanted for axis in own})
    worth = np.zeros([oracle.sizes[axis] for axis in axes])
    for own, weights in wanted.items():
        worth = worth + np.expand_dims(centred(weights), tuple(i for i, axis in enumerate(axes) if axis not in own))
    return float(worth.min()), float(worth.max())


def _moved(
    protocol: Protocol, people: NDArray[np.int64], leverages: Mapping[int, tuple[float, float]], adversarial: float
) -> float:
    total = int(people.sum())
    if protocol.tokens:
        return total * adversarial * max(sum(each[side] for each in leverages.values()) for side in (0, 1))
    return max(_crowded(people, leverages, adversarial * total, side) for side in (0, 1))


def _crowded(people: NDArray[np.int64], leverages: Mapping[int, tuple[float, float]], left: float, side: int) -> float:
    """The shift if adversaries fill the groups in which one report moves the cell most, then the next ones."""
    total, moved = int(people.sum()), 0.0
    for number in sorted(leverages, key=lambda each: leverages[each][side] / people[each], reverse=True):
        crowd = min(left, float(people[number]))
        moved, left = moved + total * crowd / float(people[number]) * leverages[number][side], left - crowd
    return moved


# Sizes of groups


FALSE_ALARM = 1e-3
"""The largest probability that an honest collection is called unusual."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupSizes:
    """The number of reports of each group and the number expected from its share.

    An honest group's size is binomial, whatever people answer. Both tails of every size are tested with a Bonferroni
    correction (two tests for each group), so an honest collection is unusual with a probability of at most
    ``FALSE_ALARM``, exactly, however small its groups are.
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
        """The expected number of reports of each group."""
        return np.asarray(self.shares * self.reports.sum(), np.float64)

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """For each group the tail probability of its size, times the number of tests, at most 1."""
        from scipy.stats import binom

        number, reports = int(self.reports.sum()), self.reports
        tails = np.minimum(binom.cdf(reports, number, self.shares), binom.sf(reports - 1, number, self.shares))
        return np.asarray(np.minimum(1.0, 2 * len(reports) * tails), np.float64)

    @property
    def unusual(self) -> tuple[int, ...]:
        """The groups whose sizes chance does not explain, least likely first."""
        probabilities = self.probabilities
        order = np.argsort(probabilities, kind="stable")
        return tuple(order[probabilities[order] < FALSE_ALARM].tolist())
