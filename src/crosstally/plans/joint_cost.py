"""The exact joint cost of many noisy answers: no unit can move all of them as far as it can move each one.

When one row is added, every table of cells and every contrast moves by the same amount whatever the row is, so their
costs add up. When a row is replaced, only the set D of attributes in which it changes matters, and a query over B moves
by an amount that depends on D and B alone. A difference of +-1 sums, for example, moves only if an odd number of its
attributes change (Barak et al. 2007 take 2 for each; the largest odd number of them together is about half of all).

The cost is the largest over D of a sum of functions of D inside B: with up to 24 attributes, Moebius inversion of each
function and one zeta transform give the sum for every D; with more, where attributes can be exchanged, only how many of
each kind change matters. Otherwise the sum of the single costs is used, which is never too low.

Linear queries are in ``linear_cost``. Sums of measures move too where no attribute changes, only a value: their losses
are added to those of counts for each set of attributes and for values at the bounds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Currency, Neighbours, Noise, NoiseKind
from crosstally.errors import BudgetError
from crosstally.plans.linear_cost import linear_cost
from crosstally.plans.request import Request, RequestGroup, grouped
from crosstally.query.contrast_moves import Moves
from crosstally.query.linear import Linear
from crosstally.query.queries import Query
from crosstally.query.summed import ROWS, State, states_of
from crosstally.schema import Schema

# Cells and contrasts


# Limits time: up to this many attributes all sets are enumerated (2^24 numbers in blocks), above it only cases.
_MOST_ATTRIBUTES_OF_ALL_SETS = 24
# Limits time: distinct ways to change a row. With more, costs are added up, which is an upper bound.
_MAX_CASES = 20_000
_FEW_CASES = 200  # up to this many, cases are faster than all sets of up to 24 attributes, and need little memory
_BLOCK = 20  # attributes whose sets are enumerated at once: 8 MB of numbers instead of 128 for all 24
# Limits time: cases times requests. Beyond it all sets are enumerated instead, or costs are added up.
_MAX_LOOKUPS = 50_000_000
# Limits time: attributes of which all 4,096 sets are enumerated. With more, sums of measures are charged one by one.
_MOST_WITH_SUMS = 12
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
    sums = [group for group in others if group.query.summed != ROWS]
    tables = [g for g in others if g not in sums and (g.query.is_table or g.query.is_symmetric)]
    alone = [group for group in others if group not in tables and group not in sums]
    added = linear_cost(linear, schema, neighbours, currency=currency) if linear else Fraction(0)
    added += _sum_of_single_costs(alone, schema, neighbours, currency=currency)
    if sums:
        return _cost_with_sums(tables, sums, schema, Neighbours(neighbours), currency=currency) + added
    return _cost_of_counts(tables, schema, neighbours, currency=currency) + added


def _cost_of_counts(
    tables: Sequence[RequestGroup], schema: Schema, neighbours: Neighbours | str, *, currency: Currency
) -> Fraction:
    """The joint cost of tables and contrasts of counts."""
    separate = _sum_of_single_costs(tables, schema, neighbours, currency=currency)
    if Neighbours(neighbours) == Neighbours.ADD_REMOVE or not tables:
        return separate
    largest = _largest_move(tables, schema, currency=currency)
    if largest is None:
        return separate
    return min(separate, _of_units(largest, tables, schema, currency=currency))


def _of_units(largest: Fraction, asked: Sequence[RequestGroup], schema: Schema, *, currency: Currency) -> Fraction:
    """What a replaced unit costs where one replaced row costs this at most; some of its rows may not be there."""
    together = largest * (schema.max_rows if currency == "epsilon" else schema.max_rows**2)
    if not schema.may_drop:
        return together
    return max(together, _sum_of_single_costs(asked, schema, Neighbours.ADD_REMOVE, currency=currency))


def _sum_of_single_costs(
    groups: Sequence[RequestGroup], schema: Schema, neighbours: Neighbours | str, *, currency: Currency
) -> Fraction:
    costs = (len(g) * single_cost(g.query, g.noise, schema, neighbours, currency=currency) for g in groups)
    return sum(costs, Fraction(0))


# Counts and sums of measures


def _cost_with_sums(
    tables: Sequence[RequestGroup],
    sums: Sequence[RequestGroup],
    schema: Schema,
    neighbours: Neighbours,
    *,
    currency: Currency,
) -> Fraction:
    """The joint cost of counts and of sums of measures: exact where sets of attributes are few, never too low.

    An added row moves every table as far as it can move each. A replaced one moves the sums of a measure most with
    values at its bounds: of both signs in one cell, or both of the larger size in two cells. The values of different
    measures do not depend on each other, nor on the cells.
    """
    counts = _cost_of_counts(tables, schema, neighbours, currency=currency)
    separate = counts + _sum_of_single_costs(sums, schema, neighbours, currency=currency)
    if neighbours == Neighbours.ADD_REMOVE:
        return separate
    moved = [group for group in tables if group.query.attributes]
    used = np.unique(np.concatenate([group.positions.ravel() for group in (*moved, *sums)]))
    if len(used) > _MOST_WITH_SUMS or 2 ** len(used) * sum(map(len, (*moved, *sums))) > _MAX_LOOKUPS:
        return separate
    cases = np.array(list(product((False, True), repeat=len(used))), np.bool_).reshape(2 ** len(used), len(used))
    largest = _largest_with_sums(moved, sums, schema, used, cases, currency=currency)
    return min(separate, _of_units(largest, (*tables, *sums), schema, currency=currency))


def _largest_with_sums(
    tables: Sequence[RequestGroup],
    sums: Sequence[RequestGroup],
    schema: Schema,
    used: NDArray[np.intp],
    cases: NDArray[np.bool_],
    *,
    currency: Currency,
) -> Fraction:
    """The largest joint loss when one row is replaced, over sets of changed attributes and values of measures."""
    places = np.zeros(len(schema.names), np.intp)
    places[used] = np.arange(len(used))
    asked = [(("", 0), group, _losses(group, _moves(group.query, schema), currency)) for group in tables]
    for group in sums:
        name = group.query.summed.measure or ""
        for number, pair in enumerate(combinations_with_replacement(states_of(name, schema), 2)):
            asked.append(((name, number), group, _losses_of_sums(group, pair, currency)))
    losses = [loss for _, _, each in asked for loss in each]
    if not any(losses):
        return Fraction(0)
    unit = _unit(losses, sum(map(len, (*tables, *sums))))
    found: dict[tuple[str, int], NDArray[np.int64]] = {}
    for change, group, own in asked:
        whole = np.array([math.ceil(loss / unit) for loss in own], np.int64)
        found[change] = found.get(change, 0) + _losses_of([(places[group.positions], whole)], cases)
    most: dict[str, NDArray[np.int64]] = {}
    for (name, _), together in found.items():
        most[name] = np.maximum(most.get(name, 0), together)
    return unit * int(np.sum(list(most.values()), axis=0).max())


def _losses(group: RequestGroup, moves: Moves, currency: Currency) -> list[Fraction]:
    """What one query of a group costs for each set of its attributes that change."""
    distances = np.array(_distances(moves, group.noise, currency), object)[moves.places]
    return [group.noise.unit_cost(currency) * int(moved) for moved in distances.tolist()]


def _losses_of_sums(group: RequestGroup, pair: tuple[State, State], currency: Currency) -> list[Fraction]:
    """The same for sums, when a row leaves one state for another; without any change its values still may."""
    before, after = (group.query.summed.added(state) for state in pair)
    stays, moves = [abs(before - after)], [abs(before), abs(after)]
    power = 1 if currency == "epsilon" else 2
    if group.noise.kind is NoiseKind.GAUSSIAN:
        found = [sum(each**2 for each in alike) for alike in (stays, moves)]
    else:
        found = [sum(alike) ** power for alike in (stays, moves)]
    sets = 2 ** group.positions.shape[1]
    return [group.noise.unit_cost(currency) * found[number > 0] for number in range(sets)]


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
