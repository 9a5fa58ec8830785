"""JSON and amounts are read strictly at every door: no field twice, no number that is none, nothing that hangs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from crosstally.budget import Budget, exact, fraction_of_text
from crosstally.cli import main
from crosstally.errors import BudgetError, CrosstallyError, LedgerError, PlanError, QueryError, SchemaError
from crosstally.json_text import JsonError, read_json, read_json_file
from crosstally.local import Collector, Protocol, design
from crosstally.plans.plan import Plan
from crosstally.privacy.ledger import Ledger
from crosstally.query.conditions import number_of_text
from crosstally.query.grammar import parse
from crosstally.schema import Attribute, Schema, Unit
from crosstally.strategies.direct import Flat
from crosstally.strategies.views import Views
from ledgers import TENTH, ledger_in, spend

# JSON

PEOPLE = Schema([Attribute("sex", ["f", "m"]), Attribute("age", edges=[0, 18, 65])], Unit("person", 3))
ROWS = Schema([Attribute("sex", ["f", "m"]), Attribute("age", edges=[0, 18, 65])])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 1}', "names the field 'a' twice"),
        ('[{"b": {"a": 1, "c": 2, "a": 3}}]', "names the field 'a' twice"),
        ('{"a": NaN}', "must hold finite numbers, got NaN"),
        ("[-Infinity]", "must hold finite numbers, got -Infinity"),
        ("[1e999]", "must hold finite numbers, got 1e999"),
        ("[1_0]", "is not JSON"),
        ("[١]", "is not JSON"),
        ("9" * 5000, "is not JSON: a number in it is too long"),
        ("[" * 40 + "]" * 40, "is nested too deeply"),
        ('{"a":' * 200_000, "is nested too deeply"),
        ("{", "is not JSON: .* at line 1"),
        (b"\xff", "is not JSON: it is not UTF-8 text"),
    ],
)
def test_json_that_is_not_strict(text: str | bytes, message: str) -> None:
    with pytest.raises(JsonError, match=message) as caught:
        read_json(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_json_that_is_strict() -> None:
    text = '{"a": [1, 2.5, "]]]]", {"a": null}], "b": {}}'
    assert read_json(text) == {"a": [1, 2.5, "]]]]", {"a": None}], "b": {}}
    assert read_json("[" * 32 + "]" * 32) is not None
    wide = [[i, {"x": "[{"}] for i in range(1000)]
    assert read_json(json.dumps(wide)) == wide


def test_a_field_given_twice_at_the_end_of_many_takes_no_time() -> None:
    text = "{" + ",".join(f'"{i}":0' for i in range(200_000)) + ',"199999":0}'
    started = time.process_time()
    with pytest.raises(JsonError, match="'199999' twice"):
        read_json(text)
    assert time.process_time() - started < 2


def test_files_that_are_too_long_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crosstally.json_text.MAX_BYTES", 5)
    (tmp_path / "long").write_text("[1, 2, 3]")
    with pytest.raises(JsonError, match="must have at most 5 bytes, got 9"):
        read_json_file(tmp_path / "long")


def doubled(text: str, field: str, value: str) -> str:
    """The same object with one more field at its end: the standard library lets the last one win."""
    return text.rstrip().removesuffix("}") + f', "{field}": {value}}}'


def schema_file(folder: Path) -> tuple[Path, Callable[[Path], Any], tuple[str, str]]:
    PEOPLE.save(folder / "schema")
    return folder / "schema", Schema.load, ("unit", "null")


def plan_file(folder: Path) -> tuple[Path, Callable[[Path], Any], tuple[str, str]]:
    TENTH.save(folder / "plan")
    return folder / "plan", Plan.load, ("neighbours", '"replace"')


def protocol_file(folder: Path) -> tuple[Path, Callable[[Path], Any], tuple[str, str]]:
    design(ROWS, epsilon="1", people=2000, ways=1).save(folder / "protocol")
    return folder / "protocol", Protocol.load, ("minimum", "1000")


@pytest.mark.parametrize("make", [schema_file, plan_file, protocol_file])
def test_a_field_given_twice_is_refused_in_every_file(make: Callable[[Path], Any], tmp_path: Path) -> None:
    path, load, (field, value) = make(tmp_path)
    load(path)
    text = doubled(path.read_text(encoding="utf-8"), field, value)
    assert json.loads(text)[field] == json.loads(value)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CrosstallyError, match=f"names the field '{field}' twice"):
        load(path)


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_a_plan_file_that_asks_the_same_again_and_again_is_refused_at_once(tmp_path: Path) -> None:
    """A release opens with at most 1,000 measurements that repeat another one: what could not be opened is not paid."""
    path = tmp_path / "p.json"
    schema = Schema([Attribute("a", ["x", "y"])])
    plan = Flat().plan(schema, None, Budget(epsilon=1), neighbours="add-remove").to_dict()
    request = {**plan["requests"][0], "noise": {"kind": "laplace", "scale": 2.0**20}}
    path.write_text(json.dumps({**plan, "requests": [request] * 1_001}))
    assert len(Plan.load(path).requests) == 1_001
    path.write_text(json.dumps({**plan, "requests": [request] * 1_002}))
    with pytest.raises(PlanError, match="at most 1,000 requests of a plan may repeat another one, got 1,001"):
        Plan.load(path)


def test_a_workload_with_a_field_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ROWS.save(tmp_path / "schema")
    (tmp_path / "tables").write_text('{"tables": [["sex"]], "tables": [["age"]]}')
    assert run("plan", tmp_path / "schema", "--epsilon", 1, "--workload", tmp_path / "tables") == 2
    assert "it names the field 'tables' twice" in capsys.readouterr().err


def test_a_row_with_a_field_twice_is_refused_and_says_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    protocol, _, _ = protocol_file(tmp_path)
    row = '{"sex": "f", "age": 3, "sex": "m"}'
    assert run("collect", "report", protocol, row, "--store", tmp_path / "store", "--cap", 2) == 2
    assert capsys.readouterr().err == "crosstally: the row must be a JSON object of values by attribute\n"


def test_a_row_may_hold_any_number(tmp_path: Path) -> None:
    """A refusal would tell something about the row."""
    schema = Schema([Attribute("sex", ["f", "m"]), Attribute("age", edges=[0, 18, 65], outside="other")])
    design(schema, epsilon="1", people=2000, ways=1).save(tmp_path / "protocol")
    for i, age in enumerate(["1e999", "-1e999", "9" * 6000, "NaN"]):
        row = f'{{"sex": "f", "age": {age}}}'
        assert run("collect", "report", tmp_path / "protocol", row, "--store", tmp_path / f"s{i}", "--cap", 2) == 0


def test_the_state_of_a_collector_is_read_strictly(tmp_path: Path) -> None:
    protocol = design(ROWS, epsilon="1", people=2000, ways=1)
    path = tmp_path / "state"
    Collector(protocol).save(path)
    Collector.load(path, protocol)
    body = path.read_bytes()[:-32]
    head = body[: body.index(b"\n", body.index(b"{"))]
    for other in (head.replace(b"{", b'{"protocol": "x", '), head.replace(b"{", b"["), head[:-1]):
        forged = other + body[len(head) :]
        path.write_bytes(forged + hashlib.sha256(forged).digest())
        with pytest.raises(CrosstallyError, match="is the state of another protocol"):
            Collector.load(path, protocol)


# Ledgers, forged with all their hashes


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def forge_ledger(path: Path, *, cost: str | None = None, header: Callable[[str], str] | None = None) -> None:
    """Change the header or the cost of the first charge, and chain the events again as their writer does."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        (body,) = connection.execute("SELECT body FROM header").fetchone()
        body = body if header is None else header(body)
        connection.execute("UPDATE header SET body = ?", (body,))
        if cost is not None:
            connection.execute("UPDATE events SET cost = ? WHERE kind = 'charged' AND entry = 1", (cost,))
        previous = hashlib.sha256(body.encode()).hexdigest()
        for row in connection.execute("SELECT * FROM events ORDER BY number").fetchall():
            previous = hashlib.sha256(canonical([previous, *row[:-1]]).encode()).hexdigest()
            connection.execute("UPDATE events SET hash = ? WHERE number = ?", (previous, row[0]))
        connection.execute("UPDATE head SET hash = ?", (previous,))
        for _, guard in guards:
            connection.execute(guard)
        connection.commit()


