"""Accounts of epsilon and delta: the rule that adds up is fixed, and what each kind of spend costs by it."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from scipy.stats import norm

import crosstally as ct
from cli_runs import run as command
from crosstally.budget import Budget, Neighbours
from crosstally.errors import LedgerError, OverspendError
from crosstally.gaussian_curve import gaussian_delta
from crosstally.pipeline import run
from crosstally.plans.plan import Plan
from crosstally.schema import Unit
from crosstally.strategies.direct import Direct
from crosstally.strategies.planner import Proposal, compare
from crosstally.strategies.residual import Residual
from reference_privacy import brute_force_mu2

CAP = Budget(epsilon=1, delta="1e-6")
BY_RHO = Budget(epsilon=1, delta="1e-6", rule="rho")
PATIENTS = ct.Schema([ct.Attribute("sex", ["f", "m"]), ct.Attribute("ward", ["a", "b"])], unit=Unit("patient", 1))
STAYS = ct.Schema(
    [ct.Attribute("sex", ["f", "m", "x"]), ct.Attribute("ward", ["a", "b", "c"])], unit=Unit("patient", 2)
)
VISITS = ct.Schema(STAYS.attributes, unit=Unit("visit", 1))


def people(schema: ct.Schema) -> pa.Table:
    columns = {each.name: [each.labels[i % each.size] for i in range(40)] for each in schema.attributes}
    assert schema.unit is not None
    return pa.table({**columns, schema.unit.id: [i // 2 for i in range(40)]})


def plan_of(schema: ct.Schema, budget: Budget, neighbours: str = "add-remove", currency: str = "mu2") -> Plan:
    proposal = Proposal(budget, neighbours=Neighbours(neighbours), units=False)
    return compare(schema, proposal, strategies=[Residual()], currency=currency).chosen


def test_the_rule_is_fixed_when_an_account_is_created(tmp_path: Path) -> None:
    for name, cap, currency in (("mu", CAP, "mu2"), ("rho", BY_RHO, "rho")):
        path = tmp_path / f"{name}.ledger"
        ct.Ledger.create(path, schema=PATIENTS, budget=cap)
        ledger = ct.Ledger.open(path)
        assert (ledger.currency, ledger.budget) == (currency, cap)
        ledger.raise_cap(Budget(epsilon=2, delta="1e-6"))  # by the account's own rule, whatever the default is
        with pytest.raises(LedgerError, match=f"this ledger counts {currency}"):
            ledger.raise_cap(Budget(mu2=5) if currency == "rho" else Budget(rho=5))
        again = ct.Ledger.open(path)
        assert again.budget == Budget(epsilon=2, delta="1e-6", rule=currency)
        again.verify()


def test_budgets_without_a_rule_in_a_file_are_counted_in_rho_as_they_were() -> None:
    assert Budget.from_dict({"epsilon": "1", "delta": "1e-06"}) == BY_RHO
    assert BY_RHO.to_dict() == {"epsilon": "1", "delta": "1e-06"}
    assert CAP.to_dict() == {"epsilon": "1", "delta": "1e-06", "rule": "mu2"}
    for budget in (CAP, BY_RHO, Budget(mu2="0.25")):
        assert Budget.from_dict(json.loads(json.dumps(budget.to_dict()))) == budget


def test_what_each_kind_of_spend_costs_a_mu_account() -> None:
    ledger = ct.Ledger.in_memory(schema=PATIENTS, budget=Budget(mu2=10))
    run(people(PATIENTS), plan_of(PATIENTS, CAP), ledger=ledger)
    assert ledger.spent == CAP.amount
    pure = compare(PATIENTS, Proposal(Budget(epsilon="0.5")), strategies=[Direct()]).chosen
    run(people(PATIENTS), pure, ledger=ledger)
    assert ledger.spent == CAP.amount + Fraction(11, 28)
    ledger.admit(VISITS, at_most=3)
    run(people(VISITS), plan_of(VISITS, Budget(mu2="0.1")), ledger=ledger)
    assert ledger.spent == CAP.amount + Fraction(11, 28) + Fraction(9, 10)
    for refused in (Budget(rho="0.1"), BY_RHO):
        with pytest.raises(LedgerError, match=r"this ledger counts mu\^2, of which rho says nothing"):
            run(people(PATIENTS), plan_of(PATIENTS, refused, currency="epsilon"), ledger=ledger)
    ledger.verify()
    both = ct.Ledger.in_memory(schema=PATIENTS, budget=Budget(mu2=10), neighbours="replace")
    run(people(PATIENTS), plan_of(PATIENTS, Budget(mu2="0.1")), ledger=both)
    assert both.spent == Fraction(4, 10)


def test_an_account_of_rho_pays_mu_by_its_rho() -> None:
    """mu-GDP is mu^2 / 2 in rho. A release for the account itself is planned by rho, as ever."""
    ledger = ct.Ledger.in_memory(schema=PATIENTS, budget=Budget(rho=1))
    run(people(PATIENTS), plan_of(PATIENTS, CAP), ledger=ledger)
    assert ledger.spent == CAP.amount / 2
    assert plan_of(PATIENTS, CAP, currency="rho").budget == BY_RHO
    own = ct.Ledger.in_memory(schema=PATIENTS, budget=BY_RHO)
    ct.release(people(PATIENTS), PATIENTS, epsilon=1, delta="1e-6", ledger=own)
    assert own.spent <= own.budget.amount


def test_stages_of_a_release_add_up_to_its_budget() -> None:
    ledger = ct.Ledger.in_memory(schema=PATIENTS, budget=CAP)
    plan = compare(PATIENTS, Proposal(CAP), strategies=[ct.strategies.MWEM(rounds=2)], currency="mu2").chosen
    release = ct.release(people(PATIENTS), plan=plan, ledger=ledger)
    assert len(ledger.entries()) == 1 + len(plan.later) > 2
    assert (ledger.spent, release.statement.budget) == (CAP.amount, CAP)
    with pytest.raises(OverspendError, match=r"the cap of μ² = 0\.05\d+ \(ε = 1, δ = 1e-06\) would be exceeded"):
        run(people(PATIENTS), plan_of(PATIENTS, Budget(mu2="1e-6")), ledger=ledger)
    ledger.verify()


def test_two_schemas_of_one_unit_are_never_undercharged() -> None:
    """The worst case of each, by brute force, makes the charge; their sum is what somebody in both loses."""
    ledger = ct.Ledger.in_memory(schema=PATIENTS, budget=Budget(mu2=1))
    worst = []
    for schema in (PATIENTS, STAYS):
        plan = plan_of(schema, Budget(mu2="0.125"))
        run(people(schema), plan, ledger=ledger)
        worst.append(brute_force_mu2(schema, plan.requests, "add-remove"))
    assert ledger.spent == Fraction(1, 4)
    assert sum(worst) <= ledger.spent
    assert sum(worst) == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(("0.5", "3"), ("1e-4", "1e-9"))))
def test_laplace_noise_costs_no_more_epsilon_than_ever_where_no_account_is_charged_in_mu(epsilon, delta) -> None:
    """One table of one attribute: Laplace noise may spend all of epsilon, or in an account of rho what its rho buys."""
    schema = ct.Schema([ct.Attribute("a", [f"v{i}" for i in range(12)])])
    asked = Proposal(Budget(epsilon=epsilon, delta=delta), named=ct.Workload([("a",)]))
    alone = compare(schema, asked).chosen
    assert alone.budget == Budget(epsilon=epsilon)
    rho = float(Budget(epsilon=epsilon, delta=delta, rule="rho").amount)
    in_rho = compare(schema, asked, currency="rho").chosen.budget
    assert not in_rho.pure or float(in_rho.amount) == pytest.approx((2 * rho) ** 0.5, rel=1e-9)


def test_a_forged_rule_is_found(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    ledger = ct.Ledger.create(path, schema=PATIENTS, budget=CAP)
    run(people(PATIENTS), plan_of(PATIENTS, CAP), ledger=ledger)
    del ledger
    with sqlite3.connect(path) as connection:
        (header,) = connection.execute("SELECT body FROM header").fetchone()
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        forged = header.replace('"rule":"mu2"', '"rule":"rho"')
        assert forged != header
        connection.execute("UPDATE header SET body = ?", (forged,))
    connection.close()
    with pytest.raises(LedgerError):
        ct.Ledger.open(path).verify()


def test_the_words_are_the_chances_of_a_guess() -> None:
    """Phi(mu / 2), and Phi(mu) for what the data say of somebody: two steps of add-remove."""
    statement = run(
        people(PATIENTS), plan_of(PATIENTS, CAP), ledger=ct.Ledger.in_memory(schema=PATIENTS, budget=CAP)
    ).statement
    (words,) = [each for each in statement.plain(PATIENTS) if each.startswith("In chances")]
    mu = float(CAP.amount) ** 0.5
    inside, says = (math.ceil(100 * norm.cdf(steps * mu / 2)) for steps in (1, 2))
    assert f"right at most {inside}% of the time" in words
    assert f"and at most {says}% of the time about" in words
    assert float(gaussian_delta(CAP.amount, Fraction(1))) <= 1e-6


def test_the_rule_on_the_command_line(tmp_path: Path) -> None:
    PATIENTS.save(tmp_path / "people.schema.json")
    for rule, currency in (((), "mu2"), (("--rule", "mu2"), "mu2"), (("--rule", "rho"), "rho")):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.ledger"
        made = ("ledger", "create", path, "--schema", tmp_path / "people.schema.json", "--epsilon", "1")
        shown = command(*made, "--delta", "1e-6", *rule, "--json")
        assert json.loads(shown.out)["currency"] == currency
    wrong = command(*made[:2], tmp_path / "none.ledger", *made[3:], "--rule", "mu2")
    assert wrong.code == 2
    assert "the rule must be mu2 or rho, and comes with epsilon and delta" in wrong.err
    assert not (tmp_path / "none.ledger").exists()
