"""The tutorial of the messy file prints what it shows, but for the noise, and needs few edits and no other program."""

import runpy
import shlex
from pathlib import Path

import pytest

import crosstally as ct
from cli_runs import ran_well
from crosstally.schema import Schema
from crosstally.sources import count
from crosstally.sources.inspection import read_distributions
from test_readme import shape

TOOL = runpy.run_path(str(Path(__file__).parent.parent / "docs/messy_page.py"))


def said(_: Path, command: str) -> str:
    """What a command prints, in this process: six new ones would take 15 seconds."""
    ran = ran_well(*shlex.split(command)[1:])
    return ran.out + ran.err


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = TOOL["PAGE"].read_text(encoding="utf-8")
    shown = [block["output"] for block in TOOL["BLOCK"].finditer(text)]
    outputs = list(TOOL["walked"](tmp_path, text, said))
    assert len(shown) == 6
    first = "\n".join((tmp_path / "leute.csv").read_text("cp1252").splitlines()[:3])
    assert f"```text\n{first}\n```" in text
    assert [shape(each) for each in outputs] == [shape(each) for each in shown]
    assert len(TOOL["edits_of"](text)) == 14  # at most 15
    schema = ct.open_release(tmp_path / "leute.release.parquet").schema
    assert {each.name: each.labels for each in schema.attributes} == {
        "Geschlecht": ("divers", "männlich", "weiblich", "(missing)"),
        "Geburtsjahr": ("1935-1949", "1950-1964", "1965-1979", "1980-1994", "1995-2010"),
        "Region": ("Nordrhein-Westfalen", "Norden", "Bayern"),
        "Einkommen": ("[0, 1000)", "[1000, 2000)", "[2000, 3000)", "[3000, 5000)", "[5000, 100000]", "(missing)"),
        "Schulabschluss": ("Hauptschule", "Realschule", "Abitur", "Promotion"),
        "Kinder": ("0", "1", "2", "3+"),
        "Zufriedenheit": ("1", "2", "3", "4", "5", "(missing)"),
    }
    published = (tmp_path / "leute.release.parquet").read_bytes()
    assert not [spelling for spelling in ("Emden", "Geb_Datum", "k.A.") if spelling.encode() in published]
    saved = Schema.load(tmp_path / "leute.schema.json")
    assert saved.draft is False
    shown_rows = read_distributions(tmp_path / "leute.csv", saved)  # dates, decimal commas, groups, missing words
    counted = count(tmp_path / "leute.csv", saved, [(name,) for name in saved.names])
    for table in counted:
        (name,) = table.schema.names
        assert shown_rows.of(saved, name).rows == tuple(table.counts.tolist())
