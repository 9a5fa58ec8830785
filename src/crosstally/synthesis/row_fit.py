"""Rows that have wanted tables: drawn along a tree, then changed value by value until their tables are nearest.

Rows are drawn along the tree of the strongest associations (Chow and Liu 1968): the numbers of rows are those of the
tables along it, rounded at random, and only which row gets which value is drawn. Then one value of one row after the
other is replaced by one that brings all wanted tables nearer, in squared distance (``kernels.row_descent``): first at
random, with better values more probable (simulated annealing), at last the best. A table counts by its precision, so
that what is badly known does not pull. What the tables leave open has nearly maximum entropy.

Where the wanted tables are those of some rows, the rows found have them to within one row a cell on average (generated
rows of six attributes). Noisy tables have no rows in common; then near ones are found, which are mostly nearer to the
truth than the tables themselves: what contradicts itself is noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.kernels.row_descent import Layout, count_rows, descend
from crosstally.schema import Impossible, Schema
from crosstally.typing import Floats

Codes = NDArray[np.int32]
Wanted = tuple[tuple[int, ...], Floats, float]
"""A table that rows should have: its attributes by position, its counts, which add up to the rows, and its weight."""
Possible = tuple[tuple[int, ...], NDArray[np.bool_]]
"""Structural zeros: attributes by position, and for each cell whether a row may be in it."""

# With weights that are precisions, at temperature 2 rows have the posterior law of all sets of rows given the tables,
# if these were independent. From there it is cooled. Chosen: slower cooling gave the same tables on three real ones;
# without it tables of three attributes that nobody measured were up to 21% further from the truth than with it.
_TEMPERATURES = tuple(2.0 / 4**i for i in range(6))
# Sweeps at temperature 0 end when they change fewer than one value in so many. Chosen: later ones come nearer to the
# noise of the tables.
_SETTLED, _MOST_SWEEPS, _LEAST_SWEEPS = 200, 20, 2

# Limits time: numbers that are added up, about 30 seconds of them. With too many rows for that a part of the rows is
# fitted in the least number of sweeps, and repeated. Finding a line of a table costs as much as some numbers.
_WORK, _FINDING = 4e10, 10

_IMPOSSIBLE = 1e15
"""What a structural zero adds to the distance: more than all tables together."""
_LARGEST_ZEROS = 1_000_000
"""Structural zeros over more cells than these are left to ``without_impossible``: limits memory."""


def whole(counts: Floats, total: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Integers that add up to a total, each share rounded down or up; equal shares if all are zero.

    >>> whole(np.array([1.0, 1.0, 2.0]), 4, np.random.default_rng(0))
    array([1, 1, 2])
    """
    weights = np.maximum(counts, 0.0)
    if not weights.sum() > 0:
        weights = np.ones(len(counts))
    # systematic sampling: the cumulative shares, shifted by one random number, are rounded to integers
    ends = np.cumsum(weights) / weights.sum() * total
    ends[-1] = total
    cut = np.floor(ends + random.random()).astype(np.int64)
    cut[-1] = total
    return np.asarray(np.diff(np.minimum(cut, total), prepend=0))


def shuffled(counts: Floats, rows: int, random: np.random.Generator) -> NDArray[np.int64]:
    """A value for each row, in random order, as often as their counts say."""
    return random.permutation(np.repeat(np.arange(len(counts)), whole(counts, rows, random)))


# The start


