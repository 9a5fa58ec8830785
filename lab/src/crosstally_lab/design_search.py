"""Covering designs by simulated annealing of their blocks: what ``scripts/find_designs.py`` searches with."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.designs.covers import Blocks, binomial_table, subset_ranks
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
        seed: Seed of the proposals.
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
    """Update the list of uncovered subsets for these; returns how many it holds."""
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
        seed: Seed of the proposals.
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


def annealed(
    number: int,
    points: int,
    size: int,
    cover: int,
    *,
    orbits: NDArray[np.int64] | None = None,
    steps: int = 1_000_000,
    hottest: float = 0.6,
    coldest: float = 0.15,
    seed: int = 1,
) -> Blocks | None:
    """Exactly ``number`` blocks that cover every subset (every orbit of subsets); None when none were found.

    Args:
        number: Number of blocks (of base blocks, with orbits).
        points: How many points there are.
        size: Points of a block.
        cover: Points of a subset.
        orbits: The number of the orbit of each subset, when blocks stand for their images under a group.
        steps: Changes proposed.
        hottest: The temperature at the start.
        coldest: The temperature at the end.
        seed: Seed of start and proposals.
    """
    start = np.random.default_rng(seed)
    blocks = np.array([start.permutation(points)[:size] for _ in range(number)], dtype=np.int64)
    orbits = np.arange(math.comb(points, cover)) if orbits is None else orbits
    ranks = np.concatenate(subset_ranks(np.sort(blocks, axis=1).tolist(), cover))
    counts = np.bincount(orbits[ranks], minlength=int(orbits.max()) + 1)
    left = anneal_blocks(
        blocks,
        np.array(binomial_table(points, cover)),
        orbits,
        counts,
        points,
        cover,
        np.geomspace(hottest, coldest, steps),
        np.uint64(seed * 2654435761 + 1),
    )
    return None if left else tuple(sorted(tuple(sorted(map(int, block))) for block in blocks))


def selected(
    pool: Sequence[Sequence[int]],
    number: int,
    points: int,
    cover: int,
    *,
    steps: int = 1_000_000,
    hottest: float = 4.0,
    coldest: float = 0.25,
    seed: int = 1,
) -> tuple[int, ...] | None:
    """The places of ``number`` blocks of a pool that cover every subset; None when none were found.

    Args:
        pool: Sorted blocks, all of one length.
        number: How many to select.
        points: How many points there are.
        cover: Points of a subset.
        steps: Swaps proposed.
        hottest: The temperature at the start.
        coldest: The temperature at the end.
        seed: Seed of start and proposals.
    """
    ranks = np.array(subset_ranks(pool, cover))
    subsets = math.comb(points, cover)
    holders = np.argsort(ranks.ravel(), kind="stable") // ranks.shape[1]
    held = np.bincount(ranks.ravel(), minlength=subsets)
    if not held.all():
        return None  # no selection covers what no block of the pool holds, and the kernel draws from its holders
    starts = np.concatenate([[0], np.cumsum(held)])
    chosen = np.random.default_rng(seed).choice(len(pool), number, replace=False)
    counts = np.bincount(ranks[chosen].ravel(), minlength=subsets)
    temperatures = np.geomspace(hottest, coldest, steps)
    left = anneal_selection(ranks, starts, holders, chosen, counts, temperatures, np.uint64(seed * 7919 + 12345))
    return None if left else tuple(sorted(map(int, chosen)))
