"""Inner loops of the search for covering designs.

Subsets of ``cover`` points are numbered by colexicographic rank: the sum of ``binomials[x_i, i + 1]`` over the points
x_0 < x_1 < ... . Random numbers come from a 64-bit xorshift that the caller seeds, so that a design is the same on
every machine.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["anneal_blocks", "anneal_selection", "greedy_blocks"]


@njit("uint64(uint64)", cache=True)
def _next(state: np.uint64) -> np.uint64:
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@njit("int64(uint64, int64)", cache=True)
def _below(state: np.uint64, limit: int) -> int:
    return np.int64(((state >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))


@njit("int64(int64[:, ::1], int64[::1], int64)", cache=True)
def _rank(binomials: NDArray[np.int64], subset: NDArray[np.int64], cover: int) -> int:
    """The rank of the first ``cover`` points of ``subset``, which are put in order."""
    for i in range(1, cover):
        point, j = subset[i], i
        while j > 0 and subset[j - 1] > point:
            subset[j] = subset[j - 1]
            j -= 1
        subset[j] = point
    total = 0
    for i in range(cover):
        total += binomials[subset[i], i + 1]
    return total


@njit("boolean(int64[::1], int64, int64)", cache=True)
def _advance(chosen: NDArray[np.int64], length: int, limit: int) -> bool:
    """Go to the next combination of ``length`` positions below ``limit``; false after the last one."""
    i = length - 1
    while i >= 0 and chosen[i] == limit - length + i:
        i -= 1
    if i < 0:
        return False
    chosen[i] += 1
    for j in range(i + 1, length):
        chosen[j] = chosen[j - 1] + 1
    return True


@njit("void(int64[::1], int64, int64, int64[:, ::1], uint8[::1], int64[::1])", cache=True)
def _add_gains(
    block: NDArray[np.int64],
    length: int,
    cover: int,
    binomials: NDArray[np.int64],
    uncovered: NDArray[np.uint8],
    gains: NDArray[np.int64],
) -> None:
    """Add to each point's gain the uncovered subsets it would complete with the last point of the block."""
    others = cover - 2
    if others > length - 1:
        return
    chosen, subset = np.arange(max(others, 1)), np.empty(cover, np.int64)
    while True:
        for point in range(len(gains)):
            inside = point == block[length - 1]
            for i in range(others):
                inside |= point == block[chosen[i]]
                subset[i] = block[chosen[i]]
            if not inside:
                subset[cover - 2], subset[cover - 1] = block[length - 1], point
                gains[point] += uncovered[_rank(binomials, subset, cover)]
        if others == 0 or not _advance(chosen, others, length - 1):
            return


@njit("int64(int64[::1], int64, int64, int64[:, ::1], uint8[::1])", cache=True)
def _mark(
    block: NDArray[np.int64], length: int, cover: int, binomials: NDArray[np.int64], uncovered: NDArray[np.uint8]
) -> int:
    """Mark the subsets of a block as covered; how many were not."""
    chosen, subset, found = np.arange(cover), np.empty(cover, np.int64), 0
    while True:
        for i in range(cover):
            subset[i] = block[chosen[i]]
        rank = _rank(binomials, subset, cover)
        found += uncovered[rank]
        uncovered[rank] = 0
        if not _advance(chosen, cover, length):
            return found


@njit("int64(int64[::1], int64, int64, int64[:, ::1], uint8[::1], int64[:, ::1], uint64)", cache=True)
def greedy_blocks(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    sizes: NDArray[np.int64],
    max_cells: int,
    cover: int,
    binomials: NDArray[np.int64],
    uncovered: NDArray[np.uint8],
    blocks: NDArray[np.int64],
    seed: np.uint64,
) -> int:
    """Fill ``blocks`` one after another, each from an uncovered subset by the points that cover most.

    Args:
        sizes: Cells of each point; a block's product stays at most ``max_cells``.
        max_cells: The limit for a block.
        cover: Points of a subset, at least 2.
        binomials: The table of binomial coefficients.
        uncovered: One for each subset still to be covered; used up.
        blocks: The result, one block a row, -1 after its end; its width limits the block.
        seed: Of the choice between equals.

    Returns:
        How many blocks were made; -1 when there is no room for all.
    """
    points, number, state = len(sizes), 0, seed
    gains, block = np.empty(points, np.int64), np.empty(blocks.shape[1], np.int64)
    remaining = 0
    for rank in range(len(uncovered)):
        remaining += uncovered[rank]
    weights = np.log2(sizes)
    while remaining > 0:
        if number == len(blocks):
            return -1
        state = _next(state)
        rank = _below(state, len(uncovered))
        while not uncovered[rank]:
            rank = rank + 1 if rank + 1 < len(uncovered) else 0
        gains[:] = 0
        cells, length = 1, 0
        point = points
        for i in range(cover, 0, -1):
            point -= 1
            while binomials[point, i] > rank:
                point -= 1
            rank -= binomials[point, i]
            block[length] = point
            length += 1
            cells *= sizes[point]
            _add_gains(block, length, cover, binomials, uncovered, gains)
        while length < len(block):
            best, score, ties = -1, 0.0, 0
            for point in range(points):
                if gains[point] == 0 or cells * sizes[point] > max_cells:
                    continue
                inside = False
                for i in range(length):
                    inside |= block[i] == point
                if inside:
                    continue
                value = gains[point] / weights[point]
                if value > score:
                    best, score, ties = point, value, 1
                elif value == score:
                    ties += 1
                    state = _next(state)
                    if _below(state, ties) == 0:
                        best = point
            if best < 0:
                break
            block[length] = best
            length += 1
            cells *= sizes[best]
            _add_gains(block, length, cover, binomials, uncovered, gains)
        remaining -= _mark(block, length, cover, binomials, uncovered)
        blocks[number, :length] = block[:length]
        blocks[number, length:] = -1
        number += 1
    return number


