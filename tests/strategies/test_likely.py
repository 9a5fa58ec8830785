"""The range of likely errors: a cell's error by hand, the variation of one release, and what the plan says of it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.schema import PublicCounts
from crosstally.strategies import Direct
from crosstally.strategies.goal import Goal, goal_of
from crosstally.strategies.likely import cell_errors, likely_range
from crosstally.strategies.rules import likely_errors
from crosstally.strategies.verdicts import ExpectedError
from crosstally.strategies.view_shares import Belief

HALVES = [np.array([0.5, 0.5])] * 2


def precision_of(goal: Goal, *by_order: float) -> np.ndarray:
    """The same for all sets of a number of attributes: the total first."""
    out = np.zeros(len(goal.closure))
    for (places, _), own in zip(goal.closure.members, by_order, strict=True):
        out[places] = own
    return out


@pytest.mark.parametrize(("pair", "interaction"), [(0.0, 100.0), (1 / 400, 50.0)])
def test_the_error_of_a_cell_by_hand(pair: float, interaction: float) -> None:
    """100 rows, two attributes of two equally frequent values, total of variance 2,000, one-way tables of 4,000.

    A cell of a one-way table: 2,000 / 4 + 4,000 / 2 = 2,500, and 50 rows squared are as much: half of it. A cell of the
    pair: 2,000 / 16 + 2 x 4,000 / 8 = 1,125 beside 25 rows squared, 1,125 x 625 / 1,750. Its interaction has a sum of
    squares of 400 over four cells: 100 where it is predicted. Measured with a variance of 400, a cell has 400 / 4 = 100
    of noise: 100 x 100 / 200.
    """
    goal = goal_of(schema_of(2, 2), None)
    belief = Belief(np.full(len(goal.closure), 400.0), np.ones(3))
    found = cell_errors(goal, belief, precision_of(goal, 1 / 2_000, 1 / 4_000, pair), HALVES, 100.0)
    assert found == pytest.approx([1_250, 1_125 * 625 / 1_750 + interaction])


def test_an_empty_cell_has_no_error_and_what_is_exact_has_none() -> None:
    goal = goal_of(schema_of(2, 2), None)
    belief = Belief(np.full(len(goal.closure), 400.0), np.ones(3))
    shares = [np.array([1.0, 0.0])] * 2
    rare = cell_errors(goal, belief, precision_of(goal, 1.0, 1.0, 0.0), shares, 1e6)
    assert rare[0] == pytest.approx(0.5 * (1 + 0.5), rel=0.1)  # half of the cells, drawn at random, have all rows
    assert cell_errors(goal, belief, precision_of(goal, *[1e12] * 3), HALVES, 1e6).max() < 1e-9


@pytest.mark.parametrize(("pure", "spread"), [(True, 5), (False, 2)])
def test_the_range_holds_the_variation_of_one_release(*, pure: bool, spread: int) -> None:
    """Eleven values of very many rows: a mean of ten squares, of variance spread / 10; 90% of a normal law."""
    goal = goal_of(schema_of(11), None)
    ((low, high),) = likely_range(goal, lambda _: precision_of(goal, 1e9, 1.0), 10**12, pure=pure).values()
    deviation = math.sqrt(math.log(1 + spread / 10) + 0.2**2)  # 0.2 is the formula's own
    assert math.log(high / low) == pytest.approx(1.645 * deviation, rel=1e-3)
    assert math.sqrt(low * high) == pytest.approx(math.sqrt(10 / 11) * math.exp(-(deviation**2) / 4), rel=1e-3)
    if not pure:  # against 20,000 draws, which have none of the formula's error
        noise = np.random.default_rng(1).normal(size=(20_000, 11))
        errors = np.sqrt(((noise - noise.mean(axis=1, keepdims=True)) ** 2).mean(axis=1))
        assert np.mean((errors > low) & (errors < high)) == pytest.approx(0.91, abs=0.03)


def test_public_shares_take_the_place_of_believed_ones() -> None:
    """Where the only attribute has one value, other cells have next to no error; power laws have rows in all."""
    plain = schema_of(50)
    known = replace(plain, facts=(PublicCounts("a0", (5_000, *[0] * 49)),))
    ranges = []
    for schema in (plain, known):
        goal = goal_of(schema, None)
        ranges.append(likely_range(goal, partial(_always, precision_of(goal, 1e9, 1e-4)), 5_000, pure=False)[1])
    assert ranges[1][1] < ranges[0][0]


def _always(precision: np.ndarray, _: Belief) -> np.ndarray:
    return precision


def test_plans_of_one_stage_have_a_range_too() -> None:
    """1,000 rows in pairs of 100 cells with noise of 200: after inference a cell of ten rows has far less error."""
    found = ct.plan(schema_of(10, 10, 10), epsilon=0.05, rows=1_000, strategy="direct")
    pairs = found.expected[-1]
    assert 0 < pairs.at_best < pairs.likely < 0.5 * pairs.error
    assert "That is before inference, if all are measured; a release is likely within" in str(pairs)
    assert math.isnan(ct.plan(schema_of(10, 10), epsilon=1, strategy="direct").expected[-1].likely)  # without rows


def test_pairs_that_are_not_measured_have_the_error_of_predicting_them() -> None:
    """Half of the least believed size, 0.06 exp(-1.25 sqrt 3), of a million rows: more than exact tables have."""
    schema = schema_of(4, 4)
    ones = Direct().plan(schema, ct.Workload.all_ways(schema, 1), ct.Budget(epsilon=1_000))
    pairs = replace(ones, workload=ct.Workload.all_ways(schema, 2))
    exact = Direct().plan(schema, pairs.workload, ct.Budget(epsilon=1_000))
    assert likely_errors(pairs, 1_000_000)[2][0] > 1_000
    assert likely_errors(exact, 1_000_000)[2][1] < 1


def test_the_range_in_words() -> None:
    expected = ExpectedError(2, error=246, cells=16, rows=3_000, at_best=50, likely=107)
    assert str(expected).endswith(
        "That is before inference, if all are measured; a release is likely within 27% to 57% (±50 to 107): "
        "usable with care to poor."
    )
    assert str(ExpectedError(2, error=44, cells=4, rows=1_000_000, at_best=62, likely=104)).endswith("to 104): good.")
    assert str(ExpectedError(2, error=44, cells=4, rows=1_000_000, at_best=30, likely=104)).endswith("count): good.")