def test_the_forger_of_these_tests_can_make_a_sound_ledger(tmp_path: Path) -> None:
    spend(ledger_in(tmp_path), "a")
    forge_ledger(tmp_path / "people.ledger", cost="2/20")
    assert Ledger.open(tmp_path / "people.ledger").spent == Fraction(1, 10)


@pytest.mark.parametrize("cost", ["1/5", "0.0999", "1/11"])
def test_a_charge_must_be_the_price_of_its_plan_on_opening(cost: str, tmp_path: Path) -> None:
    spend(ledger_in(tmp_path), "a")
    forge_ledger(tmp_path / "people.ledger", cost=cost)
    with pytest.raises(LedgerError, match="entry 1 was charged for another plan"):
        Ledger.open(tmp_path / "people.ledger")


@pytest.mark.parametrize(
    "cost", ["1e30000000", "1_0", "٢", "nan", "inf", " 1", "-1/2", "1/0", "0", "0.0", "", "9" * 9000]
)
def test_a_cost_that_is_no_number_is_refused(cost: str, tmp_path: Path) -> None:
    spend(ledger_in(tmp_path), "a")
    forge_ledger(tmp_path / "people.ledger", cost=cost)
    started = time.process_time()
    with pytest.raises(LedgerError, match="a charge of the ledger has no cost that is a positive number"):
        _ = Ledger.open(tmp_path / "people.ledger").spent
    with pytest.raises(LedgerError, match="a charge of the ledger has no cost that is a positive number"):
        _ = Ledger.open(tmp_path / "people.ledger").entries()
    assert time.process_time() - started < 1


