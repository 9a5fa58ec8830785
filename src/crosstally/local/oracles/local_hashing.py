"""Optimal local hashing (OLH): the perturbed hash of the own cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import PlanError
from crosstally.local.oracles.answers import (
    Answers,
    AnswerSpace,
    Counts,
    filled,
    odds_below,
    rounded_down,
    threshold,
)
from crosstally.local.oracles.oracle import Codes, ViewOracle, cell_numbers, register

# the best number of buckets is about e^epsilon + 1; more than these help nobody whose epsilon is below 4
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)


@register
@dataclass(frozen=True, slots=True)
class LocalHashing(ViewOracle):
    """A hash function of the person's own choice, and its value by randomised response (OLH).

    Functions are inner products over the field of ``buckets`` values, a prime: a cell is a number of ``digits`` digits
    in that base, and so is a function. For any two cells the difference of their hashes is uniform over all functions,
    so that ``false`` is exactly one over the number of buckets.
    """

    _: KW_ONLY
    buckets: int
    digits: int
    keep: Fraction
    kind: ClassVar[str] = "local-hashing"
    most_cells: ClassVar[int] = 4096  # the table of hashes has functions x cells entries, at least the square

    def __post_init__(self) -> None:
        if self.buckets not in _PRIMES or self.digits != _digits(self.cells, self.buckets):
            raise PlanError("local hashing must have a known prime number of buckets and the digits its cells need")

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: Fraction) -> LocalHashing:
        """The oracle with the prime number of buckets of least variance; keep = a / (a + buckets - 1)."""
        cells, odds = math.prod(sizes), odds_below(epsilon)
        made = []
        for buckets in (prime for prime in _PRIMES if prime == 2 or prime <= 4 * (odds + 1)):
            keep = rounded_down(odds / (odds + buckets - 1))
            made.append(cls(tuple(sizes), buckets=buckets, digits=_digits(cells, buckets), keep=keep))
        return min(made, key=lambda oracle: oracle.cell_variance(1 / cells))

    @property
    def true(self) -> Fraction:
        """The hash of its own cell is reported."""
        return self.keep

    @property
    def false(self) -> Fraction:
        """Another cell has the hash that is reported."""
        return Fraction(1, self.buckets)

    @property
    def answers(self) -> AnswerSpace:
        """A report is a function and a hash."""
        return AnswerSpace(limit=int(self.buckets ** (self.digits + 1)))

    @property
    def support_variance(self) -> float:
        """The number of supported cells depends on the function; its variance is averaged over cells."""
        cells, g, keep = self.cells, self.buckets, float(self.keep)
        lines = collinear_triples(cells, g, self.digits)
        triples = cells * (cells - 1) * (cells - 2)
        # the mean over functions of the sums of the squares and of the cubes of the buckets' sizes
        squares = cells + cells * (cells - 1) / g
        cubes = cells + 3 * cells * (cells - 1) / g + lines / g + (triples - lines) / g**2
        own = cubes / cells  # the mean over cells of the squared size of their own bucket
        others = (squares - own) / (g - 1)
        return keep * own + (1 - keep) * others - (keep + (cells - 1) / g) ** 2

    def supports(self, slots: Counts) -> Counts:
        """For each cell the reports whose function gives it the reported hash."""
        by_function = slots.reshape(-1, self.buckets)
        hashed = hashes(self.cells, self.buckets, self.digits)
        return np.asarray(by_function[np.arange(len(by_function))[:, None], hashed].sum(axis=0, dtype=np.int64))

    def support_extremes(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        """Over all functions and hashes the cells with that hash."""
        hashed = hashes(self.cells, self.buckets, self.digits)
        sums = np.stack([(hashed == bucket) @ weights for bucket in range(self.buckets)])
        return float(sums.min()), float(sums.max())

    def draw(self, codes: Codes) -> Answers:
        """A function and a hash by a kernel, from a table of all hashes."""
        from crosstally.kernels.local import draw_hashed

        people, buckets, keep = codes.shape[1], self.buckets, threshold(self.keep)
        cells, table = cell_numbers(codes, self.sizes, people), hashes(self.cells, buckets, self.digits)
        return filled(people, 3, lambda words, out: draw_hashed(cells, table, buckets, keep, words, out))


@lru_cache(maxsize=32)
def hashes(cells: int, buckets: int, digits: int) -> NDArray[np.uint8]:
    """The hash of each cell by each function: (functions, cells)."""
    powers = buckets ** np.arange(digits)
    functions = np.arange(buckets**digits)[:, None] // powers % buckets
    return np.asarray(functions @ (np.arange(cells)[:, None] // powers % buckets).T % buckets).astype(np.uint8)


@lru_cache(maxsize=10_000)
def collinear_triples(cells: int, buckets: int, digits: int) -> int:
    """How many ordered triples of different cells lie on a line, as vectors of digits over the field.

    Three cells have one hash by one function in ``buckets`` if they lie on a line, and else by one in its square. The
    third one is (1 - l) v + l w for some l other than 0 and 1. With F the Fourier transform of the set of cells over
    the group of all vectors, the mean of F((1 - l) k) F(l k) conj(F(k)) over all k counts the pairs v, w, equal
    ones too, whose third one is a cell.

    >>> collinear_triples(9, 3, 2), collinear_triples(5, 7, 1)
    (72, 60)
    """
    held = (np.arange(buckets**digits) < cells).astype(np.float64).reshape((buckets,) * digits)
    transform = np.fft.fftn(held)
    total = 0.0
    for scale in range(2, buckets):
        first, second = (transform[np.ix_(*[np.arange(buckets) * by % buckets] * digits)] for by in (1 - scale, scale))
        total += float((first * second * transform.conj()).sum().real) / held.size - cells
    return round(total)


def _digits(cells: int, buckets: int) -> int:
    """How many digits numbers of so many cells have, in base ``buckets``."""
    digits = 1
    while buckets**digits < cells:
        digits += 1
    return digits
