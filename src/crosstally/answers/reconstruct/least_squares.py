"""Tables of least squares among those that agree with an estimate (PriView section 4.3, CLN)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.reconstruct.reconstruction import Known, Reconstruction, solve
from crosstally.residuals import rebuild

__all__ = ["least_norm", "linear_tables"]

# The ridge on the total's own theta: next to none, for it has to be met; zero would leave the Hessian singular.
_TOTAL_WEIGHT = 1e-6


def linear_tables(known: Known) -> list[Reconstruction]:
    """The table of least squares for each row of coefficients, negative or not: what is not known is taken as zero."""
    tables = rebuild(known.coefficients.reshape(-1, *known.shape), len(known.shape))
    return [Reconstruction(table, 0.0) for table in tables]


def least_norm(known: Known) -> list[Reconstruction]:
    """The non-negative table of least squares for each row of coefficients.

    Unknown coefficients of zero give it at once unless a cell is negative. Then, with p = table / total over K cells,
    K |p|^2 + |M p - c|^2 / ridge is made least over p >= 0 as for maximum entropy; the total is kept.
    """
    ndim = len(known.shape)
    tables = rebuild(known.coefficients.reshape(-1, *known.shape), ndim)
    relaxed = np.zeros(len(tables))
    negative = np.flatnonzero((tables < 0).reshape(len(tables), -1).any(axis=1))
    if len(negative):
        part = Known(known.shape, known.covered, known.coefficients[negative])
        tables[negative] = _nonnegative(part).reshape(-1, *known.shape)
        relaxed[negative] = part.differences(tables[negative])
    return [Reconstruction(table, float(amount)) for table, amount in zip(tables, relaxed, strict=True)]


def _nonnegative(known: Known) -> NDArray[np.float64]:
    """The same where the flattest table has negative cells: (tables, cells), zeros where the total is not positive."""
    from crosstally.kernels.entropy import LEAST_SQUARES

    places, coefficients = np.flatnonzero(known.covered), known.coefficients
    weights = known.weights[places]
    if not known.covered[0]:
        units = np.abs(coefficients).max(axis=1, keepdims=True)
        part = solve(Known(known.shape, known.covered, coefficients / units), LEAST_SQUARES, places, weights)
        return np.asarray(part * units)
    weights[0] = _TOTAL_WEIGHT
    tables = np.zeros(coefficients.shape)
    positive = np.flatnonzero(coefficients[:, 0] > 0)
    if len(positive):
        totals = coefficients[positive, :1]
        part = solve(Known(known.shape, known.covered, coefficients[positive] / totals), LEAST_SQUARES, places, weights)
        tables[positive] = part / part.sum(axis=1, keepdims=True) * totals
    return tables
