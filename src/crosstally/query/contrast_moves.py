"""How far one row moves a contrast when some of its values change, without looking at every cell.

A contrast is a tensor product of one matrix for each attribute (``operators``). A row that changes in the set D of
attributes moves the answer by a - b, where a and b are tensor products of columns of these matrices. Along an attribute

    in D       the pair (a_i, b_i) is (n - 1, -1) once, (-1, n - 1) once and (-1, -1) n - 2 times
    not in D   a_i = b_i, with L1 norm 2 (n - 1) and squared L2 norm n (n - 1)

and with two values there is one pair. The squared L2 norm needs no sum: |a - b|^2 = 2 (|a|^2 - <a, b>), and both factor
over the attributes. The L1 norm does not factor, but attributes of one size can be exchanged: of z that change, i have
the first pair, j the second and the rest the third, in z! / (i! j! (z - i - j)!) ways. So for each size only (z, i, j)
matters: C(c + 3, 3) cases for c attributes, where 3^c pairs in each of 2^c sets would be looked at otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from crosstally.query.operators import CONTRAST
from crosstally.typing import Integers


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """How far one replaced row moves an answer: the different distances, and which one each set of attributes has.

    ``places`` are for sets of changed attributes, bit i for attribute i of the query. There are far fewer distances
    than sets: of a contrast they have an axis for each different size, the smallest first, from none changed to all of
    them. Exact: for the at most 5,000,000 cells that a query may have, L1 is below 2^31 (2 (n - 1) is at most n^1.3)
    and squared L2 below 2^47.
    """

    l1: Integers
    l2_squared: Integers
    places: NDArray[np.intp]

    @property
    def largest(self) -> tuple[int, int]:
        """The largest distance in L1, and in squared L2."""
        return int(self.l1.max()), int(self.l2_squared.max())


@lru_cache(maxsize=1024)
def contrast_moves(sizes: tuple[int, ...]) -> Moves:
    """How far one row moves the contrast over attributes of these sizes; give the sizes in increasing order.

    >>> moves = contrast_moves((3,))
    >>> moves.l1.tolist(), moves.l2_squared.tolist()
    ([0, 6], [0, 18])
    """
    classes = sorted(Counter(sizes).items())
    return Moves(_l1(classes), _squared(classes), numbers_changed(sizes))


def numbers_changed(sizes: tuple[int, ...]) -> NDArray[np.intp]:
    """Where in the (flat) moves each set of changed attributes stands; bit i of a set is attribute i of ``sizes``."""
    classes = sorted(Counter(sizes).items())
    steps, step = {}, 1
    for size, number in reversed(classes):
        steps[size] = step
        step *= number + 1
    out = np.zeros(1, np.intp)
    for size in sizes:
        out = np.concatenate([out, out + steps[size]])
    return out


def _squared(classes: list[tuple[int, int]]) -> Integers:
    """2 (|a|^2 - <a, b>)."""
    norm, inner = 1, np.ones(1, np.int64)
    for n, number in classes:
        square, inside = CONTRAST.l2_squared(n), CONTRAST.inner(n)
        norm *= square**number
        own = [square ** (number - z) * inside**z for z in range(number + 1)]
        inner = np.multiply.outer(inner, np.array(own, np.int64))
    moved: Integers = 2 * (norm - inner[0])
    return moved


def _l1(classes: list[tuple[int, int]]) -> Integers:
    """The sum over all cases (z, i, j) of each size: how often the case occurs times the size of its a - b."""
    before = after = times = np.ones(1, np.int64)
    starts = []
    for n, number in classes:
        cases = [_cases(n, number, z) for z in range(number + 1)]
        starts.append([0, *np.cumsum([len(each) for each in cases[:-1]]).tolist()])
        own = np.array([case for each in cases for case in each], np.int64).T
        before, after, times = (np.multiply.outer(x, y) for x, y in zip((before, after, times), own, strict=True))
    sums: Integers = (times * np.abs(before - after))[0]
    for axis, each in enumerate(starts):
        sums = np.add.reduceat(sums, each, axis=axis)
    return sums


def _cases(size: int, number: int, changed: int) -> list[tuple[int, int, int]]:
    """The products of a and of b over ``number`` attributes of one size, ``changed`` of which change, and how often.

    Those that do not change enter with their L1 norm: they have the same sign in a and in b.
    """
    out, pairs = [], CONTRAST.pairs(size)
    for counts in (each for each in product(range(changed + 1), repeat=len(pairs)) if sum(each) == changed):
        ways, a, b = math.factorial(changed) * CONTRAST.l1(size) ** (number - changed), 1, 1
        for count, (before, after, times) in zip(counts, pairs, strict=True):
            ways = ways // math.factorial(count) * times**count
            a, b = a * before**count, b * after**count
        out.append((a, b, ways))
    return out
