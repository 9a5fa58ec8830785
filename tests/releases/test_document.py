"""The statement that somebody signs: its numbers worked out by hand, and all forms that it is written in."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from ruamel.yaml import YAML
from scipy.optimize import brentq
from scipy.stats import norm

import crosstally as ct
from cli_runs import ran_well, run
from crosstally.budget import Budget, Neighbours
from crosstally.errors import ReleaseError
from crosstally.releases.checklists import checklist, registry_entry, yaml_text
from crosstally.releases.document import Document, document
from crosstally.releases.layout import html_text, markdown_text, typst_source
from crosstally.releases.totals import File, total_of_account, total_of_releases
from crosstally.strategies.direct import Direct

HOSPITAL = {
    "about": {"title": "Admissions, 2025", "rows": "admissions", "units": "patients"},
    "unit": {"id": "patient", "max_rows": 3, "from": "data"},
    "attributes": [
        {"name": "sex", "values": ["f", "m"]},
        {"name": "night", "values": ["no", "yes"], "outside": "drop"},
    ],
}
VISITS = {"unit": {"id": "visit", "max_rows": 1}, "attributes": [{"name": "ward", "values": ["a", "b"]}]}


def admissions(number: int = 60) -> pa.Table:
    return pa.table(
        {
            "patient": [i // 2 for i in range(number)],
            "sex": ["f", "m"] * (number // 2),
            "night": ["no", "no", "yes"] * (number // 3),
        }
    )


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    """Two tables of the same patients, 0.5 on admissions and 0.2 on visits, of which one patient is at most 3."""
    schema, visits = ct.Schema.from_dict(HOSPITAL), ct.Schema.from_dict(VISITS)
    path = tmp_path / "p.ledger"
    ledger = ct.Ledger.create(path, schema=schema, budget=ct.Budget(epsilon=2), people="patients of the group")
    ct.release(admissions(), schema, epsilon="0.5", strategy=Direct(), ledger=path).save(
        tmp_path / "admissions.parquet"
    )
    ledger.admit(visits, at_most=3)
    rows = pa.table({"visit": list(range(20)), "ward": ["a", "b"] * 10})
    ct.release(rows, visits, epsilon="0.2", strategy=Direct(), ledger=path).save(tmp_path / "visits.parquet")
    ledger.raise_cap(ct.Budget(epsilon=3), by="the ethics board", why="a second year")
    return tmp_path


def local(tmp_path: Path) -> Path:
    from crosstally.local.bulk import reports

    protocol = ct.local.design(ct.Schema([ct.Attribute("sex", ["f", "m"])]), epsilon="0.5", people=300, ways=1)
    collector = ct.local.Collector(protocol)
    collector.add_many(reports(protocol, np.zeros((1, 300), np.int64)).tobytes())
    collector.release().save(tmp_path / "local.parquet")
    return tmp_path / "local.parquet"


def made(folder: Path, *names: str, ledger: str | None = None) -> Document:
    files = [File(name=name, digest="0" * 64, release=ct.open_release(folder / name)) for name in names]
    account = None if ledger is None else ct.Ledger.open(folder / ledger, read_only=True)
    return document(files, account, made=date(2026, 3, 1))


def sentences(found: Document, title: str) -> str:
    return " ".join(next(each.sentences for each in found.sections if each.title == title))


def test_the_promise_is_of_the_sum_of_the_account(hospital: Path) -> None:
    """0.5 on each patient and 0.2 on each of 3 visits are 1.1: e^1.1 = 3.0042, and 1 / (1 + e^-1.1) = 0.7503."""
    found = made(hospital, "admissions.parquet", ledger="p.ledger")
    assert found.total.budget == Budget(epsilon="1.1")
    said = sentences(found, "Who is protected, and against what")
    for part in (
        "one patient of the account (patients of the group) in all of its tables.",
        "In table 2 of the account one person is at most 3 visits: that was asserted",
        "Spent so far on each patient, in all releases and answers together: ε = 1.1, of at most ε = 3.",
        "that a patient is in the data becomes at most 76% sure, and at most 91% sure about what the data say of them.",
        "adding or removing all rows of any one patient, in all 2 tables of the account together changes the prob",
        "by a factor of at most e^1.1 = 3.01.",
        "At the cap of ε = 3, in chances: whoever thought it 50 to 50 that a patient is in the data becomes at most 96",
    ):
        assert part in said, said
    spends = next(each.rows for each in found.sections if each.title == "What was published")
    assert [(row[0], row[2], row[4], row[5]) for row in spends] == [
        ("1", "1", "0.5", "admissions.parquet"),
        ("2", "2", "0.6", "not at hand"),
    ]


def test_what_is_not_covered_and_what_a_bound_leaves_out(hospital: Path) -> None:
    found = made(hospital, "admissions.parquet", ledger="p.ledger")
    uncovered = sentences(found, "What is not covered")
    assert "The bound of 3 admissions of each patient was chosen by looking at the data; epsilon does not" in uncovered
    assert "The names of the attributes and their values come from a public schema" in uncovered
    assert "whoever chose one of them after looking at the real data published something" in uncovered
    counted = sentences(found, "What was counted")
    assert "Table 1: Counts are of admissions, at most 3 of each patient; further admissions of the same" in counted
    assert "Table 1: Rows with a value outside the schema in night are in no count." in counted
    assert re.search(
        r"About [\d,]+ patients \([\d,]+ to [\d,]+\)\. About [\d,]+ admissions beyond 3 of one patient", counted
    )


def test_mechanisms_are_those_that_were_charged(hospital: Path) -> None:
    """Laplace noise whose scales make each spend cost what it did: the sum of sensitivity / scale over its queries."""
    found = made(hospital, ledger="p.ledger")
    ledger = ct.Ledger.open(hospital / "p.ledger", read_only=True)
    for entry in ledger.entries():
        own = [each for each in found.facts["mechanisms"] if each["paid by"] == f"entry {entry.number}"]
        assert {(each["noise"], each["norm"]) for each in own} == {("discrete Laplace", "L1")}
        times = 3 if entry.schema else 1
        most = sum(each["queries"] * max(each["sensitivity"]) / min(each["scale"]) for each in own)
        least = sum(each["queries"] * min(each["sensitivity"]) / max(each["scale"]) for each in own)
        assert least * times <= float(entry.cost) * (1 + 1e-9)
        assert most * times >= float(entry.cost) * (1 - 1e-9)
    assert {each["sensitivity"][1] for each in found.facts["mechanisms"] if each["paid by"] == "entry 1"} == {3, 1}


def test_who_decided_and_whose_files(hospital: Path) -> None:
    ran_well(
        "statement",
        *sorted(hospital.glob("*.parquet")),
        "--ledger",
        hospital / "p.ledger",
        "--reviewed-by",
        "A. Steward",
        "-o",
        hospital / "s.json",
    )
    facts = json.loads((hospital / "s.json").read_text())
    assert facts["ledger"]["raised"][0]["by"] == "the ethics board"
    assert facts["ledger"]["spent"] == "1.1"
    assert [len(each["sha256"]) for each in facts["releases"]] == [64, 64]
    decided = next(each for each in facts["sections"] if each["title"] == "Who decided")["rows"]
    assert decided[0] == ["schema reviewed by", "A. Steward"]
    assert decided[2][1].endswith("(UTC) by the ethics board: a second year")


def test_answers_choices_and_gaussian_noise_have_their_mechanisms(tmp_path: Path) -> None:
    """An answer of a notebook, a private choice of MWEM, and Gaussian noise, all in an account of rho."""
    schema = ct.Schema([ct.Attribute(name, ["f", "m"]) for name in ("a", "b", "c")])
    rows = pa.table({name: ["f", "m"] * 30 for name in schema.names})
    ct.Ledger.create(tmp_path / "p.ledger", schema=schema, budget=ct.Budget(rho=9))
    ct.open_notebook(tmp_path / "p.ledger").ask(rows, ct.count(a="f"), rho="0.1")
    ct.release(rows, schema, rho="0.1", strategy="mwem", ledger=tmp_path / "p.ledger").save(tmp_path / "m.parquet")
    ct.release(rows, schema, rho="0.1", strategy=Direct(), ledger=tmp_path / "p.ledger").save(tmp_path / "g.parquet")
    found = made(tmp_path, "m.parquet", "g.parquet", ledger="p.ledger")
    assert found.total.budget.rho is not None
    kinds = {(each["noise"], each["norm"]) for each in found.facts["mechanisms"]}
    assert {("discrete Gaussian", "L2"), ("Gumbel, on scores", "L1")} <= kinds
    assert any("an answer (" in row[3] for row in found.sections[1].rows)
    assert "zero-concentrated" in sentences(found, "Who is protected, and against what")
    alone = made(tmp_path, "m.parquet")
    assert any(each["of"] == "choices of what to measure" for each in alone.facts["mechanisms"])


def test_releases_without_an_account_are_added_up_and_say_so(tmp_path: Path) -> None:
    schema = ct.Schema([ct.Attribute("sex", ["f", "m"])])
    for name, budget in (("a", {"epsilon": 1}), ("b", {"epsilon": "0.5"})):
        rows = pa.table({"sex": ["f", "m"] * 9})
        ct.release(rows, schema, **budget, strategy=Direct()).save(tmp_path / f"{name}.parquet")
    one, both = made(tmp_path, "a.parquet"), made(tmp_path, "a.parquet", "b.parquet")
    assert "This is about this release alone. Other releases about the same people" in " ".join(one.total.sentences)
    assert both.total.budget == Budget(epsilon="1.5")
    assert both.total.sentences[0] == "2 spends on the same people together: ε = 1.5."
    assert made(tmp_path, "a.parquet", "a.parquet").total.budget == Budget(epsilon=1)  # the same spend twice
    assert "paid by" in both.sections[1].heads
    assert both.sections[1].rows[0][-1] == "not recorded in any ledger"
    ct.release(rows, schema, epsilon=1, neighbours="replace", strategy=Direct()).save(tmp_path / "c.parquet")
    with pytest.raises(ReleaseError, match="different units, neighbours or models"):
        made(tmp_path, "a.parquet", "c.parquet")
    replaced = " ".join(sentences(made(tmp_path, "c.parquet"), "Who is protected, and against what").split())
    assert "that they are in the data is not hidden" in replaced
    with pytest.raises(ReleaseError, match="give a release file, or --ledger"):
        document([])


@pytest.mark.parametrize(
    ("budgets", "together"),
    [
        ([{"epsilon": 1}, {"rho": "0.5"}], {"rho": 1}),  # a pure epsilon counts half its square
        ([{"rho": "0.5"}, {"rho": "0.25"}], {"rho": "0.75"}),
        ([{"epsilon": 1, "delta": "1e-6"}, {"epsilon": 2}], {"epsilon": 3, "delta": "1e-6", "rule": "rho"}),
        ([{"mu2": "0.25"}, {"mu2": "0.5"}], {"mu2": "0.75"}),
        ([{"mu2": 1}, {"rho": "0.5"}], {"rho": 1}),  # mu-GDP is mu^2 / 2 in rho
    ],
)
def test_sums_of_different_budgets(budgets: list[dict[str, str]], together: dict[str, str], tmp_path: Path) -> None:
    schema, rows = ct.Schema([ct.Attribute("sex", ["f", "m"])]), pa.table({"sex": ["f", "m"] * 9})
    made_of = [ct.release(rows, schema, epsilon=1, strategy=Direct()) for _ in budgets]
    given = [
        replace(own, statement=replace(own.statement, budget=Budget(**each)))
        for own, each in zip(made_of, budgets, strict=True)
    ]
    files = [File(name=str(number), digest=str(number), release=each) for number, each in enumerate(given)]
    assert total_of_releases(files).budget == Budget(**together)


def test_two_equal_releases_by_mu2_are_a_sum_of_mu2() -> None:
    """At (1, 1e-6) mu is .2367; two of them have .3347, and epsilon follows by the curve of the normal."""
    schema, rows = ct.Schema([ct.Attribute("sex", ["f", "m"])]), pa.table({"sex": ["f", "m"] * 9})
    budget = Budget(epsilon=1, delta="1e-6")
    made_of = [ct.release(rows, schema, epsilon=1, strategy=Direct()) for _ in range(2)]
    given = [replace(each, statement=replace(each.statement, budget=budget)) for each in made_of]
    found = total_of_releases([File(name=str(n), digest=str(n), release=each) for n, each in enumerate(given)]).budget
    mu = math.sqrt(2) * brentq(lambda mu: curve(mu, 1.0) - 1e-6, 0.01, 2)
    assert found.delta == Fraction(1, 10**6)
    assert float(found.epsilon) == pytest.approx(brentq(lambda epsilon: curve(mu, epsilon) - 1e-6, 0.1, 5), abs=2e-5)


def curve(mu: float, epsilon: float) -> float:
    """The delta of the normal's trade-off at epsilon."""
    return float(norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2))


