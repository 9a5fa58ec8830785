"""The exact joint cost of many noisy answers: no unit can move all of them as far as it can move each one.

When one row is added, every table of cells and every contrast moves by the same amount whatever the row is, so their
costs add up. When a row is replaced, only the set D of attributes in which it changes matters, and a query over B moves
by an amount that depends on D and B alone. A difference of +-1 sums, for example, moves only if an odd number of its
attributes change (Barak et al. 2007 take 2 for each; the largest odd number of them together is about half of all).

The cost is the largest over D of a sum of functions of D inside B: with up to 24 attributes, Moebius inversion of each
function and one zeta transform give the sum for every D; with more, where attributes can be exchanged, only how many of
each kind change matters. Otherwise the sum of the single costs is used, which is never too low.

For linear queries the cost is the most that one unit can move all of them together: counts over disjoint rows cost no
more than one of them. Every combination of values of the attributes that some query names is enumerated, values that no
query distinguishes only once; where there are too many, queries are split into groups that share attributes, and the
groups' costs are added, which is never too low.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Currency, Neighbours, Noise, NoiseKind
from crosstally.errors import BudgetError
from crosstally.plans.request import Request, RequestGroup, grouped
from crosstally.query.contrast_moves import Moves
from crosstally.query.linear import Linear
from crosstally.query.queries import Query
from crosstally.schema import Schema

# Linear queries


# Limits memory: 160 MB of doubles. Queries over more cells are split into groups, whose costs are added.
_MAX_NUMBERS = 20_000_000
# Limits memory: 32 MB of answers of single rows. With more, an upper bound replaces the exact cost.
_MAX_STACKED = 4_000_000
# Limits time: each pair of distinct answers is compared, 2 million pairs. With more, an upper bound is charged.
_MAX_PAIRED = 2_000
# Limits time: pairs that are equal up to rounding are compared as fractions. With more, an upper bound is charged.
_MAX_TIES = 5_000

Asked = tuple[Linear, Noise]
Values = Mapping[str, NDArray[np.intp]]


def linear_cost(
    asked: Sequence[Asked], schema: Schema, neighbours: Neighbours | str, *, currency: Currency
) -> Fraction:
    """The joint cost of the answers to linear queries. Never too low."""
    values = _values_told_apart(asked)
    groups = _linear_groups(asked, values)
    return sum(
        (_linear_group_cost(group, schema, values, neighbours, currency=currency) for group in groups), Fraction(0)
    )


def _values_told_apart(asked: Sequence[Asked]) -> Values:
    """For each attribute one representative of each class of values that the queries distinguish."""
    factors: dict[str, dict[tuple[int, ...], None]] = defaultdict(dict)
    for query, _ in asked:
        for term in query.terms:
            for name, factor in term.factors:
                factors[name][factor] = None
    return {name: np.unique(np.array(list(own)), axis=1, return_index=True)[1] for name, own in factors.items()}


def _cells(names: Sequence[str], values: Values) -> int:
    return math.prod(len(values[name]) for name in names)


def _linear_groups(asked: Sequence[Asked], values: Values) -> Iterator[list[Asked]]:
    """Queries in groups whose joint table can be enumerated, those over the same attributes together."""
    by_attributes: dict[tuple[str, ...], list[Asked]] = defaultdict(list)
    for each in asked:
        by_attributes[each[0].attributes].append(each)
    group: list[Asked] = []
    names: set[str] = set()
    for attributes, members in sorted(by_attributes.items()):
        joint = names | set(attributes)
        kinds = len({noise for _, noise in (*group, *members)})
        if group and _cells(sorted(joint), values) * kinds > _MAX_NUMBERS:
            yield group
            group, joint = [], set(attributes)
        group, names = [*group, *members], joint
    if group:
        yield group


def _linear_group_cost(
    asked: Sequence[Asked], schema: Schema, values: Values, neighbours: Neighbours | str, *, currency: Currency
) -> Fraction:
    """The worst that a unit of m rows can do is m equal rows: the cost is convex in them."""
    names = sorted({name for query, _ in asked for name in query.attributes})
    power = 1 if currency == "epsilon" else 2
    rows = Fraction(schema.max_rows if currency == "epsilon" else schema.max_rows**2)
    if Neighbours(neighbours) == Neighbours.ADD_REMOVE:
        return _largest(*_sums(asked, names, schema, values, power=power), currency=currency) * rows
    weights = [noise.unit_cost(currency) for _, noise in asked]
    single = (Fraction(query.sensitivity(schema, neighbours).l1) for query, _ in asked)
    alone = sum((weight * moved**power for weight, moved in zip(weights, single, strict=True)), Fraction(0))
    columns = _columns(asked, names, schema, values)
    if columns is None:
        return alone
    return min(alone, _largest_pair(columns, weights, currency=currency) * rows)


def _chosen(query: Linear, schema: Schema, values: Values) -> NDArray[np.int64]:
    """What one row adds, for each combination of distinguished values of the query's own attributes."""
    return query.row_values(schema)[np.ix_(*(values[name] for name in query.attributes))]


