"""The story of a hospital: 30,000 admissions of 12,745 patients, of whom one sees at most three each.

The rows are made here, so the truth is known: 24,208 admissions are counted, 5,792 are beyond the bound. What every
command, page, file and object says is read, and nothing may contradict that. The same rows are told again with each
patient divided over all their admissions: then 12,745 patients are counted, and no admission is left out.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import crosstally as ct
from cli_runs import ran_well, run
from crosstally.browser.explorer.release_page import release_page
from crosstally.browser.steward.plan_page import create_app as plan_page
from crosstally.browser.steward.review import Review, Session
from crosstally.budget import Budget
from crosstally.releases import Release
from crosstally.schema import Schema
from crosstally.sources.inspection import read_distributions
from crosstally.strategies.planner import Proposal
from reviewing import entered
from web_clients import client_of, serving

PATIENTS_BY_ADMISSIONS = {1: 5782, 2: 2463, 3: 2003, 4: 1300, 5: 600, 6: 300, 8: 150, 11: 80, 15: 40, 20: 20, 29: 7}
PATIENTS, ADMISSIONS, COUNTED = 12_745, 30_000, 24_208
PHRASE = "admissions, at most 3 of each patient"
ESTIMAND = "count of admissions (at most 3 of each patient)"
CLAIMS = re.compile(
    r"\bpeople\b|\bpersons?\b|true (?:count|one)|(?<!not of )all admissions(?! of any one)", re.IGNORECASE
)
GIVEN: dict[str, Any] = {
    "about": {"rows": "admissions", "units": "patients"},
    "unit": {"id": "patient", "max_rows": 3},
    "attributes": [
        {"name": "sex", "values": ["Female", "Male", "X"]},
        {"name": "age", "values": ["0-17", "18-64", "65+"]},
        {"name": "ward", "values": ["maternity", "medicine", "psychiatry", "surgery"]},
    ],
}
EPSILON = "2"
ONCE: dict[str, Any] = {**GIVEN, "unit": {"id": "patient", "divided": True}}
PHRASE_ONCE = "patients, each divided over their admissions"
ESTIMAND_ONCE = "count of patients (each divided over their admissions)"


def hospital(folder: Path, given: dict[str, Any] = GIVEN) -> int:
    """Write the admissions; how many counted ones have the sex X."""
    random = np.random.default_rng(20_26)
    admissions = np.repeat(list(PATIENTS_BY_ADMISSIONS), list(PATIENTS_BY_ADMISSIONS.values()))
    random.shuffle(admissions)
    sex = np.array(["Female", "Male"])[random.integers(0, 2, PATIENTS)]
    sex[:10] = "X"
    age = np.array(["0-17", "18-64", "65+"])[random.integers(0, 3, PATIENTS)]
    rows = np.repeat(np.arange(PATIENTS), admissions)
    wards = np.array(GIVEN["attributes"][2]["values"])[random.integers(0, 4, ADMISSIONS)]
    assert (len(set(rows.tolist())), len(rows), int(np.minimum(admissions, 3).sum())) == (PATIENTS, ADMISSIONS, COUNTED)
    order = random.permutation(ADMISSIONS)
    lines = [f"p{rows[i]},{sex[rows[i]]},{age[rows[i]]},{wards[i]}" for i in order]
    (folder / "admissions.csv").write_text("patient,sex,age,ward\n" + "\n".join(lines) + "\n", encoding="utf-8")
    Schema.from_dict(given).save(folder / "admissions.schema.json")
    return int(np.minimum(admissions[:10], 3).sum())


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], int]:
    """The folder of the release, what its commands said, and the counted admissions of sex X."""
    folder = tmp_path_factory.mktemp("hospital")
    of_x = hospital(folder)
    return folder, told(folder, COUNTED), of_x


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The same of a release that divides each patient over their admissions."""
    folder = tmp_path_factory.mktemp("patients")
    hospital(folder, ONCE)
    return folder, told(folder, PATIENTS, without="table --whole")


