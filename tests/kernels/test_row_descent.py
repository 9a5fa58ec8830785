"""The descent of rows beside plain counting: every step, at any temperature, on small tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from crosstally.kernels.row_descent import count_rows, descend
from crosstally.synthesis.row_fit import _layout

SHAPE = (2, 3, 4)
AXES: tuple[tuple[int, ...], ...] = ((0,), (0, 1), (2, 1), (0, 1, 2))


def problem(seed: int, rows: int = 12) -> tuple[np.ndarray, list[tuple[tuple[int, ...], np.ndarray, float]]]:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in SHAPE], axis=1).astype(np.int32)
    wanted = [(axes, rng.uniform(0, 3, [SHAPE[a] for a in axes]), float(rng.uniform(0.1, 2))) for axes in AXES]
    return codes, wanted


def distance(codes: np.ndarray, wanted: list[tuple[tuple[int, ...], np.ndarray, float]]) -> float:
    """The weighted squared distance, by its definition."""
    out = 0.0
    for axes, counts, weight in wanted:
        own = np.zeros(counts.shape)
        np.add.at(own, tuple(codes[:, axis] for axis in axes), 1)
        out += weight * float(((own - counts) ** 2).sum())
    return out


def prepared(codes: np.ndarray, wanted: list[tuple[tuple[int, ...], np.ndarray, float]]) -> tuple:
    layout, increments = _layout(SHAPE, [(axes, weight * (1 - 2 * counts), weight) for axes, counts, weight in wanted])
    count_rows(codes, layout, increments)
    return layout, increments


def best_value_by_value(codes: np.ndarray, wanted: list[tuple[tuple[int, ...], np.ndarray, float]]) -> np.ndarray:
    """One sweep of the plain version: the value with the least distance, in the order of the kernel."""
    codes = codes.copy()
    for i in range(len(codes)):
        for turn in range(len(SHAPE)):
            k = (i + turn) % len(SHAPE)
            tried = []
            for value in range(SHAPE[k]):
                other = codes.copy()
                other[i, k] = value
                tried.append(distance(other, wanted))
            if min(tried) < tried[codes[i, k]] - 1e-9:
                codes[i, k] = int(np.argmin(tried))
    return codes


@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_takes_the_best_values(seed: int) -> None:
    codes, wanted = problem(seed)
    plain = best_value_by_value(codes, wanted)
    layout, increments = prepared(codes, wanted)
    descend(codes, layout, increments, 0.0, np.uint64(1))
    assert (codes == plain).all()


@pytest.mark.parametrize("temperature", [0.0, 0.5, 20.0])
def test_increments_stay_those_of_the_rows(temperature: float) -> None:
    codes, wanted = problem(9)
    layout, increments = prepared(codes, wanted)
    for seed in (5, 6, 7):
        assert descend(codes, layout, increments, temperature, np.uint64(seed)) >= 0
    assert increments == pytest.approx(prepared(codes, wanted)[1])
    assert codes.min() >= 0
    assert (codes.max(axis=0) < SHAPE).all()


def test_at_a_temperature_rows_have_the_law_of_their_distance() -> None:
    """Two rows of two binary attributes: all 16 states, by 20,000 sweeps with a fixed seed; a wrong law is seen."""
    wanted = [((0, 1), np.array([[1.0, 0.0], [0.5, 0.5]]), 1.0)]
    states = [np.array(state, np.int32).reshape(2, 2) for state in product(range(2), repeat=4)]
    laws = {t: np.exp([-distance(state, wanted) / t for state in states]) for t in (1.0, 2.0)}
    layout, increments = _layout((2, 2), [(axes, weight * (1 - 2 * n), weight) for axes, n, weight in wanted])
    codes, seen = states[0].copy(), np.zeros(16)
    count_rows(codes, layout, increments)
    rng = np.random.default_rng(1)
    for _ in range(20_000):
        descend(codes, layout, increments, 1.0, np.uint64(rng.integers(1, 2**63)))
        seen[int(codes.ravel() @ [8, 4, 2, 1])] += 1
    off = {t: np.abs(seen / seen.sum() - law / law.sum()).max() for t, law in laws.items()}
    assert off[1.0] < 0.015
    assert off[2.0] > 0.03