@pytest.mark.parametrize(
    ("cap", "spent"),
    [
        ({"rho": 2}, {"rho": "0.75"}),
        ({"epsilon": 10, "delta": "1e-6", "rule": "rho"}, {"epsilon": "6.57817", "delta": "1e-6", "rule": "rho"}),
    ],
)
def test_the_sum_of_an_account_of_rho(cap: dict[str, str], spent: dict[str, str]) -> None:
    """The epsilon of rho 0.75 at one in a million, by the formula of Canonne, Kamath and Steinke in 60 digits."""

    class Account:
        people, currency, spent = "", "rho", Fraction(3, 4)
        budget, neighbours = Budget(**cap), Neighbours.ADD_REMOVE
        schema = ct.Schema([ct.Attribute("sex", ["f", "m"])])
        schemas = (type("S", (), {"schema": schema, "asserted": False})(),)

    assert total_of_account(Account()).budget == Budget(**spent)
    Account.spent = Fraction(0)
    with pytest.raises(ReleaseError, match="nothing was spent from this ledger"):
        total_of_account(Account())


def test_a_local_collection(tmp_path: Path) -> None:
    found = made(tmp_path, local(tmp_path).name)
    said = sentences(found, "Who is protected, and against what")
    for part in (
        "Every person perturbed their own row before sending it; nobody ever held the rows.",
        "That somebody sent a report is not hidden from the collector.",
        "which of two things is true of a person becomes at most 63% sure.",  # 1 / (1 + e^-0.5) = 0.6225
    ):
        assert part in said
    assert sentences(found, "Mechanisms").endswith("ε = 0.5 for each report.")
    assert "local: nobody holds the rows" in str(checklist(found))
    assert registry_entry(found)["deployment"]["model"]["model_name"] == "Local"


