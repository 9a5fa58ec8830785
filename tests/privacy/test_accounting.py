"""Conversions against a dense grid, and composed plans against sums done term by term."""

from __future__ import annotations

import sys
from math import comb, exp, log, sqrt

import numpy as np
import pytest

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import BudgetError, MissingExtraError
from crosstally.gaussian_curve import gaussian_cost
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.privacy.accounting import implied, tight_epsilon
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.schema import Attribute, Outside, Schema, Unit
from crosstally.workload import Workload

NAMES = "abcdefghij"
SCHEMA = Schema([Attribute(name, ["x", "y"]) for name in NAMES] + [Attribute("t", ["x", "y", "z"])])
LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN


def plan_of(
    *requests: tuple[Query, Noise], schema: Schema = SCHEMA, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> Plan:
    pure = all(noise.kind is LAPLACE for _, noise in requests)
    return Plan(
        schema,
        tuple(Request(query, noise) for query, noise in requests),
        strategy="test",
        workload=Workload([("a",)]),
        budget=Budget(epsilon=1000) if pure else Budget(rho=1000),
        neighbours=neighbours,
    )


def dense_grid_delta(rho: float, epsilon: float) -> float:
    """Corollary 13 of Canonne, Kamath and Steinke, at the best of 200,000 orders from 1 + 1e-5 to 1 + 1e5."""
    orders = 1 + np.exp(np.linspace(log(1e-5), log(1e5), 200_000))
    exponents = (orders - 1) * (orders * rho - epsilon) - np.log(orders - 1) + orders * np.log1p(-1 / orders)
    return float(np.exp(exponents.min()))


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [
        ("1", "1e-6", 0.024355970),
        ("0.1", "1e-6", 0.00032104769),
        ("3", "1e-9", 0.12058243),
        ("10", "1e-5", 1.7826956),
        ("0.5", "0.01", 0.035228367),
    ],
)
def test_epsilon_and_delta_buy_the_rho_that_a_dense_grid_finds(epsilon: str, delta: str, rho: float) -> None:
    """The literals are the largest rho for which the best order of the grid gives no more than delta."""
    amount = float(Budget(epsilon=epsilon, delta=delta, rule="rho").amount)
    assert amount == pytest.approx(rho, rel=1e-7)
    assert dense_grid_delta(amount, float(epsilon)) == pytest.approx(float(delta), rel=1e-6)
    assert dense_grid_delta(amount * (1 + 1e-6), float(epsilon)) > float(delta)


def test_conversion_agrees_with_an_accountant() -> None:
    """Google's accountant of Renyi divergences, at orders as dense as it takes, says the same epsilon."""
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    for rho, delta in ((0.0243560, 1e-6), (0.5, 1e-9), (0.001, 1e-5)):
        accountant = RdpAccountant(orders=list(1 + np.exp(np.linspace(-3, 9, 4000))))
        accountant.compose(GaussianDpEvent(1 / sqrt(2 * rho)))
        assert implied(Budget(rho=rho), delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-5)


def test_what_a_budget_implies() -> None:
    assert implied(Budget(epsilon="0.1"), "1e-6") == 0.1
    assert implied(Budget(epsilon=1, delta="1e-6"), "1e-6") == pytest.approx(1, rel=1e-6)
    assert implied(Budget(rho="0.5"), 1e-6) == pytest.approx(5.2, abs=0.3)
    assert implied(Budget(rho="1e-12"), 0.5) < 1e-4
    loose = 0.5 + 2 * sqrt(0.5 * log(1e6))
    assert implied(Budget(rho="0.5"), 1e-6) < loose


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, "none", 1e-320])
def test_delta_is_a_probability(delta: object) -> None:
    with pytest.raises(BudgetError, match="delta must be"):
        implied(Budget(rho=1), delta)
    with pytest.raises(BudgetError, match="delta must be"):
        tight_epsilon(plan_of((Cells(("a",)), Noise(LAPLACE, 1.0))), delta)


def laplace_delta(scale: float, times: int, epsilon: float) -> float:
    """Discrete Laplace noise under a shift of one has two losses, plus and minus 1 / scale: a binomial sum."""
    up = 1 / (1 + exp(-1 / scale))
    total = 0.0
    for ups in range(times + 1):
        loss = (2 * ups - times) / scale
        if loss > epsilon:
            total += comb(times, ups) * up**ups * (1 - up) ** (times - ups) * -np.expm1(epsilon - loss)
    return total


def gaussian_delta(scale: float, shift: int, epsilon: float) -> float:
    """The hockey-stick divergence of discrete Gaussian noise and the same noise moved, term by term."""
    reach = int(40 * scale) + shift
    weights = {k: exp(-(k * k) / (2 * scale * scale)) for k in range(-reach - shift, reach + 1)}
    total = sum(exp(-(k * k) / (2 * scale * scale)) for k in range(-reach, reach + 1))
    return sum(max(0.0, weights[k] - exp(epsilon) * weights[k - shift]) for k in range(-reach, reach + 1)) / total


