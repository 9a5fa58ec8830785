"""Every limit of the docs, one below, at, and one beyond: what is released can be read, all else costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crosstally as ct
from cli_runs import ran_well
from conftest import schema_of
from crosstally.budget import Noise, NoiseKind
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells, Kronecker
from crosstally.releases.file import writer
from crosstally.sources import Reading
from crosstally.strategies.strategy import requests_with_shares

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "known-limits.md"
PAIR = schema_of(3, 2)
BUDGET = ct.Budget(epsilon=100)
BESIDES = {
    "cells on a page; in an answer of the API; in an answer as streamed CSV or Parquet": "browser/explorer/test_api.py",
    "distinct texts of a column in `schema review`": "browser/steward",
    "attributes for which `schema review` predicts errors after every edit": "browser/steward",
    "connections to `crosstally serve` and `schema review`; requests at once; time for a request to arrive, and for a "
    "client to take nothing of its answer": "browser/common/test_connections.py",
    "cost of a question to `crosstally serve`: cells of all its tables, 25 times as much where they are modelled "
    "([how it is counted](../how-to/share.md#for-programs))": "browser/explorer/test_solving.py",
    "files of more than 500,000 cells that `crosstally serve` sends at once": "browser/explorer/test_solving.py",
    "time and added memory of one computation of `crosstally serve`": "browser/explorer/test_solving.py",
    "time that a request to `crosstally serve` waits; clients that wait for one kind of computation": "browser",
    "memory and CPU time for reading a workbook, or a file of SPSS, SAS or Stata": "sources/test_apart.py",
    "columns; rows; unpacked bytes of a row group that a Parquet file claims": "sources/test_apart.py",
}
"""Limits of pages and of files, which are met before anything is spent, and where they are tested."""


def rows_of(schema: ct.Schema, number: int = 3) -> pa.Table:
    return pa.table({each.name: [each.labels[i % each.size] for i in range(number)] for each in schema.attributes})


def by_hand(schema: ct.Schema, queries: list[Any], **changes: Any) -> Plan:
    requests = requests_with_shares(queries, [1.0] * len(queries), schema, BUDGET, ct.Neighbours.ADD_REMOVE)
    fields = {"strategy": "by hand", "workload": ct.Workload(((),)), "budget": BUDGET, "neighbours": "add-remove"}
    return Plan(schema, requests, **{**fields, **changes})


def in_groups(attributes: int) -> Plan:
    """Every attribute in full, and every one beside the next in groups."""
    schema = schema_of(*[4] * attributes)
    pairs = [Cells(pair, dict.fromkeys(pair, (0, 0, 1, 1))) for pair in pairwise(schema.names)]
    return by_hand(schema, [Cells(()), *(Cells((name,)) for name in schema.names), *pairs])


def one_table(*sizes: int) -> Plan:
    schema = schema_of(*sizes)
    return by_hand(schema, [Cells(schema.names)])


def with_scale(scale: float) -> Plan:
    return replace(one_table(3, 2), requests=(Request(Cells(PAIR.names), Noise(NoiseKind.LAPLACE, scale)),))


def of_tables(number: int) -> Plan:
    schema = schema_of(*[2] * 5)
    tables = [table for k in (1, 2, 3) for table in combinations(schema.names, k)][:number]
    return ct.plan(schema, epsilon=1, workload=ct.Workload(tables), strategy="direct").chosen


def with_matrix(entries: int) -> Plan:
    """A matrix with so many entries, an even number, along an attribute of two values."""
    rows = [[1, i % 2] for i in range(entries // 2)]
    return by_hand(PAIR, [Cells(()), Kronecker(("a1",), {"a1": rows})])


def with_repeated(number: int) -> Plan:
    """The same table again and again, with the same noise."""
    return replace(one_table(3, 2), requests=(Request(Cells(("a1",)), Noise(NoiseKind.LAPLACE, 1e4)),) * (number + 1))


def of_the_full_table(cells: int) -> Plan:
    return ct.plan(schema_of(cells), epsilon=1, strategy=ct.strategies.Flat(max_cells=1_000)).chosen


LIMITS: dict[str, tuple[str, int, int, Callable[[int], Plan]]] = {
    # row of the page: the constant that is lowered, if any; the limit, the step beyond it, and a plan of such a size
    "attributes in a schema": ("", 512, 1, in_groups),
    "values of one attribute": ("schema.attribute.MAX_VALUES", 1_000, 1, one_table),
    "cells measured by one plan (after values are put into groups), cells of one answer": (
        "query.queries.MAX_CELLS",
        1_000,
        1,
        lambda cells: by_hand(schema_of(cells - 12, 3, 4), [Cells(("a0",)), Cells(("a1", "a2"))]),
    ),
    "cells of the full table for `flat`": ("", 1_000, 1, of_the_full_table),
    "tables in a workload": ("workload.MAX_TABLES", 20, 1, of_tables),
    "entries of the matrix that measures one attribute; values for which the best matrix is searched": (
        "query.operators.MAX_ENTRIES",
        1_000,
        2,
        with_matrix,
    ),
    "scale of noise": ("", 2**52 - 1, 1, with_scale),
    "measurements of one stage that repeat another one": ("", 1_000, 1, with_repeated),
}


def lowered(monkeypatch: pytest.MonkeyPatch, constant: str, to: int) -> None:
    """Lower a constant wherever it is known: a release of its true size takes minutes."""
    home, name = constant.rsplit(".", 1)
    value = vars(sys.modules[f"crosstally.{home}"])[name]
    for key, module in list(sys.modules.items()):
        if key.startswith("crosstally.") and vars(module).get(name) == value:
            monkeypatch.setattr(module, name, to)


def assert_delivered(plan: Plan, folder: Path) -> None:
    """It is released, written, read, asked, had again by its key, and exported from the ledger: the same each time."""
    ledger = ct.Ledger.create(folder / "people.ledger", schema=plan.schema, budget=plan.budget)
    release = ct.release(rows_of(plan.schema), plan=plan, ledger=ledger, key="one")
    release.save(folder / "r.parquet")
    ran_well("ledger", "export", folder / "people.ledger", "one", "-o", folder / "again.parquet")
    again = ct.release("no-such-file.csv", plan=plan, ledger=ledger, key="one")
    names = plan.requests[-1].query.attributes
    for other in (ct.open_release(folder / "r.parquet"), ct.open_release(folder / "again.parquet"), again):
        assert [m.query for m in other.measurements] == [m.query for m in release.measurements]
        assert other.marginal(*names).values == pytest.approx(release.marginal(*names).values, rel=1e-9, abs=0.01)
    assert len(ledger.entries()) == 1


def assert_refused(planned: Callable[[], Plan], message: str | None = None) -> None:
    """In one line, by whoever sees it first, and before anything is charged."""
    ledgers: list[ct.Ledger] = []

    def released() -> None:
        plan = planned()
        ledgers.append(ct.Ledger.in_memory(schema=plan.schema, budget=plan.budget))
        ct.release(rows_of(plan.schema), plan=plan, ledger=ledgers[0])

    with pytest.raises(ct.CrosstallyError, match=message) as refused:
        released()
    assert "\n" not in str(refused.value)
    assert all(ledger.entries() == () for ledger in ledgers)


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("row", LIMITS)
def test_a_limit_of_the_docs_is_released_up_to_it_and_refused_beyond_it(row, beyond, tmp_path, monkeypatch) -> None:
    constant, limit, step, planned = LIMITS[row]
    if constant:
        lowered(monkeypatch, constant, limit)
    if beyond <= 0:
        assert_delivered(planned(limit + beyond * step), tmp_path)
    else:
        assert_refused(lambda: planned(limit + step))


HEADER = "header of a release file: schema, groups, names of the measured tables"


def test_a_header_of_any_size_is_written_and_read_or_nothing_is_charged(tmp_path, monkeypatch) -> None:
    """What is rehearsed is a few digits longer than what is written: the number of the entry is not known yet."""
    plan = in_groups(3)
    size = len(writer.header_bytes(ct.release(rows_of(plan.schema), plan=plan)))
    lowered(monkeypatch, "releases.file.header.MAX_HEADER", size - 1)
    assert_refused(lambda: plan, "must fit")
    lowered(monkeypatch, "releases.file.header.MAX_HEADER", size)
    assert_refused(lambda: plan, "must fit")
    lowered(monkeypatch, "releases.file.header.MAX_HEADER", size + 200)
    assert_delivered(plan, tmp_path)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("one row of a text file", "a0,a1,note\n0,0,{}\n1,1,x\n"),
        ("position of the column names in a text file", "{}\na0,a1\n0,0\n1,1\n"),
    ],
)
@pytest.mark.parametrize("length", [0.9, 3])
def test_text_files_are_read_up_to_their_limit_and_cost_nothing_beyond_it(row, text, length, tmp_path) -> None:
    """Where exactly a row is too long depends on where the reader's blocks end."""
    (tmp_path / "people.csv").write_text(text.format("x" * round(FILES[row] * length)))
    ledger = ct.Ledger.in_memory(schema=PAIR, budget=BUDGET)
    reading = Reading(delimiter=",", header=2 if "position" in row else 1)

    def released() -> ct.Release:
        return ct.release(tmp_path / "people.csv", plan=one_table(3, 2), ledger=ledger, reading=reading)

    if length < 1:
        assert released().marginal("a0", "a1").values.sum() == pytest.approx(2, abs=2)
        return
    with pytest.raises(ct.CrosstallyError):
        released()
    assert ledger.entries() == ()


