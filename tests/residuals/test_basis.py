"""Tables to coefficients and back, against matrices written out."""

from __future__ import annotations

from functools import reduce
from itertools import chain, combinations
from math import prod, sqrt

import numpy as np
import pytest

from crosstally.residuals import decompose, rebuild
from reference_residuals import helmert, kron

SHAPES = [(), (2,), (5,), (2, 2, 2), (3, 2), (4, 3, 2), (2, 7, 3)]


def random_table(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(100, 40, shape)


def test_the_coefficients_of_three_values_by_hand() -> None:
    assert np.allclose(decompose([6, 2, 1], ndim=1), [9, 4 / sqrt(2), 6 / sqrt(6)], rtol=1e-15)


@pytest.mark.parametrize("shape", SHAPES)
def test_decompose_applies_helmert_along_every_axis(shape: tuple[int, ...]) -> None:
    table = random_table(*shape)
    expected = kron([helmert(n) for n in shape]) @ table.ravel()
    assert np.allclose(decompose(table, len(shape)).ravel(), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
def test_rebuild_is_the_inverse(shape: tuple[int, ...]) -> None:
    coefficients = random_table(*shape)
    expected = np.linalg.inv(kron([helmert(n) for n in shape])) @ coefficients.ravel()
    assert np.allclose(rebuild(coefficients, len(shape)).ravel(), expected, rtol=0, atol=1e-11)


def test_tables_in_a_stack_are_separate() -> None:
    stack = random_table(2, 3, 4, 2)
    for i, j in np.ndindex(2, 3):
        assert np.allclose(decompose(stack, 2)[i, j], decompose(stack[i, j], 2), rtol=1e-13)
        assert np.allclose(rebuild(stack, 2)[i, j], rebuild(stack[i, j], 2), rtol=1e-13)


def test_whole_numbers_are_taken_and_left_as_they_were() -> None:
    counts = np.array([[3, 1], [0, 4]])
    assert decompose(counts, 2)[0, 0] == 8.0
    assert counts.tolist() == [[3, 1], [0, 4]]
    assert counts.dtype == np.int64


@pytest.mark.parametrize("shape", [(3, 2), (4, 3, 2), (2, 2, 2, 2)])
def test_a_table_is_the_sum_of_its_centred_residuals(shape: tuple[int, ...]) -> None:
    """R_B is the marginal over B, centred along each axis; the table is the sum of R_B / prod(n_i, i outside B)."""
    table, axes = random_table(*shape), range(len(shape))
    total = np.zeros(shape)
    for inside in chain.from_iterable(combinations(axes, k) for k in range(len(shape) + 1)):
        outside = tuple(axis for axis in axes if axis not in inside)
        residual = table.sum(axis=outside, keepdims=True)
        for axis in inside:
            residual = residual - residual.mean(axis=axis, keepdims=True)
        part = residual / prod(shape[axis] for axis in outside)
        takes_part = reduce(np.multiply.outer, [(np.arange(n) > 0) == (i in inside) for i, n in enumerate(shape)])
        assert np.allclose(rebuild(decompose(table, len(shape)) * takes_part, len(shape)), part, rtol=0, atol=1e-11)
        total = total + part
    assert np.allclose(total, table, rtol=0, atol=1e-11)


def test_an_attribute_of_a_thousand_values() -> None:
    table = np.random.default_rng(1).normal(0, 1000, (1000, 3))
    expected = np.einsum("ij,kl,jl->ik", helmert(1000), helmert(3), table)
    assert np.allclose(decompose(table, 2), expected, rtol=0, atol=1e-8)
    assert np.allclose(rebuild(decompose(table, 2), 2), table, rtol=0, atol=1e-9)
