"""Corrections of negative cells, against plain versions and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from crosstally.errors import CrosstallyError
from crosstally.inference.joint_correction import clip, clip_and_keep_total, ripple, unchanged
from reference_nonnegativity import clip_and_keep_total as plain_global
from reference_nonnegativity import ripple as plain_ripple

TABLES = arrays(np.float64, array_shapes(max_dims=4, min_side=2, max_side=4), elements=st.integers(-60, 80).map(float))


def noisy_stack(*shape: int, seed: int = 0, mean: float = 4.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.round(rng.exponential(mean, shape) + rng.laplace(0, 10, shape))


@pytest.mark.parametrize("correct", [unchanged, clip, clip_and_keep_total, ripple])
def test_what_is_given_stays_as_it_was(correct) -> None:
    given_tables = noisy_stack(3, 2, 4)
    before = given_tables.copy()
    out = correct(given_tables, 2)
    assert np.array_equal(given_tables, before)
    assert out.shape == before.shape
    assert out is not given_tables


def test_simple_by_hand() -> None:
    assert clip([[3, -2], [-0.5, 0]], 2).tolist() == [[3, 0], [0, 0]]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([4, 2, -3, 5], [3, 1, 0, 4]),
        ([10, 1, -6, 3], [7.5, 0, 0, 0.5]),
        ([1, 2, 3, 4], [1, 2, 3, 4]),
        ([-1, -2, -3, 6], [0, 0, 0, 0]),
        ([-1, -2, -3, -4], [0, 0, 0, 0]),
        ([-1, 0, 2, 0], [0, 0, 1, 0]),
    ],
)
def test_global_by_hand(table: list[float], expected: list[float]) -> None:
    assert clip_and_keep_total(table, 1).tolist() == expected


@settings(deadline=None)
@given(TABLES)
def test_global_is_the_plain_version_and_keeps_the_total(table: np.ndarray) -> None:
    out = clip_and_keep_total(table, table.ndim)
    assert np.allclose(out, plain_global(table), rtol=0, atol=1e-8)
    assert out.min() >= 0
    assert out.sum() == pytest.approx(max(table.sum(), 0), rel=1e-12, abs=1e-12)


def test_ripple_by_hand() -> None:
    """The deficit of 7 goes to one neighbour along the first axis and two along the second: 7/3 each."""
    table = [[-7.0, 3.0, 10.0], [5.0, 0.0, -1.0]]
    assert np.allclose(ripple(table, 2), [[0, 2 / 3, 23 / 3], [8 / 3, 0, -1]], rtol=0, atol=1e-14)


def test_ripple_by_hand_in_two_rounds() -> None:
    """First -8 takes 4 and 4, then -2 takes 1 and 1."""
    assert ripple([[-8.0, 2.0], [20.0, 20.0]], 2).tolist() == [[-1, 0], [16, 19]]


@pytest.mark.parametrize("threshold", [-5.0, float("nan")])
def test_a_threshold_below_zero_is_refused(threshold: float) -> None:
    """Cells above zero would then be corrected upwards, and could be listed again and again within one round."""
    with pytest.raises(CrosstallyError, match="threshold must be a number of at least 0"):
        ripple(noisy_stack(5, 5), 2, threshold=threshold)


def test_only_cells_below_minus_the_threshold_move() -> None:
    assert ripple([-1.0, 5.0], 1).tolist() == [-1, 5]
    assert ripple([-1.5, 5.0], 1).tolist() == [0, 3.5]
    assert ripple([-1.5, 5.0], 1, threshold=2.0).tolist() == [-1.5, 5]
    assert ripple([-1.0, 5.0], 1, threshold=0.5).tolist() == [0, 4]


@settings(max_examples=100, deadline=None)  # the kernel may be compiled on the way
@given(TABLES, st.sampled_from([0.5, 1.0, 7.0]))
def test_ripple_is_the_plain_version(table: np.ndarray, threshold: float) -> None:
    if table.sum() > 0:
        out = ripple(table, table.ndim, threshold=threshold)
        assert np.allclose(out, plain_ripple(table, threshold), rtol=0, atol=1e-8)


@pytest.mark.parametrize("shape", [(2,) * 8, (4, 3, 5), (30, 2), (7,), (2, 40, 3)])
def test_ripple_of_noisy_tables_is_the_plain_version(shape: tuple[int, ...]) -> None:
    """Sparse tables, so that rounds with many cells below occur too."""
    stack = noisy_stack(3, *shape, mean=2.0)
    stack[:, *(0,) * len(shape)] += 200
    out = ripple(stack, len(shape))
    for table, corrected in zip(stack, out, strict=True):
        assert (table < -1).sum() > table.size / 8
        assert np.allclose(corrected, plain_ripple(table, 1.0), rtol=0, atol=1e-8)
        assert corrected.min() >= -1 - 1e-9
        assert corrected.sum() == pytest.approx(table.sum(), rel=1e-9)


@settings(max_examples=100, deadline=None)  # the kernel may be compiled on the way
@given(TABLES)
def test_ripple_ends_on_every_table(table: np.ndarray) -> None:
    out = ripple(table, table.ndim)
    assert out.min() >= -1 - 1e-9
    if table.min() >= -1:
        assert np.array_equal(out, table)
    else:
        assert out.sum() == pytest.approx(max(table.sum(), 0), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("table", [[-5.0, -6.0, -7.0], [-5.0, 2.0, 3.0], [-5.0, 2.0, 1.0]])
def test_a_total_that_is_not_positive_gives_zeros(table: list[float]) -> None:
    assert ripple(table, 1).tolist() == [0, 0, 0]


def test_ripple_of_the_total_alone() -> None:
    assert ripple([-4.0, 3.0], 0).tolist() == [0, 3]


def test_axes_in_another_order_give_the_same() -> None:
    stack = noisy_stack(4, 3, 5) + 3
    assert np.allclose(ripple(stack, 3).transpose(2, 0, 1), ripple(stack.transpose(2, 0, 1), 3), rtol=0, atol=1e-9)


def test_a_table_on_which_ripple_would_wander_is_finished_by_global(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell holds everything and all others lack: what is missing has to find it by chance."""
    monkeypatch.setattr("crosstally.inference.joint_correction._LEAST_STEPS", 0)
    table = np.full((2,) * 12, -2.0)
    table[(0,) * 12] = 2.0 * table.size
    out = ripple(table, 12)
    assert out.min() == 0.0
    assert out.sum() == pytest.approx(table.sum(), rel=1e-9)


@pytest.mark.parametrize(
    "shape", [(64, 64, 16), pytest.param((1000, 50, 100), marks=pytest.mark.verify)], ids=["65,536", "5,000,000"]
)
def test_large_tables(shape: tuple[int, ...]) -> None:
    table = noisy_stack(*shape, mean=1.0)
    table[0, 0, 0] += table.size
    out = ripple(table, 3)
    assert out.min() >= -1 - 1e-9
    assert out.sum() == pytest.approx(table.sum(), rel=1e-9)
