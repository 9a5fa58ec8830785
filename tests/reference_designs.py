"""Covering designs by plain enumeration, and the greedy search written out slowly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations


def uncovered_subsets(blocks: Sequence[Sequence[int]], points: int, cover: int) -> set[tuple[int, ...]]:
    """Every subset of ``cover`` points that no block holds, by listing all."""
    covered = {subset for block in blocks for subset in combinations(sorted(block), cover)}
    return {subset for subset in combinations(range(points), cover) if subset not in covered}


def is_design(blocks: Sequence[Sequence[int]], points: int, size: int, cover: int) -> bool:
    """Whether the blocks are sorted, distinct, within points and size, and cover every subset."""
    well_formed = all(
        list(block) == sorted(set(block)) and len(block) <= size and block[0] >= 0 and block[-1] < points
        for block in blocks
    )
    return well_formed and len(set(blocks)) == len(blocks) and not uncovered_subsets(blocks, points, cover)


def are_views(views: Sequence[Sequence[int]], sizes: Sequence[int], max_cells: int, cover: int) -> bool:
    """Whether the views stay within the cells and cover every subset."""
    within = all(math.prod(sizes[attribute] for attribute in view) <= max_cells for view in views)
    return within and is_design(views, len(sizes), len(sizes), cover)


def greedy_views(sizes: Sequence[int], max_cells: int, cover: int, seed: int) -> list[tuple[int, ...]]:
    """Each view from an uncovered subset drawn at random, grown by the point that covers most for its bits."""
    state = seed

    def draw(limit: int) -> int:
        nonlocal state
        state = _xorshift(state)
        return (state >> 32) * limit >> 32

    subsets = sorted(combinations(range(len(sizes)), cover), key=lambda subset: subset[::-1])
    widest = max(n for n in range(len(sizes) + 1) if math.prod(sorted(sizes)[:n]) <= max_cells)
    missing = set(subsets)
    views = []
    while missing:
        at = draw(len(subsets))
        while subsets[at] not in missing:
            at = (at + 1) % len(subsets)
        view = list(subsets[at])
        while len(view) < widest:
            state = _xorshift(state)
            best = _best_point(view, sizes, max_cells, missing, state)
            if best is None:
                break
            view.append(best)
        views.append(tuple(sorted(view)))
        missing -= set(combinations(views[-1], cover))
    return views


def _best_point(
    view: list[int], sizes: Sequence[int], max_cells: int, missing: set[tuple[int, ...]], state: int
) -> int | None:
    cover = len(next(iter(missing)))
    best, score, ties = None, 0.0, 0
    for point in range(len(sizes)):
        if point in view or math.prod(sizes[p] for p in [*view, point]) > max_cells:
            continue
        gain = sum(tuple(sorted([*some, point])) in missing for some in combinations(view, cover - 1))
        value = gain / math.log2(sizes[point])
        if value > score:
            best, score, ties = point, value, 1
        elif gain and value == score:
            ties += 1
            state = _xorshift(state)
            if (state >> 32) * ties >> 32 == 0:
                best = point
    return best


def _xorshift(state: int) -> int:
    mask = 2**64 - 1
    state ^= state << 13 & mask
    state ^= state >> 7
    return state ^ (state << 17 & mask)