def _broadcast(added: NDArray[Any], own: Sequence[str], names: Sequence[str]) -> NDArray[Any]:
    """The same with an axis for each of these names, of length one where it is not among its own; both are sorted."""
    lengths = dict(zip(own, added.shape, strict=True))
    return added.reshape([lengths.get(name, 1) for name in names])


def _sums(
    asked: Sequence[Asked], names: Sequence[str], schema: Schema, values: Values, *, power: int
) -> tuple[list[Noise], NDArray[np.float64]]:
    """For each noise and each combination of values the sum of the sizes (or squares) of what one row adds.

    Queries over the same attributes are added up first, in a table of their own. Then axes are added from the last
    name to the first: a table enters when its first attribute does, so that few of them are added at the full size.
    """
    noises = list(dict.fromkeys(noise for _, noise in asked))
    tables: dict[tuple[str, ...], NDArray[np.float64]] = {}
    for query, noise in asked:
        added = np.abs(_chosen(query, schema, values).astype(np.float64)) ** power
        table = tables.setdefault(query.attributes, np.zeros((len(noises), *added.shape)))
        table[noises.index(noise)] += added
    sums = tables.pop((), np.zeros(len(noises)))
    for place in reversed(range(len(names))):
        sums = np.repeat(sums[:, None], len(values[names[place]]), axis=1)
        for own, table in tables.items():
            if own[0] == names[place]:
                for number, added in enumerate(table):
                    sums[number] += _broadcast(added, own, names[place:])
    return noises, sums.reshape(len(noises), -1)


def _largest(noises: Sequence[Noise], sums: NDArray[np.float64], *, currency: Currency) -> Fraction:
    """The largest weighted sum, exactly: sums are whole numbers, and near ties are settled with fractions.

    Whole numbers beyond 2^53 are rounded up to the next double first.
    """
    weights = [noise.unit_cost(currency) for noise in noises]
    rough = np.array([float(weight) for weight in weights]) @ sums
    near = _distinct_columns(sums[:, rough >= rough.max() * (1 - 1e-9)])
    if near.max(initial=0) >= 2.0**53:
        near = np.ceil(near * (1 + 1e-9))
    exact = (sum((w * int(n) for w, n in zip(weights, column, strict=True)), Fraction(0)) for column in near.T)
    return max(exact)


