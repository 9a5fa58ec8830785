"""Covering designs: the smallest that the constructions, the table of designs found and the search give.

Views of mixed sizes: attributes with many cells share their views with fewer others.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from crosstally.designs.constructions import Construction, constructions, weighted
from crosstally.designs.covers import (
    Blocks,
    Room,
    fewest_greedy,
    greedy,
    pruned,
    schonheim_bound,
    shortened,
    subset_ranks,
    tidied,
    uncovered,
)
from crosstally.errors import PlanError

MAX_POINTS = 512  # the largest number of attributes of a schema
# A view of 16 binary attributes has 65,536 cells, mostly noise. Larger views are refused, except one of all attributes.
MAX_SIZE = 16
MAX_COVER = 4  # PriView covers pairs, triples or quadruples; for more, there are few constructions and many views
MAX_VIEWS = 20_000
"""A design with more views is refused."""

# Constructions up to this factor above the smallest are built: reduction may change which is smallest. Chosen: a
# larger factor takes longer.
_CLOSE = 1.25
_STEP = 20  # sizes of smaller designs are computed at multiples of this, so that recursion is not deep
# Limits time: the most subsets that greedy search covers; with several seeds a hundredth of it.
_GREEDY_SUBSETS = 200_000
_GREEDY_SEEDS = 4  # random orders of a greedy search, of which the best is kept. Chosen; more take longer


@lru_cache(maxsize=256)
def covering_design(attributes: int, size: int, cover: int) -> Blocks:
    """Views of at most ``size`` attributes that hold every ``cover`` attributes together in some view.

    The views depend on the three numbers alone, and are verified before they are returned.

    Args:
        attributes: How many attributes there are, 1 to 512; they are 0, 1, 2, ... .
        size: The most attributes of a view; at most 16, unless one view holds all attributes.
        cover: How many attributes must be together in some view, 1 to 4 and at most ``size``.

    Returns:
        The views, sorted, each a sorted tuple of attributes.

    Raises:
        PlanError: When a number is out of range, or more than 20,000 views would be needed.

    >>> covering_design(9, 6, 2)
    ((0, 1, 3, 4, 6, 7), (0, 2, 3, 5, 6, 8), (1, 2, 4, 5, 7, 8))
    """
    _check_numbers(attributes, size, cover)
    if size >= attributes:
        return (tuple(range(attributes)),)
    asked = f"{attributes} attributes, views of {size} and every {cover} together"
    bound = _bound(attributes, size, cover, asked)
    # Designs made too large can lose at most a few views when they are tidied.
    if best_count(attributes, size, cover) > _CLOSE * MAX_VIEWS:
        raise _too_many_views("no design of few enough views is known", asked)
    design = min(_designs(attributes, size, cover, bound), key=lambda views: (len(views), sum(map(len, views))))
    if len(design) > MAX_VIEWS:
        raise _too_many_views("no design of few enough views is known", asked)
    if uncovered(design, attributes, cover) or max(map(len, design)) > size:
        raise RuntimeError(f"the design made for {asked} is not one")
    return tuple(sorted(design))


def design_if_known(make: Callable[..., Blocks], *numbers: int | Sequence[int]) -> Blocks:
    """The views of ``covering_design`` or ``covering_views``; none where no design of few enough views is known."""
    try:
        return make(*numbers)
    except PlanError:
        return ()


def _bound(attributes: int, size: int, cover: int, asked: str) -> int:
    """A number of views that no design stays below; raises if that is too many."""
    bound = schonheim_bound(attributes, size, cover)
    if bound > MAX_VIEWS:
        raise _too_many_views(f"a design of at least {bound:,} views is needed", asked)
    return bound


def _too_many_views(what: str, asked: str) -> PlanError:
    advice = f"at most {MAX_VIEWS:,} are allowed: take larger views, a smaller cover or fewer attributes"
    return PlanError(f"{what} for {asked}; {advice}")


def _check_points(attributes: int, cover: int) -> None:
    if not 1 <= attributes <= MAX_POINTS:
        raise PlanError(f"a design has 1 to {MAX_POINTS} attributes, got {attributes}")
    if not 1 <= cover <= MAX_COVER:
        raise PlanError(f"a design covers 1 to {MAX_COVER} attributes together, got {cover}")


def _check_numbers(attributes: int, size: int, cover: int) -> None:
    _check_points(attributes, cover)
    if size < cover:
        raise PlanError(f"a view of {size} attributes cannot hold {cover} together: size must be at least cover")
    if size > MAX_SIZE and size < attributes:
        raise PlanError(f"a view must have at most {MAX_SIZE} attributes unless it holds all, got {size}")


def _designs(attributes: int, size: int, cover: int, bound: int) -> Iterator[Blocks]:
    """The designs worth comparing, until one reaches the bound."""
    ranked = _ranked(attributes, size, cover)
    room = Room.of_points(attributes, size)
    for count, construction in ranked:
        if count > _CLOSE * ranked[0][0]:
            break
        design = tidied(shortened(construction.blocks(_made), attributes), cover, room)
        yield design
        if len(design) == bound:
            return
    if math.comb(attributes, cover) <= _GREEDY_SUBSETS:
        seeds = _GREEDY_SEEDS if math.comb(attributes, cover) <= _GREEDY_SUBSETS // 100 else 1
        grown = fewest_greedy([2] * attributes, 2**size, cover, limit=MAX_VIEWS, seeds=seeds)
        if grown is not None:
            yield tidied(grown, cover, room)


@lru_cache(maxsize=65_536)
def _ranked(points: int, size: int, cover: int) -> tuple[tuple[int, Construction], ...]:
    """The construction of each kind that makes the smallest design with its size, smallest first."""
    for fewer in range(_STEP, min(points, 6 * _STEP), _STEP):
        best_count(fewer, size, cover)  # from below, so that no recursion goes deep
    found = [(option.number, option) for option in constructions(points, size, cover, best_count)]
    fewest = min(count for count, _ in found)
    if cover > 1:
        found += [(option.number, option) for option in weighted(points, size, cover, fewest)]
    best: dict[str, tuple[int, Construction]] = {}
    for pair in sorted(found, key=lambda pair: pair[0]):
        best.setdefault(pair[1].kind, pair)
    return tuple(best.values())


def best_count(points: int, size: int, cover: int) -> int:
    """How many blocks the best construction makes at most."""
    return _ranked(points, size, cover)[0][0]


@lru_cache(maxsize=1024)
def _made(points: int, size: int, cover: int) -> Blocks:
    """The design of the best construction; the blocks of a larger one are made of it."""
    if cover == 0:
        return ((),)
    _, construction = _ranked(points, size, cover)[0]
    return pruned(shortened(construction.blocks(_made), points), cover)


# The largest number of cells that kernels multiply up to: products fit int64, and no larger table can be counted.
_LARGEST_LIMIT = 2**31
_MIXED_SUBSETS = 2_000  # limits time: up to this many subsets, several random orders are searched
_MIXED_SEEDS = 16  # random orders of a greedy search, of which the best is kept. Chosen; more take longer


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
    _check_sizes(sizes, limit, cover)
    return _views(sizes, limit, cover)


def _check_sizes(sizes: tuple[int, ...], limit: int, cover: int) -> None:
    _check_points(len(sizes), cover)
    if min(sizes) < 2:
        raise PlanError(f"an attribute must have at least 2 cells, got {min(sizes)}")
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
    asked = f"{points} attributes, views of {limit:,} cells and every {cover} together"
    _bound(points, max(widest, cover), cover, asked)
    order = sorted(range(points), key=lambda attribute: -sizes[attribute])
    ordered = tuple(sizes[attribute] for attribute in order)
    found = min(
        _options(ordered, limit, cover),
        key=lambda views: (len(views), sum(_cells(view, ordered) for view in views)),
        default=None,
    )
    if found is None:
        raise _too_many_views("no design of few enough views is known", asked)
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
    fewest, few_subsets = MAX_VIEWS, math.comb(points, cover) <= _MIXED_SUBSETS
    grown = fewest_greedy(sizes, limit, cover, limit=MAX_VIEWS, seeds=_MIXED_SEEDS if few_subsets else 1)
    if grown is not None:
        grown = tidied(grown, cover, Room.of_cells(sizes, limit))
        fewest = len(grown)
    narrowest, widest = max(_width(sizes, limit), cover), max(_width(sizes[::-1], limit), cover)
    for width in range(min(widest, MAX_SIZE, points - 1), narrowest - 1, -1):
        if schonheim_bound(points, width, cover) >= fewest:
            break
        design = design_if_known(covering_design, points, width, cover)
        if not design:
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
        view = next((view for view in views if _cells(view, sizes) * size <= limit), None)
        if view is None:
            views.append(view := [])
        view.append(point)
    return tuple(map(tuple, views))


def _cells(view: Sequence[int], sizes: tuple[int, ...]) -> int:
    return math.prod(sizes[attribute] for attribute in view)


def _width(sizes: Sequence[int], limit: int) -> int:
    """How many of the sizes, from the first on, fit together."""
    return sum(cells <= limit for cells in itertools.accumulate(sizes, operator.mul))
