"""Covering designs: the smallest that the constructions, the table of designs found and the search give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from crosstally.designs.constructions import Construction, constructions, weighted
from crosstally.designs.covers import Blocks, Room, pruned, schonheim_bound, shortened, tidied, uncovered
from crosstally.designs.search import fewest_greedy
from crosstally.errors import PlanError

__all__ = ["MAX_COVER", "MAX_POINTS", "MAX_SIZE", "MAX_VIEWS", "covering_design"]

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
    advice = f"at most {MAX_VIEWS:,} are allowed: take larger views, a smaller cover or fewer attributes"
    bound = schonheim_bound(attributes, size, cover)
    if bound > MAX_VIEWS:
        raise PlanError(f"a design of at least {bound:,} views is needed for {asked}; {advice}")
    # Designs made too large can lose at most a few views when they are tidied.
    if best_count(attributes, size, cover) > _CLOSE * MAX_VIEWS:
        raise PlanError(f"no design of few enough views is known for {asked}; {advice}")
    design = min(_designs(attributes, size, cover, bound), key=lambda views: (len(views), sum(map(len, views))))
    if len(design) > MAX_VIEWS:
        raise PlanError(f"no design of few enough views is known for {asked}; {advice}")
    if uncovered(design, attributes, cover) or max(map(len, design)) > size:
        raise RuntimeError(f"the design made for {asked} is not one")
    return tuple(sorted(design))


def _check_numbers(attributes: int, size: int, cover: int) -> None:
    if not 1 <= attributes <= MAX_POINTS:
        raise PlanError(f"a design has 1 to {MAX_POINTS} attributes, got {attributes}")
    if not 1 <= cover <= MAX_COVER:
        raise PlanError(f"a design covers 1 to {MAX_COVER} attributes together, got {cover}")
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
    found = [(option.count(best_count), option) for option in constructions(points, size, cover, best_count)]
    fewest = min(count for count, _ in found)
    if cover > 1:
        found += [(option.count(best_count), option) for option in weighted(points, size, cover, fewest)]
    best: dict[type[Construction], tuple[int, Construction]] = {}
    for pair in sorted(found, key=lambda pair: pair[0]):
        best.setdefault(type(pair[1]), pair)
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
