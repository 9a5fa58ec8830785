"""One account for the same people: several schemas, other units and neighbours, and what is charged for them."""

import itertools
import json
import sqlite3
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.budget import Neighbours
from crosstally.errors import LedgerError, OverspendError, QueryError
from crosstally.pipeline import run
from crosstally.plans.plan import Plan
from crosstally.schema import Unit
from crosstally.strategies.direct import Direct
from crosstally.strategies.planner import Proposal, compare

LAST_YEAR = ct.Schema([ct.Attribute("sex", ["f", "m"]), ct.Attribute("ward", ["a", "b"])])
THIS_YEAR = ct.Schema([ct.Attribute("sex", ["f", "m", "x"]), ct.Attribute("ward", ["a", "b", "c"])])
PATIENTS = ct.Schema(LAST_YEAR.attributes, unit=Unit("patient", 1))
STAYS = ct.Schema(THIS_YEAR.attributes, unit=Unit("patient", 2))
VISITS = ct.Schema(THIS_YEAR.attributes, unit=Unit("visit", 1))


def people(schema: ct.Schema, rows: int = 40) -> pa.Table:
    columns = {each.name: [each.labels[i % each.size] for i in range(rows)] for each in schema.attributes}
    return pa.table(columns if schema.unit is None else {**columns, schema.unit.id: [i // 2 for i in range(rows)]})


def plan_of(schema: ct.Schema, epsilon: str = "0.5", neighbours: str = "add-remove", delta: str | None = None) -> Plan:
    proposal = Proposal(ct.Budget(epsilon=epsilon, delta=delta), neighbours=Neighbours(neighbours))
    return compare(schema, proposal, strategies=[Direct()]).chosen


def account(schema: ct.Schema = LAST_YEAR, neighbours: str = "add-remove", **budget: object) -> ct.Ledger:
    return ct.Ledger.in_memory(schema=schema, budget=ct.Budget(**(budget or {"epsilon": 3})), neighbours=neighbours)


def test_the_second_year_adds_to_the_first(tmp_path: Path) -> None:
    """Other labels, the same people: one cap, each year by its own schema, and both can be compared."""
    path = tmp_path / "people.ledger"
    ledger = ct.Ledger.create(path, schema=LAST_YEAR, budget=ct.Budget(epsilon=3), people="people of the town")
    first = run(people(LAST_YEAR), plan_of(LAST_YEAR, "1"), ledger=ledger, key="last")
    with pytest.raises(LedgerError, match="say how many rows one person may be"):
        run(people(THIS_YEAR), plan_of(THIS_YEAR, "1"), ledger=ledger, key="this")
    assert ledger.spent == 1
    ledger.admit(THIS_YEAR, at_most=1)
    second = run(people(THIS_YEAR), plan_of(THIS_YEAR, "1"), ledger=ledger, key="this")
    again = ct.Ledger.open(path)
    again.verify()
    assert (again.spent, again.remaining, again.people) == (2, 1, "people of the town")
    assert [(each.schema.names, each.times, each.asserted) for each in again.schemas] == [
        (("sex", "ward"), 1, False),
        (("sex", "ward"), 1, True),
    ]
    assert [each.schema for each in again.entries()] == [0, 1]
    assert again.measurements()[0].values.shape == (2,)
    assert again.measurements(schema=THIS_YEAR)[0].values.shape == (3,)
    before, after = ct.analysis.independent(first.marginal("ward"), second.marginal("ward").sel(ward=["a", "b"]))
    low, high = (after.sel(ward="a") - before.sel(ward="a")).interval(0.95)
    assert low < high
    with pytest.raises(OverspendError, match="only ε = 1 is left"):
        run(people(LAST_YEAR), plan_of(LAST_YEAR, "1.5"), ledger=ledger)


def test_a_schema_with_the_unit_of_the_account_is_admitted_when_it_spends() -> None:
    ledger = account(PATIENTS)
    run(people(STAYS), plan_of(STAYS), ledger=ledger)
    assert [(each.schema.unit, each.asserted) for each in ledger.schemas] == [
        (Unit("patient", 1), False),
        (Unit("patient", 2), False),
    ]
    assert ledger.spent == Fraction(1, 2)
    with pytest.raises(LedgerError, match="leave out at most 3"):
        ledger.admit(ct.Schema(LAST_YEAR.attributes, unit=Unit("patient", 5)), at_most=3)


@pytest.mark.parametrize(("cap", "delta", "cost"), [({"epsilon": 3}, None, Fraction(3, 2)), ({"rho": 9}, "1e-6", None)])
def test_a_finer_unit_is_refused_or_charged_as_often_as_one_person_has_it(
    cap: dict[str, object], delta: str | None, cost: Fraction | None
) -> None:
    """Three visits of each patient: 3 epsilon, or 9 rho."""
    ledger, plan = account(PATIENTS, **cap), plan_of(VISITS, delta=delta)
    with pytest.raises(LedgerError, match="of visits: say how many visits one person may be"):
        run(people(VISITS), plan, ledger=ledger)
    ledger.admit(VISITS, at_most=3)
    run(people(VISITS), plan, ledger=ledger)
    assert ledger.spent == (cost or 9 * plan.budget.amount / 2)  # mu-GDP is mu^2 / 2 in rho
    ledger.verify()


def test_an_add_remove_release_enters_a_replace_account_at_twice_its_epsilon() -> None:
    ledger = account(neighbours="replace")
    run(people(LAST_YEAR), plan_of(LAST_YEAR), ledger=ledger)
    assert ledger.spent == 1
    rho = account(neighbours="replace", rho=1)
    plan = plan_of(LAST_YEAR, "0.1", delta="1e-6")
    run(people(LAST_YEAR), plan, ledger=rho)
    assert rho.spent == 4 * plan.budget.amount / 2
    with pytest.raises(LedgerError, match="protects add-remove neighbours, the plan replace ones"):
        run(people(LAST_YEAR), plan_of(LAST_YEAR, neighbours="replace"), ledger=account())


def test_replacing_rows_does_not_cover_people_who_have_none() -> None:
    """The total is free under replace neighbours; somebody without a row in the second table would show in it."""
    ledger = account(neighbours="replace")
    ledger.admit(THIS_YEAR, at_most=1)
    with pytest.raises(LedgerError, match="people may have no row here"):
        run(people(THIS_YEAR), plan_of(THIS_YEAR, neighbours="replace"), ledger=ledger)
    run(people(THIS_YEAR), plan_of(THIS_YEAR), ledger=ledger)
    assert ledger.spent == 1  # add-remove, at twice its epsilon
    visits = account(PATIENTS, neighbours="replace")
    visits.admit(VISITS, at_most=2)
    run(
        people(VISITS), plan_of(VISITS, neighbours="replace"), ledger=visits
    )  # a visit may be left out: its total costs
    assert visits.spent == 1


def test_two_schemas_of_one_unit_are_never_undercharged() -> None:
    """Every person with up to one row in the first source and two in the second: the whole loss is at most the charge,
    and equal for somebody who is in the worst case of both."""
    ledger = account(PATIENTS, epsilon=3)
    losses = []
    for schema, most in ((PATIENTS, 1), (STAYS, 2)):
        plan = plan_of(schema)
        run(people(schema), plan, ledger=ledger)
        cells = list(itertools.product(*(range(each.size) for each in schema.attributes)))
        contributions = [rows for n in range(most + 1) for rows in itertools.combinations_with_replacement(cells, n)]
        losses.append(max(_loss(plan, rows) for rows in contributions))
    assert sum(losses) == pytest.approx(float(ledger.spent))
    assert ledger.spent == 1


def _loss(plan: Plan, rows: tuple[tuple[int, ...], ...]) -> float:
    """The privacy loss of adding these rows: of each table the L1 norm of its change over the scale of its noise."""
    total = 0.0
    for request in plan.requests:
        if request.query.of_units:  # whoever is there is in one cell of it
            total += bool(rows) / request.noise.scale
            continue
        places = [plan.schema.names.index(name) for name in request.query.attributes]
        moved = np.zeros(request.query.shape(plan.schema))
        for row in rows:
            moved[tuple(row[place] for place in places)] += 1
        total += np.abs(moved).sum() / request.noise.scale
    return total


def test_a_notebook_uses_the_entries_of_its_schema() -> None:
    ledger = account(PATIENTS)
    run(people(PATIENTS), plan_of(PATIENTS), ledger=ledger)
    run(people(STAYS), plan_of(STAYS), ledger=ledger)
    with pytest.raises(QueryError, match="several tables of these people: say which"):
        ct.open_notebook(ledger)
    book = ct.open_notebook(ledger, schema=STAYS)
    assert book.estimate("sex = x").std_error > 0
    assert len(book._measurements()) == len(ledger.measurements(schema=STAYS))


def test_forged_admissions_are_found(tmp_path: Path) -> None:
    """A smaller factor, a schema nobody admitted, an assertion that was never made."""
    path = tmp_path / "people.ledger"
    ledger = ct.Ledger.create(path, schema=PATIENTS, budget=ct.Budget(epsilon=3))
    ledger.admit(VISITS, at_most=3)
    run(people(VISITS), plan_of(VISITS), ledger=ledger)
    content = path.read_bytes()
    told = json.dumps({"asserted": True, "schema": VISITS.to_dict(), "times": 1}, sort_keys=True)
    for change in (f"UPDATE events SET request = '{told}' WHERE kind = 'admitted'", "UPDATE events SET schema = '0'"):
        path.write_bytes(content)
        with sqlite3.connect(path) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(change)
        with pytest.raises(LedgerError):
            ct.Ledger.open(path).verify()


def test_a_raise_says_who_and_why(tmp_path: Path) -> None:
    ledger = ct.Ledger.create(tmp_path / "l.ledger", schema=PATIENTS, budget=ct.Budget(epsilon=1))
    ledger.raise_cap(ct.Budget(epsilon=2), by="the board", why="a second year")
    (raised,) = ct.Ledger.open(tmp_path / "l.ledger").caps
    assert (raised.by, raised.why) == ("the board", "a second year")
    with pytest.raises(LedgerError, match="why the cap is raised must be a printable text"):
        ledger.raise_cap(ct.Budget(epsilon=3), why="one\nmore")
