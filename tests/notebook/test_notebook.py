"""The notebook: paid answers, free estimates, prices, refusals, keys, and values outside the schema."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.errors import BudgetError, ChargeLostError, KeyReusedError, OverspendError, QueryError
from crosstally.notebook import notebook as module
from crosstally.notebook.history import bundles
from crosstally.notebook.notebook import open_notebook
from crosstally.notebook.results import Answer
from crosstally.query.queries import Cells

SCHEMA = ct.Schema(
    [
        ct.Attribute("sex", ["Female", "Male"]),
        ct.Attribute("age", edges=[0, 18, 65, 120]),
        ct.Attribute("region", ["North", "South"], missing=True),
    ]
)


def people(number: int = 3000) -> pa.Table:
    """A third women; ages 10, 30, 70 in turn of six, three, one; no region missing."""
    return pa.table(
        {
            "sex": ["Female" if i % 3 == 0 else "Male" for i in range(number)],
            "age": [[10] * 6 + [30] * 3 + [70]][0] * (number // 10),
            "region": ["North" if i % 2 else "South" for i in range(number)],
        }
    )


def ledger(epsilon: float = 10.0, **options: object) -> ct.Ledger:
    return ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=epsilon), **options)


def test_an_answer_is_paid_kept_and_used() -> None:
    """At epsilon 1 the noise exceeds 40 with probability below 1e-17."""
    book = open_notebook(ledger())
    answer = book.ask(people(), ct.count(sex="Female"), epsilon=1)
    assert abs(answer.drawn - 1000) < 40
    assert answer.drawn_error == pytest.approx(math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1)))
    assert abs(answer.value - 1000) < 45
    assert answer.question == "sex = Female"
    assert book.ledger.spent == 1
    again = book.estimate("sex = Female")
    assert again.value == pytest.approx(answer.value)
    assert again.drawn is None
    assert book.ledger.spent == 1
    assert book.estimate("age >= 18").std_error > 100
    low, high = again.interval(0.95)
    assert high - low == pytest.approx(2 * math.log(20) / math.sqrt(2) * again.std_error, rel=1e-3)  # Laplace's
    low, high = Answer("x", 1, std_error=10).interval(0.95)
    assert (low, high) == pytest.approx((1 - 19.59964, 1 + 19.59964))
    low, high = Answer("x", 1, std_error=10, tails=0.5).interval(0.95)
    assert high == pytest.approx(1 + 5 * 1.959964 + 5 * math.log(20) / math.sqrt(2))
    low, high = Answer("x", 1, std_error=10, student=0.5).interval(
        0.95
    )  # Student's with 3: 3.182446, deviation sqrt(3)
    assert high == pytest.approx(1 + 5 * 1.959964 + 5 * 3.182446 / math.sqrt(3))
    assert str(Answer("x", 1234.4, std_error=5)) == "x: 1,234 ± 5"


def test_a_batch_costs_what_it_moves_together() -> None:
    """Three disjoint counts at epsilon 1 have noise of scale 1 each, and sums of children are scaled by their size."""
    book = open_notebook(ledger())
    texts = ["age < 18", "18 <= age < 65", "age >= 65"]
    answers = book.ask_all(people(), texts, epsilon=1)
    assert book.ledger.spent == 1
    assert [round(a.drawn_error, 2) for a in answers] == [1.36] * 3
    assert [abs(a.drawn - t) < 40 for a, t in zip(answers, (1800, 900, 300), strict=True)] == [True] * 3
    assert book.ask_all(people(), [], epsilon=1) == ()
    assert [each.question for each in book.improve()] == ["age < 18", "18 <= age < 65", "age >= 65"]


def test_two_parts_and_their_whole_improve_each_other() -> None:
    """By least squares each error falls by sqrt(2/3); with Laplace noise, used in full, the answers decide each time.

    So the mean over 40 notebooks is looked at: 0.80 with a standard error of 0.03, so a false alarm is rarer than 1e-6.
    """
    ratios = []
    for _ in range(40):
        book = open_notebook(ledger())
        for question in ("age < 18", "age >= 18", ct.count()):
            book.ask(people(), question, epsilon=0.05)
        improved = book.improve()
        ratios += [each.after_error / each.before_error for each in improved]
        assert improved[0].after + improved[1].after == pytest.approx(improved[2].after, abs=1e-6)
    assert 0.6 < sum(ratios) / len(ratios) < 0.98


def test_a_release_with_the_same_ledger_is_part_of_history() -> None:
    account = ledger()
    workload = ct.Workload((("sex", "age"),))
    ct.release(people(), SCHEMA, epsilon=2, workload=workload, strategy="direct", ledger=account)
    book = open_notebook(account)
    found = book.estimate("sex = Female and age < 18")
    assert abs(found.value - 600) < 6 * found.std_error + 1
    assert found.std_error < 3
    better = book.ask(people(), "sex = Female and age < 18", epsilon=4)
    assert better.std_error < found.std_error
    known = open_notebook(account, rows=3000).estimate(ct.count())
    assert (known.value, known.std_error) == (3000, 0)


def test_when_the_budget_is_spent_the_estimate_is_given_instead() -> None:
    book = open_notebook(ledger(epsilon=1))
    with pytest.raises(OverspendError, match=r"Nothing was answered yet"):
        book.ask(people(), "sex = Male", epsilon=2)
    book.ask(people(), "sex = Female", epsilon=1)
    with pytest.raises(
        OverspendError, match=r"nothing is left.* What they say: sex = Female: 1,0\d\d ± \d|: 9\d\d ± \d"
    ):
        book.ask("there is no such file.csv", "sex = Female", epsilon=0.1)
    assert book.ledger.spent == 1


def test_the_price_of_an_accuracy() -> None:
    """Standard error 10 needs Laplace noise of scale 10 / sqrt(2) (7.077 with discrete noise), epsilon 0.1413."""
    book = open_notebook(ledger())
    price = book.cost("sex = Female", error=10)
    assert not price.free
    assert price.estimate is None
    assert float(price.budget.epsilon) == pytest.approx(0.1413, rel=2e-3)
    book.ask(people(), "sex = Female", epsilon=price.budget.epsilon)
    known = book.cost("sex = Female", error=10.5)
    assert known.free
    assert known.budget is None
    assert not book.cost("sex = Female", error=5).free
    # 10 is known; 1/5^2 - 1/10^2 is 3 / 10^2, noise of 10 / sqrt(3)
    assert float(book.cost("sex = Female", error=5).budget.epsilon) == pytest.approx(0.1413 * math.sqrt(3), rel=0.05)
    with pytest.raises(QueryError, match="error must be a positive number"):
        book.cost("sex = Female", error=0)


def test_the_same_key_is_answered_once() -> None:
    book = open_notebook(ledger())
    first = book.ask(people(), "sex = Female", epsilon=0.1, key="mine")
    assert book.ask("not even read.csv", "sex = Female", epsilon=0.1, key="mine") == first
    assert book.ledger.spent == ct.Budget(epsilon=0.1).epsilon
    with pytest.raises(KeyReusedError):
        book.ask(people(), "sex = Male", epsilon=0.1, key="mine")


def test_a_crash_between_charge_and_answer_never_gives_a_second_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    account = ledger()
    book = open_notebook(account)

    def crash(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(account), "store", crash)
        with pytest.raises(KeyboardInterrupt):
            book.ask(people(), "sex = Female", epsilon=0.1, key="mine")
    with pytest.raises(ChargeLostError):
        book.ask(people(), "sex = Female", epsilon=0.1, key="mine")
    assert account.spent == ct.Budget(epsilon=0.1).epsilon
    assert account.measurements() == ()


@pytest.mark.parametrize("neighbours", list(ct.Neighbours))
def test_values_that_the_schema_does_not_list_never_stop_a_question(neighbours: ct.Neighbours) -> None:
    """1000 rows, of which 300 have a sex, an age or a region that is not listed; a release refuses them.

    Missing regions have a cell; everything else is left out, and a total of values above 0 pays for that.
    """
    rows = pa.table(
        {
            "sex": ["X"] * 100 + ["Male"] * 900,
            "age": [30] * 100 + [200] * 100 + [30] * 800,
            "region": ["North"] * 200 + ["West"] * 100 + [None] * 50 + ["South"] * 650,
        }
    )
    account = ledger(neighbours=neighbours)
    with pytest.raises(ct.CrosstallyError, match="does not list"):
        ct.release(rows, SCHEMA, epsilon=1, neighbours=neighbours, ledger=account)
    book = open_notebook(account)
    answers = book.ask_all(rows, [ct.count(), "region = '(missing)'"], epsilon=4)
    assert abs(answers[0].drawn - 700) < 40
    assert abs(answers[1].drawn - 50) < 40
    values = {"sex": [5, 7]}
    total = book.ask(rows, ct.total("sex", values=values), epsilon=1)
    assert total.drawn_error == pytest.approx(7 * math.sqrt(2), rel=0.02)  # not 2: a row may also be left out
    assert book.ledger.schema == SCHEMA


def test_rho_ledgers_are_paid_in_rho() -> None:
    account = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(rho=1))
    book = open_notebook(account)
    answer = book.ask(people(), "sex = Female", rho="0.5")
    assert answer.drawn_error == pytest.approx(1.0, rel=1e-6)
    assert abs(answer.drawn - 1000) < 12
    assert float(book.cost("age < 18", error=10).budget.rho) == pytest.approx(0.005, rel=0.01)
    with pytest.raises(BudgetError, match="counts rho: give rho"):
        book.ask(people(), "sex = Female", epsilon=1)
    with pytest.raises(BudgetError, match="counts epsilon: give epsilon"):
        open_notebook(ledger()).ask(people(), "sex = Female", rho=1)


def test_several_analysts_share_one_ledger(tmp_path: Path) -> None:
    """Twenty threads ask for 0.1 each of a cap of 1: ten are answered, exactly."""
    path = tmp_path / "people.ledger"
    ct.Ledger.create(path, schema=SCHEMA, budget=ct.Budget(epsilon=1))
    rows, outcomes = people(100), []

    def ask(number: int) -> None:
        book = open_notebook(path)
        try:
            book.ask(rows, "sex = Female" if number % 2 else "age < 18", epsilon="0.1")
            outcomes.append(True)
        except OverspendError:
            outcomes.append(False)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 10 + [True] * 10
    book = open_notebook(path)
    assert book.ledger.remaining == 0
    assert len(book.improve()) == 10
    book.ledger.verify()


def test_mistakes() -> None:
    book = open_notebook(ledger())
    with pytest.raises(QueryError, match="nothing was answered yet"):
        book.estimate("sex = Female")
    with pytest.raises(QueryError, match="at position 6"):
        book.ask(people(), "sex =", epsilon=1)
    with pytest.raises(QueryError, match="rows must be a whole number"):
        open_notebook(ledger(), rows=-1)
    with pytest.raises(QueryError, match="level must be between"):
        Answer("x", 1, std_error=1).interval(2)
    with pytest.raises(BudgetError):
        book.ask(people(), "sex = Female")
    assert repr(book).startswith("Notebook(Ledger(")
    assert book.ledger.spent == 0


def test_what_history_cannot_use_is_refused_before_it_is_paid() -> None:
    schema = ct.Schema([ct.Attribute(f"x{i}", ["0", "1"]) for i in range(9)])
    book = open_notebook(ct.Ledger.in_memory(schema=schema, budget=ct.Budget(epsilon=1)))
    with pytest.raises(QueryError, match="at most 8 attributes, got 9"):
        book.ask("not read.csv", ct.count(**{f"x{i}": "1" for i in range(9)}), epsilon=1)
    assert book.ledger.spent == 0


def test_an_answer_is_delivered_as_it_was_drawn_when_history_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two questions over two cells each, of at most three in all: known only after the second one is paid for."""
    monkeypatch.setattr(bundles, "_MAX_NUMBERS", 3)
    book = open_notebook(ledger(epsilon=2))
    book.ask(people(), "sex = Female", epsilon=1)
    answer = book.ask(people(), "sex = Male", epsilon=1, key="second")
    assert answer.value == answer.drawn
    assert answer.std_error == answer.drawn_error
    low, high = answer.interval(0.95)
    assert high - low == pytest.approx(2 * math.log(20) / math.sqrt(2) * answer.std_error)  # Laplace's
    assert book.ask("no-such-file.csv", "sex = Male", epsilon=1, key="second") == answer
    with pytest.raises(OverspendError, match="Past questions are over too many cells for an estimate"):
        book.ask(people(), "sex = Male", epsilon=1)