def test_tables_with_laplace_noise() -> None:
    """Twenty tables of epsilon 0.05 each, add-remove: the bound is above the truth by less than one percent."""
    tables = [(name,) for name in NAMES] + [(NAMES[i], NAMES[i - 1]) for i in range(10)]
    plan = plan_of(*((Cells(table), Noise(LAPLACE, 20.0)) for table in tables))
    for delta in (1e-9, 1e-6, 1e-3):
        found = tight_epsilon(plan, delta)
        assert laplace_delta(20.0, 20, found) <= delta < laplace_delta(20.0, 20, found * 0.99 - 1e-3)
        assert found <= 1


def test_a_replaced_row_moves_two_cells() -> None:
    plan = plan_of((Cells(("a", "t")), Noise(LAPLACE, 2.0)), neighbours=Neighbours.REPLACE)
    found = tight_epsilon(plan, 0.05)
    assert laplace_delta(2.0, 2, found) <= 0.05 < laplace_delta(2.0, 2, found - 0.01)


@pytest.mark.parametrize(
    ("query", "shift"), [(Cells(("a",)), 1), (Contrast(("a", "b")), 1), (Linear((Term(7, (("a", (1, -1)),)),)), 7)]
)
def test_one_number_with_gaussian_noise(query: Query, shift: int) -> None:
    found = tight_epsilon(plan_of((query, Noise(GAUSSIAN, 10.0))), 1e-6)
    assert gaussian_delta(10.0, shift, found) <= 1e-6 < gaussian_delta(10.0, shift, found - 0.01)


def test_a_contrast_of_three_values_is_three_shifts() -> None:
    """One row adds 2, -1, -1: as much as a shift of two and two of one."""
    contrast = tight_epsilon(plan_of((Contrast(("t",)), Noise(GAUSSIAN, 10.0))), 1e-6)
    numbers = [(Linear((Term(times, ()),)), Noise(GAUSSIAN, 10.0)) for times in (2, 1, 1)]
    assert contrast == pytest.approx(tight_epsilon(plan_of(*numbers), 1e-6), rel=1e-9)


def test_tight_is_never_above_the_plain_conversion() -> None:
    requests = [(Cells((name,)), Noise(GAUSSIAN, 8.0)) for name in NAMES]
    plan = plan_of(*requests)
    assert tight_epsilon(plan, 1e-6) < 0.95 * implied(Budget(rho=10 / 128), 1e-6)
    assert tight_epsilon(plan_of(*requests, (Cells(("t",)), Noise(LAPLACE, 2.0))), 1e-6) > tight_epsilon(plan, 1e-6)


def test_where_no_worst_case_is_known_the_plain_conversion_stands() -> None:
    units = Schema(SCHEMA.attributes, Unit("id", 3))
    gaussian = plan_of((Cells(("a",)), Noise(GAUSSIAN, 8.0)), schema=units)
    assert tight_epsilon(gaussian, 1e-6) == implied(Budget(mu2=9 * gaussian_cost(8.0)), 1e-6)
    contrast = plan_of((Contrast(("a",)), Noise(GAUSSIAN, 8.0)), neighbours=Neighbours.REPLACE)
    assert tight_epsilon(contrast, 1e-6) == implied(Budget(mu2=4 * gaussian_cost(8.0)), 1e-6)
    wide = plan_of((Cells(("a",)), Noise(GAUSSIAN, 2.0**20)))
    assert tight_epsilon(wide, 1e-6) == implied(Budget(mu2=gaussian_cost(2.0**20)), 1e-6)
    laplace = plan_of(*((Cells((name,)), Noise(LAPLACE, 60.0)) for name in NAMES), schema=units)
    found = tight_epsilon(laplace, 1e-6)  # ten mechanisms of epsilon 0.05: as ten shifts of one at scale 20
    assert laplace_delta(20.0, 10, found) <= 1e-6
    assert found <= 0.5


def test_nothing_measured_gives_nothing_away() -> None:
    empty = Plan(
        SCHEMA,
        (),
        strategy="uniform",
        workload=Workload([("a",)]),
        budget=Budget(rho=1),
        neighbours=Neighbours.ADD_REMOVE,
    )
    assert tight_epsilon(empty, 1e-6) == 0
    total = plan_of((Cells(()), Noise(LAPLACE, 1.0)), neighbours=Neighbours.REPLACE)
    assert tight_epsilon(total, 1e-6) == 0
    dropping = Schema([Attribute("a", ["x", "y"], outside=Outside.DROP)])
    moved = plan_of((Cells(()), Noise(LAPLACE, 1.0)), schema=dropping, neighbours=Neighbours.REPLACE)
    assert tight_epsilon(moved, 1e-9) == pytest.approx(1, abs=1e-3)


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'crosstally\[accounting\]'"):
        tight_epsilon(plan_of((Cells(("a",)), Noise(LAPLACE, 1.0))), 1e-6)
