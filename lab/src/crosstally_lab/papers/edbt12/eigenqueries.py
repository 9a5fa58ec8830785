"""Kernel principal components of past queries, as the paper has it (EDBT 2012, 3.1 to 3.3).

Slow and exact, cubic in the number of queries: for correlated noise, and to hold ``components`` to.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError

_RANK = 1e-11  # eigenvalues below this part of the largest are rounding, and their eigenqueries are left out


@dataclass(frozen=True, slots=True, eq=False)
class Eigenqueries:
    """Orthonormal combinations of the past queries, with the least squares estimate of each and its precision.

    ``combinations`` is W of the paper, one eigenquery a row; ``estimates`` z = W a; ``precisions`` lambda^2, of which
    1 / lambda^2 is the variance of each estimate.
    """

    combinations: NDArray[np.float64]
    estimates: NDArray[np.float64]
    _: KW_ONLY
    precisions: NDArray[np.float64]

    @classmethod
    def of(
        cls, kernel: NDArray[np.float64], answers: NDArray[np.float64], covariance: NDArray[np.float64]
    ) -> Eigenqueries:
        """From the inner products of past queries, their noisy answers, and the noise's variances or covariance.

        A universal query that is known enters as a query with a very small variance.
        """
        from scipy.linalg import eigh

        whitening = _inverse_root(covariance)
        values, vectors = eigh(whitening @ kernel @ whitening.T)
        kept = values > _RANK * max(values.max(initial=0.0), 0.0)
        values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
        combinations = (vectors / np.sqrt(values)).T @ whitening
        return cls(combinations, combinations @ answers, precisions=values)

    def weights(self, alpha: float) -> NDArray[np.float64]:
        """How far each eigenquery is trusted, y = alpha^2 / (alpha^2 + 1/lambda^2): fully when alpha is infinite."""
        if not alpha >= 0:
            raise QueryError(f"alpha must be at least 0, got {alpha}")
        if math.isinf(alpha):
            return np.ones(len(self.precisions))
        return np.asarray(alpha**2 / (alpha**2 + 1 / self.precisions))

    def estimate(
        self, products: NDArray[np.float64], norms: NDArray[np.float64], alpha: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Estimates of any queries and their expected squared errors, bias alpha^2 ||q - q'||^2 included (equation 16).

        Args:
            products: The inner products of each query (a row) with the past ones.
            norms: The inner product of each query with itself.
            alpha: How much bias is taken for less variance.
        """
        coordinates = products @ self.combinations.T
        weights = self.weights(alpha)
        variance = coordinates**2 @ (weights**2 / self.precisions)
        missed = np.maximum(norms - (coordinates**2).sum(axis=1), 0)
        distance = coordinates**2 @ (1 - weights) ** 2 + missed
        if math.isinf(alpha):
            inside = distance <= 1e-9 * np.maximum(norms, 1e-300)
            return coordinates @ self.estimates, np.where(inside, variance, math.inf)
        return coordinates @ (weights * self.estimates), variance + alpha**2 * distance


def _inverse_root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A matrix T with T S T' = I, for variances or for a covariance S."""
    given = np.asarray(covariance, np.float64)
    if given.ndim == 1:
        if given.min(initial=1.0) <= 0:
            raise QueryError("the variances of answers must be positive")
        return np.diag(1 / np.sqrt(given))
    values, vectors = np.linalg.eigh(given)
    if values.min(initial=1.0) <= 0:
        raise QueryError("the covariance of answers must be positive definite")
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)
