"""Totals and means of measures: from rows to answers, by hand and against fresh noise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import crosstally as ct
from cli_runs import run
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import CrosstallyError, OutsideValueError, PlanError, QueryError, ReleaseError, SchemaError
from crosstally.measurements import Measurement
from crosstally.pipeline import count_part
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.measure import measure
from crosstally.query.queries import Cells
from crosstally.query.summed import Summed
from crosstally.releases import Release, Statement, publish
from crosstally.releases.file.header import read_header
from crosstally.releases.file.writer import header_bytes
from crosstally.schema import Measure, Schema, Unit
from crosstally.sources import count
from crosstally.sources.codes.steps import steps_of
from crosstally.strategies import NAMED

ATTRIBUTES = [ct.Attribute("sex", ["F", "M"]), ct.Attribute("region", ["N", "S", "W"])]
PAY = Measure("pay", 0, 1000, step=10, unit="CHF")


def schema_with(*measures: Measure, unit: Unit | None = None) -> Schema:
    return Schema(ATTRIBUTES, unit, measures=measures or (PAY,))


ROWS = pa.table(
    {
        "sex": ["F", "F", "M", "M", "M"],
        "region": ["N", "S", "N", "N", "W"],
        "pay": pa.array([104.0, -5.0, None, 2000.0, 500.0]),
    }
)


def sums(schema: Schema, rows: Any, *names: str, values: bool = True) -> list[int]:
    (table,) = count(rows, schema, [Cells(names, summed=Summed("pay", values=values))])
    return table.counts.ravel().tolist()


# Rows to exact sums


def test_values_are_clipped_rounded_and_summed_by_hand() -> None:
    """In tens: 104 is 10, -5 is 0, missing is 0, 2,000 is 100, 500 is 50."""
    schema = schema_with()
    assert sums(schema, ROWS, "sex") == [10, 150]
    assert sums(schema, ROWS, "region") == [110, 0, 50]
    assert sums(schema, ROWS) == [160]
    assert sums(schema, ROWS, "sex", "region") == [10, 0, 0, 100, 0, 50]


def test_around_a_centre_and_left_out_by_hand() -> None:
    """Around 500, in tens: -40, and 0 for 500; those outside and the missing one add nothing, also not to the count."""
    left_out = replace(PAY, centre=500, outside="drop", missing="leave out")
    schema = schema_with(left_out)
    assert sums(schema, ROWS, "sex") == [-40, 0]
    assert sums(schema, ROWS, "sex", values=False) == [1, 1]
    assert sums(schema_with(replace(PAY, centre=500)), ROWS, "sex") == [-40 - 50, -50 + 50 + 0]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0.29, None, 1e9, -1.0, 0.005]),
        pa.array(["0.29", "", "1e9", " -1", "0.005"]),
        pa.array(["0.29", None, "1e9", "-1", "0.005"]).dictionary_encode(),
        pa.array([0.29, float("nan"), float("inf"), -float("inf"), 0.005]),
    ],
    ids=["floats", "texts", "dictionary", "infinite"],
)
def test_columns_of_every_kind_become_the_same_codes(column: pa.Array) -> None:
    """Steps of a cent above -0.5: 0.29 is 79, missing as 0 is 50, 0.005 is nearest to 0 or to 1 cent."""
    codes = steps_of(Measure("pay", -0.5, 2, step=0.01), column).tolist()
    assert codes[:4] == [79, 50, 250, 0]
    assert codes[4] in {50, 51}
    whole = steps_of(Measure("pay", 0, 90, step=5), pa.array([3, 52, 53, None, 200], pa.int16()))
    assert whole.tolist() == [1, 10, 11, 0, 18]


def test_text_in_a_measure_is_refused_without_its_value() -> None:
    rows = pa.table({"sex": ["F"], "region": ["N"], "pay": ["secret"]})
    ledger = Ledger.in_memory(schema=schema_with(), budget=Budget(epsilon=1), neighbours="add-remove")
    with pytest.raises(OutsideValueError, match="column 'pay' holds values that are not numbers") as found:
        ct.release(rows, schema_with(), epsilon=1, measures=["pay"], ledger=ledger)
    assert "secret" not in str(found.value)
    assert ledger.spent == 0


def test_a_unit_brings_the_values_of_the_rows_that_count() -> None:
    """At most two rows of each, the same whatever the order; both are a hundred."""
    rows = pa.table({"id": ["a"] * 3 + ["b"], "sex": ["F"] * 4, "region": ["N"] * 4, "pay": [1000.0] * 4})
    assert sums(schema_with(unit=Unit("id", 2)), rows, "sex") == [300, 0]
    mixed = pa.table({"id": ["a"] * 3, "sex": ["F"] * 3, "region": ["N"] * 3, "pay": [10.0, 20.0, 30.0]})
    schema = schema_with(unit=Unit("id", 1))
    assert {tuple(sums(schema, mixed.take([i, j, 3 - i - j]), "sex")) for i, j in ((0, 1), (2, 0), (1, 2))} <= {
        (1, 0),
        (2, 0),
        (3, 0),
    }
    assert len({tuple(sums(schema, mixed.take(order), "sex")) for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0])}) == 1


def test_stages_and_many_batches_sum_alike() -> None:
    rng = np.random.default_rng(3)
    pay = rng.integers(0, 1200, 3000)
    rows = pa.table({"sex": rng.choice(["F", "M"], 3000), "region": rng.choice(["N", "S", "W"], 3000), "pay": pay})
    expected = np.rint(np.clip(pay, 0, 1000) / 10 + 1e-12)
    by_sex = [int(expected[rows["sex"].to_numpy() == each].sum()) for each in ("F", "M")]
    (table,) = count(rows, schema_with(), [Cells(("sex",), summed=Summed("pay"))], batch_rows=100)
    halves = np.abs(np.mod(np.clip(pay, 0, 1000), 10) - 5) < 1e-9  # rounded to the even one
    assert np.abs(table.counts - by_sex).max() <= halves.sum()
    release = ct.release(rows, schema_with(), epsilon=1e6, measures=["pay"], strategy="two-stage")
    assert np.abs(release.total("pay", "sex").values / 10 - table.counts).max() < 0.5


# Answers by hand, from given measurements


def given(schema: Schema, values: dict[tuple[tuple[str, ...], Summed], list[float]], scale: float = 2.0) -> Release:
    """A release of these numbers, all with Gaussian noise of one scale."""
    noise = Noise(NoiseKind.GAUSSIAN, scale)
    measured = [
        Measurement(
            query := Cells(names, summed=summed),
            np.array(own, np.int64).reshape(query.shape(schema)),
            variance=noise.variance,
            noise=noise,
            origin="entry 1 of ledger x",
        )
        for (names, summed), own in values.items()
    ]
    promise = Statement(strategy="x", budget=Budget(rho=1_000_000), neighbours=Neighbours.ADD_REMOVE)
    return publish(schema, measured, promise, nonnegative="none")


def test_a_total_is_the_sum_times_the_step_by_hand() -> None:
    """Standard error 2 steps of 10 each; their sum has sqrt(2) as much. Whole noise of scale 2 is within 4 steps in 98%
    of all cases, within 3 in 92%."""
    release = given(schema_with(), {(("sex",), Summed()): [40, 60], (("sex",), Summed("pay")): [800, 900]})
    found = release.total("pay", "sex")
    assert found.values.tolist() == [8000, 9000]
    assert found.std_error.tolist() == pytest.approx([20, 20], rel=1e-6)
    low, high = found.interval()
    assert (np.array(high) - low).tolist() == pytest.approx([80, 80], rel=1e-6)
    whole = release.total("pay")
    assert whole.value == 17_000
    assert float(whole.std_error) == pytest.approx(20 * 2**0.5, rel=1e-6)
    assert release.total("pay", where="sex = F").value == 8000
    assert found.quantity == "total"
    assert "CHF" in found.caption
    assert release.mean("pay", "sex").values.tolist() == [200, 150]


def test_tables_of_one_measure_agree_by_least_squares() -> None:
    """The total is 100 by itself and 90 as a sum of two cells of the same noise: weights 2/3 and 1/3."""
    numbers = {(("sex",), Summed("pay")): [40, 50], ((), Summed("pay")): [100], ((), Summed()): [10]}
    release = given(schema_with(), numbers)
    assert release.total("pay").value == pytest.approx(10 * (100 * 2 / 3 + 90 / 3))
    assert release.total("pay", "sex").values.sum() == pytest.approx(release.total("pay").value)


def test_a_centre_comes_back_with_the_counts_by_hand() -> None:
    """Around 500, in tens: (-100 + 50 x 40) x 10 = 19,000, the error of both noises: 20 and 500 x 2."""
    release = given(
        schema_with(replace(PAY, centre=500)),
        {(("sex",), Summed()): [40, 60], (("sex",), Summed("pay")): [-100, 300]},
    )
    found = release.total("pay", "sex")
    assert found.values.tolist() == [19_000, 33_000]
    assert found.quantity == "total"
    assert found.std_error.tolist() == pytest.approx([(20**2 + 1000**2) ** 0.5] * 2, rel=1e-6)
    assert release.mean("pay", "sex").values.tolist() == pytest.approx([475, 550])


def test_who_is_left_out_is_not_divided_by() -> None:
    """800 tens over 20 rows with a value, of 40 rows."""
    schema = schema_with(replace(PAY, missing="leave out"))
    having = Summed("pay", values=False)
    numbers = {(("sex",), Summed()): [40, 60], (("sex",), Summed("pay")): [800, 900], (("sex",), having): [20, 30]}
    assert given(schema, numbers).mean("pay", "sex").values.tolist() == [400, 300]


def test_a_mean_stays_within_its_bounds() -> None:
    release = given(schema_with(), {(("sex",), Summed()): [1, 0], (("sex",), Summed("pay")): [800, 900]})
    assert release.mean("pay", "sex").values[0] == 1000


def test_totals_that_nobody_measured_are_refused_in_a_line() -> None:
    numbers = {(("sex",), Summed()): [40, 60], (("sex",), Summed("pay")): [800, 900]}
    release = given(schema_with(PAY, Measure("hours", 0, 99)), numbers)
    with pytest.raises(QueryError, match=r"totals of pay over region do not follow from what was measured \(sex\)"):
        release.total("pay", "region")
    with pytest.raises(QueryError, match="totals of pay over sex x region do not follow"):
        release.mean("pay", "sex", where="region = N")
    with pytest.raises(QueryError, match="no totals of 'hours'; there are pay"):
        release.total("hours")
    with pytest.raises(QueryError, match="unknown attribute 'town'"):
        release.total("pay", "town")
    with pytest.raises(QueryError, match="named twice"):
        release.total("pay", "sex", "sex")


# Plans


def test_half_of_the_budget_buys_totals() -> None:
    for budget in ({"epsilon": 1}, {"rho": 0.5}, {"epsilon": 1, "delta": 1e-6}):
        plan = ct.plan(schema_with(), **budget, measures=["pay"], strategy="direct").chosen
        assert [g.query.attributes for g in plan.groups if g.query.summed == Summed("pay")] == [("sex",), ("region",)]
        assert 0.49 < plan.totals_share <= 0.5
        assert plan.cost <= plan.budget.amount
        assert ct.plan(schema_with(), **budget).chosen.totals_share == 0


def test_the_tables_of_a_workload_have_totals_and_rows_with_a_value() -> None:
    schema = schema_with(replace(PAY, missing="leave out"), Measure("hours", 0, 99))
    tables = ct.Workload([("sex", "region")])
    found = ct.plan(schema, epsilon=1, measures=["pay", "hours"], workload=tables, strategy="direct")
    asked = [(r.query.attributes, r.query.summed) for r in found.chosen.requests if r.query.summed != Summed()]
    both = ("sex", "region")
    assert asked == [(both, Summed("pay")), (both, Summed("pay", values=False)), (both, Summed("hours"))]
    # of pay 3/4 of a quarter of epsilon for 100 steps, of hours a quarter for 99
    assert [r.noise.scale for r in found.chosen.requests[-3:]] == pytest.approx([100 * 16 / 3, 16, 99 * 4], rel=1e-9)
    assert "Totals of pay over one table: each ± 7,542 CHF" in str(found)


@pytest.mark.parametrize("strategy", sorted(NAMED.keys() - {"uniform"}))  # that one needs a public number of rows
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_strategy_may_have_totals_beside_it(strategy: str, neighbours: Neighbours) -> None:
    """The true total is 20,000 in tens; at rho 50 the noise of 300 numbers is far below a tenth of it."""
    rows = pa.table({"sex": ["F", "M"] * 200, "region": ["N", "S", "W", "W"] * 100, "pay": [500.0] * 400})
    release = ct.release(
        rows, schema_with(), rho=50, measures=["pay"], strategy=strategy, neighbours=neighbours, rows=None
    )
    assert release.total("pay").value == pytest.approx(200_000, rel=0.1)
    assert release.mean("pay").value == pytest.approx(500, rel=0.2)


def test_bad_input_is_one_line() -> None:
    for wrong, rule in (
        ({"lower": 5, "upper": 5}, "lower must be below upper, got 5 and 5"),
        ({"lower": 9, "upper": 5}, "lower must be below upper"),
        ({"lower": 0, "upper": float("inf")}, "upper must be a finite number"),
        ({"lower": "0", "upper": 5}, "lower must be a finite number, got '0'"),
        ({"lower": 0, "upper": 5, "step": 0}, "step must be above 0"),
        ({"lower": 0, "upper": 5, "step": 2}, "upper must be a whole number of steps, got 5 and 2"),
        ({"lower": 0, "upper": 4, "step": 2, "centre": 1}, "centre must be a whole number of steps"),
        ({"lower": 0, "upper": 2**34, "step": 0.5}, "bounds must be at most 17,179,869,184 steps from the centre"),
        ({"lower": 0, "upper": 5, "outside": "keep"}, "outside must be clip or drop, got 'keep'"),
        ({"lower": 0, "upper": 5, "missing": "drop"}, "missing must be zero or leave out"),
        ({"lower": 0, "upper": 5, "unit": ""}, "unit must be a non-empty text"),
    ):
        with pytest.raises(SchemaError, match=f"measure 'pay': {rule}"):
            Measure("pay", **wrong)
    for wrong in ({"lower": 0}, {"lower": 0, "upper": 1, "top": 2}):
        with pytest.raises(SchemaError, match=r"measures\[0\]: "):
            Schema.from_dict({**schema_with().to_dict(), "measures": [{"name": "pay", "step": 1, **wrong}]})
    with pytest.raises(SchemaError, match="measures must have different names"):
        schema_with(PAY, PAY)
    with pytest.raises(SchemaError, match="measures: a unit that is divided over its rows"):
        schema_with(unit=Unit.counted_once("id"))
    with pytest.raises(QueryError, match="unknown measure 'hours'"):
        ct.plan(schema_with(), epsilon=1, measures=["hours"])
    with pytest.raises(QueryError, match="measures must be a list, got one text"):
        ct.plan(schema_with(), epsilon=1, measures="pay")
    with pytest.raises(PlanError, match="measures must be named once"):
        ct.plan(schema_with(), epsilon=1, measures=["pay", "pay"])
    assert Schema.from_dict(schema_with().to_dict()) == schema_with()


def test_a_ledger_pays_for_the_bounds_that_it_knows(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    Ledger.create(path, schema=schema_with(), budget=Budget(epsilon=2), neighbours="add-remove")
    first = ct.release(ROWS, schema_with(), epsilon=1, measures=["pay"], ledger=path, key="spring")
    again = ct.release(ROWS, schema_with(), epsilon=1, measures=["pay"], ledger=path, key="spring")
    assert again.total("pay", "sex").values.tolist() == first.total("pay", "sex").values.tolist()
    assert Ledger.open(path).spent == 1
    wider = schema_with(replace(PAY, upper=10_000))
    with pytest.raises(CrosstallyError):
        ct.release(ROWS, wider, epsilon=1, measures=["pay"], ledger=path)
    assert Ledger.open(path).spent == 1


def test_parts_are_refused(tmp_path: Path) -> None:
    plan = ct.plan(schema_with(), epsilon=1, measures=["pay"], strategy="direct").chosen
    with pytest.raises(CrosstallyError, match="parts hold counts and no totals"):
        count_part(ROWS, tmp_path / "part", plan=plan, share="1/2")


# Files, and the terminal


def test_a_file_holds_totals_and_does_not_claim_less_than_they_cost(tmp_path: Path) -> None:
    schema = schema_with(replace(PAY, missing="leave out"))
    release = ct.release(ROWS, schema, epsilon=1, measures=["pay"])
    path = tmp_path / "people.release.parquet"
    release.save(path)
    opened = ct.open_release(path)
    assert [(m.query, m.noise, m.values.tolist()) for m in opened.totals] == [
        (m.query, m.noise, m.values.tolist()) for m in release.totals
    ]
    assert len(release.totals) == 4
    assert opened.mean("pay", "sex").values.tolist() == release.mean("pay", "sex").values.tolist()
    assert [m.query for m in opened.bought] == [m.query for m in release.bought]
    cheaper = replace(release, statement=replace(release.statement, budget=Budget(epsilon=0.6)))
    with pytest.raises(ReleaseError, match="more than its statement of ε = 0.6"):
        cheaper.save(path)
    left_out = replace(cheaper, totals=())  # without them it would be within it
    left_out.save(path)
    assert not ct.open_release(path).totals


def test_forged_totals_are_refused() -> None:
    release = ct.release(ROWS, schema_with(), epsilon=1, measures=["pay"])
    header = json.loads(header_bytes(release))
    rows = sum(m.values.size for m in release.measurements)
    own = header["totals"][0]
    for wrong in (
        {**own, "measure": "hours"},
        {**own, "sums": "all"},
        {**own, "attributes": [7]},
        {**own, "attributes": [0, 0]},
        {**own, "values": own["values"][:1]},
        {**own, "values": [0.5, 1]},
        {**own, "values": [2**70, 1]},
        {**own, "noise": {"kind": "gumbel", "scale": 1.0}},
        {**own, "origin": 3},
        {"measure": "pay"},
        [],
    ):
        with pytest.raises(CrosstallyError):
            read_header(json.dumps({**header, "totals": [wrong]}).encode(), rows)
    with pytest.raises(ReleaseError, match="totals must be a list"):
        read_header(json.dumps({**header, "totals": {}}).encode(), rows)


def test_the_terminal_plans_releases_and_prints_totals(tmp_path: Path) -> None:
    schema, rows = tmp_path / "people.schema.json", tmp_path / "people.csv"
    schema_with().save(schema)
    frame = pd.DataFrame({"sex": ["F", "M"] * 500, "region": ["N"] * 1000, "pay": [400] * 1000})
    frame.to_csv(rows, index=False)
    planned = run("plan", schema, "--epsilon", "2", "--measure", "pay")
    assert "Totals of pay over two tables: each ±" in " ".join(planned.out.split())
    path = tmp_path / "people.release.parquet"
    made = run("release", rows, "--schema", schema, "--epsilon", "20", "--measure", "pay", "-o", path, "--yes-epsilon")
    assert made.code == 0, made.err
    assert "steps of pay over 1 attribute" in run("inspect", path).out
    shown = run("table", path, "sex", "--measure", "pay")
    assert "total of pay (CHF)" in shown.out
    assert "mean of pay (CHF)" in shown.out
    csv = run("table", path, "sex", "--measure", "pay", "--mean", "--format", "csv").out.splitlines()
    assert csv[0] == "sex,mean,std_error,mean_low,mean_high"
    as_json = json.loads(run("table", path, "sex", "--measure", "pay", "--format", "json").out)
    assert as_json["cells"][0]["total"] == pytest.approx(200_000, rel=0.2)
    for wrong in (["--measure", "hours"], ["--measure", "pay", "--format", "px"], ["--mean"]):
        refused = run("table", path, "sex", *wrong)
        assert refused.code != 0
        assert len(refused.err.strip().splitlines()) <= 3


# Intervals against fresh noise


@pytest.mark.parametrize(
    ("budget", "measure"),
    [
        ({"epsilon": 1}, PAY),
        ({"rho": 0.1}, replace(PAY, centre=500)),
        ({"rho": 0.1}, replace(PAY, missing="leave out")),
    ],
    ids=["laplace", "gaussian around a centre", "left out"],
)
def test_intervals_hold_the_truth_as_often_as_they_say(budget: dict[str, Any], measure: Measure) -> None:
    """60 releases of 1,500 rows: 5 totals and means each. Cells of a release err together, so each release counts as
    one observation of at most 1/4 variance: six standard deviations of the share are 6 sqrt(.05 x .95 / 60) = 0.17."""
    rng = np.random.default_rng(7)
    pay = np.round(np.clip(rng.lognormal(5.5, 0.7, 1500), 0, 1000), -1)
    sex, region = rng.choice(["F", "M"], 1500), rng.choice(["N", "S", "W"], 1500)
    rows = pa.table({"sex": sex, "region": region, "pay": pay})
    plan = ct.plan(schema_with(measure), **budget, measures=["pay"], strategy="direct").chosen
    truth = {
        each: [(pay[column == value].sum(), pay[column == value].mean()) for value in labels]
        for each, column, labels in (("sex", sex, "FM"), ("region", region, "NSW"))
    }
    held = np.zeros((60, 2, 5))
    for i in range(60):
        release = ct.release(rows, schema_with(measure), plan=plan)
        for kind, ask in enumerate((release.total, release.mean)):
            ends = [ask("pay", each).interval() for each in truth]
            low, high = (np.concatenate([getattr(each, end) for each in ends]) for end in ("low", "high"))
            true = np.array([pair[kind] for each in truth.values() for pair in each])
            held[i, kind] = (low <= true) & (true <= high)
    shares = held.mean(axis=(0, 2))
    assert (np.abs(shares - 0.95) < 0.17).all(), shares


def test_a_request_for_sums_is_drawn_around_the_truth() -> None:
    """A Gaussian of scale 3 on the exact sums, 400 times: the mean of 800 numbers within six of its own errors."""
    noise = Noise(NoiseKind.GAUSSIAN, 3.0)
    request = Request(Cells(("sex",), summed=Summed("pay")), noise)
    tables, budget = ct.Workload([("sex",)]), Budget(rho=100_000)
    plan = Plan(schema_with(), (request,), strategy="x", workload=tables, budget=budget, neighbours="add-remove")
    exact = count(ROWS, schema_with(), plan.tables)
    apart = []
    for _ in range(400):
        ledger = Ledger.in_memory(schema=plan.schema, budget=budget, neighbours="add-remove")
        (found,) = measure(exact, plan, ledger=ledger)
        apart += (found.values - np.array([10, 150])).tolist()
    assert abs(np.mean(apart)) < 6 * 3 / 800**0.5
    assert abs(np.var(apart) / 9 - 1) < 6 * (2 / 800) ** 0.5
