"""The noise is what it claims to be, on whole numbers of 64 bits."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import crosstally
from crosstally.budget import Noise, NoiseKind, Sensitivity
from crosstally.errors import PlanError
from crosstally.privacy.noise import LIMIT, Mechanism, draw, mechanism
from reference_privacy import noise_p_value

ONE = Sensitivity(1, 1)
LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN


@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
@pytest.mark.parametrize("scale", [0.8, 3.0, 107.3])
def test_noise_has_its_scale_and_no_other(kind: NoiseKind, scale: float) -> None:
    """False alarms: one in a million for each case. A scale that is 0.7 or 1.3 times the claim is rejected."""
    sample = draw(np.zeros(10_000, np.int64), Noise(kind, scale), ONE).tolist()
    fits = [noise_p_value(sample, kind.value, scale * claimed) > 1e-6 for claimed in (1.0, 0.7, 1.3)]
    assert fits == [True, False, False]


@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_cells_get_noise_of_their_own(kind: NoiseKind) -> None:
    """Neighbouring cells are uncorrelated. False alarms: below one in a million (5.2 standard deviations)."""
    sample = draw(np.zeros(10_000, np.int64), Noise(kind, 20.0), ONE).astype(float)
    assert abs(np.corrcoef(sample[1:], sample[:-1])[0, 1]) < 5.2 / np.sqrt(10_000)


def test_every_value_is_drawn_once_whatever_the_number_of_threads(threads: int) -> None:
    """Pieces of at most 4,096 values: 20,000 of them make five, and each value comes back in its place."""
    asked: list[np.ndarray] = []

    def one_more(piece: np.ndarray) -> list[int]:
        asked.append(piece)
        return [value + 1 for value in piece.tolist()]

    values = np.arange(20_000).reshape(100, 200)
    assert np.array_equal(Mechanism(Noise(LAPLACE, 1.0), one_more).draw(values), values + 1), threads
    assert sorted(map(len, asked)) == [3_616, 4_096, 4_096, 4_096, 4_096]
    assert sorted(np.concatenate(asked).tolist()) == list(range(20_000))


@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_pieces_have_noise_of_their_own(threads: int, kind: NoiseKind) -> None:
    """Two pieces, cell by cell, are uncorrelated. False alarms: below one in a million (5.2 standard deviations)."""
    sample = draw(np.zeros(2 * 4_096, np.int64), Noise(kind, 20.0), ONE).astype(float)
    assert abs(np.corrcoef(sample[:4_096], sample[4_096:])[0, 1]) < 5.2 / np.sqrt(4_096), threads
    assert not np.array_equal(sample[:4_096], sample[4_096:])


def test_two_draws_differ() -> None:
    noise = Noise(LAPLACE, 1e6)
    first, second = (draw(np.zeros(20, np.int64), noise, ONE) for _ in range(2))
    assert not np.array_equal(first, second)


def test_noisy_cells_are_whole_numbers_in_the_same_shape() -> None:
    noisy = draw(np.full((2, 3, 1), 7, np.int64), Noise(GAUSSIAN, 2.0), ONE)
    assert noisy.dtype == np.int64
    assert noisy.shape == (2, 3, 1)
    assert draw(np.array(5, np.int64), Noise(LAPLACE, 1.0), ONE).shape == ()
    assert draw(np.zeros(0, np.int64), Noise(LAPLACE, 1.0), ONE).shape == (0,)


@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
@pytest.mark.parametrize("count", [3_000_000_000, -3_000_000_000, 2**53 + 1, LIMIT - 1, 1 - LIMIT])
def test_counts_far_above_32_bits_keep_every_digit(kind: NoiseKind, count: int) -> None:
    """At a scale of 0.01 noise is 0 but once in e^100 draws."""
    assert draw(np.full(3, count, np.int64), Noise(kind, 0.01), ONE).tolist() == [count] * 3


@pytest.mark.parametrize("count", [LIMIT, -LIMIT, 2**63 - 1, -(2**63)])
def test_counts_near_the_bounds_are_refused_without_being_told(count: int) -> None:
    with pytest.raises(PlanError, match="must be below 2\\^62") as caught:
        draw(np.array([0, count], np.int64), Noise(LAPLACE, 1.0), ONE)
    assert str(abs(count)) not in str(caught.value)


def test_only_whole_numbers_are_given_noise() -> None:
    with pytest.raises(PlanError, match="int64 values, got float64"):
        draw(np.zeros(2), Noise(LAPLACE, 1.0), ONE)


@pytest.mark.parametrize(
    "sensitivity", [Sensitivity(1, 1), Sensitivity(216, 108), Sensitivity(7, 5), Sensitivity(0, 0)]
)
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
@pytest.mark.parametrize("scale", [0.1, 1 / 3, 108.0, 2.0**51])
def test_opendp_proves_the_cost_that_is_charged(sensitivity: Sensitivity, kind: NoiseKind, scale: float) -> None:
    assert mechanism(Noise(kind, scale), [sensitivity]).noise == Noise(kind, scale)


@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_a_cost_below_the_proof_is_refused(kind: NoiseKind, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = {LAPLACE: Fraction(1, 2), GAUSSIAN: Fraction(1, 8)}[kind]
    monkeypatch.setattr(Noise, "cost", lambda *_: honest)
    mechanism(Noise(kind, 2.0), [ONE])
    monkeypatch.setattr(Noise, "cost", lambda *_: honest * (1 - Fraction(1, 10**6)))
    with pytest.raises(PlanError, match="more than the"):
        mechanism(Noise(kind, 2.0), [ONE])


def test_only_one_module_imports_opendp() -> None:
    package = Path(crosstally.__file__).parent
    importing = re.compile(r"^\s*(?:import|from)\s+opendp\b", re.MULTILINE)
    found = [path for path in package.rglob("*.py") if importing.search(path.read_text(encoding="utf-8"))]
    assert [path.relative_to(package).as_posix() for path in found] == ["privacy/noise.py"]
