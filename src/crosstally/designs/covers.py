"""Covering designs: verification, removal of what is redundant, and greedy search.

Subsets of ``cover`` points are numbered by colexicographic rank, the sum of binomials C(x_i, i + 1) over the points
x_0 < x_1 < ... .
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Blocks = tuple[tuple[int, ...], ...]

# Limits time: larger designs are pruned, but not trimmed and merged, which might save a few views.
_TRIMMED_BLOCKS = 800
_ROUNDS = 4  # limits time: rounds of trimming and merging. More rounds might save a few views


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """How much a block may hold: the weights of its points stay within the capacity."""

    weights: NDArray[np.float64]
    capacity: float

    @classmethod
    def of_points(cls, points: int, size: int) -> Room:
        """Room for this many points."""
        return cls(np.ones(points), size)

    @classmethod
    def of_cells(cls, sizes: Sequence[int], max_cells: int) -> Room:
        """Room for points whose sizes multiply to at most this many cells, fewer than 2^31."""
        return cls(np.log2(np.array(sizes, dtype=np.float64)), math.log2(max_cells) + 1e-11)


def schonheim_bound(points: int, size: int, cover: int) -> int:
    """A lower bound on the number of blocks of a design (Schönheim 1964).

    >>> schonheim_bound(32, 8, 2), schonheim_bound(8, 4, 3)
    (20, 14)
    """
    if size >= points:
        return 1
    bound = 1
    for taken in range(cover - 1, -1, -1):
        bound = -(-(points - taken) * bound // (size - taken))
    return bound


@lru_cache
def binomial_table(points: int, cover: int) -> NDArray[np.int64]:
    """C(x, i) for each x up to ``points`` and each i up to ``cover``; read only."""
    table = np.array([[math.comb(x, i) for i in range(cover + 1)] for x in range(points + 1)], dtype=np.int64)
    table.setflags(write=False)
    return table


def subset_ranks(blocks: Sequence[Sequence[int]], cover: int) -> list[NDArray[np.int64]]:
    """For each block the ranks of its subsets; blocks must be sorted."""
    of_blocks: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(blocks)
    points = max((block[-1] for block in blocks if block), default=0)
    binomials = binomial_table(points, cover)
    by_length: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        by_length.setdefault(len(block), []).append(number)
    for length, numbers in by_length.items():
        if length < cover:
            continue
        rows = np.array([blocks[number] for number in numbers])
        positions = np.array(list(itertools.combinations(range(length), cover)))
        ranks = np.zeros((len(rows), len(positions)), np.int64)
        for i in range(cover):
            ranks += binomials[rows[:, positions[:, i]], i + 1]
        for number, row in zip(numbers, ranks, strict=True):
            of_blocks[number] = row
    return of_blocks


def uncovered(blocks: Sequence[Sequence[int]], points: int, cover: int) -> int:
    """How many subsets of ``cover`` of the points lie in no block.

    >>> uncovered([(0, 1), (1, 2)], 3, 2)
    1
    """
    if any(block and (block[0] < 0 or block[-1] >= points) for block in blocks):
        raise ValueError(f"points must be 0 to {points - 1}")
    missing = np.ones(math.comb(points, cover), bool)
    for ranks in subset_ranks(blocks, cover):
        missing[ranks] = False
    return int(missing.sum())


def tidied(blocks: Iterable[Sequence[int]], cover: int, room: Room) -> Blocks:
    """The blocks without those that cover nothing new, the rest trimmed and merged where there is room."""
    kept = pruned(blocks, cover)
    for _ in range(_ROUNDS if len(kept) <= _TRIMMED_BLOCKS else 0):
        merged = _merged(_trimmed(kept, cover), room)
        if len(merged) >= len(kept):
            break
        kept = pruned(merged, cover)
    return kept


def _counts(ranks: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.bincount(np.concatenate([np.empty(0, np.int64), *ranks]))


def pruned(blocks: Iterable[Sequence[int]], cover: int) -> Blocks:
    """The blocks without those that cover nothing new, sorted."""
    ordered = sorted({tuple(sorted(block)) for block in blocks})
    ranks = subset_ranks(ordered, cover)
    counts = _counts(ranks)
    single = [int((counts[row] == 1).sum()) for row in ranks]
    kept = set(range(len(ordered)))
    for number in sorted(kept, key=lambda n: (single[n], len(ordered[n]), n)):
        row = ranks[number]
        if row.size == 0 or counts[row].min() > 1:
            counts[row] -= 1
            kept.discard(number)
    return tuple(ordered[number] for number in sorted(kept))


def _trimmed(blocks: Sequence[tuple[int, ...]], cover: int) -> list[tuple[int, ...]]:
    """The blocks without the points whose subsets other blocks cover; blocks that need least are trimmed first."""
    ranks = subset_ranks(blocks, cover)
    counts = _counts(ranks)
    single = [int((counts[row] == 1).sum()) for row in ranks]
    trimmed = list(blocks)
    for number in sorted(range(len(blocks)), key=lambda n: (single[n], n)):
        if single[number] == len(ranks[number]):
            continue
        row, alive = ranks[number], np.ones(len(ranks[number]), bool)
        for point, holds in zip(blocks[number], _holding(len(blocks[number]), cover), strict=True):
            own = row[alive & holds]
            if counts[own].min(initial=2) > 1:
                counts[own] -= 1
                alive &= ~holds
                trimmed[number] = tuple(other for other in trimmed[number] if other != point)
    return [block for block in trimmed if len(block) >= cover]


@lru_cache
def _holding(length: int, cover: int) -> NDArray[np.bool_]:
    """For each position in a block of a length which of the block's subsets hold it."""
    positions = np.array(list(itertools.combinations(range(length), cover)))
    return np.array([(positions == position).any(axis=1) for position in range(length)])