def test_a_ledger_whose_header_takes_back_its_unit_is_refused(tmp_path: Path) -> None:
    spend(ledger_in(tmp_path), "a")
    forge_ledger(
        tmp_path / "people.ledger",
        header=lambda body: body.replace(
            '"unit":{"id":"person","max_rows":2}', '"unit":{"id":"person","max_rows":2},"unit":null'
        ),
    )
    with pytest.raises(LedgerError, match="has a header that cannot be read"):
        Ledger.open(tmp_path / "people.ledger")


# Amounts

NOT_NUMBERS = [
    "1_0",
    "١",
    "１",
    "inf",
    "-inf",
    "nan",
    "Infinity",
    " 1",
    "1 ",
    "1\n",
    "0x1",
    "1e",
    "e1",
    "1/1/1",
    "",
    ".",
]


@pytest.mark.parametrize("text", [*NOT_NUMBERS, "1e30000000", "1e-30000000", "1/0", "9" * 5000])
def test_texts_that_are_not_amounts(text: str) -> None:
    started = time.process_time()
    assert fraction_of_text(text) is None
    for field in ("epsilon", "rho"):
        with pytest.raises(BudgetError):
            Budget(**{field: text})
    assert time.process_time() - started < 0.1


def test_texts_that_are_amounts() -> None:
    given = ["1", "0.1", "1.", ".5", "1e-9", "2E+3", "1/3", "+4", "-1/2", "0001"]
    expected: list[int | str] = [1, "1/10", 1, "1/2", "1/1000000000", 2000, "1/3", 4, "-1/2", 1]
    assert list(map(fraction_of_text, given)) == [Fraction(each) for each in expected]


