"""What many noisy answers cost together, exactly: no unit can move all of them as far as it can move each.

When one row is added, every table of cells and every contrast moves by the same amount whatever the row is, so their
costs add up. When a row is replaced, only the set D of attributes in which it changes matters, and a query over B moves
by an amount that depends on D and B alone. A difference of +-1 sums, for one, moves only if an odd number of its
attributes change (Barak et al. 2007 take 2 for each; the largest odd number of them together is about half of all).

The cost is the largest over D of a sum of functions of D inside B: with up to 24 attributes, Moebius inversion of each
function and one zeta transform give the sum for every D; with more, where attributes can be exchanged, only how many of
each kind change matters. Otherwise the sum of the single costs is used, which is never too low.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Neighbours, Noise, NoiseKind
from crosstally.queries import Cells, Linear, Query
from crosstally.schema import Schema
from crosstally.strategies.linear_cost import linear_cost

__all__ = ["joint_cost", "odd_intersections", "single_cost"]

MAX_ATTRIBUTES = 24
_MAX_REQUESTS = 50_000
_MAX_CASES = 20_000
_MAX_LOOKUPS = 50_000_000
_LARGEST = 2**61

Asked = tuple[Query, Noise]


def single_cost(query: Query, noise: Noise, schema: Schema, neighbours: Neighbours, *, pure: bool) -> Fraction:
    """What one answer costs by itself: epsilon when pure, otherwise rho, of which Laplace costs epsilon^2 / 2."""
    cost = noise.cost(query.sensitivity(schema, neighbours))
    return cost**2 / 2 if noise.kind is NoiseKind.LAPLACE and not pure else cost


def joint_cost(asked: Sequence[Asked], schema: Schema, neighbours: Neighbours, *, pure: bool) -> Fraction:
    """What all answers cost together: attained by some pair of neighbours where it can be computed, never too low.

    Units of up to m rows cost m times as much (m^2 for rho): the worst they can do is m equal rows that become m other
    equal rows, or none. Linear queries are charged together, and beside the others.
    """
    linear = linear_cost([(q, n) for q, n in asked if isinstance(q, Linear)], schema, neighbours, pure=pure)
    moving = [(q, n) for q, n in asked if not isinstance(q, Linear)]
    return _tables_cost(moving, schema, neighbours, pure=pure) + linear


def _tables_cost(moving: Sequence[Asked], schema: Schema, neighbours: Neighbours, *, pure: bool) -> Fraction:
    """What tables of cells and contrasts cost together."""
    separate = sum((single_cost(q, n, schema, neighbours, pure=pure) for q, n in moving), Fraction(0))
    if neighbours is Neighbours.ADD_REMOVE or not moving:
        return separate
    largest = _largest_move(moving, schema, pure=pure)
    if largest is None:
        return separate
    together = largest * (schema.max_rows if pure else schema.max_rows**2)
    if schema.may_drop:
        removed = (single_cost(q, n, schema, Neighbours.ADD_REMOVE, pure=pure) for q, n in moving)
        together = max(together, sum(removed, Fraction(0)))
    return min(separate, together)


def odd_intersections(attributes: int, order: int, changed: int) -> int:
    """How many sets of ``order`` of some attributes hold an odd number of those changed.

    >>> max(sum(odd_intersections(16, order, z) for order in (0, 1, 2)) for z in range(17))
    72
    """
    rest = attributes - changed
    return sum(math.comb(changed, j) * math.comb(rest, order - j) for j in range(1, order + 1, 2))


# The losses of one query


@dataclass(frozen=True, slots=True)
class _Group:
    """Queries that lose alike: their attributes, and the loss for each set of changed ones, in units."""

    positions: NDArray[np.intp]
    losses: NDArray[np.int64]


def _largest_move(asked: Sequence[Asked], schema: Schema, *, pure: bool) -> Fraction | None:
    """The largest joint loss when one row is replaced, rounded up by less than a part in 2^30; None if unknown."""
    if all(isinstance(query, Cells) for query, _ in asked):
        moved = [(q, n) for q, n in asked if q.attributes]
        return sum((_weight(n, pure) * _moves(q, schema, n, pure)[-1] for q, n in moved), Fraction(0))
    asked = [(query, noise) for query, noise in asked if query.attributes]
    if len(asked) > _MAX_REQUESTS:
        return None
    used = sorted({schema.positions[name] for query, _ in asked for name in query.attributes})
    places = {position: i for i, position in enumerate(used)}
    groups, unit = _groups(asked, schema, places, pure=pure)
    if len(used) <= MAX_ATTRIBUTES:
        return unit * int(_losses_of_all_sets(groups, len(used)).max())
    cases = _cases(asked, schema, used)
    lookups = 0 if cases is None else len(cases) * len(asked)
    return None if cases is None or lookups > _MAX_LOOKUPS else unit * int(_losses_of(groups, cases).max())


def _groups(
    asked: Sequence[Asked], schema: Schema, places: Mapping[int, int], *, pure: bool
) -> tuple[list[_Group], Fraction]:
    """Queries of one kind, shape and noise together, and the unit in which their losses are whole numbers."""
    members: dict[tuple[type, tuple[int, ...], Noise], list[Query]] = defaultdict(list)
    for query, noise in asked:
        members[type(query), schema.sizes(query.attributes), noise].append(query)
    losses = {
        key: [_weight(key[2], pure) * moved for moved in _moves(queries[0], schema, key[2], pure)]
        for key, queries in members.items()
    }
    unit = _unit([loss for each in losses.values() for loss in each], len(asked))
    groups = [
        _Group(
            np.array([[places[schema.positions[name]] for name in query.attributes] for query in queries], np.intp),
            np.array([math.ceil(loss / unit) for loss in losses[key]], np.int64),
        )
        for key, queries in members.items()
    ]
    return groups, unit


def _weight(noise: Noise, pure: bool) -> Fraction:
    scale = Fraction(noise.scale)
    return 1 / scale if pure else 1 / (2 * scale**2)


def _unit(losses: Sequence[Fraction], requests: int) -> Fraction:
    """A unit in which all losses are whole, or if that is too small one in which rounding up hardly matters."""
    largest = max(losses)
    distinct = set(losses) - {Fraction(0)}
    if len(distinct) <= 64:
        common = Fraction(
            math.gcd(*(loss.numerator for loss in distinct)), math.lcm(*(loss.denominator for loss in distinct))
        )
        # a common divisor of fractions in lowest terms: gcd of numerators over lcm of denominators
        if largest / common * requests < _LARGEST:
            return common
    return largest * requests / _LARGEST


def _moves(query: Query, schema: Schema, noise: Noise, pure: bool) -> tuple[int, ...]:
    """For each set of changed attributes (bit i for attribute i of the query) how far one row moves the answer.

    In L1 when pure; otherwise in squared L2 for Gaussian noise and in squared L1 for Laplace noise.
    """
    sizes = schema.sizes(query.attributes)
    if isinstance(query, Cells):
        moved = 4 if noise.kind is NoiseKind.LAPLACE and not pure else 2
        return (0, *[moved] * (2 ** len(sizes) - 1))
    moves = _contrast_moves(sizes)
    if noise.kind is NoiseKind.GAUSSIAN:
        return tuple(squared for _, squared in moves)
    return tuple(l1 if pure else l1**2 for l1, _ in moves)


@lru_cache(maxsize=4096)
def _contrast_moves(sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """L1 and squared L2 of a contrast's move for each set of changed attributes, the first attribute the lowest bit."""
    out = []
    for changed in range(2 ** len(sizes)):
        inside = tuple(sorted(n for i, n in enumerate(sizes) if changed >> i & 1))
        outside = [n for i, n in enumerate(sizes) if not changed >> i & 1 and n > 2]
        l1, squared = _changed_moves(inside)
        out.append((l1 * math.prod(2 * (n - 1) for n in outside), squared * math.prod(n * (n - 1) for n in outside)))
    return tuple(out)


