"""Constructions of covering designs from geometry and from smaller designs, each with its size before it is built.

A covering design (v, k, t) is a list of blocks of at most k of the points 0..v-1 such that every t points are together
in some block; v is ``points``, k is ``size``, t is ``cover``. Points are attributes and blocks are views. C(v, k, t) is
the number of blocks of the best one known. The constructions and how many blocks they make (most are in Gordon,
Kuperberg and Patashnik, "New constructions for covering designs", 1995):

    subsets     all k-subsets                           binomial(v, k)
    partition   t = 1                                   ceil(v / k)
    geometry    flats of a geometry over GF(q), circles, Golay codes, designs found by search (see below)
    copies      every point m times                     C(ceil(v / m), floor(k / m), t)
    weighted    a source, points left out or copied     the blocks of the source
    array       an orthogonal array across g groups     q^t + C(g, h, t - 1) C(h q + extra, k, t)
    split       two sets of f and v - f points          sum over s of C(f, k_s, s) C(v - f, k - k_s, t - s)

An array has groups of q points; h groups and the ``extra`` points, which are in no group, form each smaller design.
With [d, r]_q the number of subspaces of rank r of GF(q)^d, the flats of an affine space of dimension d are
q^(d - t + 1) [d, t - 1]_q blocks of q^(t - 1) points, those of a projective space [d + 1, t]_q blocks of
(q^t - 1) / (q - 1) points. Circles on the q^n + 1 points of a line over GF(q^n), t = 3, are
binomial(q^n + 1, 3) / binomial(q + 1, 3) blocks of q + 1 points.

Five points, blocks of two, every point covered:

>>> _partition(5, 2).blocks(lambda *_: ())
[(0,), (1, 2), (3, 4)]

The table of designs found by search, in ``found.txt``.

A line holds points, size, cover, the number of blocks, the length of the cycles of a permutation of the points, and
base blocks, a character for each point. The design is the base blocks with all their images under the powers of the
permutation; where those are more than the number, without what :func:`covers.tidied` can spare. The permutation moves
the points in consecutive cycles; points left over at the end stay. A cycle length of 1 is a design without a symmetry.
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from crosstally.designs.covers import Blocks, Room, binomial_table, copied, product, shortened, tidied
from crosstally.designs.geometry import (
    affine_flats,
    circles,
    golay_words,
    orthogonal_array,
    prime_powers,
    projective_flats,
)

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


Count = Callable[[int, int, int], int]
"""The size of the best design known for points, size and cover."""
Make = Callable[[int, int, int], tuple[tuple[int, ...], ...]]
"""That design."""
RawBlocks = list[tuple[int, ...]]

_MAX_BLOCKS = 20_000  # the largest number of views of a design (``design.MAX_VIEWS``): larger sources are never used
_MAX_WIDTH = 16  # the largest number of attributes of a view (``design.MAX_SIZE``)
_MAX_DIMENSION = 10  # of geometries: all larger ones have more than ``_MAX_BLOCKS`` blocks or ``_MAX_POINTS`` points
_MAX_WEIGHTED = 400  # limits time: points of sources with more blocks are not copied
_MAX_POINTS = 512  # the largest number of attributes of a design (``design.MAX_POINTS``)
# Limits time: all splits of the points into two parts are tried. The published tables of designs end at 99 points too.
_SPLIT_POINTS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Construction:
    """A way to make a design: its kind, how many blocks it makes at most, and what makes them of smaller designs.

    Some of the blocks may be shorter or cover nothing new.
    """

    kind: str
    number: int
    blocks: Callable[[Make], RawBlocks]


@dataclass(frozen=True, slots=True)
class SmallerDesign:
    """A design of a geometry or of the table; points that are too many are left out by who asks for it."""

    points: int
    width: int
    number: int
    build: Callable[[], Iterable[tuple[int, ...]]]

    def blocks(self, make: Make) -> RawBlocks:  # noqa: ARG002 (needs no smaller design)
        """Its blocks."""
        return list(self.build())

    def weighted(self, points: int, size: int, make: Make) -> RawBlocks:  # noqa: ARG002
        """Its blocks with some points left out and some copied, as its blocks have room."""
        # The new points, in order, are copies of the old ones in the order in which those were chosen
        copies: dict[int, list[int]] = {}
        for new, old in enumerate(_copied_points(self, size)[:points]):
            copies.setdefault(old, []).append(new)
        return [tuple(new for old in block for new in copies.get(old, ())) for block in self.build()]


def _subsets(points: int, size: int) -> Construction:
    """Every subset of the size."""
    return Construction("subsets", math.comb(points, size), lambda _: list(itertools.combinations(range(points), size)))


def _partition(points: int, size: int) -> Construction:
    """The points cut into consecutive parts, of sizes as equal as possible: every single point is covered."""
    number = -(-points // size)
    edges = [points * i // number for i in range(number + 1)]
    return Construction(
        "partition", number, lambda _: [tuple(range(low, high)) for low, high in itertools.pairwise(edges)]
    )


def _copies(points: int, size: int, cover: int, copies: int, best: Count) -> Construction:
    """A design of fewer points, each replaced by copies of itself."""
    base = -(-points // copies), size // copies, cover
    return Construction("copies", best(*base), lambda make: copied(make(*base), base[0], points))


def _array(  # noqa: PLR0917
    points: int, size: int, cover: int, order: int, groups: int, together: int, extra: int, best: Count
) -> Construction:
    """Groups of points: an orthogonal array for points in different groups, smaller designs for the rest.

    ``together`` groups and the ``extra`` points, which belong to no group, form each of the smaller designs; every
    cover - 1 groups are in one of them.
    """
    # t points in t different groups are in a row of the array, q^t rows; t points of at most t - 1 groups, or with an
    # extra point, are in a smaller design. h is ``together``, q ``order``, g ``groups``.
    smaller = best(together * order + extra, size, cover)

    def blocks(make: Make) -> RawBlocks:
        grouped = points - extra
        made = shortened(orthogonal_array(order, groups, cover).tolist(), grouped)
        # Points of group g are order * g + i; the last groups may be shorter, and then the array's blocks are too
        for held in make(groups, together, cover - 1):
            members = [point for g in held for point in range(order * g, min(order * (g + 1), grouped))]
            members += range(grouped, points)
            made += [tuple(members[i] for i in block) for block in make(len(members), size, cover)]
        return made

    return Construction("array", int(order**cover) + best(groups, together, cover - 1) * smaller, blocks)


def _split(points: int, size: int, cover: int, first: int, shares: Sequence[int], best: Count) -> Construction:  # noqa: PLR0917
    """Two sets of points: for each way to divide a subset between them the product of two smaller designs.

    ``shares`` holds, for 0, 1, ... points in the first set, how many of a block's points are in the first set. When
    the last of them is the whole first set, more points there need nothing else.
    """
    # For s = 0, 1, ... points in the first set the (points, size, cover) of both designs
    factors = [
        ((first, share, inside), (points - first, size - share, cover - inside)) for inside, share in enumerate(shares)
    ]

    def blocks(make: Make) -> RawBlocks:
        return [block for left, right in factors for block in product(make(*left), make(*right), first)]

    return Construction("split", sum(best(*left) * best(*right) for left, right in factors), blocks)


def constructions(points: int, size: int, cover: int, best: Count) -> Iterator[Construction]:
    """Every construction that applies; ``best`` tells the sizes of smaller designs."""
    # Trivial cases first: nothing else is as small there
    if cover == 0 or size >= points:
        yield _subsets(points, min(points, size) if cover else 0)
        return
    if cover == 1:
        yield _partition(points, size)
        return
    if size == cover:
        yield _subsets(points, size)
        return
    for copies in range(2, size // cover + 1):
        yield _copies(points, size, cover, copies, best)
    for source in _geometries(cover):
        if source.points >= points and source.width <= size:
            yield Construction("geometry", source.number, source.blocks)
    yield from _arrays(points, size, cover, best)
    if points <= _SPLIT_POINTS:
        yield from _splits(points, size, cover, best)


def weighted(points: int, size: int, cover: int, fewer_than: int) -> Iterator[Construction]:
    """Designs of geometries and of the table, points copied as there is room, with fewer blocks than a number."""
    for source in _geometries(cover):
        possible = source.width <= size and source.points * size >= points * source.width
        if possible and source.number < min(fewer_than, _MAX_WEIGHTED) and len(_copied_points(source, size)) >= points:
            yield Construction("weighted", source.number, partial(source.weighted, points, size))


@lru_cache(maxsize=4096)
def _copied_points(source: SmallerDesign, size: int) -> tuple[int, ...]:
    """Points of the source one by one, repeats allowed, while every block has room: the freest and rarest first."""
    # inside is (blocks, points). A copy of a point takes a place in every block that holds it: the room of a point is
    # the least room of its blocks; among the roomiest points the one with the fewest copies is next.
    inside = np.zeros((source.number, source.points), bool)
    for number, block in enumerate(source.build()):
        inside[number, list(block)] = True
    room, taken = np.full(source.number, size), np.zeros(source.points, np.int64)
    chosen: list[int] = []
    while len(chosen) < _MAX_POINTS:
        least = np.where(inside, room[:, np.newaxis], size).min(axis=0)
        if least.max() == 0:
            break
        point = int(np.argmax((least > 0) * (1 + least * _MAX_POINTS - taken)))
        chosen.append(point)
        taken[point] += 1
        room[inside[:, point]] -= 1
    return tuple(chosen)


def _arrays(points: int, size: int, cover: int, best: Count) -> Iterator[Construction]:
    """Arrays of every number of groups, over the smallest field that has a value for each point of a group."""
    # Orthogonal arrays of strength t over GF(q) exist for up to q + 1 columns (Bush 1952): q >= groups - 1
    for groups, extra in itertools.product(range(cover, size + 1), (0, 1, 2)):
        least = max(-(-(points - extra) // groups), groups - 1, 2)
        order = next(q for q in prime_powers(2 * _MAX_POINTS) if q >= least)
        if order**cover > _MAX_BLOCKS or order * (groups - 1) >= points - extra:
            continue
        # All groups together, or as many points as there are, would be the design that is asked for
        for together in range(cover - 1, groups):
            if together * order + extra < points:
                yield _array(points, size, cover, order, groups, together, extra, best)


def _splits(points: int, size: int, cover: int, best: Count) -> Iterator[Construction]:
    """Splits; the share of a block for each number of points in the first set is the best, as terms are separate."""
    for first in sorted({*range(1, min(size, points - 1) + 1), points // 2, points // 3} - {0}):
        rest = points - first
        shares = [0]
        for inside in range(1, cover + 1):
            # The whole first set in every block: all subsets with this many points there or more are covered at once
            if first < size and size - first >= cover - inside:
                yield _split(points, size, cover, first, (*shares, first), best)
            if inside == cover or inside > first:
                shares.append(min(first, size))
                break
            options = range(inside, min(first, size - cover + inside) + 1)
            shares.append(min(options, key=lambda n: best(first, n, inside) * best(rest, size - n, cover - inside)))
        yield _split(points, size, cover, first, shares, best)


@lru_cache
def _geometries(cover: int) -> tuple[SmallerDesign, ...]:
    """Every geometry of flats and circles within the limits, and every design of the table."""
    found: list[SmallerDesign] = []
    # Any t points are in a flat of dimension t - 1: q^(t - 1) points of affine, (q^t - 1) / (q - 1) of projective space
    flat = cover - 1
    for q, dimension in itertools.product(prime_powers(_MAX_WIDTH), range(cover, _MAX_DIMENSION)):
        number = q ** (dimension - flat) * _subspaces(dimension, flat, q)
        found.append(SmallerDesign(q**dimension, q**flat, number, partial(_rows, affine_flats, dimension, q, flat)))
        points, width = (q ** (dimension + 1) - 1) // (q - 1), (q**cover - 1) // (q - 1)
        number = _subspaces(dimension + 1, cover, q)
        found.append(SmallerDesign(points, width, number, partial(_rows, projective_flats, dimension, q, flat)))
    for q, degree in itertools.product(prime_powers(_MAX_WIDTH), (2, 3)):
        # Inversive geometry: any three points of the line over GF(q^degree) are on one circle of q + 1 points
        number = math.comb(q**degree + 1, 3) // math.comb(q + 1, 3)
        if cover == 3 and q > 2:
            found.append(SmallerDesign(q**degree + 1, q + 1, number, partial(_rows, circles, q, degree)))
    if cover == 3:
        found.append(SmallerDesign(22, 6, 77, _hexads))
    if cover == 4:
        found += [
            SmallerDesign(23, 7, 253, partial(_rows, golay_words, 2)),
            SmallerDesign(11, 5, 66, partial(_rows, golay_words, 3)),
        ]
    found += [
        SmallerDesign(one.points, one.size, one.number, one.blocks) for one in designs_found() if one.cover == cover
    ]
    return tuple(one for one in found if one.width <= _MAX_WIDTH and one.number <= _MAX_BLOCKS)


def _rows(geometry: Callable[..., NDArray[np.int64]], *parameters: int) -> RawBlocks:
    return [tuple(row) for row in geometry(*parameters).tolist()]


def _hexads() -> RawBlocks:
    """The Witt design 3-(22,6,1): the blocks of 4-(23,7,1) through a point, without it."""
    return [tuple(block[:-1]) for block in golay_words(2).tolist() if block[-1] == 22]


def _subspaces(dimension: int, rank: int, q: int) -> int:
    """How many subspaces of a rank GF(q)^dimension has: Gauss's binomial coefficient."""
    # Ordered bases of subspaces over ordered bases of one subspace, common powers of q cancelled
    above = math.prod(int(q ** (dimension - i)) - 1 for i in range(rank))
    return above // math.prod(int(q ** (i + 1)) - 1 for i in range(rank))