# Forms

_CLAIMS = re.compile(r"anonym|complian|complies|guaranteed safe|no risk|risk-free|cannot be identified", re.IGNORECASE)


def test_no_form_claims_what_only_people_can_judge(hospital: Path, tmp_path: Path) -> None:
    for found in (made(hospital, "visits.parquet", ledger="p.ledger"), made(tmp_path, local(tmp_path).name)):
        texts = [html_text(found), markdown_text(found), typst_source(found), yaml_text(registry_entry(found))]
        for text in (*texts, str(checklist(found)), json.dumps(found.to_dict())):
            assert not _CLAIMS.search(text)
        assert "supports an assessment; it does not replace one" in texts[0]


def test_the_html_loads_and_runs_nothing_and_escapes_labels(tmp_path: Path) -> None:
    name = '<script>alert("x")</script>|*#"\\'
    schema = ct.Schema([ct.Attribute(name, ["f", "m"])])
    ct.release(pa.table({name: ["f", "m"] * 9}), schema, epsilon=1, strategy=Direct()).save(tmp_path / "a.parquet")
    found = made(tmp_path, "a.parquet")
    page = html_text(found)
    assert not re.search(r"<script|<link|<img|src=|href=|url\(|@import|https?:", page)
    assert "@media print" in page
    assert "&lt;script&gt;" in page
    assert re.search(r"(?<!\\)<script", markdown_text(found)) is None
    assert json.dumps(f"Tables of people, by {name}.") in typst_source(found)


