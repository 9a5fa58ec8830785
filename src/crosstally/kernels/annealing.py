"""Simulated annealing of covering designs; ranks and random numbers as in ``covering``."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit

from crosstally.kernels.covering import fraction, next_combination, next_state, number_below, subset_rank
from crosstally.typing import Floats, Integers


@njit("int64(int64[::1], int64, int64, int64, int64[:, ::1], int64[::1], int64[::1], int64[:, ::1])", cache=True)
def _exchange(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    block: Integers,
    place: int,
    new: int,
    cover: int,
    binomials: Integers,
    orbits: Integers,
    counts: Integers,
    changed: Integers,
) -> int:
    """Count as if a point of the block were another; how many more orbits are uncovered. ``changed`` lists them."""
    chosen, subset = np.arange(max(cover - 1, 1)), np.empty(cover, np.int64)
    number, change = 0, 0
    while True:
        for side in range(2):
            for i in range(cover - 1):
                subset[i] = block[chosen[i] + (chosen[i] >= place)]
            subset[cover - 1] = new if side else block[place]
            orbit = orbits[subset_rank(binomials, subset, cover)]
            changed[side, number] = orbit
            if side:
                change -= int(counts[orbit] == 0)
                counts[orbit] += 1
            else:
                counts[orbit] -= 1
                change += int(counts[orbit] == 0)
        number += 1
        if cover == 1 or not next_combination(chosen, cover - 1, len(block) - 1):
            return change


@njit("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64, int64, float64[::1], uint64)", cache=True)
def anneal_blocks(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    blocks: Integers,
    binomials: Integers,
    orbits: Integers,
    counts: Integers,
    points: int,
    cover: int,
    temperatures: Floats,
    seed: np.uint64,
) -> int:
    """Change one point of one block at a time until every subset is covered; how many orbits are left uncovered.

    Args:
        blocks: Distinct points in each row; changed in place.
        binomials: The table of binomial coefficients.
        orbits: For each rank of a subset the number of its orbit under a group; the rank itself without one.
        counts: How often the blocks cover each orbit; changed in place.
        points: How many points there are.
        cover: Points of a subset.
        temperatures: One for each step.
        seed: Of the proposals.
    """
    state, missing = seed, int((counts == 0).sum())
    number = binomials[blocks.shape[1] - 1, cover - 1]
    changed = np.empty((2, number), np.int64)
    for step in range(len(temperatures)):
        if missing == 0:
            return 0
        state = next_state(state)
        block = blocks[number_below(state, len(blocks))]
        state = next_state(state)
        place = number_below(state, len(block))
        state = next_state(state)
        new = number_below(state, points)
        if (block == new).any():
            continue
        change = _exchange(block, place, new, cover, binomials, orbits, counts, changed)
        state = next_state(state)
        if change <= 0 or fraction(state) < math.exp(-change / temperatures[step]):
            block[place] = new
            missing += change
        else:
            for i in range(number):
                counts[changed[1, i]] -= 1
                counts[changed[0, i]] += 1
    return missing


@njit("int64(int64[::1], int64[::1], int64[::1])", cache=True)
def _swap(old: Integers, new: Integers, counts: Integers) -> int:
    """Count the subsets of one block instead of those of another; how many more are uncovered."""
    change = 0
    for rank in old:
        counts[rank] -= 1
        change += int(counts[rank] == 0)
    for rank in new:
        change -= int(counts[rank] == 0)
        counts[rank] += 1
    return change


@njit("int64(int64[::1], int64, int64[::1], int64[::1], int64[::1])", cache=True)
def _relist(ranks: Integers, number: int, counts: Integers, missing: Integers, where: Integers) -> int:
    """Bring the list of uncovered subsets up to date for these; how many it holds."""
    for rank in ranks:
        if counts[rank] == 0 and where[rank] < 0:
            missing[number], where[rank] = rank, number
            number += 1
        elif counts[rank] > 0 and where[rank] >= 0:
            number -= 1
            last = missing[number]
            missing[where[rank]], where[last] = last, where[rank]
            where[rank] = -1
    return number


@njit("int64(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], float64[::1], uint64)", cache=True)
def anneal_selection(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    pool: Integers,
    starts: Integers,
    holders: Integers,
    selected: Integers,
    counts: Integers,
    temperatures: Floats,
    seed: np.uint64,
) -> int:
    """Swap selected blocks for blocks of the pool until every subset is covered; how many are left uncovered.

    Args:
        pool: For each block of the pool the ranks of its subsets.
        starts: Where the blocks that hold each subset start in ``holders``; one more at the end.
        holders: Blocks of the pool, in order of the subsets that they hold.
        selected: Blocks selected; changed in place.
        counts: How often the selection covers each subset; changed in place.
        temperatures: One for each step.
        seed: Of the proposals.
    """
    state = seed
    missing, where = np.empty(len(counts), np.int64), np.full(len(counts), -1)
    number: int = _relist(np.arange(len(counts)), 0, counts, missing, where)
    for step in range(len(temperatures)):
        if number == 0:
            return 0
        state = next_state(state)
        rank = missing[number_below(state, number)]
        state = next_state(state)
        new = holders[starts[rank] + number_below(state, starts[rank + 1] - starts[rank])]
        state = next_state(state)
        slot = number_below(state, len(selected))
        old = selected[slot]
        change = _swap(pool[old], pool[new], counts)
        state = next_state(state)
        if change <= 0 or fraction(state) < math.exp(-change / temperatures[step]):
            selected[slot] = new
            number = _relist(pool[old], number, counts, missing, where)
            number = _relist(pool[new], number, counts, missing, where)
        else:
            _swap(pool[new], pool[old], counts)
    return number