def test_amounts_beyond_all_bounds() -> None:
    for number in (10**5000, "1e30000000", "1e9999", 10**301, "1" * 4001):
        with pytest.raises(BudgetError, match="epsilon must be between 1e-300 and 1e300"):
            exact(number, "epsilon")
    with pytest.raises(BudgetError, match="at most 1,800 digits"):
        exact("0." + "1" * 1900, "epsilon")
    long = exact(Fraction(10**1799 + 1, 3**3770), "epsilon")
    assert Budget.from_dict(Budget(epsilon=long).to_dict()) == Budget(epsilon=long)


def test_the_square_of_the_longest_budget_can_be_kept() -> None:
    """A ledger in rho counts epsilon^2 / 2; Python writes no number of more than 4,300 digits."""
    assert str(exact("0." + "1" * 1799, "epsilon") ** 2 / 2)


@pytest.mark.parametrize("text", [*NOT_NUMBERS, "1e9999", "1/2"])
def test_texts_that_are_not_numbers_of_a_condition(text: str) -> None:
    assert number_of_text(text) is None


def test_a_condition_takes_plain_numbers_alone() -> None:
    parse("age >= 10")
    for bound in ("1_0", "١٠", "inf", "nan"):
        with pytest.raises(QueryError, match="expected a number after '>='"):
            parse(f"age >= {bound}")


def test_a_share_is_a_plain_number() -> None:
    with pytest.raises(PlanError, match="rows_share must be between 0 and 1, got 1e-30000000"):
        Views(rows_share="1e-30000000")


@pytest.mark.parametrize("keep", ["1e30000000", "1e-30000000", "0.9_9", "٠", "nan", 0.5, None, "2", "-1/2"])
def test_a_protocol_takes_plain_probabilities_alone(keep: object) -> None:
    given = json.loads(json.dumps(design(ROWS, epsilon="1", people=2000, ways=1).document))
    changed = 0
    for oracle in given["oracles"]:
        for field in ("keep", "own", "other"):
            if field in oracle:
                oracle[field], changed = keep, changed + 1
        if "keeps" in oracle:
            oracle["keeps"], changed = [keep] * len(oracle["keeps"]), changed + 1
    assert changed
    started = time.process_time()
    with pytest.raises(PlanError):
        Protocol.from_dict(given)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("changed", "sound"),
    [
        ({}, True),
        ({"digits": 5}, False),
        ({"digits": 10**8}, False),  # the number of reports would have 50 million digits
        ({"digits": "4"}, False),
        ({"buckets": 4}, False),
        ({"buckets": 10**9}, False),
        ({"sizes": [64.0]}, False),
        ({"sizes": [10**4000]}, False),
    ],
    ids=lambda given: str(given)[:20],
)
def test_local_hashing_has_the_digits_that_its_cells_need(changed: dict[str, Any], sound: bool) -> None:
    schema = Schema([Attribute("c", [str(i) for i in range(64)])])
    given = json.loads(json.dumps(design(schema, epsilon="1", people=10**6, ways=1, method="full").document))
    hashing = {"kind": "local-hashing", "sizes": [64], "buckets": 3, "digits": 4, "keep": "1/2"}  # 3^4 = 81 > 64
    given["oracles"] = [{**hashing, **changed}]
    started = time.process_time()
    if sound:
        Collector(Protocol.from_dict(given))
    else:
        with pytest.raises(PlanError):
            Protocol.from_dict(given)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("option", ["--ways", "--target-error", "--rows"])
@pytest.mark.parametrize("text", ["1_0", "١", "inf", "nan", " 2"])
def test_options_take_plain_numbers_alone(option: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "absent", option, text) == 2
    assert capsys.readouterr().err == (
        f"crosstally: invalid value for '{option}': {text!r} is not a number; see crosstally plan --help\n"
    )


def test_edges_are_plain_numbers(tmp_path: Path) -> None:
    for edge in ('"1"', "1_0", "NaN", "1e999", "true"):
        (tmp_path / "schema").write_text(f'{{"attributes": [{{"name": "age", "edges": [0, {edge}]}}]}}')
        with pytest.raises(SchemaError):
            Schema.load(tmp_path / "schema")
