"""Plans with later stages: approved as a file, run to the end, never planned again, never beyond their budget."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from cli_runs import ran_well
from crosstally import pipeline
from crosstally.budget import Budget, Neighbours
from crosstally.errors import KeyReusedError, LedgerError, OverspendError, PlanError
from crosstally.measurements import Measurement
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.plan import Plan
from crosstally.plans.request import Rule, stage_key, stage_keys, sum_of_stages
from crosstally.privacy.ledger_records import request_digest
from crosstally.query.queries import Cells, Product
from crosstally.strategies import Strategy, Task, Views
from crosstally.strategies.rules import RULES
from crosstally.strategies.strategy import public_total, requests_with_shares

FORMATS = Path(__file__).parent / "formats"
NO_ROWS = "there-is-no-such-file.csv"
SCHEMA = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(16)])
ROWS = pa.table({f"a{i}": [str((row >> i) & 1) for row in range(300)] for i in range(16)})
SMALL = Views(size=4)  # sixteen attributes, pairs: the 20 lines of the affine plane of order 4
BUDGETS = [{"epsilon": 1}, {"rho": "0.3"}, {"epsilon": 1, "delta": 1e-6}]


def staged(**budget: Any) -> Plan:
    return SMALL.plan(SCHEMA, None, ct.Budget(**budget or {"epsilon": 1}))


def asked(release: ct.Release) -> list[tuple[Any, Any]]:
    return [(each.query, each.noise) for each in release.measurements]


@pytest.fixture
def ledger(tmp_path) -> ct.Ledger:
    return ct.Ledger.create(tmp_path / "people.ledger", schema=SCHEMA, budget=ct.Budget(epsilon=1))


# From a file to a release


def test_an_approved_plan_publishes_its_views_from_the_command_line(tmp_path) -> None:
    """20 binary attributes: one number for 1/100 of the budget, then pairs in views of 8 for the rest of it."""
    names = [f"a{i}" for i in range(20)]
    ct.Schema([ct.Attribute(name, ["0", "1"]) for name in names]).save(tmp_path / "people.schema.json")
    lines = [",".join(names), *(",".join(str((row >> i) & 1) for i in range(20)) for row in range(100))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    plan = ("plan", tmp_path / "people.schema.json", "--epsilon", "1", "--strategy", "views", "--objective", "cells")
    shown = ran_well(*plan, "-o", tmp_path / "p.json")
    assert "A later stage, with 99% of the budget, measures what views chooses" in shown.out
    saved = json.loads((tmp_path / "p.json").read_text())
    assert (saved["budget"], len(saved["requests"]), len(saved["later"])) == ({"epsilon": "1"}, 1, 1)
    ran = ran_well("release", tmp_path / "people.csv", "--plan", tmp_path / "p.json", "--json")
    assert json.loads(ran.out)["cost"] == "1"
    release = ct.open_release(tmp_path / "people.release.parquet")
    views = ct.strategies.covering_design(attributes=20, size=8, cover=2)
    expected = [(), *(tuple(names[i] for i in view) for view in views)]
    assert [each.query.attributes for each in release.measurements] == expected
    scales = [each.noise.scale for each in release.measurements[1:]]
    assert scales == pytest.approx([len(views) / 0.99] * len(views))
    assert release.statement.budget == ct.Budget(epsilon=1)


@pytest.mark.parametrize("rows", [None, 300])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_saved_plan_gives_what_a_release_without_the_file_gives(budget, rows, neighbours, tmp_path) -> None:
    options = {**budget, "strategy": SMALL, "neighbours": neighbours, "rows": rows}
    ct.plan(SCHEMA, **options).chosen.save(tmp_path / "p.json")
    ledgers = [
        ct.Ledger.create(tmp_path / f"{i}.ledger", schema=SCHEMA, budget=ct.Budget(**budget), neighbours=neighbours)
        for i in range(2)
    ]
    from_file = ct.release(ROWS, plan=ct.Plan.load(tmp_path / "p.json"), rows=rows, ledger=ledgers[0])
    without = ct.release(ROWS, SCHEMA, ledger=ledgers[1], **options)
    assert len(without.measurements) == (21 if rows is None else 20)
    assert asked(from_file) == asked(without)
    assert from_file.statement.budget == without.statement.budget == ct.Budget(**budget)
    assert [each.spent for each in ledgers] == [ct.Budget(**budget).amount] * 2
    requests = [ct.strategies.Request(*each) for each in asked(from_file)]
    cost = privacy_cost(requests, SCHEMA, neighbours, currency=ct.Budget(**budget).currency)
    free = Fraction(1, 100) if neighbours is Neighbours.REPLACE and rows is None else 0  # the total cannot move
    assert 0 <= ct.Budget(**budget).amount * (1 - free) - cost < ct.Budget(**budget).amount / 10**6


def test_a_public_number_of_rows_leads_the_choice_of_an_approved_plan() -> None:
    """The bought number is noisy; the asserted one is exact. 100 million rows need no views: noise is negligible."""
    many = ct.release(ROWS, plan=staged(), rows=100_000_000)
    assert [each.query for each in many.measurements] == [Cells(()), Cells(SCHEMA.names)]


# The plan itself


def test_plan_files_with_rules_both_ways(tmp_path) -> None:
    plan = staged(epsilon="1/3")
    plan.save(tmp_path / "p.json")
    assert ct.Plan.load(tmp_path / "p.json") == plan
    assert json.loads((tmp_path / "p.json").read_text())["later"] == [
        {"rule": "views", "version": 1, "parameters": {"size": 4, "cover": None, "max_cells": None}, "share": "0.99"}
    ]


def test_budgets_of_stages_are_exact() -> None:
    plan = replace(staged(epsilon="1/3"), later=[halves_rule(Fraction(2, 3)), halves_rule(Fraction(1, 7))])
    assert plan.share == Fraction(4, 21)
    assert plan.stage_budgets == tuple(Budget(epsilon=x / 3) for x in (plan.share, Fraction(2, 3), Fraction(1, 7)))
    assert plan.budget_left == Budget(epsilon=Fraction(17, 63))


def test_stages_of_both_kinds_add_up_in_rho() -> None:
    """Epsilon 1/2 counts 1/8."""
    half, quarter = Budget(epsilon="1/2"), Budget(rho="1/4")
    assert sum_of_stages([half, quarter]) == Budget(rho="3/8")
    assert sum_of_stages([half, half]) == Budget(epsilon=1)
    assert sum_of_stages([half]) == half


def changed(**changes: Any) -> dict[str, Any]:
    """The staged plan with another rule."""
    plan = staged().to_dict()
    return {**plan, "later": [{**plan["later"][0], **changes}]}


@pytest.mark.parametrize(
    "changes",
    [{"rule": "other"}, {"version": 2}, {"share": "0.98"}, {"parameters": {"size": 3, "cover": None}}],
    ids=str,
)
def test_a_tampered_rule_is_another_request(changes, ledger) -> None:
    plan = Plan.from_dict(changed(**changes))
    assert request_digest(plan) != request_digest(staged())
    ct.release(ROWS, plan=staged(), ledger=ledger, key="spring")
    with pytest.raises((KeyReusedError, PlanError)):
        ct.release(ROWS, plan=plan, ledger=ledger, key="spring")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": "0.995"}, "the plan costs more than its budget of ε = 0.005"),
        ({"share": "1"}, "must be below 1, got 1"),
        ({"share": "-0.5"}, "share must be positive"),
        ({"version": 0}, "must be a whole number of at least 1"),
        ({"version": True}, "must be a whole number of at least 1"),
        ({"rule": 5}, "a rule must have a name"),
        ({"parameters": []}, "parameters of rule 'views' must be an object"),
        ({"parameters": {"size": 4.0}}, "must be whole numbers, texts, true, false or null"),
        ({"more": 1}, "each later stage must be an object with rule, version, parameters and share"),
    ],
)
def test_forged_rules_are_refused(changes, message) -> None:
    with pytest.raises(ct.CrosstallyError, match=message):
        Plan.from_dict(changed(**changes))


def test_plans_whose_shares_leave_nothing_or_that_measure_nothing_first() -> None:
    rule = staged().later[0]
    with pytest.raises(PlanError, match="must leave a part of the budget to the first one"):
        replace(staged(), later=[rule, replace(rule, share=Fraction(1, 100))])
    with pytest.raises(PlanError, match="must measure something first"):
        replace(staged(), requests=())
    with pytest.raises(PlanError, match="requests and later stages must be lists"):
        Plan.from_dict({**staged().to_dict(), "later": {}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "veiws"}, "rule 'veiws' version 1, which is not known here; known are views version 1"),
        ({"version": 2}, "rule 'views' version 2, which is not known here"),
        ({"parameters": {"size": 4}}, "rule 'views' has other parameters than size"),
        ({"parameters": {"size": 4, "cover": None, "max_cells": None, "rows": 3}}, "rule 'views' has other parameters"),
        ({"parameters": {"size": 1, "cover": None, "max_cells": None}}, "size must be a whole number of at least 2"),
    ],
)
def test_a_rule_that_nobody_knows_is_refused_before_anything_is_spent(changes, message, ledger) -> None:
    with pytest.raises(PlanError, match=message):
        ct.release(NO_ROWS, plan=Plan.from_dict(changed(**changes)), ledger=ledger)
    assert ledger.entries() == ()


def test_no_number_of_rows_ends_a_plan_after_its_first_stage() -> None:
    """Designs have at most 20,000 views, releases 5 million cells: known before the number of rows is bought."""
    wide = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(300)])  # 44,850 pairs
    with pytest.raises(PlanError, match="a design of at least 44,850 views is needed"):
        Views(size=2).plan(wide, None, Budget(epsilon=1))
    with pytest.raises(PlanError, match="a plan must be over at most 5,000,000 sets of attributes"):
        Views(size=16).plan(wide.subset(*wide.names[:150]), None, Budget(epsilon=1))
    large = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(60)])
    plan = Views(size=13).plan(large, None, Budget(epsilon=1))
    for rows in (0, 10**6, 10**9, 10**15):
        following = Views(size=13).next(plan, [public_total(rows)])
        assert following is not None
        following.check_countable()


# Repeats


def crash(*_: object) -> None:
    raise RuntimeError("the power went out")


def test_a_repeat_after_a_crash_between_stages_goes_on_where_it_stopped(ledger, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "next_stage", crash)
        with pytest.raises(RuntimeError):
            ct.release(ROWS, plan=staged(), ledger=ledger, key="spring")
    assert [each.key for each in ledger.entries()] == ["spring"]
    first = ledger.measurements("spring")
    read: list[tuple[Product, ...]] = []
    counted = pipeline._measured

    def noted(source: Any, plan: Plan, *others: Any, **options: Any) -> Any:
        read.append(plan.tables)
        return counted(source if plan.tables != (Cells(()),) else NO_ROWS, plan, *others, **options)

    plan = staged()
    with monkeypatch.context() as patch:
        patch.setattr(Views, "plan", crash)
        patch.setattr(pipeline, "_measured", noted)
        release = ct.release(ROWS, plan=plan, ledger=ledger, key="spring")
    assert [len(tables) for tables in read] == [1, 20]
    assert np.array_equal(release.measurements[0].values, first[0].values)
    assert ledger.spent == 1
    assert [each.state for each in ledger.entries()] == ["delivered"] * 2


def test_a_stage_that_was_charged_is_never_planned_again(ledger, monkeypatch) -> None:
    first = ct.release(ROWS, plan=staged(), ledger=ledger, key="spring")
    monkeypatch.setattr(Views, "next", crash)
    again = ct.release(NO_ROWS, plan=staged(), ledger=ledger, key="spring")
    for a, b in zip(first.measurements, again.measurements, strict=True):
        assert np.array_equal(a.values, b.values)
    assert ledger.spent == 1


def test_a_second_stage_is_taken_as_it_stands_even_if_the_rule_would_now_ask_otherwise(ledger, monkeypatch) -> None:
    """The views of triples instead of pairs, as another version of the rule may have chosen them."""

    def triples(_: Views, plan: Plan, __: Sequence[Measurement]) -> Plan:
        return replace(Views(size=4, cover=3).plan(SCHEMA, None, plan.budget_left), workload=plan.workload)

    with monkeypatch.context() as patch:
        patch.setattr(Views, "next", triples)
        other = ct.release(ROWS, plan=staged(), ledger=ledger, key="spring")
    assert len(other.measurements) > 100
    assert asked(ct.release(NO_ROWS, plan=staged(), ledger=ledger, key="spring")) == asked(other)


def test_a_key_that_another_release_has_cannot_be_a_second_stage(ledger) -> None:
    flat = ct.strategies.Direct().plan(SCHEMA, ct.Workload([("a0",)]), Budget(epsilon="0.001"))
    ct.release(ROWS, plan=flat, ledger=ledger, key="spring/2")
    with pytest.raises(KeyReusedError, match="the key 'spring/2' belongs to another request"):
        ct.release(NO_ROWS, plan=staged(epsilon="0.5"), ledger=ledger, key="spring")
    assert ledger.spent == Fraction(1, 1000)


def test_a_foreign_second_stage_that_came_in_between_is_not_taken(ledger, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "next_stage", crash)
        with pytest.raises(RuntimeError):
            ct.release(ROWS, plan=staged(epsilon="0.5"), ledger=ledger, key="spring")
    flat = ct.strategies.Direct().plan(SCHEMA, ct.Workload([("a0",)]), Budget(epsilon="0.001"))
    ct.release(ROWS, plan=flat, ledger=ledger, key="spring/2")
    with pytest.raises(KeyReusedError, match="the key 'spring/2' belongs to another request"):
        ct.release(ROWS, plan=staged(epsilon="0.5"), ledger=ledger, key="spring")


# What must be left before the first stage


def test_the_whole_budget_must_be_left_before_the_first_stage(ledger) -> None:
    ct.release(ROWS, SCHEMA, epsilon="0.1", strategy="direct", workload=ct.Workload([("a0",)]), ledger=ledger)
    with pytest.raises(OverspendError):
        ct.release(NO_ROWS, plan=staged(), ledger=ledger)
    ct.release(ROWS, plan=staged(epsilon="0.9"), ledger=ledger)
    assert ledger.remaining == 0


def test_stages_of_pure_epsilon_add_up_in_rho(tmp_path) -> None:
    """In rho epsilon counts epsilon^2 / 2, stage by stage: less than the square of the sum."""
    cap = Fraction(1, 2) * (Fraction(1, 100) ** 2 + Fraction(99, 100) ** 2)
    ledger = ct.Ledger.create(tmp_path / "rho.ledger", schema=SCHEMA, budget=ct.Budget(rho=cap))
    ct.release(ROWS, plan=staged(), ledger=ledger)
    assert ledger.remaining == 0


def test_a_key_too_long_for_a_second_stage_spends_nothing(ledger) -> None:
    with pytest.raises(LedgerError, match="a key must be a printable text of 1 to 200 characters"):
        ct.release(ROWS, plan=staged(), ledger=ledger, key="k" * 199)
    assert ledger.entries() == ()


def test_keys_of_stages() -> None:
    assert [stage_key("k", stage) for stage in (1, 2, 3)] == ["k", "k/2", "k/3"]
    known = {"k", "k/2", "k/4", "k/summer", "kk"}
    assert (stage_keys("k", known), stage_keys("kk", known), stage_keys("z", known)) == (("k", "k/2"), ("kk",), ())


# More than two stages, by a strategy of one's own


def halves_rule(share: Fraction) -> Rule:
    return Rule("halves", 1, parameters={}, share=share)


@dataclass(frozen=True)
class Halves(Strategy):
    """The first attribute with half of the budget, the next one with a third, the next one with the rest."""

    greedy: bool = False
    name = "halves"

    def planned(self, task: Task) -> Plan:
        rules = (halves_rule(Fraction(1, 3)), halves_rule(Fraction(1, 6)))
        return self._measuring("a0", replace(task, asked=task.asked or ct.Workload([("a0",)])), rules)

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
        budget = plan.budget if self.greedy else plan.budget_left
        rules = (halves_rule(Fraction(1, 3)),) if len(plan.later) == 2 else ()
        task = Task(plan.schema, plan.workload, budget=budget, neighbours=plan.neighbours)
        return self._measuring(f"a{len(seen)}", task, rules)

    def _measuring(self, name: str, task: Task, rules: tuple[Rule, ...]) -> Plan:
        own = Budget(epsilon=task.budget.amount * (1 - sum(rule.share for rule in rules)))
        requests = requests_with_shares([Cells((name,))], [1.0], task.schema, own, task.neighbours)
        return task.planned(self.name, requests, later=rules)


def test_three_stages_of_a_strategy_of_ones_own(ledger, monkeypatch) -> None:
    monkeypatch.setitem(RULES, ("halves", 1), Halves)
    release = ct.release(ROWS, SCHEMA, epsilon=1, strategy=Halves(), ledger=ledger, key="k")
    assert [each.query.attributes for each in release.measurements] == [("a0",), ("a1",), ("a2",)]
    assert [(each.key, each.cost) for each in ledger.entries()] == [
        ("k", Fraction(1, 2)),
        ("k/2", Fraction(1, 3)),
        ("k/3", Fraction(1, 6)),
    ]
    ledger.verify()


def test_a_rule_that_asks_for_more_than_is_left_is_refused_and_the_first_stage_delivered(ledger, monkeypatch) -> None:
    monkeypatch.setitem(RULES, ("halves", 1), lambda: Halves(greedy=True))
    with pytest.warns(UserWarning, match="stage 2 of 3 is left out.*: rule 'halves' must keep schema, neighbours"):
        release = ct.release(ROWS, SCHEMA, epsilon=1, strategy=Halves(), ledger=ledger, key="k")
    assert [each.query.attributes for each in release.measurements] == [("a0",)]
    assert release.statement.budget == ct.Budget(epsilon="1/2")
    assert [(each.cost, each.state) for each in ledger.entries()] == [(Fraction(1, 2), "delivered")]


def test_exporting_what_a_crash_left_says_what_that_cost(ledger, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(pipeline, "next_stage", crash)
    with pytest.raises(RuntimeError):
        ct.release(ROWS, plan=staged(), ledger=ledger, key="spring")
    ran_well("ledger", "export", ledger.path, "spring", "-o", tmp_path / "r.parquet")
    assert ct.open_release(tmp_path / "r.parquet").statement.budget == ct.Budget(epsilon="0.01")


@pytest.mark.parametrize("strategy", ["direct", "residual", "fourier", "optimum", "clustered"])
def test_the_total_alone_is_paid_once(strategy: str) -> None:
    """A stage without tables was taken for an unfinished release: version 0.1.0 asked again until nothing was left."""
    schema = SCHEMA.subset("a0")
    ledger = ct.Ledger.in_memory(schema=schema, budget=ct.Budget(rho=10))
    released = ct.release(ROWS, schema, rho=1, workload=ct.Workload([()]), strategy=strategy, ledger=ledger)
    assert [each.query for each in released.measurements] == [Cells(())]
    assert (len(ledger.entries()), ledger.remaining) == (1, 9)
