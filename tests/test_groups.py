"""Values in groups, from the query to the release: counted, paid, kept, saved, opened, asked."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import crosstally as ct
from cli_runs import ran_well
from conftest import schema_of
from crosstally.budget import Noise, NoiseKind
from crosstally.errors import QueryError, ReleaseError
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request, Rule
from crosstally.privacy.ledger_records import request_digest
from crosstally.query.queries import Cells, Contrast
from crosstally.query.query_json import query_from_dict
from crosstally.releases.file.header import HEADER_KEY, read_header
from crosstally.sources import count, encode_rows
from crosstally.strategies.rules import RULES

SCHEMA = schema_of(6, 5, 2, names="abc")
GROUPS = {"a": (0, 0, 1, 1, 2, 2), "b": (1, 0, 1, 1, 1)}
ROWS = 4_000
GENEROUS = Noise(NoiseKind.LAPLACE, 1.0)  # off by more than 25 with a probability of 1e-11


def people() -> pa.Table:
    draw = random.Random(5)
    a = draw.choices(range(6), [30, 20, 10, 5, 2, 1], k=ROWS)
    b = [draw.choices(range(5), [8, 1, 1, 3, 1 + 5 * value], k=1)[0] for value in a]
    return pa.table({"a": a, "b": b, "c": [draw.randrange(2) for _ in a]})


def requests() -> tuple[Request, ...]:
    pairs = [Cells(("a", "b"), GROUPS), Cells(("c", "a"), {"a": GROUPS["a"]}), Cells(("b", "c"), {"b": GROUPS["b"]})]
    queries = [Cells(()), Cells(("a",)), Contrast(("c",)), Cells(("b",)), *pairs]
    return tuple(Request(query, GENEROUS) for query in queries)


def plan(**changes: Any) -> Plan:
    workload, budget = ct.Workload([("a", "b"), ("c",)]), ct.Budget(epsilon=20)
    fields = {"strategy": "by hand", "workload": workload, "budget": budget, "neighbours": "add-remove", **changes}
    return Plan(SCHEMA, requests(), **fields)


@pytest.fixture(scope="module")
def release() -> ct.Release:
    return ct.release(people(), plan=plan())


# The query


def test_a_query_with_groups_both_ways() -> None:
    query = Cells(("c", "a", "b"), GROUPS)
    assert query.shape(SCHEMA) == (2, 3, 2)
    assert query.to_dict() == {"cells": ["c", "a", "b"], "groups": {name: list(m) for name, m in GROUPS.items()}}
    assert query_from_dict(query.to_dict()) == query
    assert query_from_dict({"cells": ["c", "a"], "groups": ["a"]}, GROUPS) == Cells(("c", "a"), {"a": GROUPS["a"]})
    assert len({query, Cells(("c", "a", "b"), dict(reversed(GROUPS.items()))), Cells(("c", "a", "b"))}) == 2


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": (0,) * 6}, "must be at least two, numbered from 0 without a gap, got 1 numbers"),
        ({"a": (0, 2, 0, 2, 0, 2)}, "must be at least two, numbered from 0 without a gap"),
        ({"a": (1, 2, 1, 2, 1, 2)}, "must be at least two, numbered from 0 without a gap"),
        ({"a": (0, 1.5, 0, 1, 0, 1)}, "each group of 'a' must be a whole number"),
        ({"a": (0, True, 0, 1, 0, 1)}, "each group of 'a' must be a whole number"),
        ({"a": (0, [1], 0, 1, 0, 1)}, "each group of 'a' must be a whole number"),
        ({"a": "010101"}, "groups must map names of attributes"),
        ({"a": 3}, "groups must map names of attributes"),
        (7, "groups must map names of attributes"),
        ({"c": (1, 0)}, "only attributes of the table can have groups, got 'c'"),
    ],
)
def test_groups_that_are_none(groups: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Cells(("a", "b"), groups)


@pytest.mark.parametrize("given", [["b"], ["c"], [], [3], {}, 5, {"a": [0, 1]}])
def test_forged_queries(given: Any) -> None:
    with pytest.raises(QueryError):
        query_from_dict({"cells": ["a", "b"], "groups": given}, {"c": (0, 1)}).shape(SCHEMA)


# Counting


def test_groups_are_counted_without_their_values() -> None:
    """Two attributes of 5,000 values have 25 million cells together; their groups have six."""
    wide = schema_of(5_000, 5_000, 2)
    draw = np.random.default_rng(3)
    values = draw.integers(0, 5_000, (2, 3_000))
    maps = {"a0": tuple(v % 3 for v in range(5_000)), "a1": tuple(int(v > 1_000) for v in range(5_000))}
    rows = pa.table({"a0": values[0], "a1": values[1], "a2": [0] * 3_000})
    tables = [Cells(("a1", "a0"), maps), Cells(("a0",)), Cells(("a0",), {"a0": maps["a0"]}), ("a2",), ()]
    expected = Counter(zip((values[1] > 1_000).tolist(), (values[0] % 3).tolist(), strict=True))
    rows_again = encode_rows(rows, wide)
    for counted in (count(rows, wide, tables, batch_rows=777), rows_again.count(tables)):
        assert counted[0].counts.tolist() == [[expected[bool(i), j] for j in range(3)] for i in range(2)]
        assert counted[0].table == tables[0]
        assert np.array_equal(counted[1].counts, np.bincount(values[0], minlength=5_000))
        assert counted[2].counts.tolist() == [sum(expected[i, j] for i in (False, True)) for j in range(3)]
        assert (counted[3].counts.tolist(), int(counted[4].counts)) == ([3_000, 0], 3_000)
        assert counted[0].marginal(("a0",)).counts.tolist() == counted[2].counts.tolist()
    rows_again.close()


# The plan


def test_a_plan_with_groups_both_ways(tmp_path: Path) -> None:
    later = (Rule("views", 1, parameters={}, share="1/2"),)
    for made in (plan(), plan(later=later)):
        made.save(tmp_path / "p.json")
        saved = json.loads((tmp_path / "p.json").read_text())
        assert saved["groups"] == {name: list(groups) for name, groups in GROUPS.items()}
        assert saved["requests"][4]["query"] == {"cells": ["a", "b"], "groups": ["a", "b"]}
        assert Plan.load(tmp_path / "p.json") == made
    assert np.isnan(plan().errors["a", "b"])
    assert plan().cells == 1 + 6 + 1 + 5 + 6 + 6 + 4


def test_other_groups_are_another_request() -> None:
    other = {**plan().to_dict(), "groups": {"a": [0, 0, 1, 1, 1, 2], "b": list(GROUPS["b"])}}
    assert request_digest(Plan.from_dict(other)) != request_digest(plan())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": {}}, "cells in groups must name attributes whose groups are given"),
        ({"groups": {"a": [0, 1], "b": list(GROUPS["b"])}}, "must be those of its 6 values, got 2"),
        ({"groups": [1]}, "groups must map"),
    ],
)
def test_forged_plans(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ct.CrosstallyError, match=message):
        Plan.from_dict({**plan().to_dict(), **changes})


def test_stages_must_have_the_same_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known before the second stage is charged, which is left out; the first one is delivered."""
    rule = Rule("regroup", 1, parameters={}, share="1/2")

    class Regroup:
        def next(self, given: Plan, seen: object) -> Plan:
            other = (Request(Cells(("a", "c"), {"a": (0, 0, 0, 1, 1, 1)}), GENEROUS),)
            return replace(given, requests=other, budget=given.budget_left, later=())

    monkeypatch.setitem(RULES, ("regroup", 1), Regroup)
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=20))
    with pytest.warns(UserWarning, match="stage 2 of 2 is left out.*: the values of 'a' must have the same groups"):
        release = ct.release(people(), plan=plan(later=(rule,)), ledger=ledger)
    assert (ledger.spent, release.statement.budget) == (10, ct.Budget(epsilon=10))
    assert len(release.measurements) == len(requests())