@lru_cache(maxsize=4096)
def _changed_moves(sizes: tuple[int, ...]) -> tuple[int, int]:
    """The same when all attributes change: two columns of n I - J meet in few pairs of values, each some times."""
    if not sizes:
        return 0, 0
    pairs = [[(1, -1, 1)] if n == 2 else [(n - 1, -1, 1), (-1, n - 1, 1), (-1, -1, n - 2)] for n in sizes]
    l1 = squared = 0
    for choice in product(*pairs):
        before, after, times = (math.prod(column) for column in zip(*choice, strict=True))
        l1 += times * abs(before - after)
        squared += times * (before - after) ** 2
    return l1, squared


# The sum over all queries


def _losses_of_all_sets(groups: Sequence[_Group], attributes: int) -> NDArray[np.int64]:
    """The joint loss for every set of changed attributes: whole numbers, so that the order of sums does not matter."""
    sums = np.zeros(2**attributes, np.int64)
    for group in groups:
        order = group.positions.shape[1]
        inverse = group.losses.copy()
        for bit in range(order):
            halves = inverse.reshape(-1, 2, 2**bit)
            halves[:, 1] -= halves[:, 0]
        subsets = np.arange(2**order)
        bits = (subsets[:, None] >> np.arange(order)) & 1
        keys = (1 << group.positions) @ bits.T
        np.add.at(sums, keys.ravel(), np.broadcast_to(inverse, keys.shape).ravel())
    for bit in range(attributes):
        halves = sums.reshape(-1, 2, 2**bit)
        halves[:, 1] += halves[:, 0]
    return sums


