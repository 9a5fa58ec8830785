"""Measurements replaced by their posterior means: single attributes, pairs and triples.

    coefficients of single attributes and pairs  ->  items and pairs of ``posterior``  ->  tables of one and two
    tables of one and two  ->  e, the table of three of greatest entropy
    what reports show beyond it, d = r - r(e)  ->  e + rebuilt(trust d), as far as no cell becomes negative

with trust = t s / (t s + variance), t the mean square of d beyond noise for all triples of one shape, and s the product
of the variances of the three attributes: with rare values, d can only be small. Only sets of three have a d.

Tables are shares of all people, axes in the order of the names; stacks of tables have the sets first, (sets, n, n', m).
The table of a pair of two values each is known from its margins and the cell of both second values:

>>> _table(np.array([[0.2]]), np.array([0.5, 0.5]), np.array([0.7, 0.3])).round(3).tolist()
[[0.4, 0.1], [0.3, 0.2]]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.unmeasured.maximum_entropy import maximum_entropy
from crosstally.local.estimate.pair_shrinkage import Shrunk, answered, coefficient_variances
from crosstally.local.estimate.posterior import Items, Pairs, posterior
from crosstally.measurements import Measurement
from crosstally.residuals import Estimate, decompose, rebuild
from crosstally.residuals.combining import by_shape
from crosstally.schema import Schema
from crosstally.typing import Floats

# The posterior is of singles, pairs and triples: wider views are shrunk towards independence instead.
MOST_ATTRIBUTES = 3
_FITTED_ROUNDS = 20  # raking of one pair's table to both its margins. Chosen: these nearly fit before

Names = tuple[str, ...]
Tables = dict[Names, Floats]


def expected_measurements(estimate: Estimate, measurements: Sequence[Measurement]) -> Shrunk:
    """The posterior means of the measurements given all reports: consistent and not negative.

    The estimate must hold a positive total and every single attribute of what was measured, and no measurement may
    have more than three attributes; otherwise nothing changes.
    """
    sets = _sets(estimate.schema, measurements)
    total = float(estimate.table(()))
    singles = sorted({(name,) for one in sets for name in one}, key=lambda one: estimate.schema.positions[one[0]])
    if total <= 0 or max(map(len, sets), default=0) > MOST_ATTRIBUTES or not estimate.covered([*singles, *sets]).all():
        return Shrunk(tuple(measurements), {})
    tables, moments = _low_orders(estimate, singles, [one for one in sets if len(one) == 2], total)
    triples, beyond = _triples(estimate, tables, [one for one in sets if len(one) == 3], total)
    frequencies = {name: tables[(name,)] for (name,) in singles}
    tables |= triples
    variances = coefficient_variances(estimate.schema, moments | beyond, frequencies, total)
    return Shrunk(answered(measurements, lambda names: total * _transposed(tables, names)), variances)


def _sets(schema: Schema, measurements: Sequence[Measurement]) -> list[Names]:
    """All sets of attributes within what was measured, each once."""
    found = dict.fromkeys(schema.ordered(each.query.attributes) for each in measurements)
    inside = (combinations(names, k) for names in found for k in range(1, min(len(names), MOST_ATTRIBUTES + 1) + 1))
    return list(dict.fromkeys(chain.from_iterable(inside)))


def _transposed(tables: Mapping[Names, Floats], names: Names) -> Floats:
    """The table of a set, axes in the order of ``names``."""
    if names in tables:
        return tables[names]
    known = next(known for known in tables if len(known) == len(names) and set(known) == set(names))
    return tables[known].transpose([known.index(name) for name in names])


# One and two attributes


def _low_orders(
    estimate: Estimate, singles: Sequence[Names], pairs: Sequence[Names], total: float
) -> tuple[Tables, dict[Names, float]]:
    """Tables of one and two attributes, and the posterior variances of the cells of their central moments."""
    items, places = _items(estimate, singles, total)
    interactions = _interactions(estimate, pairs, total)
    found = posterior(items, _pairs(estimate, pairs, interactions, places))
    tables: Tables = {}
    left: dict[Names, float] = {}
    for (name,), own in zip(singles, places.values(), strict=True):
        shares = found.frequencies[own]
        tables[(name,)] = np.array([1 - shares[0], shares[0]]) if len(own) == 1 else shares
        left[(name,)] = float(found.frequency_variances[own].mean())
    start = 0  # pairs of items stand one table after the other, each in row-major order
    for first, second in pairs:
        shape = (len(places[first]), len(places[second]))
        end = start + math.prod(shape)
        block = found.both[start:end].reshape(shape)
        tables[first, second] = _table(block, tables[(first,)], tables[(second,)])
        left[first, second] = float(found.both_variances[start:end].mean())
        start = end
    return tables, left


def _items(estimate: Estimate, singles: Sequence[Names], total: float) -> tuple[Items, dict[str, NDArray[np.int64]]]:
    """The second value of attributes of two, all values of others; and which items each attribute has."""
    parts, places, start = [], {}, 0
    for number, (name,) in enumerate(singles):
        values = estimate.table((name,)) / total
        # All coefficients of a set have the variance of its last one; a cell has (1 - 1/n) times that
        variance = float(estimate.variances[estimate.places([(name,)])[0][0, -1]]) / total**2
        n = len(values)
        kept = values[1:] if n == 2 else values
        parts.append([(number, n, value, variance * (1 - 1 / n)) for value in kept])
        places[name] = np.arange(start, start + len(kept))
        start += len(kept)
    attributes, sizes, seen, variances = np.array(list(chain.from_iterable(parts))).T
    return Items(attributes=attributes.astype(np.int64), sizes=sizes, seen=seen, variances=variances), places


def _interactions(estimate: Estimate, pairs: Sequence[Names], total: float) -> dict[Names, tuple[Floats, float]]:
    """The centred table of each pair in frequencies, and the variance of its cells."""
    out = {}
    for shape, group in by_shape([estimate.schema.sizes(names) for names in pairs]).items():
        places, _ = estimate.places([pairs[i] for i in group])
        stack = estimate.coefficients[places].reshape(-1, *shape)
        # Coefficients 0 of an axis belong to single attributes and the total: without them the table is centred
        stack[:, 0, :], stack[:, :, 0] = 0, 0
        centred = rebuild(stack, 2) / total
        scale = math.prod(1 - 1 / n for n in shape) / total**2
        for i, table, place in zip(group, centred, places[:, -1], strict=True):
            out[pairs[i]] = (table, float(estimate.variances[place]) * scale)
    return out


def _pairs(
    estimate: Estimate,
    pairs: Sequence[Names],
    interactions: Mapping[Names, tuple[Floats, float]],
    places: Mapping[str, NDArray[np.int64]],
) -> Pairs:
    """All pairs of items of the given pairs of attributes, in order; of each table the row-major order of its items."""
    first, second, seen, variances = [], [], [], []
    for names in pairs:
        table, variance = interactions[names]
        kept = table[tuple(slice(1, None) if n == 2 else slice(None) for n in estimate.schema.sizes(names))]
        a, b = np.meshgrid(places[names[0]], places[names[1]], indexing="ij")
        first.append(a.ravel())
        second.append(b.ravel())
        seen.append(kept.ravel())
        variances.append(np.full(kept.size, variance))
    if not pairs:
        return Pairs(first=np.zeros(0, int), second=np.zeros(0, int), seen=np.zeros(0), variances=np.zeros(0))
    return Pairs(
        first=np.concatenate(first),
        second=np.concatenate(second),
        seen=np.concatenate(seen),
        variances=np.concatenate(variances),
    )


def _table(block: Floats, rows: Floats, columns: Floats) -> Floats:
    """The table of a pair from the frequencies of its items; where they do not add up it is fitted to both sides."""
    # The first value of an attribute of two is what the second leaves of the margin
    if block.shape[0] < len(rows):
        block = np.concatenate([columns[len(columns) - block.shape[1] :][None] - block, block])
    if block.shape[1] < len(columns):
        block = np.concatenate([(rows - block[:, 0])[:, None], block], axis=1)
    table = np.maximum(block, 1e-12)  # iterative proportional fitting cannot bring a cell back from zero
    for _ in range(0 if table.size == 4 else _FITTED_ROUNDS):
        table = table * (rows / table.sum(axis=1))[:, None]
        table = table * (columns / table.sum(axis=0))
    return table


# Three attributes


def _triples(
    estimate: Estimate, tables: Mapping[Names, Floats], triples: Sequence[Names], total: float
) -> tuple[Tables, dict[Names, float]]:
    """Maximum entropy tables plus the shrunk three-way deviation that reports show, and its variances."""
    if not triples:
        return {}, {}
    one_and_two = _with_tables(estimate, tables, total)
    out: Tables = {}
    left: dict[Names, float] = {}
    shapes = by_shape([estimate.schema.sizes(names) for names in triples])
    for shape, group in shapes.items():
        sets = [triples[i] for i in group]
        expected = np.stack([each.values for each in maximum_entropy(one_and_two, sets)]) / total
        # Coefficients of all three attributes: those of fewer are in ``tables`` already, and d has none of them
        inner = (slice(None), *(slice(1, None),) * 3)
        places, _ = estimate.places(sets)
        beyond = np.zeros_like(expected)
        seen = estimate.coefficients[places].reshape(-1, *shape)[inner] / total
        beyond[inner] = seen - decompose(expected, 3)[inner]
        spread = np.array([math.prod(_spread(tables[(name,)]) for name in names) for names in sets])
        variances = estimate.variances[places[:, -1]] / total**2
        trust = _trust(beyond[inner].reshape(len(sets), -1), spread, variances)
        found = _added(expected, rebuild(beyond * trust.reshape(-1, 1, 1, 1), 3))
        out.update(zip(sets, found, strict=True))
        # t s v / (t s + v) = trust v is left of a coefficient
        cells = variances * trust * math.prod(1 - 1 / n for n in shape)
        left.update(zip(sets, cells.tolist(), strict=True))
    return out, left


def _spread(frequencies: Floats) -> float:
    """The variance of an attribute, on average over its coordinates."""
    return float(1 - (frequencies**2).sum()) / (len(frequencies) - 1)


def _trust(beyond: Floats, spread: Floats, variances: Floats) -> Floats:
    """How much of each set is kept: t s / (t s + variance), t s the mean square for attributes of spread s."""
    # E d^2 = t s + variance. Least squares for t with weights 1 / variance^2, each coefficient of d alike
    weights = spread / variances**2
    excess = (weights * ((beyond**2).mean(axis=1) - variances)).sum() / (weights * spread).sum()
    square = max(float(excess), 0.0) * spread
    return np.asarray(square / (square + variances))


def _added(tables: Floats, changes: Floats) -> Floats:
    """Tables and as much of the changes to them as leaves no cell negative."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(changes < 0, -tables / changes, np.inf).reshape(len(tables), -1).min(axis=1)
    return np.asarray(tables + np.minimum(most, 1.0).reshape(-1, 1, 1, 1) * changes)


def _with_tables(estimate: Estimate, tables: Mapping[Names, Floats], total: float) -> Estimate:
    """An estimate of nothing but single attributes and pairs."""
    known = np.zeros(len(estimate.keys), np.bool_)
    coefficients = estimate.coefficients.copy()
    for shape, group in by_shape([table.shape for table in tables.values()]).items():
        sets = [list(tables)[i] for i in group]
        places, _ = estimate.places(sets)
        stack = decompose(np.stack([tables[names] for names in sets]), len(shape)).reshape(len(sets), -1)
        coefficients[places] = total * stack
        known[places] = True
    return replace(
        estimate,
        keys=estimate.keys[known],
        coefficients=coefficients[known],
        variances=estimate.variances[known],
    )
