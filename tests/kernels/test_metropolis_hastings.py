"""Moves of rows: counts follow the rows, and the law is that of the weights."""

from __future__ import annotations

import numpy as np

from crosstally.kernels.metropolis_hastings import sweep


def test_counts_follow_the_rows_and_heavy_cells_fill() -> None:
    """Two attributes of two and three values, one table of both; a cell of log-weight 30 draws every row to it."""
    random = np.random.default_rng(3)
    codes = np.stack([random.integers(0, 2, 40), random.integers(0, 3, 40)], axis=1).astype(np.int32)
    attributes = np.array([[0, 1, 2], [1, 2, 3]])
    moves = np.array([[0, 3], [0, 1]])  # cells are numbered 3 x first + second
    weights = np.array([0.0, 0.0, 0.0, 30.0, 30.0, 60.0])
    counts = np.bincount(3 * codes[:, 0] + codes[:, 1], minlength=6)
    proposals = np.zeros((2, 3, 2))
    proposals[:, :, 0] = 1.0  # each value stands for itself
    taken = 0
    for seed in range(1, 31):
        taken += sweep(codes, attributes, moves, np.array([0]), weights, counts, proposals, np.uint64(seed * 99991))
        assert counts.tolist() == np.bincount(3 * codes[:, 0] + codes[:, 1], minlength=6).tolist()
    assert taken > 0
    # Both attributes are proposed their heavy value with probability 1/3 or more in each of 30 sweeps, and leave it
    # with probability e^-30: a row is elsewhere with probability below 2 x (2/3)^30; seeds are fixed.
    assert counts.tolist() == [0, 0, 0, 0, 0, 40]
