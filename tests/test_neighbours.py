"""A neighbouring relation may be given by its text at every door; a text that is none is refused."""

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
import crosstally_lab
from crosstally.browser.steward.plan_page import budget_in_words, query_of
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import CrosstallyError, PlanError
from crosstally.measurements import Measurement
from crosstally.plans.joint_cost import groups_cost, privacy_cost, single_cost
from crosstally.plans.linear_cost import linear_cost
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request, grouped
from crosstally.privacy.ledger import Ledger
from crosstally.query.choice import Choice
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Kronecker, Product, sensitivity_of_tables
from crosstally.query.summed import Summed
from crosstally.query.unit_table import UnitTable
from crosstally.releases import Statement
from crosstally.releases.publication import costs_of_entries
from crosstally.releases.statement import belief, guarantee
from crosstally.releases.totals import Total
from crosstally.residuals.variances import closure_of
from crosstally.schema import Measure
from crosstally.strategies import NAMED, Fourier, Views
from crosstally.strategies.planner import Proposal, compare, rests_on_rows, solve_epsilon
from crosstally.strategies.residual import best_variances, contrast_costs, contrasts_with_variances
from crosstally.strategies.strategy import Task, requests_with_shares, with_less_noise

PACKAGES = (ct, crosstally_lab)
SCHEMA = ct.Schema([ct.Attribute("a", ["0", "1", "2"]), ct.Attribute("b", ["0", "1"])])
MANY = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(12)])
BOTH = ct.Workload([("a", "b"), ("a",)])
RHO = Budget(rho=1)
LOUD = Noise(NoiseKind.GAUSSIAN, 50.0)
ASKED: list[tuple[Product, Noise]] = [
    (Contrast(("a", "b")), LOUD),
    (Contrast(("a",)), LOUD),
    (Cells(()), LOUD),
]
REQUESTS = tuple(Request(*each) for each in ASKED)
LINEAR = Linear((Term(1, (("a", (3, -1, 0)),)),))
MATRIX = Kronecker(("a", "b"), {"a": [[3, -1, 0], [0, 1, 0]]})
WITH_PAY = replace(SCHEMA, measures=[Measure("pay", 0, 9)])
UNITS = UnitTable((1, 2, 3))
CHOICE = Choice([("a",), ("b",)], [[1, 2, 3], [4, 2]])


def rows() -> pa.Table:
    return pa.table({"a": ["0", "1", "2"] * 10, "b": ["0", "1"] * 15})


def ledger_file(relation: Any, folder: Path) -> Any:
    path = folder / "people.ledger"
    path.unlink(missing_ok=True)
    Ledger.create(path, schema=SCHEMA, budget=RHO, neighbours=relation)
    return Ledger.open(path).neighbours


def released(relation: Any, strategy: str = "auto") -> Any:
    release = ct.release(rows(), SCHEMA, rho=1, workload=BOTH, strategy=strategy, neighbours=relation)
    first = [m for m in release.measurements if m.origin.startswith("entry 1 ")]  # a second stage depends on noise
    assert first
    return release.statement.neighbours, [(m.query, m.noise) for m in first]


def closure() -> Any:
    return closure_of(SCHEMA, BOTH.tables)


def found_variances(relation: Any) -> list[float]:
    costs = np.array([0.5, 0.4, 0.3, 0.2])
    return best_variances(closure(), np.ones(2), costs, relation, objective="sum").variances.tolist()


def by_strategy(strategy: Any, schema: ct.Schema = SCHEMA, budget: Budget = RHO) -> Callable[[Any], Any]:
    def planned(relation: Any) -> Any:
        return strategy.plan(schema, None, budget, neighbours=relation).to_dict()

    return planned