def drawing_order(number: int, links: Mapping[tuple[int, int], float]) -> Sequence[tuple[int, int | None]]:
    """Attributes in the order in which they are drawn, each with the one it depends on, if any.

    The tree of largest total weight, found from its strongest link on (Prim). Attributes without links start
    new trees.

    Args:
        number: How many attributes there are.
        links: The weight of each pair, the lower position first.

    >>> drawing_order(4, {(0, 1): 0.1, (1, 2): 0.5, (0, 2): 0.4})
    [(1, None), (2, 1), (0, 2), (3, None)]
    """
    weights = np.full((number, number), -1.0)
    for (a, b), weight in links.items():
        weights[a, b] = weights[b, a] = weight
    best, parent = weights.max(axis=1, initial=-1.0), np.full(number, -1)
    reach = np.full(number, -1.0)  # the strongest link to an attribute that was drawn
    left, out = set(range(number)), []
    while left:
        linked = [i for i in left if reach[i] >= 0]
        chosen = max(linked, key=lambda i: (reach[i], -i)) if linked else max(left, key=lambda i: (best[i], -i))
        out.append((chosen, int(parent[chosen]) if linked else None))
        left.remove(chosen)
        nearer = weights[chosen] > reach
        reach[nearer], parent[nearer] = weights[chosen][nearer], chosen
    return out


def drawn(
    order: Sequence[tuple[int, int | None]],
    singles: Sequence[Floats],
    pairs: Mapping[tuple[int, int], Floats],
    rows: int,
    random: np.random.Generator,
) -> Codes:
    """Rows along a tree: (rows, attributes).

    Args:
        order: Attributes with what they depend on (``drawing_order``).
        singles: The table of each attribute.
        pairs: The tables along the links, the lower position first.
        rows: How many.
        random: The random generator.
    """
    codes = np.zeros((rows, len(singles)), np.int32)
    for attribute, parent in order:
        if parent is None:
            codes[:, attribute] = shuffled(singles[attribute], rows, random)
            continue
        table = pairs[min(attribute, parent), max(attribute, parent)]
        table = table if parent < attribute else table.T
        for value, given in enumerate(table):
            own = np.flatnonzero(codes[:, parent] == value)
            codes[own, attribute] = shuffled(given if given.sum() > 0 else singles[attribute], len(own), random)
    return codes


# The fit


def rows_to_fit(shape: Sequence[int], tables: Sequence[tuple[int, ...]], rows: int) -> int:
    """How many rows can be fitted to tables in the time there is; at most all."""
    return min(rows, max(1, int(sweeps_in_time(shape, tables, 1) / (len(_TEMPERATURES) + _LEAST_SWEEPS))))


def sweeps_in_time(shape: Sequence[int], tables: Sequence[tuple[int, ...]], rows: int) -> float:
    """How many sweeps there is time for."""
    return _WORK / max(1, rows * sum(shape[axis] + _FINDING for axes in tables for axis in axes))


def fitted(
    codes: Codes,
    shape: Sequence[int],
    wanted: Sequence[Wanted],
    possible: Sequence[Possible],
    random: np.random.Generator,
    *,
    groups: Sequence[NDArray[np.intp]] = (),
) -> Codes:
    """The rows, changed so that their tables are nearest to those wanted, and in no impossible cell where that can be.

    Args:
        codes: Rows to start from.
        shape: The number of values of each attribute.
        wanted: The tables.
        possible: Structural zeros.
        random: The random generator.
        groups: For each attribute the group of each value, if values must stay in their groups. They are not drawn
            at random then, but at once the best.
    """
    tables = [
        *((axes, weight * (1 - 2 * counts), weight) for axes, counts, weight in wanted),
        *((axes, np.where(cells, 0.0, _IMPOSSIBLE), 0.0) for axes, cells in possible),
    ]
    if not len(codes) or not tables:
        return codes
    codes = codes.copy()
    layout, increments = _layout(shape, tables, groups)
    count_rows(codes, layout, increments)
    temperatures = () if groups else _TEMPERATURES
    for temperature in temperatures:
        descend(codes, layout, increments, temperature, np.uint64(random.integers(1, 2**63)))
    time_for = sweeps_in_time(shape, [axes for axes, _, _ in tables], len(codes)) - len(temperatures)
    for _ in range(int(np.clip(time_for, _LEAST_SWEEPS, _MOST_SWEEPS))):
        if descend(codes, layout, increments, 0.0, np.uint64(1)) * _SETTLED < codes.size:
            break
    return codes