# The release


def test_tables_come_back_in_the_original_values(release: ct.Release) -> None:
    exact = people().to_pandas()
    for name in "abc":
        expected = exact[name].value_counts().sort_index()
        assert release.marginal(name).values == pytest.approx(expected.to_numpy(), abs=25)
    assert {each.caption for each in release.marginals([("a",), ("b", "a"), ("c",)])} == {str(release.statement)}
    pair = release.marginal("b", "a").values
    counts = exact.groupby(["b", "a"]).size().unstack(fill_value=0).to_numpy()
    for b in range(5):  # b0 and b2 to b4 are one group: its cells are shared as these four share it
        for group in range(3):
            of_group = counts[1 if b == 1 else [0, 2, 3, 4], 2 * group : 2 * group + 2].sum()
            share = counts[b].sum() / (counts[1] if b == 1 else counts[[0, 2, 3, 4]]).sum()
            assert pair[b, 2 * group : 2 * group + 2].sum() == pytest.approx(of_group * share, abs=50)
    assert pair.sum() == pytest.approx(ROWS, abs=60)


def test_conditions_and_exports(release: ct.Release) -> None:
    some = release.marginal("a", where="a in {0, 1}")
    assert (some.values.shape, some.schema.attributes[0].labels) == ((2,), ("0", "1"))
    assert release.marginal(where="a in {0, 1}").values == pytest.approx(some.values.sum())
    assert np.isfinite(release.marginal(where="a in {0, 1}").std_error)
    crossed = release.marginal("b", where="a in {0, 1}")
    assert np.isnan(crossed.noise_std_error).all()
    assert crossed.values == pytest.approx(release.marginal("b", "a").values[:, :2].sum(axis=1))
    frame = release.marginal("a", "b").to_pandas()
    assert (len(frame), list(frame["a"].cat.categories)) == (30, list("012345"))
    assert release.integers(ct.Workload([("a", "b")])).table("a", "b").shape == (6, 5)