def told(folder: Path, number: int, *, without: str = "") -> dict[str, str]:
    """What the commands say."""
    rows, schema, release = (folder / name for name in ("admissions.csv", "admissions.schema.json", "r.parquet"))
    ledger = folder / "hospital.ledger"
    said = {}
    for name, command in {
        "plan": ("plan", schema, "--rows", number, "--epsilon", EPSILON, "-o", folder / "p.json"),
        "ledger create": ("ledger", "create", ledger, "--schema", schema, "--epsilon", "3"),
        "release": ("release", rows, "--plan", folder / "p.json", "--ledger", ledger, "-o", release),
        "ledger show": ("ledger", "show", ledger),
        "ask": ("ask", rows, "sex = X", "--ledger", ledger, "--epsilon", "0.5"),
        "inspect": ("inspect", release, "--ledger", ledger),
        "inspect --json": ("inspect", release, "--json"),
        "table": ("table", release),
        "table of one": ("table", release, "sex", "--plot", folder / "chart.svg"),
        "table of two": ("table", release, "sex", "ward"),
        "table where": ("table", release, "ward", "--where", "age = 65+"),
        "table --whole": ("table", release, "sex", "--whole"),
        "sql": ("sql", release, "SELECT sex, count(*) FROM admissions GROUP BY sex"),
        "sql csv": ("sql", release, "SELECT sex, count(*) FROM admissions GROUP BY sex", "-f", "csv"),
        "sql json": ("sql", release, "SELECT count(*) FROM admissions", "-f", "json"),
        "page": ("page", release, "-o", folder / "page.html"),
        **{
            f"{form} of one": ("table", release, "sex", "-f", form)
            for form in ("csv", "json", "json-stat", "px", "sdmx-csv")
        },
        **{f"{form} of all": ("table", release, "-f", form) for form in ("csv", "json", "json-stat", "px", "sdmx-csv")},
    }.items():
        if name == without:
            continue
        ran = ran_well(*command)
        said[name] = " ".join(f"{ran.out}\n{ran.err}".split())
    said["chart"] = " ".join((folder / "chart.svg").read_text("utf-8").split())
    said["page file"] = words_of((folder / "page.html").read_text("utf-8"))
    return said


def words_of(page: str) -> str:
    return " ".join(unescape(re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)).split())


def opened(folder: Path) -> Release:
    return ct.open_release(folder / "r.parquet")


def in_python(release: Release) -> dict[str, str]:
    """What objects say of themselves."""
    total, table = release.marginal(), release.marginal("sex", "ward")
    answer = release.sql("SELECT ward, count(*) FROM admissions GROUP BY ward")
    return {
        "Python: release": repr(release),
        "Python: release in a notebook": words_of(release._repr_html_()),
        "Python: describe": str(release.describe()),
        "Python: statement": " ".join(release.statement.plain(release.schema)),
        "Python: total": str(total),
        "Python: marginal": str(table),
        "Python: marginal in a notebook": words_of(table._repr_html_()),
        "Python: count": str(release.count("sex = X")),
        "Python: crosstab": str(release.crosstab("sex", "ward", margins=True)),
        "Python: shares": str(table.shares()),
        "Python: xarray": str(table.to_xarray().attrs),
        "Python: chart": json.dumps(table.plot().to_dict(), ensure_ascii=False),
        "Python: sql": str(answer),
        "Python: sql in a notebook": words_of(answer._repr_html_()),
        "Python: synthetic data": release.synthesize(rows=500).caption,
    }


def in_a_browser(release: Release) -> dict[str, str]:
    """What the explorer and its API say."""
    served = serving(release, name="admissions", file="r.parquet")
    pages = client_of(served, page=True)
    asked = ("/", "/table", "/table?rows=sex", "/table?rows=sex&columns=ward", "/table?where=sex+%3D+X", "/privacy")
    out = {address: words_of(pages.get(address).text) for address in asked}
    data = client_of(served)
    for address in ("/api/v2/tables/admissions/data", "/api/v2/tables/admissions/data?valueCodes[sex]=*"):
        out[address] = json.dumps(data.get(address).json(), ensure_ascii=False)
    out["metadata"] = json.dumps(data.get("/api/v2/tables/admissions/metadata").json(), ensure_ascii=False)
    return out