def _layout(
    shape: Sequence[int], tables: Sequence[Wanted], groups: Sequence[NDArray[np.intp]] = ()
) -> tuple[Layout, Floats]:
    """The arrays of the kernel and the increments, from tables of increments."""
    by_axis = [[number for number, (axes, _, _) in enumerate(tables) if k in axes] for k in range(len(shape))]
    places = {use: i for i, use in enumerate((t, k) for k, own in enumerate(by_axis) for t in own)}
    attributes: list[tuple[int, ...]] = []
    uses: list[tuple[int, ...]] = []
    terms: list[tuple[int, int]] = []
    touched: list[int] = []
    weights, parts, start = [], [], 0
    for k, own in enumerate(by_axis):
        first_use, first_touched = len(uses), len(touched)
        for number in own:
            axes, values, weight = tables[number]
            others = [axis for axis in axes if axis != k]
            strides = [math.prod(shape[a] for a in [*others[i + 1 :], k]) for i in range(len(others))]
            uses.append((start, k, len(terms), len(terms) + len(others)))
            terms += zip(others, strides, strict=True)
            touched += [places[number, axis] for axis in axes]
            weights.append(weight)
            parts.append(np.transpose(values, [axes.index(axis) for axis in [*others, k]]).ravel())
            start += values.size
        attributes.append((shape[k], first_use, len(uses), first_touched, len(touched)))
    terms_array = np.array(terms, np.int64).reshape(-1, 2)
    of_values = np.zeros((len(shape), max(shape)), np.int64)
    for line, of_attribute in zip(of_values, groups, strict=False):
        line[: len(of_attribute)] = of_attribute
    layout = np.array(attributes), of_values, np.array(uses), terms_array, np.array(touched), np.array(weights)
    return layout, np.concatenate(parts)


def repeated(codes: Codes, rows: int, random: np.random.Generator) -> Codes:
    """As many rows as wanted: each as often as the others, or once more."""
    if rows == len(codes):
        return codes
    more = random.permutation(len(codes))[: rows % len(codes)]
    return np.concatenate([np.repeat(codes, rows // len(codes), axis=0), codes[more]])


# Structural zeros


def possible_cells_of(schema: Schema) -> list[Possible]:
    """The structural zeros of a schema, one table for each set of attributes that has some."""
    facts = [fact for fact in schema.facts if isinstance(fact, Impossible)]
    out: list[Possible] = []
    for names in dict.fromkeys(schema.ordered(tuple(fact.values)) for fact in facts):
        cells = schema.possible(names) if math.prod(schema.sizes(names)) <= _LARGEST_ZEROS else None
        if cells is not None:
            out.append((tuple(schema.positions[name] for name in names), cells))
    return out


def impossible_rows(schema: Schema, codes: Codes) -> NDArray[np.bool_]:
    """For each row whether it has values that cannot occur together."""
    out = np.zeros(len(codes), np.bool_)
    for fact in schema.facts:
        if isinstance(fact, Impossible):
            inside = np.ones(len(codes), np.bool_)
            for name, labels in fact.values.items():
                k = schema.positions[name]
                inside &= np.isin(schema.attributes[k].labels, labels)[codes[:, k]]
            out |= inside
    return out


def without_impossible(schema: Schema, codes: Codes, random: np.random.Generator) -> Codes:
    """The rows, none with values that cannot occur together, and the tables of single attributes nearly as before.

    Raises:
        QueryError: Every row had such values, and none could be changed.
    """
    bad = impossible_rows(schema, codes)
    if not bad.any():
        return codes
    codes = codes.copy()
    single: list[Wanted] = [
        ((k,), np.bincount(codes[bad, k], minlength=size).astype(np.float64), 1.0)
        for k, size in enumerate(schema.shape)
    ]
    codes[bad] = fitted(codes[bad], schema.shape, single, possible_cells_of(schema), random)
    bad = impossible_rows(schema, codes)
    good = np.flatnonzero(~bad)
    if not len(good):
        raise QueryError("no row without values that the schema calls impossible together was found; make more rows")
    codes[bad] = codes[random.choice(good, int(bad.sum()))]
    return codes