@pytest.mark.parametrize("nonnegative", ["shrunk", "joint", "none", "ripple"])
@pytest.mark.parametrize("rows", [None, ROWS])
def test_the_file_both_ways(nonnegative: str, rows: int | None, tmp_path: Path) -> None:
    made = ct.release(people(), plan=plan(), rows=rows).refit(nonnegative=nonnegative, rounds=2)
    made.save(tmp_path / "r.parquet")
    again = ct.open_release(tmp_path / "r.parquet")
    assert (again.nonnegative, again.estimate.corrected) == (nonnegative, made.estimate.corrected)
    assert [(m.query, m.noise) for m in again.measurements] == [(m.query, m.noise) for m in made.measurements]
    for names in ((), ("a",), ("b",), ("c",), ("a", "b"), ("a", "b", "c")):
        before, after = made.marginal(*names), again.marginal(*names)
        near = 1e-6 if made.covers(*names) else 1e-4  # maximum entropy is exact to 1e-8 of 4,000 rows
        assert after.values == pytest.approx(before.values, abs=near)
        np.testing.assert_allclose(after.noise_std_error, before.noise_std_error)
        np.testing.assert_allclose(after.std_error, before.std_error, rtol=2e-3)  # as its estimate is near, not equal
        assert again.refit(nonnegative=nonnegative).marginal(*names).values == pytest.approx(
            made.refit(nonnegative=nonnegative).marginal(*names).values, abs=near
        )
    again.save(tmp_path / "s.parquet")
    assert ct.open_release(tmp_path / "s.parquet").marginal("a").values == pytest.approx(made.marginal("a").values)


