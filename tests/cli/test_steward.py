"""A steward's way from a messy file to a release, without any other program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runs import Ran, ran_well, run

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
    assert "unit  person_id: 120 of them have 240 rows; half have at most 2, the most 2." in drafted.err
    assert "At most 1 of each are counted, and 120 rows (50.0%) left out" in drafted.err
    assert "left out  hhwt: it looks like the weights of a survey" in drafted.err
    schema = json.loads(file.read_text(encoding="utf-8"))
    assert [attribute["name"] for attribute in schema["attributes"]] == ["SEX", "visit", "age", "size"]
    assert schema["unit"] == {"id": "person_id", "max_rows": 1, "from": "data"}
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
        json.dumps({"crosstally-schema": 1, "attributes": attributes, "reading": reading}), encoding="utf-8"
    )
    ran_well("ledger", "create", folder / "l.ledger", "--schema", file, "--epsilon", "100")
    question = ("ask", source, "sex = Female", "--ledger", folder / "l.ledger", "--epsilon", "50", "--json")
    refused = run(*question)
    assert (refused.code, "its reading is in the steward's own file" in refused.err) == (2, True)
    answered = json.loads(ran_well(*question, "--schema", file).out)
    assert answered["drawn"] == pytest.approx(ROWS / 2, abs=3)


def german(rows: int) -> bytes:
    """A table as German offices save it: cp1252, semicolons, decimal commas, points between thousands."""
    lines = ["Personen-Nr.;Geschlecht;Geboren am;Größe;Einkommen;Wohnort"]
    for row in range(rows):
        sex = ("weiblich", "Weiblich", "W", "männlich", "M", "k.A.")[row % 6]
        born = "NA" if row % 20 == 7 else f"{1 + row % 28:02}.{1 + row % 12:02}.{1950 + row % 50}"
        height = "NA" if row % 25 == 3 else f"1,{50 + row % 49}"
        income = ("-99", "950,00", f"1.{100 + row},50", f"12.{100 + row},00")[row % 4]
        lines.append(f"{4000 + row};{sex};{born};{height};{income};{('Köln', 'Zürich', 'Bern')[row % 3]}")
    return ("\r\n".join(lines) + "\r\n").encode("cp1252")


def test_a_german_file_needs_no_option_anywhere(folder: Path) -> None:
    """How the file is written is found out once, by the draft, and is then in the schema for every command."""
    source, file, plan = folder / "leute.csv", folder / "leute.schema.json", folder / "leute.plan.json"
    source.write_bytes(german(600))
    drafted = ran_well("schema", "draft", source, "-o", file)
    assert drafted.err.startswith("6 columns, separator ';', cp1252, decimal comma in 2.\n")
    assert "counted as missing: -99" in drafted.err
    early = ran_well("schema", "check", source, file)
    assert early.err.startswith("The schema is a draft: review its labels")
    schema = json.loads(file.read_text(encoding="utf-8"))
    written = {"encoding": "cp1252", "decimal": {"Größe": ",", "Einkommen": ","}}
    assert schema["reading"]["file"] == written
    sex, born, height, income, _ = schema["attributes"]
    assert (sex["values"], sex["missing"]) == (["M", "männlich", "W", "Weiblich"], True)
    assert (born["edges"][0], born["edges"][-1]) == (1950, 2000)
    assert (height["edges"][0], height["edges"][-1]) == (1.5, 2)
    assert income["edges"][0] == 0

    # what a steward changes: names, labels, and edges that are known
    del schema["draft"]
    schema["attributes"][0] = {"name": "sex", "values": ["female", "male"], "missing": True}
    schema["attributes"][3] = {"name": "income", "edges": [0, 1000, 5000, 20000], "missing": True}
    columns = schema["reading"]["columns"]
    spellings = {"female": ["weiblich", "w"], "male": ["männlich", "m"]}
    columns["sex"] = {"column": "Geschlecht", "ignore_case": True, "groups": spellings, "missing": ["k.A."]}
    columns["income"] = {"column": "Einkommen", "missing": ["-99"]}
    del columns["Geschlecht"], columns["Einkommen"]
    file.write_text(json.dumps(schema), encoding="utf-8")

    checked = ran_well("schema", "check", source, file)
    assert "read as   6 columns, separator ';', cp1252, decimal comma in 2\n" in checked.out
    assert checked.err == f"Next: crosstally plan {file} --epsilon 1\n"
    ran_well("plan", file, "--epsilon", "100", "--tables", "sex,income", "-o", plan)
    ran_well("release", source, "--plan", plan, "--schema", file)
    table = ran_well("table", folder / "leute.release.parquet", "sex", "income", "--format", "json").out
    # twelve rows: f -99, f 950, f 1.1k, m 12.1k, m -99, k.A. 950, f 1.1k, f 12.1k, f -99, m 950, m 1.1k, k.A. 12.1k
    of_twelve = [[1, 2, 1, 2], [1, 1, 1, 1], [1, 0, 1, 0]]
    counts = [cell["count"] for cell in json.loads(table)["cells"]]
    assert counts == pytest.approx([50 * number for row in of_twelve for number in row], abs=4)
    for public in (plan, folder / "leute.ledger", folder / "leute.release.parquet"):
        assert b"cp1252" not in public.read_bytes()
        assert b"Einkommen" not in public.read_bytes()


def test_an_option_goes_before_the_schema_and_is_said_of_one_column(folder: Path) -> None:
    source, file = folder / "konten.csv", folder / "konten.schema.json"
    source.write_bytes("Soll;Haben;Ort\n1.250,50;7.5;Köln\n980,00;12.25;Bern\n".encode("cp1252"))
    written = {"encoding": "latin-1", "decimal": {"Soll": ","}}
    attributes = [{"name": "owed", "edges": [0, 1000, 2000]}, {"name": "paid", "edges": [0, 10, 20]}]
    reading = {"file": written, "columns": {"owed": {"column": "Soll"}, "paid": {"column": "Haben"}}}

    def check(*options: str) -> Ran:
        schema = {"crosstally-schema": 1, "attributes": attributes, "reading": reading}
        file.write_text(json.dumps(schema), encoding="utf-8")
        return run("schema", "check", source, file, *options)

    assert "read as   3 columns, separator ';', iso8859-1, decimal comma in 1\n" in check().out
    again = check("--encoding", "cp1252", "--decimal", "Haben=.")  # what is said of one column is not of the other
    assert "read as   3 columns, separator ';', cp1252, decimal comma in 1\n" in again.out
    wrong = check("--decimal", "Haben=,")
    assert wrong.code == 2
    assert "column for 'paid' holds decimal points beside decimal commas" in wrong.err
    assert "Haben" not in wrong.err
    del written["decimal"]
    unsaid = check()
    assert "column for 'owed' holds decimal commas; say --decimal COLUMN=," in unsaid.err
    written["delimiter"] = ";;"
    assert "the schema's reading: file: delimiter must be a single character of ASCII" in check().err