def _merged(blocks: list[tuple[int, ...]], room: Room) -> list[tuple[int, ...]]:
    """The blocks merged, longest first, each into the one with which it shares most."""
    members = np.zeros((len(blocks), len(room.weights)))
    used, number = np.zeros(len(blocks)), 0
    for block in sorted(blocks, key=lambda b: (-len(b), b)):
        row = np.zeros(len(room.weights))
        row[list(block)] = 1
        shared = members[:number] @ np.column_stack([row, row * room.weights])
        fits = used[:number] + row @ room.weights - shared[:, 1] <= room.capacity
        place = int(np.argmax(np.where(fits, shared[:, 0], -1))) if fits.any() else number
        number += place == number
        members[place] = np.maximum(members[place], row)
        used[place] = members[place] @ room.weights
    return [tuple(np.flatnonzero(row).tolist()) for row in members[:number]]


def shortened(blocks: Iterable[Sequence[int]], points: int) -> list[tuple[int, ...]]:
    """The blocks without the points that are not among the first ``points``."""
    return [tuple(point for point in block if point < points) for block in blocks]


def copied(blocks: Iterable[Sequence[int]], base: int, points: int) -> list[tuple[int, ...]]:
    """The blocks with point i replaced by all of i, i + base, i + 2 base, ... below ``points``.

    >>> copied([(0, 1)], 2, 5)
    [(0, 1, 2, 3, 4)]
    """
    return [tuple(sorted(copy for point in block for copy in range(point, points, base))) for block in blocks]


def product(left: Iterable[Sequence[int]], right: Iterable[Sequence[int]], offset: int) -> list[tuple[int, ...]]:
    """Every block of the left with every block of the right, whose points are moved up by ``offset``."""
    moved = [tuple(point + offset for point in block) for block in right]
    return [tuple(block) + other for block in left for other in moved]


def greedy(
    sizes: Sequence[int],
    max_cells: int,
    cover: int,
    *,
    limit: int,
    missing: NDArray[np.uint8] | None = None,
    seed: int = 1,
) -> Blocks | None:
    """Blocks of at most ``max_cells`` cells, each grown by the points that cover most; None when more than ``limit``.

    Args:
        sizes: Cells of each point, at least 2.
        max_cells: The limit of the product of a block's sizes; any ``cover`` points must fit.
        cover: How many points must be together in some block, at least 2.
        limit: How many blocks may be made.
        missing: One for each rank of a subset that must be covered; all of them when absent.
        seed: Decides between equals.
    """
    from crosstally.kernels.covering import greedy_blocks

    points = len(sizes)
    width = sum(cells <= max_cells for cells in itertools.accumulate(sorted(sizes), operator.mul))
    blocks = np.empty((limit, max(width, cover)), np.int64)
    wanted = np.ones(math.comb(points, cover), np.uint8) if missing is None else missing.copy()
    number = greedy_blocks(
        np.array(sizes, dtype=np.int64),
        max_cells,
        cover,
        np.array(binomial_table(points, cover)),
        wanted,
        blocks,
        np.uint64(seed),
    )
    if number < 0:
        return None
    return tuple(tuple(sorted(int(p) for p in row if p >= 0)) for row in blocks[:number])


def fewest_greedy(sizes: Sequence[int], max_cells: int, cover: int, *, limit: int, seeds: int) -> Blocks | None:
    """The fewest blocks that :func:`greedy` makes from seeds 1, 2, ...; None when always more than ``limit``."""
    tries = (greedy(sizes, max_cells, cover, limit=limit, seed=seed) for seed in range(1, seeds + 1))
    return min((blocks for blocks in tries if blocks is not None), key=len, default=None)
