"""Strategies as explicit matrices, for small domains: a row for each query, a column for each cell of the full table.

Cells are in the order of a table's ``ravel``: the last attribute fastest. Marginals never need these matrices (the
residual basis replaces them); they are for other queries, for user matrices, and for tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from crosstally.errors import PlanError, TooManyCellsError
from crosstally.typing import Floats

__all__ = ["MAX_ENTRIES", "fourier", "hierarchy", "identity", "marginals", "sketch", "wavelet"]

MAX_ENTRIES = 2**24  # limits memory: 128 MB of doubles. Larger strategies are made of tables, without a matrix


def check_entries(rows: int, cells: int) -> None:
    """Raise when a matrix would be too large, with its size."""
    if rows * cells > MAX_ENTRIES:
        raise TooManyCellsError(
            f"a strategy matrix must have at most {MAX_ENTRIES:,} entries, got {rows:,} x {cells:,}; "
            f"use a strategy of tables, which needs no matrix"
        )


def identity(cells: int) -> Floats:
    """Strategy I: every cell of the full table."""
    check_entries(cells, cells)
    return np.eye(cells)


def marginals(shape: Sequence[int], tables: Sequence[Sequence[int]]) -> Floats:
    """Strategy Q: every cell of some marginal tables, given by the positions of their attributes.

    >>> marginals((2, 2), [(0,), ()])
    array([[1., 1., 0., 0.],
           [0., 0., 1., 1.],
           [1., 1., 1., 1.]])
    """
    cells = math.prod(shape)
    check_entries(sum(math.prod(shape[axis] for axis in axes) for axes in tables), cells)
    indices = np.unravel_index(np.arange(cells), tuple(shape))
    parts = []
    for axes in tables:
        sizes = tuple(shape[axis] for axis in axes)
        keys = np.ravel_multi_index(tuple(indices[axis] for axis in axes), sizes) if sizes else np.zeros(cells, int)
        parts.append((np.arange(math.prod(sizes))[:, None] == keys).astype(float))
    return np.vstack(parts)


def fourier(attributes: int, sets: Sequence[Sequence[int]]) -> Floats:
    """Strategy F: unnormalised Fourier coefficients of a binary table, a sum of +-1 for each set of attributes.

    >>> fourier(2, [(), (0,), (0, 1)])
    array([[ 1.,  1.,  1.,  1.],
           [ 1.,  1., -1., -1.],
           [ 1., -1., -1.,  1.]])
    """
    check_entries(len(sets), 2**attributes)
    bits = np.array(np.unravel_index(np.arange(2**attributes), (2,) * attributes))
    return np.array([(-1.0) ** bits[list(axes)].sum(axis=0) if axes else np.ones(2**attributes) for axes in sets])


def hierarchy(cells: int, branches: int = 2) -> Floats:
    """Counts of a tree over the cells, the root first: intervals of equal length at each level, down to single cells.

    >>> hierarchy(4).astype(int)
    array([[1, 1, 1, 1],
           [1, 1, 0, 0],
           [0, 0, 1, 1],
           [1, 0, 0, 0],
           [0, 1, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 1]])
    """
    if cells < 1 or branches < 2:
        raise PlanError(f"a hierarchy must have cells and at least 2 branches, got {cells} and {branches}")
    check_entries(2 * cells, cells)
    levels, length = [np.eye(cells)], branches
    while length < cells * branches:
        levels.append((np.arange(math.ceil(cells / length))[:, None] == np.arange(cells) // length).astype(float))
        length *= branches
    return np.vstack(levels[::-1])


def wavelet(cells: int) -> Floats:
    """The Haar wavelet: the total, then at each level the left half minus the right half of every interval.

    >>> wavelet(4).astype(int)
    array([[ 1,  1,  1,  1],
           [ 1,  1, -1, -1],
           [ 1, -1,  0,  0],
           [ 0,  0,  1, -1]])
    """
    if cells < 1 or cells & (cells - 1):
        raise PlanError(
            f"a wavelet must be over a power of two of cells, got {cells:,}; pad the table with empty cells"
        )
    check_entries(cells, cells)
    rows, length = [np.ones((1, cells))], cells
    while length > 1:
        signs = np.where(np.arange(cells) % length < length // 2, 1.0, -1.0)
        rows.append(signs * (np.arange(cells // length)[:, None] == np.arange(cells) // length))
        length //= 2
    return np.vstack(rows)


def sketch(cells: int, *, buckets: int, repetitions: int, random: np.random.Generator) -> Floats:
    """Random projections: every repetition throws the cells into buckets, each cell with a random sign.

    Every cell stands in one bucket of each repetition; buckets that stay empty are left out.
    """
    if buckets < 1 or repetitions < 1:
        raise PlanError(f"a sketch must have buckets and repetitions, got {buckets} and {repetitions}")
    check_entries(buckets * repetitions, cells)
    parts = []
    for _ in range(repetitions):
        bucket, signs = random.integers(buckets, size=cells), random.choice([-1.0, 1.0], cells)
        part = signs * (np.arange(buckets)[:, None] == bucket)
        parts.append(part[part.any(axis=1)])
    return np.vstack(parts)