def of_the_plan(folder: Path) -> dict[str, str]:
    """What planning says, which sees no rows."""
    schema = Schema.load(folder / "admissions.schema.json")
    page = TestClient(plan_page(schema, "admissions.schema.json"), base_url="http://localhost")
    planned = ct.plan(schema, rows=COUNTED, epsilon=EPSILON)
    return {
        "plan page": words_of(page.get("/?epsilon=2&rows=24000").text),
        "Python: plan": str(planned),
        "plan --json": ran_well("plan", folder / "admissions.schema.json", "--epsilon", "2", "--json").out,
    }


def in_files(folder: Path) -> dict[str, str]:
    """What files say that are no text."""
    out: dict[str, str] = {}
    for ending in ("xlsx", "parquet"):
        file = folder / f"t.{ending}"
        ran_well("table", folder / "r.parquet", "sex", "-o", file, "--force")
        if ending == "parquet":
            out[ending] = str(pq.read_schema(file).metadata)
        else:
            cells = openpyxl.load_workbook(io.BytesIO(file.read_bytes()))["about"].values
            out[ending] = " ".join(str(each) for row in cells for each in row)
    return out


SAYS_NOTHING_OF_COUNTS = ("ledger create", "page")


def test_every_door_says_what_is_counted(story: tuple[Path, dict[str, str], int]) -> None:
    folder, said, _ = story
    release = opened(folder)
    doors = {**said, **in_python(release), **in_a_browser(release), **in_files(folder)}
    doors = {name: text.replace("\\u00a0", " ") for name, text in doors.items() if name not in SAYS_NOTHING_OF_COUNTS}
    silent = [name for name, text in doors.items() if PHRASE not in text and ESTIMAND not in text]
    assert silent == []
    claims = {name: CLAIMS.findall(text) for name, text in doors.items()}
    assert {name: found for name, found in claims.items() if found} == {}
    wrong = [name for name, text in doors.items() if "30,000" in text or "30000" in text]
    assert wrong == []


def test_every_total_has_what_the_bound_leaves_out_beside_it(story: tuple[Path, dict[str, str], int]) -> None:
    folder, said, _ = story
    release = opened(folder)
    doors = {**said, **in_python(release), **in_a_browser(release)}
    (sentence,) = release.unit_words
    assert re.fullmatch(
        r"About [0-9,]+ patients \([0-9,]+ to [0-9,]+\)\. About [0-9,]+ admissions beyond 3 of one patient "
        r"\(at least [0-9,]+(; at most [0-9,]+ if none has 20 or more)?\) are in no count\.",
        sentence,
    )
    totals = (
        *("release", "inspect", "table", "page file", "sql", "json of all", "json-stat of all", "px of all"),
        "Python: describe",
        "Python: total",
        "Python: release in a notebook",
        "Python: sql",
        "/",
        "/table",
        "/api/v2/tables/admissions/data",
    )
    assert [door for door in totals if sentence not in " ".join(doors[door].split())] == []


def test_the_numbers_are_near_the_truth(story: tuple[Path, dict[str, str], int]) -> None:
    """Each within six of its own standard errors or, where its noise is not normal, an interval of 1 - 1e-9."""
    folder, _, of_x = story
    release = opened(folder)
    total = release.marginal()
    assert abs(total.value - COUNTED) < 6 * float(total.std_error)
    assert release.units is not None
    low, high = release.units.units_interval(1 - 1e-9)
    assert low < PATIENTS < high
    assert high - low < 2_000
    assert release.units.left_out_interval(1 - 1e-9)[0] < ADMISSIONS - COUNTED
    below_20 = sum((r - 3) * n for r, n in PATIENTS_BY_ADMISSIONS.items() if 3 < r < 20)
    assert below_20 < release.units.most_within(1 - 1e-9) < 40_000
    x = release.count("sex = X")
    assert abs(x.value - of_x) < 6 * max(float(x.std_error), 20.0)


