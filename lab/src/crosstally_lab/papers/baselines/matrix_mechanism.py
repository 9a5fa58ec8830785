"""The matrix mechanism for all k-way tables of binary attributes (PriView, section 3.5): two approximations.

A workload W (a row for each cell asked for, a column for each of the n = 2^d cells of the full table) is answered from
noisy answers of a strategy A by least squares: W A⁺ (A x + noise). With Laplace noise for the L1 sensitivity of A, the
largest sum of absolute entries of a column, the sum of squared errors is

    V_u (max_j sum_i |A_ij|)² ||W A⁺||²          (V_u = 2 / epsilon²; the norm is Frobenius')

whose minimum over A nobody can compute for n = 512. As in the paper, errors are what the strategy says, nothing is
drawn, and the tables are not corrected.

For all k-way tables the Walsh functions of up to k attributes are eigenvectors of WᵀW. The one over s attributes has
the eigenvalue C(d-s, k-s) 2^(d-k): it is part of C(d-s, k-s) tables, each cell of which sums 2^(d-k) cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.typing import Floats

MAX_ATTRIBUTES = 9
"""As in the paper. Matrices have 2^d columns: each attribute more takes eight times as long."""

_ROWS = 1.2  # rows of the low-rank strategy over the workload's rank: the ratio that Yuan et al. recommend
# The powers by which the largest column is smoothed, one after the other, and the steps of each. Chosen: with as many
# again the error of nine attributes falls by a few percent more.
_POWERS, _STEPS = (8, 32, 128, 512), 60
_SMOOTH = 1e-3  # |x| is taken as sqrt(x² + m²), m so much of a typical entry. Less makes the search stop early


@dataclass(frozen=True, slots=True, eq=False)
class MatrixStrategy:
    """A strategy M V for all k-way tables: V the Walsh functions of up to k attributes, of length 1, a row each.

    ``mixing`` is M, with a row for each query of the strategy; ``supports`` are the attributes of each Walsh function.
    """

    mixing: Floats
    _: KW_ONLY
    attributes: int
    ways: int
    supports: tuple[tuple[int, ...], ...]

    @property
    def matrix(self) -> Floats:
        """A, with a column for each cell of the full table."""
        return np.asarray(self.mixing @ _walsh(self.attributes, self.supports))

    @property
    def sensitivity(self) -> float:
        """How much all answers together change with one row, in L1."""
        return float(np.abs(self.matrix).sum(axis=0).max())

    def squared_errors(self, tables: Iterable[Sequence[int]]) -> list[float]:
        """The expected sum of squared errors of the table over some attributes, in V_u, for each table.

        A cell is a sum of Walsh functions of the table's subsets of attributes with signs, so that all cells together
        have the squares of those rows of M⁺, each 2^(d-k) times.
        """
        squares = (np.linalg.pinv(self.mixing) ** 2).sum(axis=1)
        noise = self.sensitivity**2 * 2.0 ** (self.attributes - self.ways)
        inside = [[set(support) <= set(table) for support in self.supports] for table in tables]
        return [float(noise * squares[chosen].sum()) for chosen in inside]


def eigen_design(attributes: int, ways: int) -> MatrixStrategy:
    """Each eigenvector of the workload, weighted so that the sum of squared errors is least (Li and Miklau 2012).

    Simplified: where eigenvalues are equal any eigenvectors would do, and Walsh functions are taken. All their entries
    have one size, so that the program for the weights has the solution weight = eigenvalue^(1/3), for Laplace noise.

    >>> design = eigen_design(9, 2)
    >>> round(float(design.squared_errors([(0, 1)])[0]))  # in V_u: Flat has 512, Direct 5,184
    1307
    """
    supports, values = _eigen(attributes, ways)
    return MatrixStrategy(np.diag(np.cbrt(values)), attributes=attributes, ways=ways, supports=supports)


def low_rank(attributes: int, ways: int) -> MatrixStrategy:
    """A strategy of about as many queries as the workload's rank, found by search (after Yuan et al. 2012).

    Simplified: they solve W = B L for B and L in turns, with a penalty that grows. Here L stays inside the rows of the
    workload, so that W = B L holds exactly with B = W L⁺, and a quasi-Newton search minimises the logarithm of the
    error over L, where the largest column sum is smoothed by a power that grows. It starts from fixed random numbers.
    """
    from scipy.optimize import minimize

    supports, values = _eigen(attributes, ways)
    functions = _walsh(attributes, supports)
    weights = np.cbrt(values) / np.cbrt(values).sum()
    shape = (math.ceil(_ROWS * len(values)), len(values))
    found = (np.random.default_rng(0).normal(0, 1, shape) * weights).ravel()
    smooth = _SMOOTH * float(weights.mean()) / math.sqrt(2**attributes)

    for power in _POWERS:
        found = minimize(
            lambda flat, power=power: _log_error(flat.reshape(shape), values, functions, power, smooth),
            found,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS},
        ).x
    return MatrixStrategy(found.reshape(shape), attributes=attributes, ways=ways, supports=supports)


def _log_error(mixing: Floats, values: Floats, functions: Floats, power: int, smooth: float) -> tuple[float, Floats]:
    """The logarithm of the sum of squared errors, smoothed, and its gradient.

    With G = (MᵀM)⁻¹ and eigenvalues v the error is trace(v G), whose gradient is -2 M G v G. The largest column sum
    becomes a mean of powers of all column sums.
    """
    inverse = np.linalg.inv(mixing.T @ mixing)
    error = float((values * np.diag(inverse)).sum())
    answers = mixing @ functions
    sizes = np.sqrt(answers**2 + smooth**2)
    columns = sizes.sum(axis=0)
    powers = (columns / columns.max()) ** power
    largest = math.log(columns.max()) + math.log(powers.mean()) / power
    by_column = powers / powers.sum() / columns
    slope = -2 * mixing @ (inverse * values) @ inverse / error + 2 * ((answers / sizes) * by_column) @ functions.T
    return math.log(error) + 2 * largest, slope.ravel()


def _eigen(attributes: int, ways: int) -> tuple[tuple[tuple[int, ...], ...], Floats]:
    """The attributes of each Walsh function and its eigenvalue."""
    if not 1 <= ways <= attributes <= MAX_ATTRIBUTES:
        raise CrosstallyError(
            f"the matrix mechanism takes tables of 1 to all of at most {MAX_ATTRIBUTES} attributes, "
            f"got {ways} of {attributes}"
        )
    supports = tuple(each for s in range(ways + 1) for each in combinations(range(attributes), s))
    values = [math.comb(attributes - len(s), ways - len(s)) * 2.0 ** (attributes - ways) for s in supports]
    return supports, np.array(values)


def _walsh(attributes: int, supports: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """A row of length 1 for each set of attributes: the parity of their values in each cell of the full table."""
    bits = np.arange(2**attributes)[:, None] >> np.arange(attributes)[::-1] & 1
    odd = np.stack([bits[:, list(support)].sum(axis=1) % 2 for support in supports])
    return np.asarray((1.0 - 2.0 * odd) / math.sqrt(2**attributes))
