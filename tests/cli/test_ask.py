"""``crosstally ask``: paid, free, priced, refused, and hostile questions in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runs import ran_well, run, write_people, write_schema


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_people(tmp_path / "people.csv")
    write_schema(tmp_path / "people.schema.json")
    ran_well(
        "ledger", "create", tmp_path / "people.ledger", "--schema", tmp_path / "people.schema.json", "--epsilon", "3"
    )
    return tmp_path


def asked(folder: Path, question: str, *options: object):
    return run("ask", folder / "people.csv", "--ledger", folder / "people.ledger", question, *options)


def test_a_paid_answer_serves_a_free_one(folder: Path) -> None:
    """Four of twelve are women; at epsilon 2 the noise exceeds 20 with probability below 1e-17."""
    paid = asked(folder, "sexe = Femme", "--epsilon", "2", "--json", "--key", "mine")
    assert paid.code == 0, paid.err
    answer = json.loads(paid.out)
    assert abs(answer["drawn"] - 4) <= 20
    assert (answer["question"], answer["key"], answer["remaining"]) == ("sexe = Femme", "mine", "1")
    free = json.loads(asked(folder, "sexe = Femme", "--free", "--json").out)
    assert free["value"] == pytest.approx(answer["value"])
    assert (free["drawn"], free["key"], free["remaining"]) == (None, None, "1")
    words = asked(folder, "âge < 18 and sexe = Femme", "--epsilon", "0.5")
    assert words.code == 0
    assert "question" in words.out
    assert "ε = 0.5 is left" in words.err


def test_no_source_is_needed_where_nothing_is_spent(folder: Path) -> None:
    asked(folder, "sexe = Femme", "--epsilon", "2")
    ledger = "--ledger", folder / "people.ledger"
    with_source = asked(folder, "sexe = Femme", "--free").out
    assert run("ask", *ledger, "sexe = Femme", "--free").out == with_source
    assert run("ask", *ledger, "sexe = Femme", "--error", "10").code == 0
    for words in (["sexe = Femme"], [folder / "people.csv", "sexe", "= Femme"]):
        wrong = run("ask", *ledger, *words, "--epsilon", "0.1")
        assert wrong.code == 2
        assert "a source and one question are needed, the question in quotes" in wrong.err


def test_prices(folder: Path) -> None:
    priced = json.loads(asked(folder, "sexe = Femme", "--error", "10", "--json").out)
    assert priced["free"] is False
    assert float(priced["budget"]["epsilon"]) == pytest.approx(0.1413, rel=2e-3)
    assert "would cost ε = 0.1413" in asked(folder, "sexe = Femme", "--error", "10").out
    asked(folder, "sexe = Femme", "--epsilon", "2")
    assert "Free:" in asked(folder, "sexe = Femme", "--error", "10").out


def test_refusals(folder: Path) -> None:
    over = asked(folder, "sexe = Femme", "--epsilon", "4")
    assert (over.code, over.out) == (2, "")
    assert "the cap of ε = 3 would be exceeded" in over.err
    for options in ((), ("--free", "--epsilon", "1"), ("--free", "--error", "2")):
        wrong = asked(folder, "sexe = Femme", *options)
        assert wrong.code == 2
        assert "say one of" in wrong.err
    assert asked(folder, "sexe = Femme", "--free").code == 2


@pytest.mark.parametrize(
    "question", ["sexe =", "((((", "sexe = 'x", "\x1b[31m = 3", "drop table people; --", "x" * 20_000]
)
def test_hostile_questions_get_one_line(folder: Path, question: str) -> None:
    wrong = asked(folder, question, "--epsilon", "1")
    assert wrong.code == 2
    assert wrong.out == ""
    assert len(wrong.err.splitlines()) == 1
    assert "Traceback" not in wrong.err
    assert "\x1b" not in wrong.err


def test_an_answer_is_not_taken_for_a_release_that_waits(folder: Path, tmp_path: Path) -> None:
    """``ledger show`` would say how to export it, and that fails: a release holds tables, not answers."""
    assert asked(folder, "sexe = Femme", "--epsilon", "1", "--key", "mine").code == 0
    shown = ran_well("ledger", "show", folder / "people.ledger").out
    assert "stored" in shown
    assert "not delivered" not in shown
    wrong = run("ledger", "export", folder / "people.ledger", "mine", "-o", tmp_path / "mine.parquet")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == (
        "crosstally: 'mine' paid for an answer, not for a release: repeat the question with crosstally ask --key mine, "
        "which costs nothing\n"
    )
    assert not (tmp_path / "mine.parquet").exists()
