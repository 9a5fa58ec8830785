"""Strategies as explicit matrices, for small domains: a row for each query, a column for each cell of the full table.

Cells are in the order of a table's ``ravel``: the last attribute fastest. Marginals never need these matrices (the
residual basis replaces them); they are for other queries, for user matrices, and for tests.

The matrix that measures an ordered attribute, chosen for the queries along it.

Gaussian noise: minimise tr(W'W X^-1) over Gram matrices X whose diagonal (the squared L2 norm of what one row of the
data adds) is at most one. It is convex. With a multiplier m_j for each cell and D = diag(m) the optimum is

    X = D^-1/2 (D^1/2 W'W D^1/2)^1/2 D^-1/2,      2 tr((D^1/2 W'W D^1/2)^1/2) - sum(m)  being the dual,

and multiplying each m_j by X_jj again and again converges; the dual says how near the optimum it is. Of X the part that
is left beside the total, X - tau 1 1' (``residuals.axes``), is measured, and the total by itself, since every other
table needs it too: as a factor with n - 1 rows, rounded to whole numbers. Its sensitivity is that of the rounded one.

How much the total is worth depends on the other tables: adding (kappa - 1) s 1 1' to W'W, with s = 1 / (1' (W'W)^-1 1),
gives for each kappa > 0 a matrix that serves the total more or less. ``LinearStrategies`` chooses among a few.

Laplace noise: intervals of one length beside single cells, with whole numbers as weights; L1 norms have no such theory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crosstally.budget import NoiseKind
from crosstally.errors import PlanError, TooManyCellsError
from crosstally.query.operators import Matrix
from crosstally.residuals.axes import LinearAxis
from crosstally.strategies.recovery import plan_matrix
from crosstally.typing import Floats

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


_GAP = 1e-5  # how far above the least possible variance a matrix may be, in proportion
# A limit: steps end at the gap above. If they end here the matrix is a little worse, and its error is still exact.
_MOST_STEPS = 400
_KAPPAS = (0.5, 1.0, 2.0, 4.0, 16.0, 64.0)  # the total is worth more where many tables share it: 2 to 64 seen
_LARGEST = 256  # values up to which the optimum is sought: its steps take the cube of it, 3 s together
_BITS = 27  # of all matrices of one query together: exact answers of 30 million rows then stay below 2^62
# Columns of one matrix are scaled to at most 2^14 and rounded: a larger number is more exact, and draws larger noise.
_MOST_BITS = 14
_ROUNDS = 3  # of budgets and recovery in turn
_WEIGHTS = 100  # a weight of cells and one of intervals share this: the sensitivity of a tree under Laplace noise


@dataclass(frozen=True, slots=True, eq=False)
class MatrixAlong:
    """A matrix along an attribute, as planning sees it.

    ``cost`` is the largest squared L2 (or L1) norm of a column; ``inside`` and ``outside`` are, summed over all that is
    asked along the attribute, |K'w|^2 and (u'w)^2 (``residuals.axes``); ``of_total`` is tau.
    """

    matrix: Matrix
    cost: float
    inside: float
    outside: float
    of_total: float


def best_gram(asked: Floats) -> Floats:
    """The Gram matrix with a diagonal of at most one that answers W'W with the least sum of variances."""
    n = len(asked)
    multipliers = np.full(n, 1 / n)
    for _ in range(_MOST_STEPS):
        roots = np.sqrt(multipliers)
        values, vectors = np.linalg.eigh(roots[:, None] * asked * roots)
        singular = np.sqrt(np.maximum(values, 0.0))
        gram = (vectors * singular) @ vectors.T / np.outer(roots, roots)
        diagonal = np.diagonal(gram)
        if diagonal.max() * multipliers.sum() < (1 + _GAP) * singular.sum():
            break
        multipliers = multipliers * diagonal
        multipliers /= multipliers.sum()
    return np.asarray(gram / diagonal.max())


