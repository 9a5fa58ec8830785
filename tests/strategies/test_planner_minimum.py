"""The planner finds the minimum of ICDE 2013's example: one table with the whole budget."""

import pytest

import crosstally as ct


def test_the_planner_measures_ab_alone() -> None:
    """A and AB of three binary attributes: 16 / epsilon^2 in all, where both tables apart cost 46.168."""
    schema = ct.Schema([ct.Attribute(name, ["0", "1"]) for name in "ABC"])
    found = ct.plan(schema, epsilon=0.001, workload=ct.Workload([("A",), ("A", "B")]))
    assert 6 * (found.chosen.rms_error * 0.001) ** 2 == pytest.approx(16, rel=1e-5)
    assert [request.query.attributes for request in found.chosen.requests] == [("A", "B")]