def test_what_the_file_shows(release: ct.Release, tmp_path: Path) -> None:
    release.save(tmp_path / "r.parquet")
    shown = pyarrow.parquet.read_table(tmp_path / "r.parquet").to_pandas()
    pair = shown[shown["table"] == "a x b"]
    assert pair["a"].tolist() == ["0 ... 1"] * 2 + ["2 ... 3"] * 2 + ["4 ... 5"] * 2
    assert pair["b"].tolist() == ["1", "0 ... 4"] * 3
    assert shown[shown["table"] == "a"]["a"].tolist() == list("012345")
    assert "groups of cells over 2 attributes" in ran_well("inspect", tmp_path / "r.parquet").out
    table = ran_well("table", tmp_path / "r.parquet", "a", "b", "--format", "csv").out
    assert table.splitlines()[0] == "a,b,count,std_error,count_low,count_high"
    assert len(table.splitlines()) == 31


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": {}}, "its measurements have 65 numbers, but it has 29 rows"),
        ({"groups": {"a": [0, 1, 2, 0, 1, 2]}}, "its measurements have 44 numbers, but it has 29 rows"),
        ({"groups": {"z": [0, 0, 1]}}, "unknown attribute 'z'"),
        ({"groups": {"a": [0, 1], "b": list(GROUPS["b"])}}, "must be those of its 6 values"),
        ({"groups": {"a": ["x"] * 6, "b": list(GROUPS["b"])}}, "each group of 'a' must be a whole number"),
    ],
)
def test_forged_files(release: ct.Release, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    release.save(tmp_path / "r.parquet")
    found = pyarrow.parquet.read_metadata(tmp_path / "r.parquet")
    header = json.loads(found.metadata[HEADER_KEY])
    assert read_header(json.dumps(header).encode(), found.num_rows).schema == SCHEMA
    with pytest.raises(ct.CrosstallyError, match=message):
        read_header(json.dumps({**header, **changes}).encode(), found.num_rows)


def test_groups_that_nothing_was_measured_in(tmp_path: Path) -> None:
    ct.release(people(), SCHEMA, epsilon=1, strategy="direct").save(tmp_path / "r.parquet")
    found = pyarrow.parquet.read_metadata(tmp_path / "r.parquet")
    header = json.loads(found.metadata[HEADER_KEY])
    forged = {**header, "groups": {"a": list(GROUPS["a"])}}
    with pytest.raises(ReleaseError, match="groups must be those of its measurements"):
        read_header(json.dumps(forged).encode(), found.num_rows)


def test_a_forged_inference(release: ct.Release, tmp_path: Path) -> None:
    release.refit(nonnegative="joint").save(tmp_path / "r.parquet")
    found = pyarrow.parquet.read_metadata(tmp_path / "r.parquet")
    header = json.loads(found.metadata[HEADER_KEY])
    assert header["estimate"] == {"inference": "joint", "rounds": 3, "corrected": "joint", "variances": []}
    for change in ({"inference": "magic"}, {"rounds": 0}, {"rounds": None}, {"corrected": "shrunk"}, {"more": 1}):
        estimate = {**header["estimate"], **change}
        with pytest.raises(ReleaseError, match="estimate"):
            read_header(json.dumps({**header, "estimate": estimate}).encode(), found.num_rows)


# Ledger and notebook


def test_the_ledger_keeps_groups(tmp_path: Path) -> None:
    ledger = ct.Ledger.create(tmp_path / "people.ledger", schema=SCHEMA, budget=ct.Budget(epsilon=20))
    made = ct.release(people(), plan=plan(), ledger=ledger, key="spring")
    opened = ct.Ledger.open(tmp_path / "people.ledger")
    opened.verify()
    assert opened.plan("spring") == plan()
    stored = opened.measurements("spring")
    assert [m.query for m in stored] == [request.query for request in requests()]
    again = ct.release("no-such-file.csv", plan=plan(), ledger=opened, key="spring")
    assert again.marginal("a", "b").values == pytest.approx(made.marginal("a", "b").values)
    notebook = ct.open_notebook(opened)
    known = notebook.estimate(ct.count(c="0"))
    assert known.value == pytest.approx(made.marginal("c").values[0], abs=25)
    improved = notebook.improve_tables()
    assert len(improved) == 4
    assert all(each.after_error <= each.before_error for each in improved)
    assert len(notebook.synthesize(rows=50).to_arrow()) == 50


def test_figures_of_sql_claim_no_more_than_the_counts_they_are_of(release: ct.Release) -> None:
    """Tables of values in groups have intervals and no draws: shares of them have no interval, and are not exact."""
    found = release.sql("SELECT a, b, count(*) AS n, count(*) / sum(count(*)) OVER () AS s FROM x GROUP BY ALL").columns
    assert (np.array(found["n_low"], float) < np.array(found["n_high"], float)).all()
    assert np.array(found["s"], float).sum() == pytest.approx(1)
    assert set(found["s_low"]) == set(found["s_high"]) == {None}
    twice = release.sql("SELECT a, b, 2 * count(*) - 1 AS n FROM x GROUP BY ALL").columns
    assert set(twice["n_low"]) == {None}