def _losses_of(groups: Sequence[_Group], cases: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The joint loss for some sets of changed attributes, one a row."""
    sums = np.zeros(len(cases), np.int64)
    for group in groups:
        step = max(1, 5_000_000 // len(cases))
        for start in range(0, len(group.positions), step):
            part = group.positions[start : start + step]
            keys = np.zeros((len(part), len(cases)), np.intp)
            for bit in range(part.shape[1]):
                keys |= cases[:, part[:, bit]].T.astype(np.intp) << bit
            sums += group.losses[keys].sum(axis=0)
    return sums


def _cases(asked: Sequence[Asked], schema: Schema, used: Sequence[int]) -> NDArray[np.bool_] | None:
    """Sets of changed attributes of which one stands for every other; None when there are too many.

    Attributes that can be exchanged without changing what is asked form a class; a set is known by how many of each
    class it holds.
    """
    classes = _exchangeable(asked, schema, used)
    if math.prod(len(each) + 1 for each in classes) > _MAX_CASES:
        return None
    cases = list(product(*(range(len(each) + 1) for each in classes)))
    out = np.zeros((len(cases), len(used)), np.bool_)
    for row, counts in enumerate(cases):
        for each, count in zip(classes, counts, strict=True):
            out[row, each[:count]] = True
    return out


def _exchangeable(asked: Sequence[Asked], schema: Schema, used: Sequence[int]) -> list[list[int]]:
    """Classes of attributes, by their place among those used; each exchange in a class is checked query by query."""
    places = {schema.names[position]: i for i, position in enumerate(used)}
    found: dict[int, list[tuple[str, str, float]]] = defaultdict(list)
    for query, noise in asked:
        mask = sum(1 << places[name] for name in query.attributes)
        found[mask].append((type(query).__name__, noise.kind.value, noise.scale))
    kinds = {mask: tuple(sorted(each)) for mask, each in found.items()}
    holding: list[list[int]] = [[] for _ in used]
    for mask in kinds:
        for i in range(len(used)):
            if mask >> i & 1:
                holding[i].append(mask)
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, position in enumerate(used):
        alike[schema.shape[position], len(holding[i])].append(i)
    classes = []
    for candidates in alike.values():
        classes.append([candidates[0]])
        for a, b in pairwise(candidates):
            both = 1 << a | 1 << b
            masks = [mask for mask in holding[a] + holding[b] if mask & both != both]
            if all(kinds.get(mask ^ both) == kinds[mask] for mask in masks):
                classes[-1].append(b)
            else:
                classes.append([b])
    return classes
