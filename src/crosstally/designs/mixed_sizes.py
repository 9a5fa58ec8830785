"""Views of mixed sizes: attributes with many cells share their views with fewer others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from crosstally.designs.covers import Blocks, Room, schonheim_bound, subset_ranks, tidied, uncovered
from crosstally.designs.design import MAX_COVER, MAX_POINTS, MAX_SIZE, MAX_VIEWS, covering_design
from crosstally.designs.search import fewest_greedy, greedy
from crosstally.errors import PlanError

__all__ = ["covering_views"]

# The largest number of cells that kernels multiply up to: products fit int64, and no larger table can be counted.
_LARGEST_LIMIT = 2**31
_GREEDY_SUBSETS = 2_000  # limits time: up to this many subsets, several random orders are searched
_GREEDY_SEEDS = 16  # random orders of a greedy search, of which the best is kept. Chosen; more take longer


def covering_views(sizes: Sequence[int], max_cells: int, cover: int) -> Blocks:
    """Views of at most ``max_cells`` cells that hold every ``cover`` attributes together in some view.

    The views depend on the numbers given alone, and are verified before they are returned. Attributes become the
    points of a design in order of their cells, most first; equals in the order given.

    Args:
        sizes: How many cells each attribute has, at least 2.
        max_cells: The most cells of a view, at least those of the ``cover`` largest attributes.
        cover: How many attributes must be together in some view, 1 to 4.

    Returns:
        The views, sorted, each a sorted tuple of attributes.

    Raises:
        PlanError: When a number is out of range, or more than 20,000 views would be needed.

    >>> covering_views([2, 2, 2, 2, 8], 16, 2)
    ((0, 1, 2, 3), (0, 4), (1, 4), (2, 4), (3, 4))
    """
    sizes, limit = tuple(map(int, sizes)), min(int(max_cells), _LARGEST_LIMIT)
    _check_numbers(sizes, limit, cover)
    return _views(sizes, limit, cover)


def _check_numbers(sizes: tuple[int, ...], limit: int, cover: int) -> None:
    if not 1 <= len(sizes) <= MAX_POINTS:
        raise PlanError(f"a design has 1 to {MAX_POINTS} attributes, got {len(sizes)}")
    if min(sizes) < 2:
        raise PlanError(f"an attribute must have at least 2 cells, got {min(sizes)}")
    if not 1 <= cover <= MAX_COVER:
        raise PlanError(f"a design covers 1 to {MAX_COVER} attributes together, got {cover}")
    largest = math.prod(sorted(sizes)[-cover:])
    if largest > limit:
        raise PlanError(
            f"the largest {cover} attributes together have {largest:,} cells, a view may have {limit:,}: "
            "allow more cells, merge categories or cover fewer attributes together"
        )


@lru_cache(maxsize=256)
def _views(sizes: tuple[int, ...], limit: int, cover: int) -> Blocks:
    points = len(sizes)
    if math.prod(sizes) <= limit:
        return (tuple(range(points)),)
    widest = _width(sorted(sizes), limit)
    bound = schonheim_bound(points, max(widest, cover), cover)
    asked = f"{points} attributes, views of {limit:,} cells and every {cover} together"
    advice = f"at most {MAX_VIEWS:,} are allowed: take larger views, a smaller cover or fewer attributes"
    if bound > MAX_VIEWS:
        raise PlanError(f"a design of at least {bound:,} views is needed for {asked}; {advice}")
    order = sorted(range(points), key=lambda attribute: -sizes[attribute])
    ordered = tuple(sizes[attribute] for attribute in order)
    found = min(
        _options(ordered, limit, cover),
        key=lambda views: (len(views), sum(_cells(view, ordered) for view in views)),
        default=None,
    )
    if found is None:
        raise PlanError(f"no design of few enough views is known for {asked}; {advice}")
    views = tuple(sorted(tuple(sorted(order[point] for point in view)) for view in found))
    if uncovered(views, points, cover) or max(_cells(view, sizes) for view in views) > limit:
        raise RuntimeError(f"the design made for {asked} is not one")
    return views


def _options(sizes: tuple[int, ...], limit: int, cover: int) -> Iterator[Blocks]:
    """Designs of several widths, widest first, cut to the limit and completed, and greedy ones.

    With many subsets to cover the first width that needs no fewer views than those before is the last one tried.
    """
    points = len(sizes)
    if cover == 1:
        yield _packed(sizes, limit)
        return
    fewest, few_subsets = MAX_VIEWS, math.comb(points, cover) <= _GREEDY_SUBSETS
    grown = fewest_greedy(sizes, limit, cover, limit=MAX_VIEWS, seeds=_GREEDY_SEEDS if few_subsets else 1)
    if grown is not None:
        grown = tidied(grown, cover, Room.of_cells(sizes, limit))
        fewest = len(grown)
    narrowest, widest = max(_width(sizes, limit), cover), max(_width(sizes[::-1], limit), cover)
    for width in range(min(widest, MAX_SIZE, points - 1), narrowest - 1, -1):
        if schonheim_bound(points, width, cover) >= fewest:
            break
        try:
            design = covering_design(points, width, cover)
        except PlanError:
            break  # narrower views would be more still
        completed = _completed(design, sizes, limit, cover)
        if completed is None:
            continue
        yield completed
        if not few_subsets and len(completed) >= fewest:
            break
        fewest = min(fewest, len(completed))
    if grown is not None:
        yield grown


def _completed(design: Blocks, sizes: tuple[int, ...], limit: int, cover: int) -> Blocks | None:
    """The blocks without the largest attributes where they have too many cells, and greedy ones for what they lose."""
    cut = [_cut(block, sizes, limit) for block in design]
    missing = np.ones(math.comb(len(sizes), cover), np.uint8)
    for ranks in subset_ranks(cut, cover):
        missing[ranks] = 0
    if not missing.any():
        return tidied(cut, cover, Room.of_cells(sizes, limit))
    more = greedy(sizes, limit, cover, limit=MAX_VIEWS, missing=missing)
    if more is None:
        return None
    views = tidied([*cut, *more], cover, Room.of_cells(sizes, limit))
    return views if len(views) <= MAX_VIEWS else None


def _cut(block: tuple[int, ...], sizes: tuple[int, ...], limit: int) -> tuple[int, ...]:
    # Points are in order of their cells, so the first are the largest.
    while _cells(block, sizes) > limit:
        block = block[1:]
    return block


def _packed(sizes: tuple[int, ...], limit: int) -> Blocks:
    """Each attribute in the first view with room for it."""
    views: list[list[int]] = []
    for point, size in enumerate(sizes):
        room = (view for view in views if _cells(tuple(view), sizes) * size <= limit)
        view = next(room, None)
        if view is None:
            views.append([point])
        else:
            view.append(point)
    return tuple(map(tuple, views))


def _cells(view: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    return math.prod(sizes[attribute] for attribute in view)


def _width(sizes: Sequence[int], limit: int) -> int:
    """How many of the sizes, from the first on, fit together."""
    width, cells = 0, 1
    for size in sizes:
        cells *= size
        if cells > limit:
            break
        width += 1
    return width
