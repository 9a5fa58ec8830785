"""Maximum entropy tables among those that agree with an estimate (PriView section 4.3, CME).

If no view covers a table, only some of its coefficients are known. The answer is the non-negative table of maximum
entropy that has these coefficients: it adds nothing to what was measured. Because of noise, there may be no such table.
So, with p = table / total and M p the known coefficients of p, the problem solved is always

    maximise  H(p) - |M p - c|^2 / (2 ridge)    over p >= 0 with sum 1,

by Newton's method on its dual, with the ridge lowered to 1e-10. The result is exact to 1e-8 if some table fits, and
otherwise the maximum entropy table among the nearest ones. Small tables use a matrix (``kernels.entropy``), large ones
do not (``margins``); for these the ridge is lowered only as long as the table comes nearer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.reconstruct.margins import fitted, has_margins
from crosstally.answers.reconstruct.reconstruction import Known, Reconstruction, reconstruct_all, solve, widened
from crosstally.errors import QueryError
from crosstally.inference.nonnegativity import clip_and_keep_total
from crosstally.residuals import Estimate, rebuild

__all__ = ["greatest_entropy", "maximum_entropy"]

_SMALL, _SMALL_TRANSFORM = 150, 20_000
"""Up to so many known coefficients, and numbers in the transform, there is a matrix: it takes at most 8 ms, and the
ridge goes down to its end whether a table fits or not. Without one 100 coefficients take as long and 200 a third to a
tenth (70 tables of releases of Adult and FARS)."""

_BINARY_WORK = 500
"""For two-valued attributes also where number^3 is at most this times the cells: the transform needs no more room than
the table, and one factor of the matrix costs less than the products with the table it saves."""


def maximum_entropy(estimate: Estimate, tables: Sequence[Sequence[str]]) -> list[Reconstruction]:
    """The tables of greatest entropy that agree with the estimate, all zeros where its total is not positive.

    Raises:
        QueryError: The number of rows was never measured, so no table has a total.
    """
    return reconstruct_all(estimate, tables, greatest_entropy)


def greatest_entropy(known: Known) -> list[Reconstruction]:
    """The table of greatest entropy for each row of coefficients."""
    if not known.covered[0]:
        raise QueryError(
            "maximum entropy needs the number of rows, which was never measured: give it, or use least-squares"
        )
    totals = known.coefficients[:, 0]
    positive = np.flatnonzero(totals > 0)
    tables = np.zeros((len(totals), *known.shape))
    relaxed = np.zeros(len(totals))
    if len(positive) < len(totals):
        relaxed[:] = known.differences(tables)
    if len(positive):
        of_one = Known(known.shape, known.covered, known.coefficients[positive] / totals[positive, None])
        shares, missed = _shares(of_one)
        tables[positive] = shares * totals[positive].reshape(-1, *(1,) * len(known.shape))
        relaxed[positive] = missed * totals[positive]
    return [Reconstruction(table, float(amount)) for table, amount in zip(tables, relaxed, strict=True)]


def _shares(known: Known) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tables of total 1 and their largest differences: the products of their independent parts."""
    if len(known.components) == 1:
        return _joint(known)
    shares, missed = np.ones((len(known.coefficients),) + (1,) * len(known.shape)), np.zeros(len(known.coefficients))
    for axes in known.components:
        part, own = _joint(known.part(axes))
        shape = [n if axis in axes else 1 for axis, n in enumerate(known.shape)]
        shares = shares * part.reshape(-1, *shape)
        missed = np.maximum(missed, own)
    return shares, missed


def _joint(known: Known) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tables of total 1 over axes that depend on each other, or over one axis."""
    ndim = len(known.shape)
    if known.covered.all():
        tables = clip_and_keep_total(rebuild(known.coefficients.reshape(-1, *known.shape), ndim), ndim)
    else:
        tables = _solved(known).reshape(-1, *known.shape)
    return tables, known.differences(tables)


def _solved(known: Known) -> NDArray[np.float64]:
    """Tables of total 1 of greatest entropy: (tables, cells)."""
    from crosstally.kernels.entropy import GREATEST_ENTROPY

    places = np.flatnonzero(known.covered)[1:]
    if not len(places):
        return np.full(known.coefficients.shape, 1 / len(known.covered))
    if not _has_small_matrix(known, len(places)) and has_margins(known):
        return fitted(known)
    return solve(known, GREATEST_ENTROPY, places, known.weights[places])


def _has_small_matrix(known: Known, number: int) -> bool:
    """Whether Newton's method with a matrix of so many coefficients is faster than without."""
    cells, transformed = len(known.covered), widened(known.shape)
    return (number <= _SMALL and transformed <= _SMALL_TRANSFORM) or (
        transformed == cells and number**3 <= _BINARY_WORK * cells
    )
