"""Fourier: what is measured, with which noise, and that its error and its cost are what they are said to be."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.budget import Budget, Neighbours, NoiseKind
from crosstally.errors import CrosstallyError, PlanError, TooManyCellsError
from crosstally.measurements import Measurement
from crosstally.privacy.noise import mechanism
from crosstally.query.queries import Cells
from crosstally.residuals import combine
from crosstally.schema import Outside, Unit
from crosstally.strategies.fourier import Fourier, bit_schema, bit_table, bit_workload, closure, rows_as_bits
from crosstally.workload import Workload
from reference_fourier import coefficient_matrix, downward_closure, marginal_matrix
from reference_privacy import brute_force_cost

BINARY = schema_of(*[2] * 16)
ADULT = schema_of(9, 16, 7, 15, 6, 5, 2, 2)
PAIRS = Workload.all_ways(BINARY, 2)


def test_each_coefficient_of_the_downward_closure_is_measured_once() -> None:
    workload = Workload([("a0", "a3"), ("a1",), ("a3", "a2", "a1")])
    plan = Fourier().plan(BINARY, workload, Budget(epsilon=1))
    asked = [frozenset(request.query.attributes) for request in plan.requests]
    assert set(asked) == downward_closure([("a0", "a3"), ("a1",), ("a1", "a2", "a3")])
    assert len(asked) == len(set(asked)) == 10
    assert plan.requests[0].query == Cells(())
    assert all(request.query.is_residual for request in plan.requests[1:])
    assert plan.cells == 10
    assert plan.covers


def test_what_a_residual_counts_for_is_its_part_of_every_cell() -> None:
    """By the recovery matrix of the definition: marginals = (1/8) M H^T coefficients for three binary attributes."""
    sets = [(), (0,), (1,), (2,), (0, 1), (1, 2)]
    signs = coefficient_matrix(3, sets)
    recovery = np.vstack([marginal_matrix((2, 2, 2), [(0, 1)]), marginal_matrix((2, 2, 2), [(1, 2)])]) @ signs.T / 8
    weights = closure(schema_of(2, 2, 2), Workload([("a0", "a1"), ("a1", "a2")], weights=[1, 3]))
    expected = np.array([1] * 4 + [3] * 4) @ recovery**2
    # the closure counts orthonormal coefficients: c / sqrt(2) for each attribute
    found = [weights[tuple(f"a{i}" for i in names)] / 2 ** len(names) for names in sets]
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("strategy", "neighbours", "scale", "error"),
    [
        (Fourier(budgets="uniform"), Neighbours.ADD_REMOVE, 137, 137 * math.sqrt(0.5)),
        (Fourier(budgets="uniform", sensitivity="paper"), Neighbours.ADD_REMOVE, 137, 137 * math.sqrt(0.5)),
        (Fourier(budgets="uniform", sensitivity="paper"), Neighbours.REPLACE, 274, 274 * math.sqrt(0.5)),
        # the total does not move: 3 of the 4 coefficients of a cell have noise
        (Fourier(budgets="uniform"), Neighbours.REPLACE, 144, 144 * math.sqrt(0.375)),
    ],
)
def test_all_pairs_of_16_attributes_with_equal_budgets(strategy, neighbours, scale, error) -> None:
    """Each cell is a sum of four coefficients over 4: its variance is 4 x 2 b^2 / 16."""
    plan = strategy.plan(BINARY, PAIRS, Budget(epsilon=1), neighbours=neighbours)
    assert plan.requests[-1].noise.scale == pytest.approx(scale, rel=1e-8)
    assert plan.rms_error == pytest.approx(error, rel=1e-4)


def test_all_pairs_of_16_attributes_with_optimal_budgets() -> None:
    """(sum of s^(1/3))^3 over the 480 cells: s = 2 x 30 once, 2 x 3.75 for 16 and 2 x 0.25 for 120 coefficients."""
    closed = (60 ** (1 / 3) + 16 * 7.5 ** (1 / 3) + 120 * 0.5 ** (1 / 3)) ** 3
    assert math.sqrt(closed / 480) == pytest.approx(68.03, abs=0.005)
    plan = Fourier().plan(BINARY, PAIRS, Budget(epsilon=1))
    assert plan.rms_error == pytest.approx(math.sqrt(closed / 480), rel=1e-4)
    paper = Fourier(sensitivity="paper").plan(BINARY, PAIRS, Budget(epsilon=1), neighbours=Neighbours.REPLACE)
    assert paper.rms_error == pytest.approx(2 * math.sqrt(closed / 480), rel=1e-4)


def test_gaussian_budgets_are_optimal_too() -> None:
    """(sum of sqrt(s))^2 / (2 rho) with s = 30, 3.75 and 0.25: no other budgets have a lower sum of variances."""
    closed = (math.sqrt(30) + 16 * math.sqrt(3.75) + 120 * math.sqrt(0.25)) ** 2
    plan = Fourier().plan(BINARY, PAIRS, Budget(rho="0.005"))
    assert plan.rms_error**2 * 480 == pytest.approx(closed / 0.01, rel=1e-6)
    assert {request.noise.kind for request in plan.requests} == {NoiseKind.GAUSSIAN}


def test_attributes_of_many_values_are_measured_as_cells_under_laplace_noise() -> None:
    schema = schema_of(2, 2, 2, 3, 5)
    asked = {
        request.query.attributes: request.query.kind
        for request in Fourier().plan(schema, Workload.up_to(schema, 3), Budget(epsilon=1)).requests
    }
    # contrast: 4 (1 - 1/n)^2 for n > 2, 1/2 for n = 2; cells: 1
    assert asked["a3",] == "cells"
    assert asked["a0",] == "contrast"
    assert asked["a0", "a3"] == "contrast"  # 16/9 x 1/2 < 1
    assert asked["a0", "a4"] == "cells"  # 64/25 x 1/2 > 1
    assert asked["a0", "a1", "a4"] == "contrast"  # 64/25 x 1/4 < 1
    assert asked["a3", "a4"] == "cells"
    gaussian = Fourier().plan(schema, Workload.up_to(schema, 3), Budget(rho=1)).requests
    assert all(request.query.is_residual for request in gaussian[1:])


def test_bits_are_many_times_worse_than_residuals() -> None:
    workload = Workload.all_ways(ADULT, 2)
    bits = Fourier(encoding="bits").plan(ADULT, workload, Budget(epsilon=1))  # weighted by the cells of real labels
    assert bits.score == pytest.approx(238, abs=0.5)
    assert Fourier().plan(ADULT, workload, Budget(epsilon=1)).rms_error < 34


CASES = {
    "2x2x2": schema_of(2, 2, 2),
    "2x3": schema_of(2, 3),
    "2x2, drop": schema_of(2, 2, outside=Outside.DROP),
    "2x3, units of 2": schema_of(2, 3, unit=Unit("id", 2)),
    "2x2x3": schema_of(2, 2, 3),
}
OPTIONS = [
    Fourier(encoding=encoding, budgets=budgets)
    for encoding in ("residual", "bits")
    for budgets in ("uniform", "optimal")
]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(rho="0.1")], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("schema", CASES.values(), ids=CASES.keys())
def test_no_two_neighbours_lose_more_than_the_plan_costs(schema, budget, neighbours) -> None:
    for strategy in OPTIONS:
        plan = strategy.plan(schema, Workload.up_to(schema, 2), budget, neighbours=neighbours)
        if math.prod(plan.schema.shape) > 16:
            continue
        found = brute_force_cost(plan.schema, plan.requests, neighbours)[0 if budget.pure else 1]
        assert found <= plan.cost <= budget.amount
        assert float(plan.cost) == pytest.approx(float(found), rel=1e-9)
        assert float(found) == pytest.approx(float(budget.amount), rel=1e-6)


def standardised(schema, strategy, budget, neighbours, releases) -> np.ndarray:
    """For each release the mean over all tables of squared error / predicted squared error."""
    rng = np.random.default_rng(3)
    codes = {a.name: rng.integers(0, a.size, 200) for a in schema.attributes}
    workload = Workload.up_to(schema, 2)
    plan = strategy.plan(schema, workload, budget, neighbours=neighbours)
    truth = {}
    for names in {*workload.tables, ()}:
        truth[names] = np.zeros(schema.sizes(names), np.int64)
        np.add.at(truth[names], tuple(codes[name] for name in names), 1 if names else 200)
    out = np.zeros(releases)
    samplers = [mechanism(r.noise, [r.query.sensitivity(schema, neighbours)]) for r in plan.requests]
    answers = [np.asarray(r.query.answer(truth[r.query.attributes])) for r in plan.requests]
    for i in range(releases):
        drawn = []
        for request, sampler, exact in zip(plan.requests, samplers, answers, strict=True):
            noise, values = request.noise, sampler.draw(exact)
            drawn.append(Measurement(request.query, values, variance=noise.variance, noise=noise, origin="test"))
        found = combine(schema, drawn)
        for table in workload.tables:
            error = np.mean((found.table(table) - truth[table]) ** 2)
            out[i] += error / plan.errors[table] ** 2 / len(workload.tables)
    return out


def test_predicted_error_is_measured_error() -> None:
    """False-alarm rate: |t| beyond 6 with 59 degrees of freedom has probability 1.3e-7."""
    found = [
        standardised(schema, Fourier(), budget, neighbours, 60)
        for schema in (schema_of(2, 2, 2, 2), schema_of(2, 3, 4))
        for budget in (Budget(epsilon=1), Budget(rho="0.1"))
        for neighbours in Neighbours
    ]
    family = np.mean(found, axis=0)

    def score(scale: float) -> float:
        scaled = family / scale**2
        return float((scaled.mean() - 1) / (scaled.std(ddof=1) / math.sqrt(len(scaled))))

    assert abs(score(1.0)) < 6
    assert abs(score(1.2)) > 6, "noise 20% larger than claimed is caught"
    assert abs(score(1 / 1.2)) > 6


def test_rows_in_bits_give_back_the_table() -> None:
    schema = schema_of(3, 2, 5)
    rng = np.random.default_rng(0)
    codes = {a.name: rng.integers(0, a.size, 100) for a in schema.attributes}
    plan = Fourier(encoding="bits").plan(schema, Workload([("a2", "a0")]), Budget(epsilon=10_000))
    assert plan.schema.names == ("a0.0", "a0.1", "a1.0", "a2.0", "a2.1", "a2.2")
    release = ct.release(rows_as_bits(schema, codes), plan=plan).refit(nonnegative="none")
    (bits,) = bit_workload(schema, Workload([("a2", "a0")])).tables
    truth = np.zeros((5, 3))
    np.add.at(truth, (codes["a2"], codes["a0"]), 1)
    found = bit_table(schema, ("a2", "a0"), release.marginal(*bits).values)
    np.testing.assert_allclose(found, truth, atol=1e-6)


def test_bits_keep_unit_and_dropping() -> None:
    schema = schema_of(3, 4, outside=Outside.DROP, unit=Unit("id", 3))
    bits = bit_schema(schema)
    assert (bits.max_rows, bits.may_drop) == (3, True)
    assert not bit_schema(schema_of(3)).may_drop


def test_a_release_under_replacement_knows_the_total() -> None:
    rows = pa.table({"a0": ["0", "1", "1"], "a1": ["0", "0", "1"]})
    release = ct.release(rows, schema_of(2, 2), epsilon=1, strategy=Fourier(), neighbours=Neighbours.REPLACE)
    assert release.marginal().values == pytest.approx(3)


def test_names_and_mistakes() -> None:
    assert Fourier().name == "fourier"
    assert Fourier(encoding="bits", budgets="uniform", sensitivity="paper").name == "fourier-bits-uniform-paper"
    for wrong in ({"encoding": "fourier"}, {"budgets": "best"}, {"sensitivity": "none"}):
        with pytest.raises(PlanError, match="must be"):
            Fourier(**wrong)
    with pytest.raises(PlanError, match="the paper's sensitivity is for attributes of two values and Laplace noise"):
        Fourier(sensitivity="paper").plan(BINARY, PAIRS, Budget(rho=1))
    with pytest.raises(PlanError, match="the paper's sensitivity"):
        Fourier(sensitivity="paper").plan(ADULT, None, Budget(epsilon=1))
    wide = schema_of(*[2] * 22)
    with pytest.raises(TooManyCellsError, match="at most 2,000,000 residuals, got 4,194,304"):
        Fourier().plan(wide, Workload([wide.names]), Budget(epsilon=1))
    with pytest.raises(CrosstallyError, match="each weight must be a positive number"):
        Fourier().plan(BINARY, Workload([("a0",)], weights=[-1]), Budget(epsilon=1))
    plan = Fourier().plan(BINARY, PAIRS, Budget(epsilon=1))
    assert ct.Plan.from_dict(plan.to_dict()).requests == plan.requests


def test_impossible_requests_spend_nothing() -> None:
    schema = schema_of(3, 2)
    rows = pa.table({"a0": ["0", "2"], "a1": ["0", "1"]})
    ledger = ct.Ledger.in_memory(schema=schema, budget=Budget(epsilon=1))
    with pytest.raises(PlanError, match="the paper's sensitivity"):
        ct.release(rows, schema, epsilon=1, strategy=Fourier(sensitivity="paper"), ledger=ledger)
    with pytest.raises(CrosstallyError, match="unknown attribute 'b'"):
        ct.release(rows, schema, epsilon=1, strategy=Fourier(), workload=Workload([("b",)]), ledger=ledger)
    assert ledger.spent == 0
    assert ledger.entries() == ()
