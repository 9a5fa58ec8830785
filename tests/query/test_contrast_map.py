"""The map of a contrast against its matrix, written out: a Kronecker product of n I - J, or of (1, -1)."""

from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from conftest import schema_of
from crosstally.answers.noise_sums import CellSums
from crosstally.query.operators import CONTRAST, contrast_variance
from crosstally.query.queries import Contrast, Product

SIZES = [(2,), (3,), (5,), (2, 2), (2, 3), (4, 2, 3), (2, 5, 2)]


def along(n: int) -> NDArray[np.float64]:
    return np.array([[1.0, -1.0]]) if n == 2 else n * np.eye(n) - np.ones((n, n))


def written_out(sizes: tuple[int, ...]) -> NDArray[np.float64]:
    return reduce(np.kron, map(along, sizes), np.ones((1, 1)))


def contrast(sizes: tuple[int, ...]) -> Product:
    return Contrast(schema_of(*sizes).names)


def centring(sizes: tuple[int, ...]) -> NDArray[np.float64]:
    return reduce(np.kron, (np.eye(n) - 1 / n for n in sizes), np.ones((1, 1)))


@pytest.mark.parametrize("sizes", SIZES)
def test_answers_columns_and_adjoint_are_those_of_the_matrix(sizes) -> None:
    matrix, own, schema = written_out(sizes), contrast(sizes), schema_of(*sizes)
    counts = np.random.default_rng(1).integers(0, 50, sizes)
    assert own.shape(schema) == tuple(len(along(n)) for n in sizes)
    assert np.array_equal(own.answer(counts).ravel(), matrix @ counts.ravel())
    numbers = np.random.default_rng(2).normal(size=own.shape(schema))
    assert own.adjoint(numbers, schema).ravel() == pytest.approx(matrix.T @ numbers.ravel(), rel=1e-12, abs=1e-12)
    cells = np.array(list(product(*map(range, sizes))))
    assert np.array_equal(own.columns(cells, schema), matrix)


@pytest.mark.parametrize("sizes", SIZES)
def test_norms_of_columns(sizes) -> None:
    matrix, own = written_out(sizes), contrast(sizes).sensitivity(schema_of(*sizes), "add-remove")
    assert {own.l1} == set(np.abs(matrix).sum(axis=0))
    assert {own.l2_squared} == set((matrix**2).sum(axis=0))


@pytest.mark.parametrize("sizes", SIZES)
def test_the_scale_makes_the_map_centre_the_table(sizes) -> None:
    """M' M / squared scale centres, so noise of variance v on M x leaves v / squared scale on each coefficient."""
    matrix = written_out(sizes)
    assert np.allclose(matrix.T @ matrix * contrast_variance(sizes), centring(sizes), atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_weights_of_the_numbers_in_a_centred_cell(sizes) -> None:
    """In every cell the same sizes of weights stand equally often."""
    back = np.abs(written_out(sizes).T) * contrast_variance(sizes)
    one_cell = CellSums.of((), np.array(True)).in_each_cell(schema_of(*sizes).names, sizes)
    weights, counts = one_cell.contrast()
    expected = np.sort(np.repeat(np.abs(weights), counts.astype(int)))
    assert all(np.allclose(np.sort(row), expected, rtol=1e-12) for row in back)


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_pairs_of_two_different_columns(n) -> None:
    """In this order of the two; with two values the other order has the other signs, and the same difference."""
    matrix = along(n)
    listed = sorted((before, after) for before, after, times in CONTRAST.pairs(n) for _ in range(times))
    for i, j in combinations(range(n), 2):
        assert matrix[:, i] @ matrix[:, j] == CONTRAST.inner(n)
        assert sorted(zip(matrix[:, i].tolist(), matrix[:, j].tolist(), strict=True)) == listed
