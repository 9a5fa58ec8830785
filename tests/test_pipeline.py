"""From rows to a release: the contract of ``ct.release``, and that nothing is spent when something is wrong."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.budget import Noise, NoiseKind
from crosstally.errors import (
    BudgetError,
    CrosstallyError,
    KeyReusedError,
    LedgerError,
    OutsideValueError,
    OverspendError,
    PlanError,
    ReleaseError,
    SchemaError,
    WorkloadError,
)
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells
from crosstally.strategies import Direct, Flat, Uniform

SCHEMA = ct.Schema.from_dict(
    {
        "attributes": [
            {"name": "sex", "values": ["Female", "Male"]},
            {"name": "age", "edges": [0, 18, 65, 120], "missing": True},
        ]
    }
)
ROWS = pa.table({"sex": ["Female"] * 600 + ["Male"] * 400, "age": [10] * 500 + [30] * 300 + [None] * 200})


@pytest.fixture
def ledger(tmp_path) -> ct.Ledger:
    return ct.Ledger.create(tmp_path / "people.ledger", schema=SCHEMA, budget=ct.Budget(epsilon=3))


@pytest.mark.parametrize("strategy", ["auto", "flat", "direct", "direct-uniform", Flat(), Direct(budgets="uniform")])
@pytest.mark.parametrize("budget", [{"epsilon": 50}, {"rho": 500}, {"epsilon": 80, "delta": 1e-9}])
def test_a_generous_budget_gives_nearly_the_truth(strategy, budget) -> None:
    """At these budgets a cell is off by more than 10 with probability below 1e-9."""
    release = ct.release(ROWS, SCHEMA, **budget, strategy=strategy)
    assert release.marginal("sex").values == pytest.approx([600, 400], abs=10)
    assert release.marginal("age").values == pytest.approx([500, 300, 0, 200], abs=10)
    assert release.marginal("age", "sex").values == pytest.approx(
        np.array([[500, 0], [100, 200], [0, 0], [0, 200]]), abs=10
    )


def test_raw_measurements_are_whole_numbers() -> None:
    release = ct.release(ROWS, SCHEMA, epsilon=1.0)
    assert all(m.values.dtype == np.int64 for m in release.measurements)


def test_the_statement_says_what_was_done(ledger) -> None:
    release = ct.release(ROWS, SCHEMA, epsilon="0.5", strategy="direct", ledger=ledger, key="spring")
    statement = release.statement
    assert (statement.model, statement.strategy, statement.rows) == ("central", "direct", None)
    assert statement.budget == ct.Budget(epsilon=0.5)
    assert statement.neighbours is ct.Neighbours.ADD_REMOVE
    assert statement.entry == release.measurements[0].origin


def test_a_public_number_of_rows_is_exact_and_recorded() -> None:
    release = ct.release(ROWS, SCHEMA, epsilon=1.0, rows=1000)
    assert release.statement.rows == 1000
    assert release.refit(nonnegative="none").marginal("sex").values.sum() == pytest.approx(1000)
    assert release.marginal().std_error == pytest.approx(0)


def test_uniform_spends_nothing_and_needs_rows(ledger) -> None:
    with pytest.raises(PlanError, match="measures nothing, so it needs rows"):
        ct.release(ROWS, SCHEMA, epsilon=1.0, strategy=Uniform(), ledger=ledger)
    release = ct.release(ROWS, SCHEMA, epsilon=1.0, strategy=Uniform(), rows=800, ledger=ledger)
    assert release.marginal("sex", "age").values == pytest.approx(np.full((2, 4), 100.0))
    assert ledger.spent == 0


def test_what_a_release_cannot_hold_is_refused_before_it_is_charged(ledger) -> None:
    """A plan may ask a linear question, whose answer a notebook can keep; a release would have nowhere to put it."""
    women = Linear((Term(1, (("sex", (1, 0)),)),))
    requests = (Request(women, Noise(NoiseKind.LAPLACE, 2.0)), Request(Cells(("age",)), Noise(NoiseKind.LAPLACE, 2.0)))
    plan = Plan(
        SCHEMA,
        requests,
        strategy="own",
        workload=ct.Workload([("sex",)]),
        budget=ct.Budget(epsilon=1),
        neighbours=ct.Neighbours.ADD_REMOVE,
    )
    with pytest.raises(ReleaseError, match="contrasts and Kronecker queries, got Linear"):
        ct.release(ROWS, plan=plan, ledger=ledger)
    assert ledger.spent == 0


def test_an_approved_plan_is_run_exactly(ledger) -> None:
    plan = ct.plan(SCHEMA, rows=1000, epsilon=1.0, workload=ct.Workload.all_ways(SCHEMA, 1)).chosen
    release = ct.release(ROWS, plan=plan, ledger=ledger)
    assert [(m.query, m.noise) for m in release.measurements] == [(r.query, r.noise) for r in plan.requests]
    assert ledger.spent == 1


def test_the_same_key_gives_the_same_numbers_and_spends_once(ledger) -> None:
    first = ct.release(ROWS, SCHEMA, epsilon=1.0, ledger=ledger, key="spring")
    again = ct.release(ROWS, SCHEMA, epsilon=1.0, ledger=ledger, key="spring")
    for a, b in zip(first.measurements, again.measurements, strict=True):
        assert np.array_equal(a.values, b.values)
    assert ledger.spent == 1
    with pytest.raises(KeyReusedError):
        ct.release(ROWS, SCHEMA, epsilon=2.0, ledger=ledger, key="spring")


def test_a_ledger_by_its_path_and_its_cap(ledger, tmp_path) -> None:
    for _ in range(3):
        ct.release(ROWS, SCHEMA, epsilon=1.0, ledger=tmp_path / "people.ledger")
    with pytest.raises(OverspendError):
        ct.release(ROWS, SCHEMA, epsilon="0.001", ledger=tmp_path / "people.ledger")
    assert (ledger.spent, ledger.remaining) == (3, 0)
    assert [entry.state for entry in ledger.entries()] == ["delivered"] * 6  # two stages each


def test_an_overspend_is_refused_before_rows_are_read(ledger) -> None:
    with pytest.raises(OverspendError):
        ct.release("there-is-no-such-file.csv", SCHEMA, epsilon=4, ledger=ledger)


def test_ten_spends_of_a_tenth_fit_one(tmp_path) -> None:
    ledger = ct.Ledger.create(tmp_path / "tenth.ledger", schema=SCHEMA, budget=ct.Budget(epsilon=1))
    for _ in range(10):
        ct.release(ROWS, SCHEMA, epsilon=0.1, ledger=ledger)
    with pytest.raises(OverspendError):
        ct.release(ROWS, SCHEMA, epsilon=0.1, ledger=ledger)
    assert ledger.spent == Fraction(1)


OUTSIDE = pa.table({"sex": ["Female", "CANARY-7f3a"], "age": [1, 2]})


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"source": OUTSIDE}, OutsideValueError),
        ({"epsilon": 0}, BudgetError),
        ({"epsilon": -1.0}, BudgetError),
        ({"rho": 1.0}, BudgetError),
        ({"strategy": "best"}, PlanError),
        ({"rows": -5}, PlanError),
        ({"rows": 1.5}, PlanError),
        ({"schema": None}, PlanError),
        ({"schema": ct.Schema(SCHEMA.attributes, draft=True)}, SchemaError),
        ({"schema": SCHEMA.subset("sex")}, LedgerError),
        ({"neighbours": ct.Neighbours.REPLACE}, LedgerError),
        ({"epsilon": None, "rho": 1.0}, LedgerError),
    ],
)
def test_mistakes_spend_nothing_and_show_nothing(arguments, error, ledger) -> None:
    given = {"source": ROWS, "schema": SCHEMA, "epsilon": 1.0, "ledger": ledger, **arguments}
    with pytest.raises(error) as caught:
        ct.release(given.pop("source"), given.pop("schema"), **given)
    assert "CANARY" not in str(caught.value)
    assert ledger.spent == 0
    assert ledger.entries() == ()


def test_a_plan_stands_alone() -> None:
    plan = ct.plan(SCHEMA, epsilon=1.0).chosen
    with pytest.raises(PlanError, match="a plan fixes budget, workload, strategy and units"):
        ct.release(ROWS, plan=plan, epsilon=1.0)


def test_a_source_with_no_rows_releases_normally() -> None:
    release = ct.release(ROWS.slice(0, 0), SCHEMA, epsilon=20)
    assert release.marginal("sex").values == pytest.approx([0, 0], abs=5)


def test_a_schema_given_as_a_path_is_refused_in_words(tmp_path, ledger) -> None:
    path = "people.schema.json"
    plan, budget = ct.plan(SCHEMA, epsilon=1).chosen, ct.Budget(epsilon=1)
    for call in (
        lambda: ct.release("people.csv", path, epsilon=1),
        lambda: ct.release("people.csv", path, plan=plan),
        lambda: ct.plan(path, epsilon=1),
        lambda: ct.Ledger.create(tmp_path / "new.ledger", schema=path, budget=budget),
        lambda: ct.Ledger.in_memory(schema=path, budget=budget),
        lambda: ct.open_notebook(ledger, schema=path),
    ):
        with pytest.raises(SchemaError, match=r"^schema must be a Schema, got str: read a file with Schema\.load$"):
            call()
    assert not (tmp_path / "new.ledger").exists()


def test_what_is_no_path_no_plan_and_no_budget_is_refused_in_words(tmp_path) -> None:
    with pytest.raises(ReleaseError, match="cannot read the release '5': its path must be a text or a Path, got int;"):
        ct.open_release(5)
    for call in (
        lambda: ct.Ledger.open(5),
        lambda: ct.Ledger.create(5, schema=SCHEMA, budget=ct.Budget(epsilon=1)),
        lambda: ct.open_notebook(5),
        lambda: ct.release(ROWS, SCHEMA, epsilon=1, ledger=5),
    ):
        with pytest.raises(LedgerError, match="the path of a ledger must be a text or a Path, got int; say the name"):
            call()
    with pytest.raises(LedgerError, match=r"budget must be a Budget, got float: say Budget\(epsilon=\.\.\.\)"):
        ct.Ledger.create(tmp_path / "new.ledger", schema=SCHEMA, budget=1.0)
    for given, what in (("people.plan.json", "str"), (ct.plan(SCHEMA, epsilon=1), "Comparison")):
        with pytest.raises(PlanError, match=rf"plan must be a Plan, got {what}: read a file with Plan\.load, or take"):
            ct.release(ROWS, plan=given)


def test_a_list_of_tables_is_refused_in_words() -> None:
    for call in (
        lambda: ct.release(ROWS, SCHEMA, epsilon=1, workload=[("sex",)]),
        lambda: ct.plan(SCHEMA, epsilon=1, workload=[("sex",)]),
        lambda: ct.plan(SCHEMA, epsilon=1, workload=[("sex",)], strategies=["flat"]),
        lambda: ct.release(ROWS, SCHEMA, epsilon=1).integers([("sex",)]),
    ):
        with pytest.raises(WorkloadError, match=r"workload must be a Workload, got list: say Workload\(\["):
            call()


def test_what_is_written_into_a_missing_folder_says_so(tmp_path) -> None:
    answer = ct.release(ROWS, SCHEMA, epsilon=1).marginal("sex")
    for write, name in (
        (answer.to_csv, "sex.csv"),
        (answer.to_excel, "sex.xlsx"),
        (SCHEMA.save, "people.schema.json"),
        (ct.plan(SCHEMA, epsilon=1).chosen.save, "people.plan.json"),
    ):
        path = tmp_path / "missing" / name
        with pytest.raises(CrosstallyError) as error:
            write(path)
        folder = str(path.parent)
        assert str(error.value) == f"cannot write {str(path)!r}: there is no folder {folder!r}; create it first"
        (tmp_path / name).mkdir()
        with pytest.raises(CrosstallyError, match="cannot write .*: Is a directory"):
            write(tmp_path / name)
