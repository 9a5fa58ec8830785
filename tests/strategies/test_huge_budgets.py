"""Huge and tiny budgets, which tests and demonstrations use: every strategy releases, and nothing warns or overflows.

Warnings are errors in this test suite: what warns here would have reached a user.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.strategies import NAMED

BUDGETS: list[dict[str, Any]] = [
    {"epsilon": 1e5},
    {"epsilon": 1e5, "delta": 1e-6},
    {"epsilon": 1e12},
    {"epsilon": 1e300},
    {"rho": 1e20},
    {"rho": 1e300},
    {"epsilon": 1e-9},
]


def rows_of(schema: ct.Schema) -> pa.Table:
    return pa.table({a.name: [a.labels[i * i % a.size] for i in range(60)] for a in schema.attributes})


def read(release: ct.Release) -> list[float]:
    table = release.marginal("a0", "a1")
    table.interval()
    assert release.describe()
    assert str(table)
    return [float(each) for each in table.sum("a1").values.tolist()]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_every_strategy_releases_with_it(budget) -> None:
    """Of a0 the 60 rows have 20, 40 and 0: squares are never 2 modulo 3."""
    schema = schema_of(3, 2, 4)
    gaussian, choosing = {"residual"}, {"adaptive", "mwem"}
    left = {"uniform"} | (gaussian if set(budget) == {"epsilon"} else set())
    left |= choosing if budget.get("epsilon") == 1e300 else set()  # see below
    for name in sorted({"auto", *NAMED} - left):
        counts = read(ct.release(rows_of(schema), schema, strategy=name, **budget))
        if budget.get("epsilon", 1) >= 1:
            assert counts == pytest.approx([20, 40, 0], abs=1e-6), name


def test_wide_schemas_release_with_it() -> None:
    """All pairs have 304,000 cells: values are put into groups, by what the first stage knows exactly."""
    schema = schema_of(*[40] * 20)
    read(ct.release(rows_of(schema), schema, strategy="two-stage", epsilon=1e5))


def test_a_choice_whose_cost_nobody_can_prove_is_left_out() -> None:
    """With epsilon 1e300 the noise of a choice costs about 1e599 in rho, in which OpenDP proves it."""
    schema = schema_of(3, 2, 4)
    with pytest.warns(UserWarning, match="stage 2 of .* is left out.*: OpenDP proves no cost for gumbel"):
        release = ct.release(rows_of(schema), schema, strategy="adaptive", epsilon=1e300)
    assert read(release) == pytest.approx([20, 40, 0], abs=1e-6)
