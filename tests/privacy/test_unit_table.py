"""Units by number of rows: its cost by brute force, its counts from every way of reading, and what is said from it."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crosstally as ct
from cli_runs import run
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import PlanError, QueryError, ReleaseError
from crosstally.measurements import Measurement
from crosstally.pipeline import count_part
from crosstally.plans.request import Request
from crosstally.query.queries import Cells, Contrast
from crosstally.query.query_json import query_from_dict
from crosstally.query.unit_table import UnitTable
from crosstally.releases.file.header import read_header
from crosstally.releases.file.writer import header_bytes
from crosstally.releases.publication import check_promise
from crosstally.releases.unit_counts import UnitCounts
from crosstally.schema import About, Attribute, Schema, Unit
from crosstally.sources import Parts, count
from crosstally.sources.kinds import encode_rows
from crosstally.strategies import NAMED
from crosstally.workload import Workload

BOUND = Unit("id", 2)
SCHEMA = Schema([Attribute("a", ["x", "y"]), Attribute("b", ["u", "v"])], BOUND)
BINS = UnitTable((1, 2, 3, 5))


def table_of(rows: list[tuple[str, str, str]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table({name: pa.array(each, pa.string()) for name, each in zip(("id", "a", "b"), columns, strict=True)})


OTHERS = [("p", "x", "u"), ("q", "y", "v"), ("q", "y", "u"), ("q", "x", "u")]


def answers_with(own: tuple[tuple[str, str], ...], requests: list[Request]) -> list[np.ndarray]:
    """What a unit with these rows, beside others, gives as the exact answer to each request."""
    rows = [*OTHERS, *(("z", a, b) for a, b in own)]
    tables = [table for request in requests for table in request.query.tables]
    counted = count(table_of(rows), SCHEMA, tables)
    return [request.query.answer(each.counts) for request, each in zip(requests, counted, strict=True)]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_its_cost_is_the_largest_loss_over_all_neighbours(neighbours: Neighbours, kind: NoiseKind) -> None:
    """All units of 0 to 5 rows in 2 x 2 cells; beside tables the costs add up, and that is attained."""
    cells = list(product("xy", "uv"))
    units = [own for size in range(6) for own in combinations_with_replacement(cells, size)]
    first = Request(BINS, Noise(kind, 3.0))
    others = [Request(Cells(("a",)), Noise(kind, 5.0)), Request(Cells(("a", "b")), Noise(kind, 4.0))]
    for requests in ([first], [first, *others], [first, Request(Contrast(("b",)), Noise(kind, 2.0))]):
        exact = [answers_with(own, requests) for own in units]
        worst = Fraction(0)
        for one, other in product(exact[:1] if neighbours is Neighbours.ADD_REMOVE else exact, exact):
            loss = Fraction(0)
            for request, before, after in zip(requests, one, other, strict=True):
                moved, scale = [abs(int(d)) for d in (after - before).ravel()], Fraction(request.noise.scale)
                laplace = Fraction(sum(moved)) / scale
                loss += laplace if kind is NoiseKind.LAPLACE else Fraction(sum(d * d for d in moved)) / (2 * scale**2)
            worst = max(worst, loss)
        budget = Budget(epsilon=99) if kind is NoiseKind.LAPLACE else Budget(rho=99)
        how = {"strategy": "by hand", "workload": Workload([("a",)]), "budget": budget, "neighbours": neighbours}
        assert ct.Plan(SCHEMA, tuple(requests), **how).cost == worst, requests


@pytest.mark.parametrize(("relation", "moved"), [("add-remove", 1), ("replace", 2)])
def test_its_sensitivity(relation: str, moved: int) -> None:
    for unit in (Unit("id", 1), Unit("id", 7)):
        claimed = UnitTable.of(unit).sensitivity(Schema(SCHEMA.attributes, unit), relation)
        assert (claimed.l1, claimed.l2_squared) == (moved, moved)


@pytest.mark.parametrize(
    ("bound", "first"),
    [
        (1, (1, 2, 3, 4, 6, 10, 18)),
        (3, (1, 2, 3, 4, 5, 6, 8, 12, 20)),
        (10, (*range(1, 11), 11, 14, 17, 23, 35, 59)),
        (30, (*range(1, 11), 20, 31, 39, 47, 63, 95, 159)),
    ],
)
def test_its_bins_follow_the_bound_alone(bound: int, first: tuple[int, ...]) -> None:
    assert UnitTable.of(Unit("id", bound)).first == first


@pytest.mark.parametrize("given", [[], [2, 3], [1, 1], [1, 3, 2], [1, 2.5], ["1"], [1, 2**40], list(range(1, 200))])
def test_what_are_no_bins(given: list[object]) -> None:
    with pytest.raises(QueryError, match="bins of units must"):
        query_from_dict({"units": given})
    assert query_from_dict(BINS.to_dict()) == BINS


def test_a_schema_without_a_unit_has_no_such_table() -> None:
    with pytest.raises(QueryError, match="need a schema with a unit"):
        BINS.shape(Schema(SCHEMA.attributes))


# Counts


def some_rows() -> list[tuple[str, str, str]]:
    random = np.random.default_rng(3)
    ids = random.zipf(1.6, 3_000) % 400
    return [(f"p{own}", random.choice(["x", "y"]), random.choice(["u", "v"])) for own in ids]


def test_counts_are_those_of_all_rows_of_each_unit(tmp_path: Path) -> None:
    """Whatever the batches, kept rows or parts; rows without an id belong to no unit."""
    rows = some_rows()
    of_each = Counter(Counter(own for own, _, _ in rows).values())
    expected = [of_each[1], of_each[2], of_each[3] + of_each[4], sum(n for r, n in of_each.items() if r >= 5)]
    table = pa.concat_tables(
        [table_of(rows), pa.table({"id": pa.nulls(5, pa.string()), "a": ["x"] * 5, "b": ["u"] * 5})]
    )
    for batch_rows in (7, 65_536):
        (found, total) = count(table, SCHEMA, [BINS, Cells(())], batch_rows=batch_rows)
        assert found.counts.tolist() == expected
        assert int(total.counts) == sum(min(r, 2) * n for r, n in of_each.items())
    kept = encode_rows(table, SCHEMA)
    assert kept.count([Cells(("a",)), BINS])[1].counts.tolist() == expected
    assert "counts" not in repr(found)
    file = tmp_path / "rows.parquet"
    pq.write_table(table, file)
    plan = ct.plan(SCHEMA, epsilon=10**6, strategy="direct").chosen
    for share in ("1/2", "2/2"):
        count_part(file, tmp_path / f"{share[0]}.counts", plan=plan, share=share)
    whole, parts = (ct.release(source, plan=plan) for source in (table, Parts(str(tmp_path / "*.counts"))))
    assert whole.unit_rows is not None
    assert parts.unit_rows is not None
    assert parts.unit_rows.values.tolist() == whole.unit_rows.values.tolist()  # with next to no noise


# Plans


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": "0.1"}, {"epsilon": 1, "delta": "1e-6"}])
@pytest.mark.parametrize("strategy", ["two-stage", "direct", "views", "optimum", "mwem"])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_it_is_in_the_first_stage_and_costs_its_share(
    budget: dict[str, object], strategy: str, relation: Neighbours
) -> None:
    plan = ct.plan(SCHEMA, **budget, rows=1_000, strategy=strategy, neighbours=relation).chosen
    assert [each.query for each in plan.requests if not each.query.is_linear][-1] == UnitTable.of(BOUND)
    assert plan.cost <= plan.own_budget.amount
    assert float(plan.units_share) == pytest.approx(0.02 if plan.budget.pure else 0.04, rel=1e-6)
    without = ct.plan(SCHEMA, **budget, rows=1_000, strategy=strategy, neighbours=relation, units=False).chosen
    assert not without.units_share
    assert plan.budget == without.budget
    assert ct.Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_other_noise_is_two_percent_larger() -> None:
    for budget in ({"epsilon": 1}, {"rho": "0.1"}):
        with_units, without = (
            ct.plan(SCHEMA, **budget, strategy="flat", units=units).chosen.rms_error for units in (True, False)
        )
        assert with_units == pytest.approx(1.02 * without, rel=2e-3)


def test_rows_that_are_units_have_no_such_table() -> None:
    assert not ct.plan(Schema(SCHEMA.attributes), epsilon=1).chosen.units_share


@pytest.mark.parametrize("strategy", ["auto", *sorted(set(NAMED) - {"uniform", "residual", "linear"})])
def test_every_strategy_releases_it(strategy: str, tmp_path: Path) -> None:
    release = ct.release(table_of(some_rows()), SCHEMA, rho=1, strategy=strategy)
    assert release.units is not None
    low, high = release.units.units_interval(1 - 1e-9)
    assert low <= len({own for own, _, _ in some_rows()}) <= high
    release.save(tmp_path / "r.parquet")
    again = ct.open_release(tmp_path / "r.parquet")
    assert again.unit_words == release.unit_words
    assert "bound" not in repr(again.marginal("a"))
    assert release.unit_words[0] in str(release.marginal()) + str(again.describe())


def test_the_ledger_has_paid_for_it(tmp_path: Path) -> None:
    rows, schema = tmp_path / "rows.csv", tmp_path / "s.json"
    rows.write_text("id,a,b\n" + "\n".join(",".join(row) for row in some_rows()) + "\n", encoding="utf-8")
    SCHEMA.save(schema)
    assert run("release", rows, "--schema", schema, "--epsilon", "1", "-o", tmp_path / "r.parquet").code == 0
    paid = run("inspect", tmp_path / "r.parquet", "--ledger", tmp_path / "rows.ledger", "--json")
    assert json.loads(paid.out)["ledger"]["charged"] == "1"
    assert json.loads(paid.out)["units"]["units"]["value"] > 0
    key = ct.Ledger.open(tmp_path / "rows.ledger").entries()[0].key
    exported = run("ledger", "export", tmp_path / "rows.ledger", key, "-o", tmp_path / "again.parquet")
    assert exported.code == 0, exported.err
    first, again = (ct.open_release(tmp_path / name) for name in ("r.parquet", "again.parquet"))
    assert first.unit_words == again.unit_words
    refused = run("plan", schema, "--epsilon", "1", "--no-units", "-o", tmp_path / "p.json")
    assert refused.code == 0
    assert "how many" not in refused.out
    both = run("release", rows, "--plan", tmp_path / "p.json", "--no-units", "-o", tmp_path / "x.parquet")
    assert "leave out --no-units" in both.err


# What is said


def counts_of(values: list[int], scale: float = 3.0, total: tuple[float, float] | None = None) -> UnitCounts:
    noise = Noise(NoiseKind.LAPLACE, scale)
    measured = Measurement(BINS, np.array(values), variance=noise.variance, noise=noise, origin="entry 1 of ledger x")
    return UnitCounts(measured, 2, total)


def test_rows_left_out_by_hand() -> None:
    """Units of 1, 2, 3-4 and 5 or more rows; beyond 2 are 1 or 2 rows, and 3 or more."""
    found = counts_of([50, 40, 30, 20], scale=0.01)
    assert (found.units, found.units_interval()) == (140.0, (140.0, 140.0))
    assert found.left_out == 30 * 1.5 + 20 * 3
    assert found.left_out_interval() == (30 + 60, math.inf)
    empty = counts_of([50, 40, 30, 0], scale=0.01)
    assert empty.left_out_interval() == (30.0, 60.0)
    words = empty.sentence(Schema(SCHEMA.attributes, BOUND, about=About(rows="admissions", units="patients")))
    assert (
        words
        == "About 120 patients (120 to 120). About 45 admissions beyond 2 of one patient (30 to 60) are in no count."
    )
    assert "About 140 values of id" in found.sentence(SCHEMA)
    assert "(at least 90)" in found.sentence(SCHEMA)  # units of 5 and more rows are certain, and how many rows is not
    # P(|X| > k) = 2 a^(k+1) / (1 + a) is at most 5% from k = 30 on, a = e^-0.1: bins of 3-4 rows lose 2 (30 + 30)
    perhaps = counts_of([50, 40, 30, 20], scale=10)
    assert perhaps.most_within() == 120
    assert "; at most 120 if none has 5 or more) are in no count" in perhaps.sentence(SCHEMA)


def test_the_number_of_rows_makes_them_more_precise() -> None:
    """Least squares of four numbers of variance v and of 1 c1 + 2 (c2 + c3 + c4) = t, by the normal equations."""
    values, total, error = [55, 38, 33, 17], 232.0, 2.0
    found = counts_of(values, total=(total, error))
    design = np.vstack([np.eye(4), [1, 2, 2, 2]])
    weights = np.array([1 / found.measured.variance] * 4 + [1 / error**2])
    inverse = np.linalg.inv(design.T @ (weights[:, None] * design))
    best = inverse @ design.T @ (weights * np.array([*values, total]))
    assert found.units == pytest.approx(best.sum())
    assert found.left_out == pytest.approx(best @ [0, 0, 1.5, 3])
    deviation = math.sqrt(np.ones(4) @ inverse @ np.ones(4))
    low, high = found.units_interval(0.95)
    assert (high - low) / 2 == pytest.approx(1.96 * deviation, rel=0.06)
    alone = counts_of(values).units_interval(0.95)
    assert high - low < 0.5 * (alone[1] - alone[0])


def test_intervals_cover() -> None:
    """500 draws; 95% intervals may miss 25 by chance, with a deviation of 4.9: the limit is six of them away."""
    random, ratio, missed = np.random.default_rng(11), math.exp(-1 / 20), [0, 0]
    exact = np.array([500, 300, 150, 60])
    for _ in range(500):
        noise = random.geometric(1 - ratio, 4) - random.geometric(1 - ratio, 4)
        found = counts_of((exact + noise).tolist(), 20.0, (1520 + random.normal(0, 8), 8.0))
        low, high = found.units_interval()
        missed[0] += not low <= 1010 <= high
        missed[1] += found.left_out_interval()[0] > 150 * 2 + 60 * 3
    assert missed[0] <= 54
    assert missed[1] <= 42  # one end alone


# Forged files


def opened(content: dict[str, object], release: ct.Release) -> None:
    header = read_header(json.dumps(content).encode(), sum(each.values.size for each in release.measurements))
    units = () if header.unit_rows is None else (header.unit_rows,)
    check_promise(header.schema, header.statement, (*release.measurements, *units), ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [1]}, "a whole number for each bin"),
        ({"values": "many"}, "must be lists"),
        ({"first": [2, 3, 4, 5, 6, 7, 9, 20]}, "bins of units must"),
        ({"noise": {"kind": "gumbel", "scale": 3.0}}, "Gumbel"),
        ({"noise": {"kind": "laplace", "scale": 0.5}}, "cost"),
        ({"more": 1}, "exactly the fields"),
    ],
)
def test_forged_units_are_refused(change: dict[str, object], message: str) -> None:
    release = ct.release(table_of(some_rows()), SCHEMA, epsilon=1, strategy="flat")
    content = json.loads(header_bytes(release))
    opened(content, release)
    content["units"] |= change
    with pytest.raises(ReleaseError, match=message):
        opened(content, release)


def test_two_of_them_are_not_published() -> None:
    release = ct.release(table_of(some_rows()), SCHEMA, epsilon=1, strategy="flat")
    assert release.unit_rows is not None
    with pytest.raises(ReleaseError, match="once"):
        ct.releases.publish(SCHEMA, (*release.bought, release.unit_rows), release.statement)
    with pytest.raises(PlanError, match="Gumbel"):
        Request(BINS, Noise(NoiseKind.GUMBEL, 1.0))
