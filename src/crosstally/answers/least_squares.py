"""Tables of least squares among those that agree with an estimate (PriView section 4.3, CLN)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.reconstruction import Known, Reconstruction, in_groups, solve
from crosstally.residuals import Estimate, rebuild

__all__ = ["least_norm", "least_squares"]

_TOTAL_WEIGHT = 1e-6


def least_squares(estimate: Estimate, tables: Sequence[Sequence[str]]) -> list[Reconstruction]:
    """The flattest tables that agree with the estimate: those with the least sum of squares and no negative cell.

    An estimate that was not corrected has negative cells anyway. From it the table is linear: what was never measured
    is taken as zero, and no cell is moved.
    """
    if estimate.corrected == "none":
        return [Reconstruction(table, 0.0) for table in estimate.tables(tables)]
    return in_groups(estimate, tables, least_norm)


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
