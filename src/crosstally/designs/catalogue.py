"""The table of designs found by search, in ``found.txt``.

A line holds points, size, cover, the number of blocks, the length of the cycles of a permutation of the points, and
base blocks, a character for each point. The design is the base blocks with all their images under the powers of the
permutation; where those are more than the number, without what :func:`covers.tidied` can spare. The permutation moves
the points in consecutive cycles; points left over at the end stay. A cycle length of 1 is a design without a symmetry.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from crosstally.designs.covers import Blocks, Room, binomial_table, tidied

__all__ = ["Found", "designs_found", "orbit_numbers", "orbits_of", "rotated"]

_CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A design of the table."""

    points: int
    size: int
    cover: int
    number: int
    cycle: int
    base: str

    def blocks(self) -> Blocks:
        """All its blocks."""
        base = [tuple(_CHARACTERS.index(character) for character in word) for word in self.base.split()]
        blocks = orbits_of(base, self.points, self.cycle)
        if len(blocks) == self.number:
            return blocks
        return tidied(blocks, self.cover, Room.of_points(self.points, self.size))

    def line(self) -> str:
        """Its line in the table."""
        return f"{self.points} {self.size} {self.cover} {self.number} {self.cycle} {self.base}"

    @classmethod
    def from_base(cls, base: Sequence[Sequence[int]], *, points: int, size: int, cover: int, cycle: int) -> Found:
        """A design from its base blocks."""
        words = " ".join("".join(_CHARACTERS[point] for point in sorted(block)) for block in base)
        found = cls(points=points, size=size, cover=cover, number=0, cycle=cycle, base=words)
        number = len(found.blocks())
        return cls(points=points, size=size, cover=cover, number=number, cycle=cycle, base=words)


@lru_cache
def designs_found() -> tuple[Found, ...]:
    """The designs of the table."""
    text = resources.files("crosstally.designs").joinpath("found.txt").read_text(encoding="ascii")
    rows = (line.split(maxsplit=5) for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(
        Found(points=int(v), size=int(k), cover=int(t), number=int(n), cycle=int(cycle), base=base)
        for v, k, t, n, cycle, base in rows
    )


def rotated(subsets: NDArray[np.int64], points: int, cycle: int) -> NDArray[np.int64]:
    """Each point moved one step along its cycle of consecutive points.

    >>> rotated(np.array([0, 2, 3, 6]), 7, 3)
    array([1, 0, 4, 6])
    """
    moving = points - points % cycle
    return np.where(subsets < moving, subsets - subsets % cycle + (subsets + 1) % cycle, subsets)


def orbits_of(base: Sequence[Sequence[int]], points: int, cycle: int) -> Blocks:
    """The base blocks and all their images under the powers of the rotation."""
    found: dict[tuple[int, ...], None] = {}
    for block in base:
        image = np.array(block)
        for _ in range(cycle):
            found.setdefault(tuple(sorted(image.tolist())))
            image = rotated(image, points, cycle)
    return tuple(found)


def orbit_numbers(points: int, cover: int, cycle: int) -> NDArray[np.int64]:
    """For each rank of a subset of ``cover`` points the number of its orbit under the rotation."""
    subsets = np.array(sorted(itertools.combinations(range(points), cover), key=lambda subset: subset[::-1]))
    binomials = binomial_table(points, cover)
    least = np.arange(len(subsets))
    for _ in range(cycle - 1):
        subsets = np.sort(rotated(subsets, points, cycle), axis=1)
        ranks = sum(binomials[subsets[:, i], i + 1] for i in range(cover))
        least = np.minimum(least, ranks)
    return np.unique(least, return_inverse=True)[1].astype(np.int64)
