"""A plan's own budget always pays for it: through JSON, through a ledger file, whatever its digits."""

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import crosstally as ct
from crosstally import budget as budgets
from crosstally.budget import Budget
from crosstally.errors import LedgerError
from crosstally.plans.plan import Plan
from crosstally.strategies import Direct, Views

SCHEMA = ct.Schema([ct.Attribute("a", ["0", "1"])])
ROWS = pa.table({"a": ["0", "1"]})


def some_budgets(number: int, seed: int) -> list[Budget]:
    """Pure, concentrated and approximate budgets, of few and of many digits, decimals and ratios."""
    random = Random(seed)
    found = []
    for _ in range(number):
        digits = random.choice([1, 3, 17, 29, 46, 100])
        decimal = Fraction(random.randrange(1, 10**digits), 10**digits)
        binary = Fraction(random.randrange(1, 2**digits), 2**digits)
        ratio = Fraction(random.randrange(1, 10**digits), random.randrange(1, 10**digits))
        amount = random.choice([decimal, binary, min(max(ratio, Fraction(1, 10**6)), Fraction(100))])
        amount = max(amount, Fraction(1, 10**9))
        delta = Fraction(random.randrange(1, 10**digits), 10 ** (digits + 4))
        found.append(random.choice([Budget(epsilon=amount), Budget(rho=amount), Budget(epsilon=amount, delta=delta)]))
    return found


def again(plan: Plan) -> Plan:
    return Plan.from_dict(json.loads(json.dumps(plan.to_dict())))


def test_a_plan_is_paid_by_its_own_budget() -> None:
    for budget in some_budgets(150, seed=1):
        plan = Direct().plan(SCHEMA, None, budget)
        assert again(plan) == plan
        assert ct.release(ROWS, plan=again(plan)).statement.budget == budget


def test_a_plan_is_paid_by_a_ledger_file_with_its_budget(tmp_path) -> None:
    for i, budget in enumerate(some_budgets(30, seed=2)):
        path = tmp_path / f"{i}.ledger"
        ct.Ledger.create(path, schema=SCHEMA, budget=budget)
        ct.release(ROWS, plan=Direct().plan(SCHEMA, None, budget), ledger=path)
        ledger = ct.Ledger.open(path)
        assert (ledger.budget, ledger.remaining) == (budget, 0)
        ledger.verify()


def test_stages_are_paid_by_their_budget(tmp_path) -> None:
    schema = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(16)])
    rows = pa.table({name: ["0", "1"] for name in schema.names})
    for i, budget in enumerate(some_budgets(6, seed=3)):
        ledger = ct.Ledger.create(tmp_path / f"{i}.ledger", schema=schema, budget=budget)
        plan = again(Views(size=4).plan(schema, None, budget))
        assert len(ct.release(rows, plan=plan, ledger=ledger).measurements) > len(plan.requests)
        assert ledger.remaining == 0
        ledger.verify()


def rounded_text(fraction: Fraction) -> str:
    """The budget to 28 digits."""
    digits = next(n for n in range(1000) if (fraction * 10**n).denominator == 1)
    return format(Decimal(int(fraction * 10**digits)).scaleb(-digits), "f")


@pytest.mark.parametrize("rho", ["0.00449192" + "7" * 40, "0.1234567890123456789012345690" + "0" * 9 + "1"])
def test_a_ledger_whose_plans_are_not_what_was_charged_does_not_verify(rho, tmp_path: Path, monkeypatch: Any) -> None:
    """The charge is exact; the plan beside it was written to 28 digits."""
    ledger = ct.Ledger.create(tmp_path / "old.ledger", schema=SCHEMA, budget=Budget(rho=1))
    plan = Direct().plan(SCHEMA, None, Budget(rho=rho))
    monkeypatch.setattr(budgets, "decimal_text", rounded_text)
    assert Fraction(plan.to_dict()["budget"]["rho"]) != Fraction(rho)
    ledger.charge(plan, "spring")
    assert ledger.spent == Fraction(rho)
    with pytest.raises(LedgerError, match="entry 1 was charged for another plan"):
        ledger.verify()
