"""The regularised maximum entropy problem over every cell of a small universe, by an interior point solver."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse


def optimum(
    prior: np.ndarray, functions: np.ndarray, targets: np.ndarray, bounds: np.ndarray, softness: np.ndarray
) -> np.ndarray:
    """The p that minimises sum p ln(p / p0) + sum penalty(targets - functions p) over all distributions.

    The penalty is Huber's, the least of bounds |difference - v| + v^2 / (2 softness) over v. Variables are p, then for
    each cell an r with r >= p ln(p / p0), then for each query an s with s >= |targets - functions p - v|, and v.
    The exponential cone (x, y, z) is y exp(x / y) <= z: (-r, p, p0).
    """
    m, cells = functions.shape
    size = 2 * cells + 2 * m
    rows, right, cones = [], [], []
    total = np.zeros((1, size))
    total[0, :cells] = 1
    rows.append(total)
    right.append([1.0])
    cones.append(clarabel.ZeroConeT(1))
    for sign in (1, -1):  # sign (targets - functions p - v) <= s
        rows.append(np.hstack([-sign * functions, np.zeros((m, cells)), -np.eye(m), -sign * np.eye(m)]))
        right.append(-sign * targets)
        cones.append(clarabel.NonnegativeConeT(m))
    for t in range(cells):
        block = np.zeros((3, size))
        block[0, cells + t] = 1
        block[1, t] = -1
        rows.append(block)
        right.append([0.0, 0.0, prior[t]])
        cones.append(clarabel.ExponentialConeT())
    cost = np.concatenate([np.zeros(cells), np.ones(cells), bounds, np.zeros(m)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        sparse.diags_array(np.concatenate([np.zeros(2 * cells + m), 1 / softness])).tocsc(),
        cost,
        sparse.csc_matrix(np.vstack(rows)),
        np.concatenate(right),
        cones,
        settings,
    )
    solution = solver.solve()
    assert "Solved" in str(solution.status)
    return np.array(solution.x[:cells])