MEASURED = [
    Measurement(query, np.zeros(query.shape(SCHEMA), np.int64), variance=noise.variance, noise=noise, origin="x")
    for query, noise in ASKED
]
DOORS: dict[str, Callable[[Any], Any]] = {
    "pipeline.release": released,
    "pipeline.release, one strategy": lambda r: released(r, "fourier"),
    "planner.plan": lambda r: ct.plan(SCHEMA, rho=1, workload=BOTH, neighbours=r).chosen.to_dict(),
    "planner.Proposal, compare": lambda r: [
        p.to_dict() for p in compare(SCHEMA, Proposal(RHO, named=BOTH, neighbours=r)).plans
    ],
    "planner.Proposal, solve_epsilon": lambda r: solve_epsilon(
        SCHEMA,
        Proposal(Budget(epsilon=1, delta=Fraction(1, 10**6)), named=BOTH, neighbours=r),
        5.0,
        strategies=[NAMED["residual"]],
    ),
    "planner.Proposal, rows": lambda r: rests_on_rows(MANY, Proposal(Budget(epsilon=1), rows=1000, neighbours=r)),
    "ledger.Ledger.in_memory": lambda r: Ledger.in_memory(schema=SCHEMA, budget=RHO, neighbours=r).neighbours,
    "plan.Plan": lambda r: Plan(SCHEMA, REQUESTS, strategy="x", workload=BOTH, budget=RHO, neighbours=r).to_dict(),
    "plan.Plan, cost": lambda r: Plan(SCHEMA, REQUESTS, strategy="x", workload=BOTH, budget=RHO, neighbours=r).cost,
    "strategy.requests_with_shares": lambda r: requests_with_shares([q for q, _ in ASKED], [3, 2, 1], SCHEMA, RHO, r),
    "strategy.with_less_noise": lambda r: with_less_noise(grouped(REQUESTS, SCHEMA), SCHEMA, RHO, r)[0].noise,
    "joint_cost.privacy_cost": lambda r: privacy_cost(REQUESTS, SCHEMA, r, currency="rho"),
    "joint_cost.single_cost": lambda r: single_cost(*ASKED[0], SCHEMA, r, currency="rho"),
    "joint_cost.groups_cost": lambda r: groups_cost(grouped(REQUESTS, SCHEMA), SCHEMA, r, currency="rho"),
    "linear_cost.linear_cost": lambda r: linear_cost([(LINEAR, LOUD)], SCHEMA, r, currency="rho"),
    "residual.best_variances": found_variances,
    "residual.contrast_costs": lambda r: contrast_costs(closure(), r).tolist(),
    "residual.contrasts_with_variances": lambda r: [
        group.noise for group in contrasts_with_variances(closure(), np.ones(4), np.array([1, 2, 3.0, np.inf]), RHO, r)
    ],
    "queries.sensitivity_of_tables": lambda r: sensitivity_of_tables(2, SCHEMA, r),
    "queries.Product.sensitivity, cells": lambda r: Cells(("a",)).sensitivity(SCHEMA, r),
    "queries.Product.sensitivity, total": lambda r: Cells(()).sensitivity(SCHEMA, r),
    "queries.Product.sensitivity, contrast": lambda r: Contrast(("a", "b")).sensitivity(SCHEMA, r),
    "linear.Linear.sensitivity": lambda r: LINEAR.sensitivity(SCHEMA, r),
    "queries.Product.sensitivity, matrix": lambda r: MATRIX.sensitivity(SCHEMA, r),
    "queries.Product.worst_shifts": lambda r: Contrast(("a", "b")).worst_shifts(SCHEMA, r),
    "linear.Linear.worst_shifts": lambda r: LINEAR.worst_shifts(SCHEMA, r),
    "choice.Choice.sensitivity": lambda r: CHOICE.sensitivity(SCHEMA, r),
    "summed.Summed.sensitivity": lambda r: Summed("pay").sensitivity(WITH_PAY, r, one_cell=False),
    "unit_table.UnitTable.sensitivity": lambda r: UNITS.sensitivity(SCHEMA, r),
    "unit_table.UnitTable.worst_shifts": lambda r: UNITS.worst_shifts(SCHEMA, r),
    "publication.costs_of_entries": lambda r: dict(costs_of_entries(SCHEMA, r, MEASURED, (), currency="rho")),
    "strategy.requests_with_shares, choice": lambda r: requests_with_shares([CHOICE], [1], SCHEMA, RHO, r),
    "statement.belief": lambda r: belief(RHO, r, SCHEMA),
    "statement.guarantee": lambda r: guarantee(RHO, r, SCHEMA),
    "totals.Total": lambda r: (
        Total(what="", budget=RHO, schema=SCHEMA, model="", protected=(), sentences=(), neighbours=r).neighbours
    ),
    "statement.Statement": lambda r: Statement(strategy="x", budget=RHO, neighbours=r),
    "planner.Proposal": lambda r: query_of(Proposal(RHO, neighbours=r)),
    "plan_page.budget_in_words": lambda r: budget_in_words(Budget(epsilon=1), SCHEMA, r, None),
    "strategy.Task": lambda r: Task(SCHEMA, BOTH, budget=RHO, neighbours=r).neighbours,
    **{f"strategy.Strategy.plan, {s.name}": by_strategy(s) for s in NAMED.values()},
    "fourier.Fourier.plan, paper": by_strategy(Fourier(sensitivity="paper"), MANY, Budget(epsilon=1)),
    "views.Views.plan, mixed sizes": by_strategy(
        Views(rows=1000), ct.Schema([*MANY.attributes, SCHEMA["a"]]), Budget(epsilon=1)
    ),
    "views.Views.plan, two values": by_strategy(Views(rows=1000), MANY, Budget(epsilon=1)),
}


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("door", DOORS)
def test_the_text_gives_what_the_member_gives(door, relation) -> None:
    assert type(str(relation.value)) is str
    assert repr(DOORS[door](str(relation.value))) == repr(DOORS[door](relation))


