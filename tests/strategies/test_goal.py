"""What a plan is for, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from conftest import schema_of
from crosstally.strategies.goal import goal_of, weighing_tables
from crosstally.workload import Workload


def test_the_score_is_the_geometric_mean_of_rms_errors() -> None:
    """Two orders of two attributes: the higher one counts for those up to four, so shares are 1/4 and 3/4."""
    goal = goal_of(schema_of(2, 3), None)
    assert goal.shares.tolist() == [0.25, 0.75]
    assert goal.score(np.array([16.0, 1.0])) == pytest.approx(2**0.5)
    assert goal.score(np.array([9.0, 9.0])) == pytest.approx(3.0)


def test_one_way_tables_count_three_times_and_each_table_by_its_mean_cell() -> None:
    """Named: a pair of 2 x 3 values; with it come the total and two one-way tables, which share 3."""
    found = dict(weighing_tables(schema_of(2, 3), Workload([("a0", "a1")])))
    expected = {("a0", "a1"): 1 / 6, ("a0",): 1 / 2, ("a1",): 1 / 3, (): 1.0}
    assert found == pytest.approx(expected)


def test_where_an_attribute_has_a_matrix_errors_are_means_over_tables() -> None:
    """The total and two one-way tables, then the pair; an error that is not known counts only where its table does."""
    goal = goal_of(schema_of(2, 3), None)
    found = goal.errors_of(SimpleNamespace(linear=True, of_tables=np.array([3.0, 6.0, 9.0, np.nan])))
    assert found[0] == pytest.approx(6)
    assert np.isnan(found[1])
