"""Moves of rows: counts follow the rows, and the law is that of the weights."""

from __future__ import annotations

import numpy as np

from crosstally.kernels.metropolis_hastings import sweep


def test_counts_follow_the_rows_and_heavy_cells_fill() -> None:
    """Two attributes of two and three values, one table of both; a cell of log-weight 30 draws every row to it."""
    random = np.random.default_rng(3)
    codes = np.stack([random.integers(0, 2, 40), random.integers(0, 3, 40)], axis=1).astype(np.int32)
    attributes = np.array([[0, 1, 2, 0], [1, 2, 3, 2]])
    moves, shifts = (
        np.array([0, 0], np.uint32),
        np.array([0, 3, 0, 1, 2], np.uint32),
    )  # cells are numbered 3 x first + second
    weights = np.array([0.0, 0.0, 0.0, 30.0, 30.0, 60.0])
    counts = np.bincount(3 * codes[:, 0] + codes[:, 1], minlength=6)
    proposals = np.zeros((2, 3, 2))
    proposals[:, :, 0] = 1.0  # each value stands for itself
    taken = 0
    for seed in range(1, 31):
        taken += sweep(codes, attributes, moves, shifts, weights, counts, proposals, np.uint64(seed * 99991))
        assert counts.tolist() == np.bincount(3 * codes[:, 0] + codes[:, 1], minlength=6).tolist()
    assert taken > 0
    # Both attributes are proposed their heavy value with probability 1/3 or more in each of 30 sweeps, and leave it
    # with probability e^-30: a row is elsewhere with probability below 2 x (2/3)^30; seeds are fixed.
    assert counts.tolist() == [0, 0, 0, 0, 0, 40]


def test_values_of_one_class_share_a_cell() -> None:
    """Two tables: one cannot tell the last two of three values apart, the other starts at cell 2 and tells all."""
    random = np.random.default_rng(4)
    codes = random.integers(0, 3, (3000, 1)).astype(np.int32)
    attributes, moves = np.array([[0, 2, 3, 0]]), np.array([0, 1], np.uint32)
    shifts = np.array([0, 2, 1, 3, 1, 4], np.uint32)  # value by value: the cell in the first table, in the second
    weights = np.log([1.0, 2.0, 1.0, 1.0, 3.0])

    def counted() -> list[int]:
        each = np.bincount(codes[:, 0], minlength=3)
        return [each[0], each[1] + each[2], *each]

    counts = np.array(counted())
    proposals = np.stack([np.ones((1, 3)), np.zeros((1, 3))], axis=2)
    for seed in range(1, 31):
        sweep(codes, attributes, moves, shifts, weights, counts, proposals, np.uint64(seed * 99991))
        assert counts.tolist() == counted()
    # Values have the weights 1 x 1, 2 x 1 and 2 x 3, in ninths: of 3,000 rows five standard errors are 129
    assert np.abs(counts[2:] - np.array([1, 2, 6]) / 9 * 3000).max() < 140
