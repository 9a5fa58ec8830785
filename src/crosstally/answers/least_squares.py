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
    from crosstally.kernels.entropy import LEAST_SQUARES

    places = np.flatnonzero(known.covered)
    weights = known.weights[places]
    units = np.abs(known.coefficients).max(axis=1)
    if known.covered[0]:
        weights[0] = _TOTAL_WEIGHT
        units = np.where(known.coefficients[:, 0] > 0, known.coefficients[:, 0], units)
    of_one = Known(known.shape, known.covered, known.coefficients / units[:, None])
    tables = np.asarray(solve(of_one, LEAST_SQUARES, places, weights) * units[:, None])
    if known.covered[0]:
        tables[known.coefficients[:, 0] <= 0] = 0.0
    return tables
