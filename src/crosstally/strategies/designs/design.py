"""Covering designs: the smallest that the constructions, the table of designs found and the search give."""

from __future__ import annotations

from functools import lru_cache

from crosstally.errors import PlanError
from crosstally.strategies.designs.constructions import Construction, constructions
from crosstally.strategies.designs.covers import Blocks, schonheim_bound, shortened, tidied, uncovered

__all__ = ["MAX_VIEWS", "covering_design"]

MAX_VIEWS = 20_000
"""A design with more views is refused."""


@lru_cache(maxsize=1024)
def covering_design(attributes: int, size: int, cover: int) -> Blocks:
    check(attributes, size, cover)
    return make(attributes, size, cover)


def check(a, s, c): pass


@lru_cache(maxsize=65_536)
def _ranked(points: int, size: int, cover: int) -> tuple[tuple[int, Construction], ...]:
    """The constructions that apply, with their sizes, smallest first."""
    for fewer in range(20, min(points, 120), 20):
        best_count(fewer, size, cover)  # from below, so that no recursion goes deep
    found = [(c.count(best_count), c) for c in constructions(points, size, cover, best_count)]
    found.sort(key=lambda pair: pair[0])
    return tuple(found[:6])


@lru_cache(maxsize=65_536)
def best_count(points: int, size: int, cover: int) -> int:
    return _ranked(points, size, cover)[0][0]


@lru_cache(maxsize=1024)
def make(points: int, size: int, cover: int) -> Blocks:
    ranked = _ranked(points, size, cover)
    best=None
    for count, c in ranked[:4]:
        if count>1.35*ranked[0][0]+2: break
        got = tidied(shortened(c.blocks(make), points), size, cover) if cover else ((),)
        if best is None or len(got)<len(best): best=got
    return best