def gaussian_matrices(asked: Floats, together: int, kind: str = "optimal") -> Iterator[MatrixAlong]:
    """Matrices of n - 1 rows to choose from, each for another worth of the total; one where its kind is named.

    Args:
        asked: W'W.
        together: How many attributes with a matrix are in one query: the more, the fewer digits each has.
        kind: "optimal", or the strategy whose part beside the total is measured.
    """
    n = len(asked)
    asked = asked + np.eye(n) * (1e-9 * np.trace(asked) / n)  # what is not asked must still be said
    bits = min(_MOST_BITS, _BITS // max(together, 1))
    if kind != "optimal" or n > _LARGEST:
        matrix = _weighted(named_matrix("hierarchy" if kind == "optimal" else kind, n), asked, NoiseKind.GAUSSIAN)
        yield _summary(_rounded(matrix.T @ matrix, bits), asked, power=2)
        return
    least = 1 / float(np.linalg.inv(asked).sum())
    for kappa in _KAPPAS:
        yield _summary(_rounded(best_gram(asked + (kappa - 1) * least), bits), asked, power=2)


def _rounded(gram: Floats, bits: int) -> Matrix:
    """A factor of what a Gram matrix says beside the total, n - 1 rows of whole numbers."""
    values, vectors = np.linalg.eigh(gram - 1 / float(np.linalg.inv(gram).sum()))
    factor = np.sqrt(values[1:, None]) * vectors[:, 1:].T
    largest = math.sqrt(float((factor**2).sum(axis=0).max()))
    return _whole(factor * (2**bits / largest))


def _whole(matrix: Floats) -> Matrix:
    return tuple(map(tuple, np.rint(matrix).astype(np.int64).tolist()))


def laplace_matrices(asked: Floats, kind: str = "optimal") -> Iterator[MatrixAlong]:
    """Matrices of rank n to choose from: cells, and cells with intervals of one length, by their weights."""
    n = len(asked)
    if kind != "optimal":
        matrix = _weighted(named_matrix(kind, n), asked, NoiseKind.LAPLACE)
        yield _summary(_whole(matrix * (_WEIGHTS / np.abs(matrix).max())), asked, power=1)
        return
    yield _summary(_whole(np.eye(n)), asked, power=1)
    lengths = {round(n**power) for power in (1 / 3, 0.5, 2 / 3)}
    for length in sorted(length for length in lengths if 1 < length < n):
        intervals = (np.arange(math.ceil(n / length))[:, None] == np.arange(n) // length).astype(float)
        for weight in range(45, 75, 5):
            yield _summary(_whole(np.vstack([weight * np.eye(n), (_WEIGHTS - weight) * intervals])), asked, power=1)


def _weighted(strategy: Floats, asked: Floats, kind: NoiseKind) -> Floats:
    """The rows of a strategy times their budgets, which are the paper's optimum; equal ones for many values."""
    if len(asked) > _LARGEST:
        return strategy
    values, vectors = np.linalg.eigh(asked)
    queries = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    budgets = plan_matrix(queries, strategy, amount=1.0, kind=kind, rounds=_ROUNDS).budgets
    least = budgets.max() / _WEIGHTS  # no row is left out: all must be said
    return np.asarray(strategy * np.maximum(budgets, least)[:, None])


def named_matrix(kind: str, size: int) -> Floats:
    """A strategy by its name: a hierarchy of two branches, a wavelet, prefixes, cells."""
    if kind == "hierarchy":
        return hierarchy(size)
    if kind == "wavelet":
        return wavelet(size)
    return np.tril(np.ones((size, size))) if kind == "prefixes" else np.eye(size)


def _summary(matrix: Matrix, asked: Floats, *, power: int) -> MatrixAlong:
    axis = LinearAxis.of(matrix)
    weights = np.einsum("jk,jk->k", axis.basis, asked @ axis.basis)
    cost = float((np.abs(np.array(matrix, np.float64)) ** power).sum(axis=0).max())
    return MatrixAlong(matrix, cost, float(weights[1:].sum()), float(weights[0]), axis.of_total)
