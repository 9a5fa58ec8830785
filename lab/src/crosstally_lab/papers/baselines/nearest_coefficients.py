"""Fourier + LP: noisy Fourier coefficients, then the nearest table without negative cells (PriView, 3.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.typing import Floats
from crosstally_lab.papers.baselines.noisy_tables import fourier_coefficients


def fourier_program(full: NDArray[np.int64], *, ways: int, epsilon: float, random: np.random.Generator) -> Floats:
    """A table over all attributes, without negative cells, whose coefficients of up to so many attributes are nearest.

    Nearest means the least largest difference, as in Barak et al. (2007). All coefficients share epsilon; under
    add-remove each changes by one with a row. Simplified: the table has the true number of rows, on which nothing is
    spent; the program has a variable for each cell, so that about nine attributes are practical; nothing is rounded.
    """
    from scipy.linalg import hadamard
    from scipy.optimize import linprog

    sizes = np.indices(full.shape).sum(axis=0).ravel()
    # a row for each set of attributes, in the order of the full table's cells: +1 and -1 by parity
    signs = hadamard(full.size, np.float64)[(sizes > 0) & (sizes <= ways)]
    scale = fourier_coefficients(full.ndim, ways) / epsilon
    noisy = signs @ (full.ravel() / scale) + random.laplace(0, 1, len(signs))
    # variables: the cells in units of the noise, and the largest difference, which is minimised
    ones = np.ones((len(signs), 1))
    found = linprog(
        np.append(np.zeros(full.size), 1.0),
        A_ub=np.block([[signs, -ones], [-signs, -ones]]),
        b_ub=np.concatenate([noisy, -noisy]),
        A_eq=np.append(np.ones(full.size), 0.0)[None],
        b_eq=[full.sum() / scale],
        method="highs",
    )
    if found.status != 0:
        raise CrosstallyError(f"the linear program of Fourier coefficients was not solved: {found.message}")
    return np.asarray(found.x[:-1] * scale).reshape(full.shape)
