"""Designs found by search: greedy, and simulated annealing from fixed seeds."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.designs.covers import Blocks, binomial_table, subset_ranks

__all__ = ["annealed", "fewest_greedy", "greedy", "selected"]


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
    """So many blocks that cover every subset (every orbit of subsets); None when none were found.

    Args:
        number: Of blocks (of base blocks, with orbits).
        points: How many points there are.
        size: Points of a block.
        cover: Points of a subset.
        orbits: The number of the orbit of each subset, when blocks stand for their images under a group.
        steps: Changes proposed.
        hottest: The temperature at the start.
        coldest: The temperature at the end.
        seed: Of start and proposals.
    """
    from crosstally.kernels.annealing import anneal_blocks

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
    """The places of so many blocks of a pool that cover every subset; None when none were found.

    Args:
        pool: Sorted blocks, all of one length.
        number: How many to select.
        points: How many points there are.
        cover: Points of a subset.
        steps: Swaps proposed.
        hottest: The temperature at the start.
        coldest: The temperature at the end.
        seed: Of start and proposals.
    """
    from crosstally.kernels.annealing import anneal_selection

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
