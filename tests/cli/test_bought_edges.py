"""``schema draft --epsilon``: bins that noisy counts chose, on record before noise is drawn, and in the statement."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import crosstally as ct
from cli_runs import ran_well, run
from crosstally.errors import SchemaError
from crosstally.schema import PrivateBins
from crosstally.sources.drafting.edges import edges_near_quantiles, rungs


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Half earn nothing, the others 1,000 to 7,990 alike; heights of 150.5 to 199.5; ages."""
    lines = ["income,height,age,sex"]
    for i in range(4_000):
        income = 0 if i % 2 else 1_000 + 10 * (i % 700)
        lines.append(f"{income},{150.5 + i % 50},{i % 90},{'FM'[i % 2]}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_bins_are_bought_recorded_and_stated(people: Path) -> None:
    """At ε = 200 the noise of a cell, scale 1/100, is nothing beside the rows: the edges are known."""
    file, ledger = people / "s.json", people / "draft.ledger"
    said = ran_well("schema", "draft", people / "people.csv", "--epsilon", "200", "--ledger", ledger, "-o", file).err
    assert "Bought the bins of income, height for ε = 200" in said
    schema = json.loads(file.read_text(encoding="utf-8"))
    income, height, age, _ = schema["attributes"]
    assert (income["edges"], income["outside"]) == ([0, 1, 2000, 3000, 4000, 5000, 6000, 7000, 8000], "other")
    assert income["bins"][:2] == ["0", "1-1999"]
    assert height["edges"] == [150, 160, 170, 180, 190, 200]
    assert "from" not in income
    assert age["edges"][:3] == [0, 18, 25]  # public: nothing was bought

    (entry,) = ct.Ledger.open(ledger).entries()
    assert (entry.cost, entry.key.startswith("draft-")) == (200, True)
    measured = ct.Ledger.open(ledger).measurements()
    assert [each.query.attributes for each in measured] == [("income",), ("height",)]
    assert [each.noise.scale for each in measured if each.noise] == [0.01, 0.01]
    assert schema["bought"] == {"epsilon": "200", "attributes": ["income", "height"], "entry": measured[0].origin}

    del schema["draft"]
    file.write_text(json.dumps(schema), encoding="utf-8")
    words = (
        "The bins of income and height follow noisy counts that cost ε = 200, beside the budget of a release "
        f"({measured[0].origin})."
    )
    assert words in ran_well("plan", file, "--epsilon", "1", "--ways", "1").out
    asked = ("release", people / "people.csv", "--schema", file, "--epsilon", "1", "--ways", "1")
    assert "the cap of ε = 200 would be exceeded" in run(*asked).err  # the account that sold the bins pays
    ran_well("ledger", "raise", ledger, "--epsilon", "201", "--by", "the steward", "--why", "the release itself")
    assert words in ran_well(*asked).err
    assert ct.Ledger.open(ledger).spent == 201
    release = ct.open_release(people / "people.release.parquet")
    assert words in release.statement.plain(release.schema)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--epsilon 1", "--epsilon buys bins, once: say -o FILE for the schema and --ledger FILE for the spend"),
        ("--epsilon 1 -o new.json", "--epsilon buys bins, once"),
        ("--ledger new.ledger -o new.json", "--ledger records what bins cost: give --epsilon"),
        ("--epsilon 0 --ledger new.ledger -o new.json", "epsilon must be positive"),
        ("--epsilon 1 --ledger old.ledger -o new.json", "'old.ledger' exists already"),
    ],
)
def test_what_cannot_be_bought_spends_nothing(
    options: str, words: str, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(people)
    Path("old.ledger").touch()
    refused = run("schema", "draft", "people.csv", *options.split())
    assert (refused.code, words in refused.err) == (2, True)
    assert not Path("new.json").exists()
    assert not Path("new.ledger").exists()


def test_without_numbers_nothing_is_bought(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("sex,age\n" + "F,30\nM,40\n" * 30, encoding="utf-8")
    refused = run(
        "schema", "draft", tmp_path / "p.csv", "--epsilon", "1", "--ledger", tmp_path / "l", "-o", tmp_path / "s"
    )
    assert (refused.code, "there is nothing to buy" in refused.err) == (2, True)
    assert not (tmp_path / "l").exists()


def test_the_ladder_is_public_and_the_edges_are_rungs_of_it() -> None:
    ladder = rungs("income", whole=False).edges
    assert ladder == rungs("rent", whole=False).edges
    assert (ladder[0], ladder[-1], 0.001 in ladder, 0.0015 in ladder) == (-(10**12), 10**12, True, True)
    noisy = np.random.default_rng(1).laplace(0, 5, len(ladder) - 1)
    assert edges_near_quantiles(ladder, noisy, scale=5) == ()  # noise alone tells nothing
    noisy[ladder.index(20) : ladder.index(50)] += 2_000
    assert edges_near_quantiles(ladder, noisy, scale=5) == (20, 25, 30, 35, 40, 45, 50)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"epsilon": "1/0"}, "epsilon must be the text of a positive number"),
        ({"epsilon": 1}, "epsilon must be the text of a positive number"),
        ({"attributes": ()}, "attributes must be a list of names"),
        ({"entry": None}, "entry must name an entry"),
    ],
)
def test_what_was_bought_is_checked(fields: dict, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        PrivateBins(**{"epsilon": "1", "attributes": ("a",), "entry": "e", **fields})