def test_a_public_number_of_all_admissions_is_refused_before_anything_is_spent(
    story: tuple[Path, dict[str, str], int],
) -> None:
    """It made 1,925 of 28 admissions of sex X. Whether it may be used is decided by the schema, not by rows."""
    folder, _, _ = story
    rows, schema, wrong = folder / "admissions.csv", folder / "admissions.schema.json", folder / "wrong.json"
    wrong.write_text(json.dumps({**GIVEN, "facts": [{"total": ADMISSIONS}]}), encoding="utf-8")
    refused = "public counts are of all rows, and this schema leaves out admissions beyond 3 of each patient"
    for command in (
        ("plan", wrong, "--epsilon", "1"),
        ("release", rows, "--schema", schema, "--epsilon", "1", "--rows", ADMISSIONS, "-o", folder / "x.parquet"),
    ):
        ran = run(*command)
        assert (ran.code, refused in ran.err) == (2, True), ran.err
    assert not (folder / "admissions.ledger").exists()


def test_the_plan_says_what_it_buys_about_patients(story: tuple[Path, dict[str, str], int]) -> None:
    folder, said, _ = story
    plans = of_the_plan(folder)
    bought = "2% of the budget measures how many patients have how many admissions"
    for words in (said["plan"], plans["plan page"], plans["Python: plan"]):
        assert bought in words
    as_json = json.loads(plans["plan --json"])
    assert (as_json["counted"], round(as_json["units_share"], 4)) == (PHRASE, 0.02)
    for words in (said["plan"], *plans.values()):
        assert not re.search(r"5,792|24,208|12,745|19\.3%|true count", words)


# What the steward alone is told


def test_the_draft_finds_the_patients(tmp_path: Path) -> None:
    hospital(tmp_path)
    drafted = ran_well("schema", "draft", tmp_path / "admissions.csv", "-o", tmp_path / "d.json")
    assert "unit  patient: 12,745 of them have 30,000 rows; half have at most 2, the most 29." in drafted.err
    found = json.loads((tmp_path / "d.json").read_text("utf-8"))
    assert [each["name"] for each in found["attributes"]] == ["sex", "age", "ward"]
    assert found["unit"]["from"] == "data"
    lost = sum(max(0, r - found["unit"]["max_rows"]) * n for r, n in PATIENTS_BY_ADMISSIONS.items())
    assert f"{lost:,} rows" in drafted.err


def test_the_steward_sees_exact_losses(tmp_path: Path) -> None:
    hospital(tmp_path)
    rows, path = tmp_path / "admissions.csv", tmp_path / "admissions.schema.json"
    checked = ran_well("schema", "check", rows, path)
    assert "Confidential" in checked.out
    lines = [" ".join(line.split()) for line in checked.out.splitlines()]
    for bound in (1, 2, 3, 5, 10, 20):
        kept = sum(min(r, bound) * n for r, n in PATIENTS_BY_ADMISSIONS.items())
        own = " (this one)" if bound == 3 else ""
        share = 100 * (ADMISSIONS - kept) / ADMISSIONS
        assert any(line.startswith(f"{bound}{own} {kept:,} {ADMISSIONS - kept:,} {share:.1f}%") for line in lines), (
            lines
        )
    review = Review(path, read_distributions(rows, Schema.load(path)), Proposal(Budget(epsilon=1)))
    session = Session()
    page = words_of(entered(review, session).get(f"{session.path}/").text)
    assert f"Counted: {PHRASE}" in page
    assert "3 24,208 5,792 (19.3%)" in page


def test_without_names_the_id_stands_for_them(tmp_path: Path) -> None:
    hospital(tmp_path)
    schema = Schema.from_dict({key: value for key, value in GIVEN.items() if key != "about"})
    release = ct.release(tmp_path / "admissions.csv", schema, epsilon=2)
    page = words_of(release_page(release))
    assert "rows, at most 3 of each patient" in page
    assert re.search(r"About [0-9,]+ values of patient \(", page)
    assert not CLAIMS.search(str(release.describe()).replace("not of all rows", ""))


# Each patient once, divided over their admissions