def test_a_large_table_is_part_of_history() -> None:
    """One table of 12 attributes; and the same question twice with next to no noise."""
    schema = ct.Schema([ct.Attribute(f"x{i}", ["0", "1"]) for i in range(12)])
    rows = pa.table({f"x{i}": ["1" if i % 2 else "0"] * 500 for i in range(12)})
    account = ct.Ledger.in_memory(schema=schema, budget=ct.Budget(epsilon=10_000))
    ct.release(rows, schema, epsilon=1, strategy="flat", ledger=account)
    book = open_notebook(account)
    assert abs(book.estimate("x0 = 0 and x1 = 1").value - 500) < 300
    for _ in range(2):
        answer = book.ask(rows, "x0 = 0 and x1 = 1", epsilon=1000)
    assert answer.value == pytest.approx(500, abs=0.1)


def test_a_history_of_single_tables_is_a_prior() -> None:
    """With tables of all single attributes a product of their shares is the estimate, and asked pairs correct it."""
    account = ledger()
    workload = ct.Workload((("sex",), ("age",), ("region",)))
    ct.release(people(), SCHEMA, epsilon=3, workload=workload, strategy="direct", ledger=account)
    assert {m.query.kind for m in account.measurements()} == {"cells"}
    found = open_notebook(account).estimate("sex = Female and age < 18")
    assert found.value == pytest.approx(1000 * 0.6, rel=0.05)
    assert 20 < found.std_error < 260