FILES = {"one row of a text file": 4 * 2**20, "position of the column names in a text file": 256 * 2**10}


def test_every_limit_of_the_docs_is_walked() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    assert {line.split("|")[1].strip() for line in lines} == {*LIMITS, HEADER, *FILES, *BESIDES}
    assert [place for place in BESIDES.values() if not (Path(__file__).parent / place).exists()] == []


# Whatever else publishing refuses


def chosen_only() -> Plan:
    choice = Choice([("a0",), ("a1",)], [[1, 1, 1], [1, 1]])
    return replace(one_table(3, 2), requests=(Request(choice, Noise(NoiseKind.GUMBEL, 2.0)),))


REFUSED: dict[str, tuple[Callable[[], Plan], str]] = {
    "a choice and nothing measured": (chosen_only, "there is nothing to estimate from"),
    "a matrix without what is inside it": (
        lambda: by_hand(PAIR, [Kronecker(("a1",), {"a1": [[1, -1]]})]),
        "is measured by a matrix, so all tables inside it must be measured too; the total is not",
    ),
    "a strategy without a name": (
        lambda: replace(one_table(3, 2), strategy=5),
        "strategy must be a text",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_publishing_refuses_is_refused_before_the_charge(why) -> None:
    assert_refused(*REFUSED[why])


def test_a_later_stage_that_does_not_fit_is_left_out_and_the_earlier_ones_delivered(tmp_path, monkeypatch) -> None:
    """Stage one has 66 numbers; of pairs, 1,440 cells, none fits: they cost nothing."""
    schema = schema_of(*[6] * 11)
    plan = ct.plan(schema, epsilon=10, strategy="two-stage").chosen
    plan.save(tmp_path / "p.json")
    lowered(monkeypatch, "query.queries.MAX_CELLS", 70)
    ledger = ct.Ledger.create(tmp_path / "people.ledger", schema=schema, budget=plan.budget)

    def released(source: Any) -> ct.Release:
        with pytest.warns(UserWarning, match="stage 2 of 2 is left out and its budget is not spent.*: .*cells"):
            return ct.release(source, plan=plan, ledger=ledger, key="one")

    first = released(rows_of(schema, 500))
    assert first.statement.budget == plan.own_budget
    assert [each.cost for each in ledger.entries()] == [plan.own_budget.amount]
    ran_well("ledger", "export", tmp_path / "people.ledger", "one", "-o", tmp_path / "r.parquet")
    again = ran_well(
        "release", "no-such-file.csv", "--plan", tmp_path / "p.json", "--ledger", ledger.path, "--key", "one",
        "-o", tmp_path / "again.parquet",
    )  # fmt: skip
    assert "Warning: stage 2 of 2 is left out and its budget is not spent" in again.err
    for other in (released("no-such-file.csv"), ct.open_release(tmp_path / "r.parquet")):
        assert other.statement == first.statement
        assert other.marginal("a3").values == pytest.approx(first.marginal("a3").values)


def test_a_default_release_of_many_attributes_is_delivered() -> None:
    """From 257 attributes on, those whose values are in groups are more than a schema may have, counted twice."""
    schema, halves = schema_of(*[4] * 257), (0, 0, 1, 1)
    by_default = ct.release(
        rows_of(schema, 2_000), plan=ct.strategies.TwoStage().plan(schema, None, ct.Budget(epsilon=1))
    )
    assert by_default.statement.budget == ct.Budget(epsilon=1)
    chain = pairwise(schema.names)
    queries = [Cells((name,)) for name in schema.names] + [Cells(pair, dict.fromkeys(pair, halves)) for pair in chain]
    task = ct.strategies.Task(schema, None, budget=ct.Budget(epsilon=1), neighbours=ct.Neighbours.ADD_REMOVE)
    release = ct.release(rows_of(schema, 2_000), plan=task.asking("in groups", queries))
    assert len(release.estimate.schema.names) > 512
    assert release.marginal("a0", "a256").values.sum() == pytest.approx(2_000, abs=1_000)
