"""What a group of people is asked, and what it costs in accuracy: the pieces that methods are made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

import numpy as np

from crosstally.local.oracles import ViewOracle, best_oracle
from crosstally.local.residual_oracles import EachAttribute, ResidualBit

__all__ = ["Group", "Oracle", "each_group", "predicted_error", "residual_groups", "unmeasured_error", "view_groups"]

Oracle = ViewOracle | ResidualBit | EachAttribute
SHARES = 2**20

UNMEASURED = {1: 0.06, 2: 0.0008, 3: 0.0001}
"""The squared size, in frequencies, that the central moment of so many attributes is expected to have; 0 beyond."""


@dataclass(frozen=True, slots=True)
class Group:
    """The attributes that a group is asked about, by position, how answers are perturbed, and its share of people."""

    attributes: tuple[int, ...]
    _: KW_ONLY
    oracle: Oracle
    share: int

    def to_dict(self, oracles: list[dict[str, Any]]) -> dict[str, Any]:
        """The group as JSON; its oracle by its place among all, to which it is added if it is new."""
        described = self.oracle.to_dict()
        if described not in oracles:
            oracles.append(described)
        return {"attributes": list(self.attributes), "oracle": oracles.index(described), "share": self.share}


def view_groups(
    sizes: Sequence[int], views: Iterable[Sequence[int]], epsilon: Fraction, kinds: tuple[str, ...] = ()
) -> tuple[Group, ...]:
    """A group for each view, all of the same share; each view has the best oracle of some kinds, or of all."""
    return tuple(
        Group(tuple(view), oracle=best_oracle(tuple(sizes[i] for i in view), epsilon, kinds), share=1) for view in views
    )


def residual_groups(sizes: Sequence[int], shares: Sequence[float], epsilon: Fraction, ways: int) -> tuple[Group, ...]:
    """A group for each set of 1, 2, ... attributes; ``shares`` says how much of all people each number gets.

    Within one number of attributes a set's share goes with the square root of what the variance of its coefficients
    counts for in tables over ``ways`` attributes: that gives the least sum.
    """
    groups = []
    for order, part in enumerate(shares, start=1):
        if part <= 0:
            continue
        sets = list(combinations(range(len(sizes)), order))
        oracles = {shape: ResidualBit.of(shape, epsilon) for shape in {tuple(sizes[i] for i in one) for one in sets}}
        weights = np.sqrt([_weight(sizes, one, ways) * oracles[tuple(sizes[i] for i in one)].response for one in sets])
        whole = np.maximum(1, np.rint(part * SHARES * weights / weights.sum())).astype(int).tolist()
        groups += [
            Group(one, oracle=oracles[tuple(sizes[i] for i in one)], share=share)
            for one, share in zip(sets, whole, strict=True)
        ]
    return tuple(groups)


def each_group(sizes: Sequence[int], epsilon: Fraction) -> tuple[Group, ...]:
    """One group of all people, who report every attribute."""
    return (Group(tuple(range(len(sizes))), oracle=EachAttribute.of(sizes, epsilon), share=1),)


def _weight(sizes: Sequence[int], attributes: Sequence[int], ways: int) -> float:
    """What the variance of a coefficient of a set counts for in the mean squared error of all tables, in proportion."""
    return math.prod(sizes[i] - 1 for i in attributes) * spread(sizes, attributes, ways)


def spread(sizes: Sequence[int], attributes: Sequence[int], ways: int) -> float:
    """The sum, over all tables of ``ways`` attributes that hold a set, of one over the cells outside it."""
    return _spread(tuple(sorted(sizes)), tuple(sorted(sizes[i] for i in attributes)), ways)


@lru_cache(maxsize=100_000)
def _spread(sizes: tuple[int, ...], inside: tuple[int, ...], ways: int) -> float:
    """The elementary symmetric polynomial of one over the sizes of all other attributes."""
    others = Counter(sizes)
    others.subtract(inside)
    sums = [1.0] + [0.0] * (ways - len(inside))
    for n in others.elements():
        for degree in range(len(sums) - 1, 0, -1):
            sums[degree] += sums[degree - 1] / n
    return sums[-1]


# The error model


def predicted_error(sizes: Sequence[int], groups: Sequence[Group], *, people: int, ways: int, shrunk: bool) -> float:
    """The mean squared error expected of a table over ``ways`` attributes, in frequencies, summed over its cells.

    Each set B of attributes within a table adds the error of its central moments, divided by the cells outside it:
    noise, which is response and sampling together, where B is measured, and otherwise what such moments are expected
    to be (``UNMEASURED``). Where estimates are shrunk towards independence both together give v u / (v + u).
    """
    precision = _precisions(sizes, groups, people, ways)
    total = 0.0
    for order in range(1, ways + 1):
        for one in combinations(range(len(sizes)), order):
            if one in precision:
                error = _block_error(sizes, one, precision[one], shrunk=shrunk and order > 1)
                total += spread(sizes, one, ways) * (error - UNMEASURED.get(order, 0.0))
        total += unmeasured_error(sizes, order, ways) * math.comb(len(sizes), ways)
    return total / math.comb(len(sizes), ways)


@lru_cache(maxsize=1000)
def _unmeasured(sizes: tuple[int, ...], order: int, ways: int) -> float:
    total = sum(spread(sizes, one, ways) for one in combinations(range(len(sizes)), order))
    return UNMEASURED.get(order, 0.0) * total / math.comb(len(sizes), ways)


def unmeasured_error(sizes: Sequence[int], order: int, ways: int) -> float:
    """What the moments of so many attributes add to the error of a table where none of them is measured."""
    return _unmeasured(tuple(sizes), order, ways)


def _block_error(sizes: Sequence[int], attributes: Sequence[int], precision: float, *, shrunk: bool) -> float:
    noise = math.prod(sizes[i] - 1 for i in attributes) / precision
    expected = UNMEASURED.get(len(attributes), 0.0)
    return noise * expected / (noise + expected) if shrunk and expected else noise


def _precisions(sizes: Sequence[int], groups: Sequence[Group], people: int, ways: int) -> dict[tuple[int, ...], float]:
    """One over the variance of a coefficient of each set of up to ``ways`` attributes that is measured."""
    shares = sum(group.share for group in groups)
    out: dict[tuple[int, ...], float] = {}
    for group in groups:
        number = people * group.share / shares
        for one, variance in coefficient_variances(sizes, group, ways):
            out[one] = out.get(one, 0.0) + number / variance
    return out


@lru_cache(maxsize=10_000)
def _oracle_variance(oracle: Hashable) -> float:
    return float(oracle.coefficient_variance)  # type: ignore[attr-defined]


def coefficient_variances(sizes: Sequence[int], group: Group, ways: int) -> Iterable[tuple[tuple[int, ...], float]]:
    """Each set of up to ``ways`` attributes that a group measures, and the variance of its coefficients.

    The variance is that of one report, sampling included.
    """
    attributes = tuple(sorted(group.attributes))
    if isinstance(group.oracle, ResidualBit):
        return [(attributes, group.oracle.response + math.prod(1 / sizes[i] for i in attributes))]
    subsets = chain.from_iterable(combinations(attributes, k) for k in range(1, min(ways, len(attributes)) + 1))
    if isinstance(group.oracle, EachAttribute):
        oracle = group.oracle
        return ((one, oracle.response(one)) for one in subsets)
    variance = _oracle_variance(group.oracle) + 1 / math.prod(sizes[i] for i in attributes)
    return ((one, variance * math.prod(sizes[i] for i in attributes if i not in one)) for one in subsets)