def test_the_schema_by_which_questions_are_counted_has_the_same_cells() -> None:
    counted = module._counted(SCHEMA)
    assert counted.shape == SCHEMA.shape
    assert counted.may_drop
    assert counted["sex"].labels == SCHEMA["sex"].labels


def test_synthetic_rows_are_free_and_fit_what_was_bought() -> None:
    """At epsilon 5 for all pairs the noise of a cell exceeds 30 of 3000 with probability below 1e-7 over all cells.

    Rows that are moved last towards what others miss must come nearer: they went 0.025 to 0.04 away in one draw of five
    when steps of empty cells were cut one by one.
    """
    paid = ledger()
    ct.release(people(), SCHEMA, epsilon=5, strategy="direct", workload=ct.Workload.all_ways(SCHEMA, 2), ledger=paid)
    book = open_notebook(paid, rows=3000)
    book.ask(people(), "sex = Female", epsilon=1)
    spent = paid.spent
    found = book.synthesize(rows=20_000, alpha=1.0, random=np.random.default_rng(1))
    assert paid.spent == spent
    rows = found.to_arrow()
    assert rows.column_names == ["sex", "age", "region"]
    assert rows.num_rows == 20_000
    assert rows["sex"].to_pylist().count("Female") / 20_000 == pytest.approx(1 / 3, abs=0.015)
    assert rows["age"].to_pylist().count("[0, 18)") / 20_000 == pytest.approx(0.6, abs=0.015)
    again = book.synthesize(rows=20_000, alpha=1.0, random=np.random.default_rng(1))
    assert again.to_arrow().equals(rows)


