"""Learning by polynomials: tables as low-degree polynomials of the question (PriView, section 3.7).

A cell of a k-way table counts the rows that differ from it in none of its k values. Thaler, Ullman and Vadhan (2012)
replace "in none" by a polynomial in the number m of differences, 1 - p(m), where p(0) = 0 and |p(m) - 1| <= gamma for
m = 1..k, of a degree t that grows with sqrt(k) log(1 / gamma) only:

    p(m) = 1 - ( T_r((k + 1 - m) / k) / T_r(1 + 1 / k) )^j,   r = ceil(sqrt(k)), j = ceil(log2(1 / gamma)), t = r j

T_r is Chebyshev's polynomial: at most 1 between 0 and 1, and at least 2 at 1 + 1 / k. For values of 0 and 1 a
polynomial of a sum of literals is a sum over sets S of at most t literals, p(m) = sum_S b_|S| [all of S differ], with
b_s the s-th difference of p at 0. The sums over all rows are published, one for each S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.typing import Floats
from crosstally_lab.papers.baselines.noisy_tables import corrected


@dataclass(frozen=True, slots=True)
class Polynomial:
    """p for tables of ``ways`` attributes, whose error is at most ``gamma``.

    >>> half = Polynomial(2, 1 / 2)
    >>> half.degree, [round(half.value(m), 3) for m in (0, 1, 2)]
    (2, [0.0, 0.714, 1.143])
    """

    ways: int
    gamma: float

    def __post_init__(self) -> None:
        if self.ways < 1 or not 0 < self.gamma < 1:
            raise CrosstallyError(f"a polynomial needs ways >= 1 and 0 < gamma < 1, got {self.ways} and {self.gamma}")

    @property
    def degree(self) -> int:
        """The degree t."""
        return self._root * self._power

    @property
    def _root(self) -> int:
        return math.isqrt(self.ways - 1) + 1

    @property
    def _power(self) -> int:
        return math.ceil(math.log2(1 / self.gamma))

    def value(self, differences: int) -> float:
        """p(m)."""
        chebyshev = np.polynomial.Chebyshev.basis(self._root)
        shrunk = chebyshev((self.ways + 1 - differences) / self.ways) / chebyshev(1 + 1 / self.ways)
        return 1.0 - float(shrunk) ** self._power

    @property
    def coefficients(self) -> tuple[float, ...]:
        """b_s for s = 0..t: what a set of s literals counts for."""
        left = np.array([self.value(m) for m in range(self.degree + 1)])
        found = []
        for _ in range(self.degree + 1):
            found.append(float(left[0]))
            left = np.diff(left)
        return tuple(found)

    def sensitivity(self, attributes: int) -> float:
        """How much all published sums change with one row, in L1: C(d, s) sets of s literals differ from it."""
        return sum(abs(b) * math.comb(attributes, s) for s, b in enumerate(self.coefficients))


def learning(
    truth: NDArray[np.int64],
    *,
    attributes: int,
    gamma: float,
    epsilon: float | None,
    random: np.random.Generator,
) -> Floats:
    """A table of binary attributes read from noisy sums over sets of at most t literals; without noise for no epsilon.

    Simplified: the algorithm answers conjunctions, which are taken cell by cell; every sum gets the same noise, for the
    exact sensitivity in place of the paper's bound; sums of contradictory literals are always zero and left out; the
    polynomial is the explicit one above. The table is corrected: negative cells to zero, the true total.
    """
    polynomial, rows = Polynomial(truth.ndim, gamma), float(truth.sum())
    scale = 0.0 if epsilon is None else polynomial.sensitivity(attributes) / epsilon
    found = np.full(truth.shape, rows)
    for size, coefficient in enumerate(polynomial.coefficients[1 : truth.ndim + 1], start=1):
        for axes in combinations(range(truth.ndim), size):
            others = tuple(axis for axis in range(truth.ndim) if axis not in axes)
            differing = np.flip(truth.sum(axis=others, keepdims=True), axes)
            found = found - coefficient * differing - random.laplace(0, scale, differing.shape)
    return corrected(found, int(rows))
