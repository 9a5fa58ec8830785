"""Inner loops of the search for covering designs.

Subsets of ``cover`` points are numbered by colexicographic rank: the sum of ``binomials[x_i, i + 1]`` over the points
x_0 < x_1 < ... . Random numbers come from a 64-bit xorshift that the caller seeds, so that a design is the same on
every machine.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.typing import Floats, Integers


@njit("uint64(uint64)", cache=True)
def next_state(state: np.uint64) -> np.uint64:
    """The state of the generator after one step."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@njit("int64(uint64, int64)", cache=True)
def number_below(state: np.uint64, limit: int) -> int:
    """A number from 0 to below the limit."""
    return int(((state >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))


@njit("float64(uint64)", cache=True)
def fraction(state: np.uint64) -> float:
    """A number from 0 (inclusive) to 1 (exclusive): the 53 high bits, as many as a float64 holds."""
    return float(state >> np.uint64(11)) * 2.0**-53


@njit("int64(int64[:, ::1], int64[::1], int64)", cache=True)
def subset_rank(binomials: Integers, subset: Integers, cover: int) -> int:
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
def next_combination(chosen: Integers, length: int, limit: int) -> bool:
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
def _add_gains(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    block: Integers, length: int, cover: int, binomials: Integers, uncovered: NDArray[np.uint8], gains: Integers
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
                gains[point] += uncovered[subset_rank(binomials, subset, cover)]
        if others == 0 or not next_combination(chosen, others, length - 1):
            return


@njit("int64(int64[::1], int64, int64, int64[:, ::1], uint8[::1])", cache=True)
def _mark(block: Integers, length: int, cover: int, binomials: Integers, uncovered: NDArray[np.uint8]) -> int:
    """Mark the subsets of a block as covered; how many were not."""
    chosen, subset, found = np.arange(cover), np.empty(cover, np.int64), 0
    while True:
        for i in range(cover):
            subset[i] = block[chosen[i]]
        rank = subset_rank(binomials, subset, cover)
        found += int(uncovered[rank])
        uncovered[rank] = 0
        if not next_combination(chosen, cover, length):
            return found


@njit("void(int64[::1], int64, int64, int64, int64[:, ::1])", cache=True)
def _unrank(block: Integers, rank: int, points: int, cover: int, binomials: Integers) -> None:
    """Begin the block with the subset of a rank."""
    point = points
    for i in range(cover, 0, -1):
        point -= 1
        while binomials[point, i] > rank:
            point -= 1
        rank -= binomials[point, i]
        block[cover - i] = point


@njit("int64(int64[::1], int64, int64[::1], int64, int64[::1], float64[::1], uint64)", cache=True)
def _best_point(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    block: Integers, length: int, sizes: Integers, room: int, gains: Integers, weights: Floats, state: np.uint64
) -> int:
    """The point outside the block of most gain for its weight that has room; -1 when none gains."""
    best, score, ties = -1, 0.0, 0
    for point in range(len(sizes)):
        if gains[point] == 0 or sizes[point] > room or (block[:length] == point).any():
            continue
        value = gains[point] / weights[point]
        if value > score:
            best, score, ties = point, value, 1
        elif value == score:
            ties += 1
            state = next_state(state)
            if number_below(state, ties) == 0:
                best = point
    return best


@njit("int64(int64[::1], int64, int64, int64[:, ::1], uint8[::1], int64[:, ::1], uint64)", cache=True)
def greedy_blocks(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    sizes: Integers,
    max_cells: int,
    cover: int,
    binomials: Integers,
    uncovered: NDArray[np.uint8],
    blocks: Integers,
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
    number, state, remaining = 0, seed, int(uncovered.sum())
    gains, weights = np.empty(len(sizes), np.int64), np.log2(sizes.astype(np.float64))
    while remaining > 0:
        if number == len(blocks):
            return -1
        state = next_state(state)
        rank = number_below(state, len(uncovered))
        while not uncovered[rank]:
            rank = rank + 1 if rank + 1 < len(uncovered) else 0
        block = blocks[number]
        _unrank(block, rank, len(sizes), cover, binomials)
        gains[:] = 0
        room, length = max_cells, 0
        point = block[0]
        while point >= 0:
            block[length] = point
            length += 1
            room //= sizes[point]
            _add_gains(block, length, cover, binomials, uncovered, gains)
            if length < cover:
                point = block[length]
            elif length < len(block):
                state = next_state(state)
                point = _best_point(block, length, sizes, room, gains, weights, state)
            else:
                point = -1
        block[length:] = -1
        remaining -= _mark(block, length, cover, binomials, uncovered)
        number += 1
    return number