def test_synthetic_rows_need_something_to_fit() -> None:
    with pytest.raises(QueryError, match="nothing was answered yet"):
        open_notebook(ledger()).synthesize()


def test_an_answer_that_did_not_converge_says_so() -> None:
    assert str(Answer("sex = Female", 1234.4, std_error=20.0)) == "sex = Female: 1,234 ± 20"
    moving = Answer("sex = Female", 1234.4, std_error=20.0, converged=False)
    assert str(moving) == "sex = Female: 1,234 ± 20 (not converged)"


def test_tables_improve_by_what_they_share() -> None:
    """The table of sex is bought twice: half the variance. With the number of rows public, another half goes."""
    paid = ledger()
    sexes = ct.Workload([("sex",)])
    for key in "ab":
        ct.release(people(), SCHEMA, epsilon=1, strategy="direct", workload=sexes, ledger=paid, key=key)
    assert open_notebook(ledger()).improve_tables() == ()
    first, second = open_notebook(paid).improve_tables()
    assert first.query == Cells(("sex",))
    assert first.before_error == pytest.approx(math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1)))
    assert first.after_error == pytest.approx(first.before_error / math.sqrt(2))
    assert second.after_error == first.after_error
    known = open_notebook(paid, rows=3000).improve_tables()[0]
    assert known.after_error == pytest.approx(first.before_error / 2)


def test_contrasts_improve_as_well() -> None:
    paid = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(rho=10))
    for key in "ab":
        work = ct.Workload([("sex", "age")])
        ct.release(people(), SCHEMA, rho=1, strategy="residual", workload=work, ledger=paid, key=key)
    found = open_notebook(paid).improve_tables()
    assert any(each.query.is_residual for each in found)
    for each in found:
        assert each.after_error == pytest.approx(each.before_error / math.sqrt(2))