def test_every_ending_and_form(hospital: Path) -> None:
    paid = (hospital / "visits.parquet", "--ledger", hospital / "p.ledger")
    for ending in ("html", "pdf", "md", "json"):
        said = ran_well("statement", *paid, "-o", hospital / f"s.{ending}").err
        assert "Admissions, 2025, about everything that the account has paid for so far." in said
    assert (hospital / "s.pdf").read_bytes().startswith(b"%PDF-")
    assert (hospital / "s.md").read_text().startswith("# Privacy statement: Admissions, 2025\n")
    shown = ran_well("statement", *paid).out
    assert "Spent so far on each patient" in shown
    assert json.loads(ran_well("statement", *paid, "--json").out)["budget"] == {"epsilon": "1.1"}
    factors = ran_well("statement", *paid, "--sp800-226").out
    for factor in ("Unit of privacy", "Composition", "Trust model", "Side channels", "Data collection exposure"):
        assert factor in factors
    entry = YAML(typ="safe").load(ran_well("statement", *paid, "--registry").out)
    ran_well("statement", *paid, "--registry", "-o", hospital / "entry.yaml")
    assert YAML(typ="safe").load(hospital / "entry.yaml") == entry
    assert (entry["tier"], entry["deployment"]["dp_flavor"]["name"]) == (3, "Pure DP")
    assert entry["deployment"]["privacy_loss"]["privacy_unit"] == "Patient-level"
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.1}