@pytest.mark.parametrize("wrong", ["add_remove", "REPLACE", "", None])
@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_relation_is_refused(door, wrong) -> None:
    with pytest.raises(CrosstallyError) as error:
        DOORS[door](wrong)
    assert str(error.value).endswith(f"neighbours must be add-remove or replace, got {wrong!r}")


def test_a_ledger_file_takes_the_text_and_is_not_made_for_a_wrong_one(tmp_path) -> None:
    assert [ledger_file(relation.value, tmp_path) for relation in Neighbours] == list(Neighbours)
    with pytest.raises(CrosstallyError, match="neighbours must be add-remove or replace, got 'both'"):
        ledger_file("both", tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_noise_is_that_of_the_relation_named() -> None:
    """One table at epsilon = 1: scale 1 under add-remove, 2 under replace (L1 sensitivity 1 and 2)."""
    for relation, scale in (("add-remove", 1.0), ("replace", 2.0)):
        release = ct.release(rows(), SCHEMA, epsilon=1, strategy="flat", neighbours=relation)
        assert [m.noise.scale for m in release.measurements] == [scale]


def test_a_plan_is_not_run_for_another_relation() -> None:
    kept = ct.plan(SCHEMA, rho=1, workload=BOTH).chosen
    with pytest.raises(PlanError, match="the plan is for add-remove neighbours, got replace: leave neighbours out"):
        ct.release(rows(), plan=kept, neighbours="replace")


def test_every_public_door_is_among_those_tried() -> None:
    """Whatever has a parameter ``neighbours`` must be in DOORS (except the command line, where typer reads it)."""
    tried = {tuple(door.partition(",")[0].split(".")[-2:]) for door in DOORS}
    # a ledger is created with its header, which is read again as a value
    tried |= {("Ledger", "create"), ("ledger_records", "header_text"), ("ledger_records", "LedgerHeader")}
    missing = []
    # The audit goes by texts alone, and uses nothing of what it audits
    aside = ("crosstally.cli", "crosstally.kernels.__main__", "crosstally_lab.audit.definitions")
    modules = [each for package in PACKAGES for each in walk_packages(package.__path__, f"{package.__name__}.")]
    for module in modules:
        if module.name.startswith(aside):
            continue
        loaded = importlib.import_module(module.name)
        for name, thing in vars(loaded).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != module.name:
                continue
            found = [(module.name.rpartition(".")[2], name, thing)] if callable(thing) else []
            if inspect.isclass(thing):
                members = [(m, getattr(thing, m)) for m in vars(thing) if not m.startswith("_")]
                found += [(name, m, member) for m, member in members if inspect.isroutine(member)]
            for *door, function in found:
                if getattr(thing, "_is_protocol", False) or "neighbours" not in _parameters(function):
                    continue
                if tuple(door) not in tried:
                    missing.append(".".join(door))
    assert not missing


def _parameters(function: Any) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def test_no_comparison_by_identity_remains() -> None:
    by_identity = re.compile(r"\bis (not )?Neighbours\b|neighbours is (not )?(?!None\b)")
    sources = (path for package in PACKAGES for path in Path(package.__file__).parent.rglob("*.py"))
    found = [path.name for path in sources if by_identity.search(path.read_text(encoding="utf-8"))]
    assert not found
