"""A steward's way from a messy file to a release, without any other program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runs import ran_well, run

ROWS = 240


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """People who come again, with spellings, words for missing values, dates, and weights of a survey."""
    lines = ["person_id,SEX,visit,age,size,hhwt"]
    for row in range(ROWS):
        sex = ("F", "female", "Female ", "Male", "M", "n/a")[row % 6]
        visit = f"{1 + row % 28}.{1 + row % 12}.{2023 + row % 2}"
        size = ("S", "M", "L", "XL")[row % 4]
        lines.append(f"{row // 2},{sex},{visit},{18 + row % 60},{size},{100 + 7 * row}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_from_a_messy_file_to_a_release(folder: Path) -> None:
    source, file = folder / "people.csv", folder / "people.schema.json"
    drafted = ran_well("schema", "draft", source, "-o", file)
    assert "Confidential" in drafted.err
    assert "size  S 60, M 60, L 60, XL 60" in drafted.err
    assert "counted as missing: n/a" in drafted.err
    assert "unit  person_id: 120 of them have 240 rows; half have at most 2, 95% at most 2, the most 2." in drafted.err
    assert "left out  hhwt: it looks like the weights of a survey" in drafted.err
    schema = json.loads(file.read_text(encoding="utf-8"))
    assert [attribute["name"] for attribute in schema["attributes"]] == ["SEX", "visit", "age", "size"]
    assert schema["unit"] == {"id": "person_id", "max_rows": 2, "from": "data"}
    assert schema["about"] == {"counts": "records"}

    # what a steward changes: names and labels, and a bound that is known
    del schema["draft"]
    schema["unit"] = {"id": "person", "max_rows": 2}
    schema["attributes"][0] = {"name": "sex", "values": ["Female", "Male"], "missing": True}
    columns = schema["reading"]["columns"]
    columns["sex"] = {
        "column": "SEX",
        "groups": {"Female": ["F", "female", "Female "], "Male": ["M"]},
        "missing": ["n/a"],
    }
    columns["person"] = {"column": "person_id"}
    del columns["SEX"]
    file.write_text(json.dumps(schema), encoding="utf-8")
    checked = json.loads(ran_well("schema", "check", source, file, "--json").out)
    assert (checked["rows"], checked["kept"], checked["ok"]) == (ROWS, ROWS, True)
    assert checked["columns"][0]["missing"] == ROWS // 6

    planned = ran_well("plan", file, "--epsilon", "50", "--ways", "1", "-o", folder / "people.plan.json")
    assert "These tables count records, not the population" in planned.out
    assert f"--plan {folder / 'people.plan.json'} --schema {file}" in planned.err
    assert "person_id" not in (folder / "people.plan.json").read_text(encoding="utf-8")
    without = run("release", source, "--plan", folder / "people.plan.json")
    assert (without.code, "its reading is in the steward's own file" in without.err) == (2, True)
    assert not (folder / "people.ledger").exists()
    released = ran_well("release", source, "--plan", folder / "people.plan.json", "--schema", file)
    assert "These tables count records, not the population" in released.err
    table = json.loads(ran_well("table", folder / "people.release.parquet", "sex", "--format", "json").out)
    assert [cell["count"] for cell in table["cells"]] == pytest.approx([ROWS / 2, ROWS / 3, ROWS / 6], abs=4)


def test_a_question_needs_the_reading_too(folder: Path) -> None:
    source, file = folder / "people.csv", folder / "s.json"
    reading = {"trim": True, "columns": {"sex": {"column": "SEX", "groups": {"Female": ["F", "female"]}}}}
    attributes = [{"name": "sex", "values": ["Female", "Male"], "outside": "other"}]
    file.write_text(
        json.dumps({"crosstally-schema": 2, "attributes": attributes, "reading": reading}), encoding="utf-8"
    )
    ran_well("ledger", "create", folder / "l.ledger", "--schema", file, "--epsilon", "100")
    question = ("ask", source, "sex = Female", "--ledger", folder / "l.ledger", "--epsilon", "50", "--json")
    refused = run(*question)
    assert (refused.code, "its reading is in the steward's own file" in refused.err) == (2, True)
    answered = json.loads(ran_well(*question, "--schema", file).out)
    assert answered["drawn"] == pytest.approx(ROWS / 2, abs=3)


def test_options_of_the_file_are_in_the_schema(folder: Path) -> None:
    """A file with its own separator and decimal commas is read by the schema that its draft became."""
    lines = ["Größe;Ort"] + [f"{150 + row % 40},5;{('Zürich', 'Bern', 'Genève')[row % 3]}" for row in range(ROWS)]
    (folder / "orte.csv").write_bytes(("\n".join(lines) + "\n").encode("cp1252"))
    file = folder / "orte.schema.json"
    ran_well("schema", "draft", folder / "orte.csv", "-o", file)
    schema = json.loads(file.read_text(encoding="utf-8"))
    assert schema["reading"]["file"] == {"decimal": {"Größe": ","}}
    assert schema["attributes"][1] == {"name": "Ort", "values": ["Bern", "Genève", "Zürich"]}
    checked = json.loads(ran_well("schema", "check", folder / "orte.csv", file, "--json").out)
    assert (checked["rows"], checked["ok"]) == (ROWS, True)