@njit("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64, int64, float64[::1], uint64)", cache=True)
def anneal_blocks(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    blocks: NDArray[np.int64],
    binomials: NDArray[np.int64],
    orbits: NDArray[np.int64],
    counts: NDArray[np.int64],
    points: int,
    cover: int,
    temperatures: NDArray[np.float64],
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
    size, state = blocks.shape[1], seed
    chosen, subset = np.empty(max(cover - 1, 1), np.int64), np.empty(cover, np.int64)
    removed, added = np.empty(1024, np.int64), np.empty(1024, np.int64)
    missing = 0
    for orbit in range(len(counts)):
        missing += counts[orbit] == 0
    for step in range(len(temperatures)):
        if missing == 0:
            return 0
        state = _next(state)
        row = _below(state, len(blocks))
        state = _next(state)
        place = _below(state, size)
        state = _next(state)
        new = _below(state, points)
        inside = False
        for i in range(size):
            inside |= blocks[row, i] == new
        if inside:
            continue
        old, number, change = blocks[row, place], 0, 0
        for i in range(cover - 1):
            chosen[i] = i
        while True:
            for i in range(cover - 1):
                subset[i] = blocks[row, chosen[i] + (chosen[i] >= place)]
            subset[cover - 1] = old
            orbit = orbits[_rank(binomials, subset, cover)]
            removed[number] = orbit
            counts[orbit] -= 1
            change += counts[orbit] == 0
            for i in range(cover - 1):
                subset[i] = blocks[row, chosen[i] + (chosen[i] >= place)]
            subset[cover - 1] = new
            orbit = orbits[_rank(binomials, subset, cover)]
            added[number] = orbit
            change -= counts[orbit] == 0
            counts[orbit] += 1
            number += 1
            if cover == 1 or not _advance(chosen, cover - 1, size - 1):
                break
        state = _next(state)
        if change <= 0 or (state >> np.uint64(11)) * 2.0**-53 < math.exp(-change / temperatures[step]):
            blocks[row, place] = new
            missing += change
        else:
            for i in range(number):
                counts[added[i]] -= 1
                counts[removed[i]] += 1
    return missing


@njit("int64(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], float64[::1], uint64)", cache=True)
def anneal_selection(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    pool: NDArray[np.int64],
    starts: NDArray[np.int64],
    holders: NDArray[np.int64],
    selected: NDArray[np.int64],
    counts: NDArray[np.int64],
    temperatures: NDArray[np.float64],
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
    missing = np.empty(len(counts), np.int64)
    where = np.full(len(counts), -1)
    number = 0
    for rank in range(len(counts)):
        if counts[rank] == 0:
            missing[number], where[rank] = rank, number
            number += 1
    for step in range(len(temperatures)):
        if number == 0:
            return 0
        state = _next(state)
        rank = missing[_below(state, number)]
        state = _next(state)
        new = holders[starts[rank] + _below(state, starts[rank + 1] - starts[rank])]
        state = _next(state)
        slot = _below(state, len(selected))
        old, change = selected[slot], 0
        for rank in pool[old]:
            counts[rank] -= 1
            change += counts[rank] == 0
        for rank in pool[new]:
            change -= counts[rank] == 0
            counts[rank] += 1
        state = _next(state)
        if change > 0 and (state >> np.uint64(11)) * 2.0**-53 >= math.exp(-change / temperatures[step]):
            for rank in pool[new]:
                counts[rank] -= 1
            for rank in pool[old]:
                counts[rank] += 1
            continue
        selected[slot] = new
        for rank in pool[old]:
            if counts[rank] == 0 and where[rank] < 0:
                missing[number], where[rank] = rank, number
                number += 1
        for rank in pool[new]:
            if where[rank] >= 0:
                last = missing[number - 1]
                missing[where[rank]], where[last] = last, where[rank]
                where[rank] = -1
                number -= 1
    return number