# Fields of the records of the public registry, tier 3, as its repository had them in late 2025
_FIELDS = {
    "product": "name data_curators intended_use data_product_type data_product_region description publication_date "
    "data_product_sector",
    "dp_flavor": "name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_description privacy_parameters privacy_parameters_description",
    "model": "model_name actors release_type data_source_type access_type",
    "accounting": "post_processing composition",
    "implementation": "pre_processing_eda_hyperparameter_tuning mechanisms justification",
    "resources": "sources registry_authors",
}


def test_the_record_has_the_fields_of_the_registry(hospital: Path) -> None:
    entry = registry_entry(made(hospital, ledger="p.ledger"))
    assert {name: " ".join(fields) for name, fields in entry["deployment"].items()} == _FIELDS
    assert entry["deployment"]["accounting"]["composition"].endswith("which was raised 1 time.")


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        ((), 2, "give a release file, or --ledger"),
        (("none.parquet",), 2, "cannot read"),
        (("visits.parquet", "-o", "s.doc"), 2, "a statement is written to .html, .pdf, .md, .json, got 's.doc'"),
        (("visits.parquet", "--registry", "--sp800-226"), 2, "leave out --registry or --sp800-226"),
        (("visits.parquet", "--ledger", "none.ledger"), 2, "there is no such file; did you mean 'p.ledger'?"),
        (("visits.parquet", "admissions.parquet"), 2, "different units"),
    ],
)
def test_mistakes_in_one_line(
    options: tuple[str, ...], code: int, why: str, hospital: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hospital)
    ran = run("statement", *options)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1), ran.err
    assert why in ran.err
