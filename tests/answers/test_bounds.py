"""Bounds of tables whose attributes were never measured together: by hand, and whatever the truth is."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from crosstally.answers.bounds import margin_bounds
from crosstally.answers.changes import Change
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import Bounds
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.releases import Release, Statement, publish
from simulated import measured, schema_of

STATEMENT = Statement(strategy="test", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
LAPLACE = Noise(NoiseKind.LAPLACE, 5.0)
EQUAL = np.diag([700, 1_300])


def released(rng: np.random.Generator, full: NDArray[np.int64], views: Sequence[Sequence[int]]) -> Release:
    return publish(schema_of(*full.shape), measured(rng, full, views, LAPLACE), STATEMENT)


OFF = Bounds(ends=lambda _, values, level: (values - 3, values + 2))
"""Ends three below and two above."""


MARGINS = {
    (): 100,
    ("a0",): [70, 30],
    ("a1",): [60, 40],
    ("a0", "a1"): [[45, 25], [15, 15]],
    ("a1", "a2"): [[50, 10]] * 2,
}


def marginal(names: Sequence[str]) -> Marginal:
    values = np.array(MARGINS[tuple(names)], float)
    schema = schema_of(2, 2, 2).subset(*names)
    return Marginal(schema, values, method="m", error_kind=ErrorKind.MODELLED, uncertainty=OFF)


def test_two_attributes_by_hand() -> None:
    """(70 - 3) + (60 - 3) - (100 + 2) = 22 to min(72, 62); (30 - 3) + (40 - 3) - 102 < 0."""
    low, high = margin_bounds(marginal, ("a0", "a1"), (2, 2), (1, 2), None, np.full((2, 2), 30.0), 0.95)
    assert low.tolist() == [[22, 2], [0, 0]]
    assert high.tolist() == [[62, 42], [32, 32]]


def test_what_two_tables_share_is_taken_off_instead_of_everyone() -> None:
    """n(0, 0, 0) is at least n(0, 0, .) + n(., 0, 0) - n(., 0, .): (45 - 3) + (50 - 3) - (60 + 2) = 27."""
    values = np.full((2, 2, 2), 30.0)
    low, high = margin_bounds(marginal, ("a0", "a1", "a2"), (2, 2, 2), (3, 6), None, values, 0.95)
    assert (low[0, 0, 0], high[0, 0, 0], high[0, 0, 1]) == (27, 47, 12 if high[0, 0, 1] < 30 else 30)


def test_sums_are_bounded_by_the_margins_they_fill_and_touch() -> None:
    """Without a0 = 1 and a1 = 1: at least a0 = 0, 67; at most everyone, cell by cell 62 + 42 + 32.

    Touched margins say at most 72 + 32 = 104 or 62 + 42 = 104.
    """
    chosen = np.array([[True, True], [True, False]])
    change = Change(lambda stack: (stack * chosen).sum(axis=(1, 2)))
    low, high = margin_bounds(marginal, ("a0", "a1"), (2, 2), (1, 2), change, np.array(85.0), 0.95)
    assert (float(low), float(high)) == (67, 104)


def test_equal_attributes_never_measured_together() -> None:
    """A = B, each measured alone: every cell is covered in at least 90 of 100 releases, within Fréchet's bounds.

    A cell is missed where one of two one-way ends is too short: in 4% of 400 other releases. The draws are fixed; fewer
    than 90 of 100 had a probability of 0.2%. Without the noise of the margins about half of the releases miss a cell.
    """
    rng = np.random.default_rng(4)
    held, plain = np.zeros((2, 2)), np.zeros((2, 2))
    for _ in range(100):
        release = released(rng, EQUAL, [(0,), (1,)])
        answer = release.marginal("a0", "a1", method="bounds")
        assert answer.error_kind is ErrorKind.BOUNDS
        low, high = answer.interval()
        held += (low <= EQUAL) & (high >= EQUAL)
        one, other = (release.marginal(name) for name in ("a0", "a1"))
        assert (high <= np.minimum(one.interval()[1][:, None], other.interval()[1][None])).all()
        plain += np.minimum(one.values[:, None], other.values[None]) + 0.5 >= EQUAL
    assert held.min() >= 90
    assert plain.min() < 80


def test_what_bounds_say_of_themselves() -> None:
    rng = np.random.default_rng(5)
    release = released(rng, np.full((2, 3, 2), 100), [(0, 1), (2,)])
    answer = release.marginal("a2", "a0", method="bounds")
    assert answer.method == "maximum-entropy"
    assert np.isnan(answer.std_error).all()
    assert "what was never measured" in repr(answer)
    for method in ("least-squares", "linear-program"):
        assert release.marginal("a2", "a0", method=method).error_kind is ErrorKind.BOUNDS
    some = release.marginal("a0", where="a2 = 0 and a1 in {0, 1}", method="bounds")
    assert some.error_kind is ErrorKind.BOUNDS
    assert ((some.interval()[0] <= some.values) & (some.values <= some.interval()[1])).all()
    assert np.array_equal(pickle.loads(pickle.dumps(answer)).interval(), answer.interval())
    missing = released(rng, np.full((2, 3), 100), [(0,)])
    assert missing.marginal("a1").error_kind is ErrorKind.BOUNDS
    assert missing.marginal("a1").interval()[1].tolist() == [float(missing.marginal().interval()[1])] * 3


def test_the_interval_of_the_total_is_that_of_its_noise() -> None:
    """One noisy total of scale 5: |noise| exceeds h with probability 2 a^(h + 1) / (1 + a), where a = e^(-1/5)."""
    a = math.exp(-1 / 5)
    half = next(h for h in range(100) if 2 * a ** (h + 1) / (1 + a) <= 0.05)
    views = measured(np.random.default_rng(1), EQUAL, [()], LAPLACE)
    answer = publish(schema_of(2, 2), views, STATEMENT).marginal()
    assert answer.error_kind is ErrorKind.CORRECTED
    assert [float(end - answer.values) for end in answer.interval()] == pytest.approx([-half, half], abs=1)
