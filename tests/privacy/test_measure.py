"""The only door: what it checks before it charges, and what it gives back."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import (
    ChargeLostError,
    CrosstallyError,
    KeyReusedError,
    LedgerError,
    OverspendError,
    PlanError,
)
from crosstally.measurements import ExactTable
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.privacy import measure as door
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import State
from crosstally.privacy.measure import measure
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.schema import Attribute, Schema
from crosstally.workload import Workload
from reference_privacy import noise_p_value

SCHEMA = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", ["young", "middle", "old"])])
COUNTS = np.array([[5, 0, 3_000_000_000], [7, 1, 2]])


def plan_of(*queries: Query, budget: Budget | None = None, schema: Schema = SCHEMA) -> Plan:
    """A plan that splits its budget evenly over the queries."""
    budget = budget or Budget(epsilon="0.5")
    share = budget.amount / max(1, len(queries))
    sensitivities = [query.sensitivity(schema, Neighbours.ADD_REMOVE) for query in queries]
    return Plan(
        schema,
        tuple(
            Request(query, Noise.affordable(sensitivity, share, currency=budget.currency))
            for query, sensitivity in zip(queries, sensitivities, strict=True)
        ),
        strategy="test",
        workload=Workload([schema.names[:1]]),
        budget=budget,
        neighbours=Neighbours.ADD_REMOVE,
    )


def tables_of(plan: Plan, counts: np.ndarray = COUNTS) -> list[ExactTable]:
    whole = ExactTable(plan.schema, counts.astype(np.int64))
    return [whole.marginal(table.attributes) for table in plan.tables]


def ledger_of(budget: Budget | None = None, schema: Schema = SCHEMA) -> Ledger:
    return Ledger.in_memory(schema=schema, budget=budget or Budget(epsilon=1))


WITHOUT_NOISE = Noise(NoiseKind.LAPLACE, 0.005)  # noise is 0 but once in e^200 draws


def test_each_query_gets_its_own_answer_with_its_own_noise() -> None:
    queries: list[Query] = [
        Cells(("age", "sex")),
        Cells(()),
        Contrast(("sex", "age")),
        Linear((Term(2, (("sex", (1, 0)),)),)),
        Cells(("sex",)),
    ]
    plan = replace(
        plan_of(*queries, budget=Budget(epsilon=99_999)),
        requests=tuple(Request(query, WITHOUT_NOISE) for query in queries),
    )
    measured = measure(tables_of(plan), plan, ledger=ledger_of(Budget(epsilon=99_999)))
    assert [each.query for each in measured] == queries
    assert [each.values.tolist() for each in measured] == [
        [[5, 7], [0, 1], [3_000_000_000, 2]],
        3_000_000_015,
        # by hand: sex differences are -2, -1, 2999999998 and sum to 2999999995; three times each, less the sum
        [[-3_000_000_001, -2_999_999_998, 5_999_999_999]],
        6_000_000_010,
        [3_000_000_005, 10],
    ]
    assert {each.values.dtype for each in measured} == {np.dtype(np.int64)}
    assert {each.variance for each in measured} == {WITHOUT_NOISE.variance}


@pytest.mark.parametrize("budget", [Budget(epsilon="0.5"), Budget(rho="0.02"), Budget(epsilon="0.5", delta="1e-6")])
def test_noise_has_the_scale_that_the_measurement_claims(budget: Budget) -> None:
    """False alarms: one in a million for each case. 0.7 and 1.3 times the claimed scale are rejected."""
    schema = Schema([Attribute("a", [f"a{i}" for i in range(100)]), Attribute("b", [f"b{i}" for i in range(100)])])
    plan = plan_of(Cells(("a", "b")), budget=budget, schema=schema)
    (measured,) = measure(tables_of(plan, np.zeros((100, 100))), plan, ledger=ledger_of(budget, schema))
    assert measured.noise is not None
    kind, scale = measured.noise.kind.value, measured.noise.scale
    amount = float(budget.amount)
    by_rule = {"epsilon": 1 / amount, "rho": 1 / np.sqrt(2 * amount), "mu2": 1 / np.sqrt(amount * (1 - amount / 12))}
    expected = by_rule[budget.currency]
    assert scale == pytest.approx(expected, rel=1e-12)
    sample = measured.values.ravel().tolist()
    assert [noise_p_value(sample, kind, scale * claimed) > 1e-6 for claimed in (1, 0.7, 1.3)] == [True, False, False]


def test_requests_drawn_together_have_noise_of_their_own() -> None:
    """Eleven numbers of scale 3e9 all differ. False alarms: one in a hundred million."""
    plan = plan_of(Cells(("sex",)), Cells(("age",)), Cells(("sex", "age")), budget=Budget(epsilon="0.000000001"))
    measured = measure(tables_of(plan, np.zeros((2, 3))), plan, ledger=ledger_of())
    numbers = np.concatenate([each.values.ravel() for each in measured])
    assert len(set(numbers.tolist())) == 11


def test_a_spend_is_charged_with_its_budget_and_stored() -> None:
    plan, ledger = plan_of(Cells(("sex",)), Cells(("age",)), budget=Budget(epsilon="0.3")), ledger_of()
    measured = measure(tables_of(plan), plan, ledger=ledger, key="first")
    (entry,) = ledger.entries()
    assert (entry.number, entry.key, entry.strategy, entry.state) == (1, "first", "test", State.STORED)
    assert entry.cost == ledger.spent == Fraction(3, 10)
    assert [each.origin for each in measured] == [f"entry 1 of ledger {ledger.id}"] * 2


def test_the_same_key_gives_the_same_bytes_and_costs_nothing() -> None:
    plan, ledger = plan_of(Cells(("sex", "age"))), ledger_of()
    first = measure(tables_of(plan), plan, ledger=ledger, key="k")
    again = measure([], plan, ledger=ledger, key="k")
    assert first[0].values.tobytes() == again[0].values.tobytes()
    assert (first[0].query, first[0].noise, first[0].variance, first[0].origin) == (
        again[0].query,
        again[0].noise,
        again[0].variance,
        again[0].origin,
    )
    assert ledger.spent == Fraction(1, 2)


def test_without_a_key_every_call_is_a_new_spend() -> None:
    """Two cells of scale 1e5 differ from those before. False alarms: one in 10^11."""
    plan, ledger = plan_of(Cells(("sex",)), budget=Budget(epsilon="0.00001")), ledger_of()
    first, second = (measure(tables_of(plan), plan, ledger=ledger)[0].values for _ in range(2))
    assert not np.array_equal(first, second)
    assert len({entry.key for entry in ledger.entries()}) == 2


def test_a_key_belongs_to_one_request() -> None:
    ledger = ledger_of()
    for budget in ("0.1", "0.2"):
        plan = plan_of(Cells(("sex",)), budget=Budget(epsilon=budget))
        if budget == "0.1":
            measure(tables_of(plan), plan, ledger=ledger, key="k")
        else:
            with pytest.raises(KeyReusedError, match="'k' belongs to another request"):
                measure(tables_of(plan), plan, ledger=ledger, key="k")
    assert ledger.spent == Fraction(1, 10)


def test_a_charge_without_measurements_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, ledger = plan_of(Cells(("sex",))), ledger_of()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(door, "_draw", stop)
        with pytest.raises(KeyboardInterrupt):
            measure(tables_of(plan), plan, ledger=ledger, key="k")
    for _ in range(2):
        with pytest.raises(ChargeLostError, match="cannot be drawn again; use a new key"):
            measure(tables_of(plan), plan, ledger=ledger, key="k")
    assert ledger.spent == Fraction(1, 2)
    assert ledger.entries()[0].state is State.CHARGED
    assert ledger.measurements() == ()


def test_a_plan_that_asks_nothing_costs_nothing() -> None:
    ledger = ledger_of()
    assert measure([], plan_of(), ledger=ledger, key="k") == ()
    assert ledger.entries() == ()


def test_what_passes_the_cap_is_refused_and_not_recorded() -> None:
    ledger = ledger_of(Budget(epsilon="0.7"))
    plan = plan_of(Cells(("sex",)))
    measure(tables_of(plan), plan, ledger=ledger)
    with pytest.raises(OverspendError) as caught:
        measure(tables_of(plan), plan, ledger=ledger)
    assert str(caught.value) == (
        "the cap of ε = 0.7 would be exceeded: ε = 0.5 is spent and this costs ε = 0.5; only ε = 0.2 is left. Earlier"
        " answers can still be used, for free"
    )
    assert len(ledger.entries()) == 1


def refused(plan: Plan, tables: list[ExactTable], ledger: Ledger) -> str:
    """The message of a refusal, after a look that nothing was charged."""
    with pytest.raises(CrosstallyError) as caught:
        measure(tables, plan, ledger=ledger)
    assert ledger.entries() == ()
    return str(caught.value)


def test_nothing_is_charged_when_a_table_is_missing_or_another() -> None:
    plan, ledger = plan_of(Cells(("sex", "age"))), ledger_of()
    turned = ExactTable(SCHEMA, COUNTS).marginal(("age", "sex"))
    other = Schema([Attribute("sex", ["f", "m"]), SCHEMA["age"]])
    for tables in ([], [turned], [ExactTable(other, COUNTS)]):
        assert refused(plan, tables, ledger) == "the plan needs the table of sex x age, counted by its schema"
    assert "no attributes" in refused(plan_of(Cells(())), [], ledger)


def test_nothing_is_charged_for_a_draft() -> None:
    draft = replace(SCHEMA, draft=True)
    plan = plan_of(Cells(("sex",)), schema=draft)
    assert "the schema is a draft" in refused(plan, tables_of(plan), ledger_of())
    with pytest.raises(LedgerError, match="draft"):
        ledger_of(schema=draft)


def test_nothing_is_charged_when_the_plan_costs_more_than_it_says() -> None:
    plan = plan_of(Cells(("sex",)))
    object.__setattr__(plan, "requests", [*plan.requests, *plan.requests])
    with pytest.raises(PlanError, match="costs more than its budget"):
        measure(tables_of(plan), plan, ledger=ledger_of())


def test_nothing_is_charged_when_the_ledger_is_about_something_else() -> None:
    plan = plan_of(Cells(("sex",)))
    assert "another schema" in refused(plan, tables_of(plan), ledger_of(schema=SCHEMA.subset("age", "sex")))
    replaced = replace(plan, neighbours=Neighbours.REPLACE, budget=Budget(epsilon=1))
    assert "protects add-remove neighbours, the plan replace" in refused(replaced, tables_of(plan), ledger_of())
    rho = plan_of(Cells(("sex",)), budget=Budget(rho="0.1"))
    assert "counts pure epsilon and cannot pay ρ = 0.1" in refused(rho, tables_of(rho), ledger_of())


@pytest.mark.parametrize("query", [Cells(("sex", "age")), Contrast(("age",)), Linear((Term(2**30, ()),)), Cells(())])
def test_nothing_is_charged_when_counts_are_too_large(query: Query) -> None:
    plan = plan_of(query)
    message = refused(plan, tables_of(plan, np.full((2, 3), 2**60 + 123_456_789)), ledger_of())
    assert "below 2^62" in message
    assert "123456789" not in message


def test_a_lost_race_for_a_key_gives_what_the_winner_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, ledger = plan_of(Cells(("sex", "age"))), ledger_of()
    winner = measure(tables_of(plan), plan, ledger=ledger, key="k")
    monkeypatch.setattr(Ledger, "recall", lambda *_: None)  # as if the key had still been new a moment ago
    loser = measure(tables_of(plan), plan, ledger=ledger, key="k")
    assert loser[0].values.tobytes() == winner[0].values.tobytes()
    assert ledger.spent == Fraction(1, 2)


def test_no_exact_count_reaches_the_ledger(tmp_path: Path) -> None:
    """Neither as text nor as bytes, on any page. False alarms (a noisy cell that is the count): one in 10^9."""
    canary = 123_456_789_123
    ledger = Ledger.create(tmp_path / "people.ledger", schema=SCHEMA, budget=Budget(epsilon=9))
    plan = plan_of(Cells(("sex", "age")), Cells(("age",)), budget=Budget(epsilon="1e-10"))
    connection = ledger._store._connect()  # while this one is open, the write-ahead log and its index stay
    try:
        for i in range(3):
            measure(tables_of(plan, np.full((2, 3), canary)), plan, ledger=ledger, key=f"k{i}")
        content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    finally:
        connection.close()
    assert b"k2" in content
    for number in (canary, 2 * canary):
        assert str(number).encode() not in content
        assert number.to_bytes(8, "little") not in content
        assert number.to_bytes(8, "big") not in content