def test_every_door_says_that_patients_are_counted(once: tuple[Path, dict[str, str]]) -> None:
    folder, said = once
    release = opened(folder)
    doors = {**said, **in_python(release), **in_a_browser(release), **in_files(folder), **of_the_plan(folder)}
    doors = {name: text.replace("\\u00a0", " ") for name, text in doors.items() if name not in SAYS_NOTHING_OF_COUNTS}
    silent = [name for name, text in doors.items() if PHRASE_ONCE not in text and ESTIMAND_ONCE not in text]
    assert silent == []
    wrong = re.compile(r"at most 1\b|number of admissions|counts? of admissions|beyond|in no count|24,208|30,?000\b")
    claims = {name: [*CLAIMS.findall(text), *wrong.findall(text)] for name, text in doors.items()}
    claims["plan page"] = wrong.findall(doors["plan page"])  # it speaks of people where it explains a budget
    assert {name: found for name, found in claims.items() if found} == {}


def test_patients_are_near_the_truth(once: tuple[Path, dict[str, str]]) -> None:
    """Within twelve standard errors, which Laplace noise passes once in 20 million; the wards are counted in shares."""
    release = opened(once[0])
    lines = (once[0] / "admissions.csv").read_text("utf-8").split()[1:]
    rows = [line.split(",") for line in lines]
    times = Counter(row[0] for row in rows)
    assert release.units is None
    for place, name in enumerate(release.attributes, 1):
        table = release.marginal(name)
        for label, value, error in zip(
            release.schema[name].labels, table.values.tolist(), np.ravel(table.std_error).tolist(), strict=True
        ):
            truth = sum(1 / times[row[0]] for row in rows if row[place] == label)
            assert abs(value - truth) < 12 * error < 150, (name, label)
    total = release.marginal()
    assert abs(float(total.value) - PATIENTS) < 12 * float(total.std_error) < 150
    (low,), (high,) = (np.ravel(end) for end in release.marginal().interval(1 - 1e-9))
    assert low < PATIENTS < high


def test_the_ledger_knows_the_numbers_and_gives_them_again(once: tuple[Path, dict[str, str]]) -> None:
    """Whole parts in the ledger, fractions in the release: the same numbers, to the last digit."""
    folder, _ = once
    ledger = ct.Ledger.open(folder / "hospital.ledger", read_only=True)
    (key,) = [entry.key for entry in ledger.entries()][:1]
    kept = ledger.measurements(key)
    shown = opened(folder).measurements[: len(kept)]
    assert [each.values.tolist() for each in kept] == [each.values.tolist() for each in shown]
    parts = np.concatenate([each.values.ravel() for each in kept]) * 720_720
    assert np.abs(parts - parts.round()).max() < 1e-3
    assert np.abs(parts / 720_720 % 1).max() > 0


def test_whole_numbers_and_public_totals_are_refused_where_patients_are_divided(
    once: tuple[Path, dict[str, str]],
) -> None:
    folder, _ = once
    rows, release, schema = (folder / name for name in ("admissions.csv", "r.parquet", "admissions.schema.json"))
    for command in (
        ("table", release, "sex", "--whole"),
        ("synth", release, "--whole", "-o", folder / "s.csv"),
        ("release", rows, "--schema", schema, "--epsilon", "1", "--rows", PATIENTS, "-o", folder / "x.parquet"),
    ):
        ran = run(*command)
        assert (ran.code, len(ran.err.strip().splitlines()) <= 3, "patients" in ran.err) == (2, True, True), ran.err
    assert not (folder / "admissions.ledger").exists()


def test_the_steward_is_told_that_patients_may_be_counted(tmp_path: Path) -> None:
    hospital(tmp_path)
    checked = ran_well("schema", "check", tmp_path / "admissions.csv", tmp_path / "admissions.schema.json")
    drafted = ran_well("schema", "draft", tmp_path / "admissions.csv", "-o", tmp_path / "d.json")
    for words in (checked.out, drafted.err):
        assert '"unit": {"id": "patient", "divided": true} counts each of them once' in " ".join(words.split())
    Schema.from_dict(ONCE).save(tmp_path / "once.json")
    checked = ran_well("schema", "check", tmp_path / "admissions.csv", tmp_path / "once.json")
    assert "left out" not in checked.out