def _distinct_columns(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The different columns. Millions may be equal, where ``numpy.unique`` along an axis takes seconds."""
    ordered = numbers[:, np.lexsort(numbers)]
    first = np.ones(ordered.shape[1], np.bool_)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return ordered[:, first]


def _columns(asked: Sequence[Asked], names: Sequence[str], schema: Schema, values: Values) -> NDArray[np.int64] | None:
    """The distinct answers that one row can give to all queries, one a row; None when there are too many."""
    if _cells(names, values) * len(asked) > _MAX_STACKED:
        return None
    sizes = [len(values[name]) for name in names]
    added = (_broadcast(_chosen(query, schema, values), query.attributes, names) for query, _ in asked)
    stacked = np.stack([np.broadcast_to(each, sizes).ravel() for each in added], axis=1)
    distinct = np.unique(stacked, axis=0)
    if schema.may_drop:
        distinct = np.unique(np.vstack([distinct, np.zeros_like(distinct[:1])]), axis=0)
    return distinct if len(distinct) <= _MAX_PAIRED else None


def _largest_pair(columns: NDArray[np.int64], weights: Sequence[Fraction], *, currency: Currency) -> Fraction:
    """The largest weighted distance between two of the rows: near ties settled with fractions, very many rounded up."""
    rough = np.array([float(weight) for weight in weights])
    power = 1 if currency == "epsilon" else 2
    near: list[tuple[float, int, int]] = []
    most = 0.0
    for i, column in enumerate(columns):
        distances = np.abs((columns[i:] - column).astype(np.float64)) ** power @ rough
        most = max(most, float(distances.max()))
        places = np.flatnonzero(distances >= most * (1 - 1e-9))
        near = [each for each in near if each[0] >= most * (1 - 1e-9)]
        near += [(float(distances[j]), i, i + int(j)) for j in places]
        if len(near) > _MAX_TIES:
            return _bound_of_pairs(columns, rough, power)
    exact = (_distance(columns[i], columns[j], weights, power) for _, i, j in near)
    return max(exact, default=Fraction(0))


def _distance(first: NDArray[np.int64], second: NDArray[np.int64], weights: Sequence[Fraction], power: int) -> Fraction:
    steps = (abs(int(a) - int(b)) ** power for a, b in zip(first, second, strict=True))
    return sum((weight * step for weight, step in zip(weights, steps, strict=True)), Fraction(0))


def _bound_of_pairs(columns: NDArray[np.int64], rough: NDArray[np.float64], power: int) -> Fraction:
    most = max(float((np.abs((columns - column).astype(np.float64)) ** power @ rough).max()) for column in columns)
    return Fraction(most * (1 + 1e-9))


# Cells and contrasts


# Limits time: up to this many attributes all sets are enumerated (2^24 numbers in blocks), above it only cases.
_MOST_ATTRIBUTES_OF_ALL_SETS = 24
# Limits time: distinct ways to change a row. With more, costs are added up, which is an upper bound.
_MAX_CASES = 20_000
_FEW_CASES = 200  # up to this many, cases are faster than all sets of up to 24 attributes, and need little memory
_BLOCK = 20  # attributes whose sets are enumerated at once: 8 MB of numbers instead of 128 for all 24
# Limits time: cases times requests. Beyond it all sets are enumerated instead, or costs are added up.
_MAX_LOOKUPS = 50_000_000
# Sums of integer losses stay below this and fit int64; coarser units round costs up, never down.
_LARGEST = 2**61


def single_cost(
    query: Query, noise: Noise, schema: Schema, neighbours: Neighbours | str, *, currency: Currency
) -> Fraction:
    """The cost of one answer by itself, in epsilon, rho or mu^2."""
    moved = query.sensitivity(schema, neighbours)
    size = moved.l1 if currency == "epsilon" else moved.l1**2
    return query.picks * noise.unit_cost(currency) * (moved.l2_squared if noise.kind is NoiseKind.GAUSSIAN else size)


def privacy_cost(
    requests: Sequence[Request], schema: Schema, neighbours: Neighbours | str, *, currency: Currency
) -> Fraction:
    """The joint cost of all requests: attained by some pair of neighbours where it can be computed, never too low.

    In epsilon, rho or mu^2 (``Noise.unit_cost``): for a pair of neighbours costs are added. The cost of linear queries
    together, of each choice and of each Kronecker query is added to that of the others.
    """
    return groups_cost(grouped(requests, schema), schema, neighbours, currency=currency)


def groups_cost(
    groups: Sequence[RequestGroup], schema: Schema, neighbours: Neighbours | str, *, currency: Currency
) -> Fraction:
    """The same for groups of similar requests.

    Units of up to m rows cost m times as much (m^2 for rho and mu^2): the worst they can do is m equal rows that
    become m other equal rows, or none.
    """
    if currency == "epsilon" and any(group.noise.kind is NoiseKind.GAUSSIAN for group in groups):
        raise BudgetError("Gaussian noise cannot be paid with a pure epsilon; give rho, or epsilon and delta")
    linear = [(g.query, g.noise) for g in groups if isinstance(g.query, Linear) for _ in range(len(g))]
    others = [group for group in groups if not isinstance(group.query, Linear)]
    tables = [group for group in others if group.query.is_table or group.query.is_symmetric]
    alone = [group for group in others if group not in tables]
    added = linear_cost(linear, schema, neighbours, currency=currency)
    added += _sum_of_single_costs(alone, schema, neighbours, currency=currency)
    separate = _sum_of_single_costs(tables, schema, neighbours, currency=currency)
    if Neighbours(neighbours) == Neighbours.ADD_REMOVE or not tables:
        return separate + added
    largest = _largest_move(tables, schema, currency=currency)
    if largest is None:
        return separate + added
    together = largest * (schema.max_rows if currency == "epsilon" else schema.max_rows**2)
    if schema.may_drop:
        together = max(together, _sum_of_single_costs(tables, schema, Neighbours.ADD_REMOVE, currency=currency))
    return min(separate, together) + added


def _sum_of_single_costs(
    groups: Sequence[RequestGroup], schema: Schema, neighbours: Neighbours | str, *, currency: Currency
) -> Fraction:
    costs = (len(g) * single_cost(g.query, g.noise, schema, neighbours, currency=currency) for g in groups)
    return sum(costs, Fraction(0))


# The losses of one query


_Group = tuple[NDArray[np.intp], NDArray[np.int64]]
"""Queries with the same losses: their attributes, and the loss for each set of changed ones, in units."""


def _largest_move(asked: Sequence[RequestGroup], schema: Schema, *, currency: Currency) -> Fraction | None:
    """The largest joint loss when one row is replaced, rounded up by less than a part in 2^30; None if unknown."""
    moved = [group for group in asked if group.query.attributes]
    if not moved:
        return Fraction(0)
    if all(group.query.is_table for group in moved):
        loss = (
            len(g) * g.noise.unit_cost(currency) * _distances(_moves(g.query, schema), g.noise, currency)[-1]
            for g in moved
        )
        return sum(loss, Fraction(0))
    used = np.unique(np.concatenate([group.positions.ravel() for group in moved]))
    places = np.zeros(len(schema.names), np.intp)
    places[used] = np.arange(len(used))
    groups, unit = _groups(moved, schema, places, currency=currency)
    few = len(used) <= _MOST_ATTRIBUTES_OF_ALL_SETS
    cases = _cases(moved, schema, used, most=_FEW_CASES if few else _MAX_CASES)
    if cases is not None and len(cases) * sum(map(len, moved)) <= _MAX_LOOKUPS:
        return unit * int(_losses_of(groups, cases).max())
    return unit * _largest_loss_of_all_sets(groups, len(used)) if few else None


def _groups(
    asked: Sequence[RequestGroup], schema: Schema, places: NDArray[np.intp], *, currency: Currency
) -> tuple[list[_Group], Fraction]:
    """The losses of each group for each set of changed attributes, and the unit in which they are whole numbers."""
    moves = [_moves(group.query, schema) for group in asked]
    losses = [
        [group.noise.unit_cost(currency) * moved for moved in _distances(own, group.noise, currency)]
        for group, own in zip(asked, moves, strict=True)
    ]
    unit = _unit([loss for each in losses for loss in each], sum(map(len, asked)))
    groups = [
        (places[group.positions], np.array([math.ceil(loss / unit) for loss in each], np.int64)[own.places])
        for group, each, own in zip(asked, losses, moves, strict=True)
    ]
    return groups, unit


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


def _moves(query: Query, schema: Schema) -> Moves:
    moves = query.moves(schema)
    assert moves is not None  # others are charged alone
    return moves


def _distances(moves: Moves, noise: Noise, currency: Currency) -> Sequence[int]:
    """How far one row moves the answer: in L1 for epsilon, else in squared L2 for Gaussian noise and L1 squared."""
    if noise.kind is NoiseKind.GAUSSIAN:
        return moves.l2_squared.ravel().tolist()
    l1: list[int] = moves.l1.ravel().tolist()
    return l1 if currency == "epsilon" else [moved**2 for moved in l1]


# The sum over all queries


def _largest_loss_of_all_sets(groups: Sequence[_Group], attributes: int) -> int:
    """The largest joint loss of any set of changed attributes: in whole numbers the order of sums does not matter.

    Attributes past the first 20 are fixed in turn, in all ways: what lies in such a block is the sum over all subsets
    of the fixed ones of the inverses there.
    """
    parts = list(_inverses(groups))
    low = min(attributes, _BLOCK)
    most = 0
    for fixed in range(2 ** (attributes - low)):
        sums = np.zeros(2**low, np.int64)
        for keys, inverse in parts:
            inside = ((keys >> low) & ~fixed) == 0
            np.add.at(sums, keys[inside] & (2**low - 1), inverse[inside])
        for bit in range(low):
            halves = sums.reshape(-1, 2, 2**bit)
            halves[:, 1] += halves[:, 0]
        most = max(most, int(sums.max()))
    return most


def _inverses(groups: Sequence[_Group]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """For each group the sets inside its queries, as bits, and the Moebius inverse of the losses at each."""
    for positions, losses in groups:
        inverse = losses.copy()
        for bit in range(positions.shape[1]):
            halves = inverse.reshape(-1, 2, 2**bit)
            halves[:, 1] -= halves[:, 0]
        keys = np.zeros((len(positions), 1), np.int64)  # the subsets of each query, the first attribute fastest
        for column in positions.T:
            keys = np.hstack([keys, keys + (1 << column)[:, None]])
        yield keys.ravel(), np.broadcast_to(inverse, keys.shape).ravel()


def _losses_of(groups: Sequence[_Group], cases: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The joint loss for some sets of changed attributes, one a row."""
    sums = np.zeros(len(cases), np.int64)
    step = max(1, 5_000_000 // len(cases))
    for positions, losses in groups:
        for start in range(0, len(positions), step):
            part = positions[start : start + step]
            keys = np.zeros((len(part), len(cases)), np.intp)
            for bit in range(part.shape[1]):
                keys |= cases[:, part[:, bit]].T.astype(np.intp) << bit
            sums += losses[keys].sum(axis=0)
    return sums


def _cases(
    asked: Sequence[RequestGroup], schema: Schema, used: NDArray[np.intp], *, most: int
) -> NDArray[np.bool_] | None:
    """Representatives of all sets of changed attributes; None when there are too many.

    Attributes that can be exchanged without changing what is asked form a class; a set is known by how many of each
    class it holds.
    """
    classes = _exchangeable(asked, schema, used)
    if classes is None or math.prod(len(each) + 1 for each in classes) > most:
        return None
    cases = list(product(*(range(len(each) + 1) for each in classes)))
    out = np.zeros((len(cases), len(used)), np.bool_)
    for row, counts in enumerate(cases):
        for each, count in zip(classes, counts, strict=True):
            out[row, each[:count]] = True
    return out


def _exchangeable(asked: Sequence[RequestGroup], schema: Schema, used: NDArray[np.intp]) -> list[list[int]] | None:
    """Classes of attributes, by their place among those used; each exchange in a class is checked on all queries.

    Only neighbours are tried: exchanges of neighbours make all exchanges. None when sets are too large for a number.
    """
    base = len(schema.names)
    alike: dict[tuple[bool, Noise, int], list[NDArray[np.intp]]] = defaultdict(list)
    for group in asked:
        alike[group.query.is_table, group.noise, group.positions.shape[1]].append(group.positions)
    if base ** max(order for _, _, order in alike) >= 2**62:
        return None
    sets = [np.concatenate(parts) for parts in alike.values()]
    held = np.zeros((len(sets), base), np.int64)
    for i, rows in enumerate(sets):
        held[i] = np.bincount(rows.ravel(), minlength=base)
    candidates: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, position in enumerate(used.tolist()):
        candidates[schema.shape[position], *held[:, position].tolist()].append(i)
    classes = []
    for places in candidates.values():
        classes.append([places[0]])
        for a, b in pairwise(places):
            if all(_exchange(rows, int(used[a]), int(used[b]), base) for rows in sets):
                classes[-1].append(b)
            else:
                classes.append([b])
    return classes


def _exchange(sets: NDArray[np.intp], a: int, b: int, base: int) -> bool:
    """Whether exchanging two attributes leaves the same sets."""
    concerned = sets[(sets == a).any(axis=1) ^ (sets == b).any(axis=1)]
    swapped = np.where(concerned == a, b, np.where(concerned == b, a, concerned))
    digits = base ** np.arange(sets.shape[1], dtype=np.int64)
    before, after = (np.sort(np.sort(rows, axis=1) @ digits) for rows in (concerned, swapped))
    return bool(np.array_equal(before, after))
