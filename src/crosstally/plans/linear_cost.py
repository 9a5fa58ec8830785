"""The exact joint cost of linear queries: single numbers, sums over rows of products of factors.

The cost is the most that one unit can move all of them together: counts over disjoint rows cost no
more than one of them. Every combination of values of the attributes that some query names is enumerated, values that no
query distinguishes only once; where there are too many, queries are split into groups that share attributes, and the
groups' costs are added, which is never too low.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Currency, Neighbours, Noise
from crosstally.query.linear import Linear
from crosstally.schema import Schema

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
