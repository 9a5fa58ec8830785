"""The lower end of likely errors, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import schema_of
from crosstally.plans.goal import goal_of
from crosstally.strategies.likely import corrected_errors
from crosstally.strategies.verdicts import Expected


def test_equal_cells_are_shrunk_as_their_size_allows() -> None:
    """Cells of 50 and 25 rows, known with variances of 2,500 and 1,875: 2,500 / 2, and 1,875 x 625 / 2,500."""
    goal = goal_of(schema_of(2, 2), None)
    errors = corrected_errors(goal, np.array([2_500.0, 1_875.0]), [np.array([0.5, 0.5])] * 2, 100.0)
    assert errors == pytest.approx([1_250, 468.75])


def test_an_empty_cell_has_no_error() -> None:
    """One of four cells has all rows and keeps its noise; 4,096 draws tell the quarter to 14% in five deviations."""
    goal = goal_of(schema_of(2, 2), None)
    errors = corrected_errors(goal, np.array([1.0, 1.0]), [np.array([1.0, 0.0])] * 2, 1e6)
    assert errors == pytest.approx([0.5, 0.25], rel=0.14)


def test_the_range_in_words() -> None:
    expected = Expected(2, error=246, cells=16, rows=3_000, at_best=50, likely=107)
    assert str(expected).endswith(
        "That is if all are measured; predicted where that is better, likely within 27% to 57% (± 50 to 107): "
        "usable with care to poor."
    )
