"""The same rows give the same counts, bit by bit, through every door they can come in by."""

from __future__ import annotations

import csv
import gzip
import io
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pyreadstat
import pytest
import xlsxwriter

from crosstally.errors import SourceError
from crosstally.schema import Schema
from crosstally.sources import Reading, count
from mixed_people import BOUNDED, DIVIDED, GROUPED, GROUPED_TABLES, SCHEMA, TABLES, grouped
from reference_sources import count as plain_count

KINDS = {"person": pa.int64(), "sex": pa.string(), "age": pa.float64(), "height": pa.float64(), "town": pa.string()}
KINDS |= {"children": pa.int64(), "born": pa.string()}


def people(number: int = 400) -> list[dict[str, Any]]:
    draw = random.Random(7)
    return [
        {
            "person": draw.choice([None, *range(number // 4)]),
            "sex": draw.choice(["Female", "Male", "Male", "diverse", None]),
            "age": draw.choice([None, 0, 17.5, 18, 30, 30.5, 64, 65, 120, 121, -1]),
            "height": draw.choice([None, 1.49, 1.5, 1.7499, 1.75, 2.5, 3]),
            "town": draw.choice(["Köln", "Łódź", "Zürich", "Bern", None]),
            "children": draw.choice([0, 1, 2, 3, None]),
            "born": draw.choice(["2000-02-29", "1999-12-31", "1970-01-01", None]),
        }
        for _ in range(number)
    ]


ROWS = people()
TABLE = pa.table({name: pa.array([row[name] for row in ROWS], kind) for name, kind in KINDS.items()})


def text(delimiter: str = ",", decimal: str = ".") -> str:
    lines = io.StringIO()
    writer = csv.writer(lines, delimiter=delimiter)
    writer.writerow(KINDS)
    for row in ROWS:
        writer.writerow(
            [str(v).replace(".", decimal) if isinstance(v, float) else v if v is not None else "" for v in row.values()]
        )
    return lines.getvalue()


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def zstd(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content, asbytes=True)


def parquet_glob(folder: Path) -> str:
    for i in range(4):
        pyarrow.parquet.write_table(TABLE.slice(i * 100, 100), folder / f"part-{i}.parquet")
    return str(folder / "part-*.parquet")


def parquet_folder(folder: Path) -> Path:
    parquet_glob(folder)
    (folder / "_SUCCESS").write_bytes(b"")
    return folder


def workbook(folder: Path, *, sheets: int = 1) -> Path:
    path = folder / "people.xlsx"
    with xlsxwriter.Workbook(path) as book:
        date = book.add_format({"num_format": "yyyy-mm-dd"})
        sheet = book.add_worksheet("people")
        for column, name in enumerate(KINDS):
            sheet.write(0, column, name)
            for line, row in enumerate(ROWS, 1):
                value = row[name]
                if name == "born" and value is not None:
                    sheet.write_datetime(line, column, pd.Timestamp(value).to_pydatetime(), date)
                elif value is not None:
                    sheet.write(line, column, value)
        sheet.write(len(ROWS) + 5, 0, "")  # rows without any cell lie between
        for _ in range(1, sheets):
            book.add_worksheet().write(0, 0, "notes")
    return path


def coded() -> pd.DataFrame:
    """The rows as surveys keep them: codes with labels, 99 for missing, dates as dates."""
    frame = TABLE.to_pandas()
    frame["sex"] = frame["sex"].map({"Female": 1, "Male": 2, "diverse": 3})
    frame["children"] = frame["children"].fillna(99)
    frame["born"] = pd.to_datetime(frame["born"]).dt.date.astype(object).where(frame["born"].notna(), None)
    return frame


LABELS = {"sex": {1: "Female", 2: "Male", 3: "diverse"}}


def spss(folder: Path) -> Path:
    pyreadstat.write_sav(coded(), folder / "p.sav", variable_value_labels=LABELS, missing_ranges={"children": [99]})
    return folder / "p.sav"


def stata(folder: Path) -> Path:
    frame = coded()
    frame["children"] = frame["children"].where(frame["children"] != 99)
    pyreadstat.write_dta(frame, folder / "p.dta", variable_value_labels=LABELS)
    return folder / "p.dta"


def sas(folder: Path) -> Path:
    frame = coded()
    frame["children"] = frame["children"].where(frame["children"] != 99)
    frame["sex"] = TABLE["sex"].to_pandas()
    pyreadstat.write_xport(frame, folder / "p.xpt")
    return folder / "p.xpt"


def sqlite(folder: Path, name: str = "people.sqlite") -> Path:
    with sqlite3.connect(folder / name) as database:
        database.execute(f"CREATE TABLE people ({', '.join(KINDS)})")
        database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", [tuple(row.values()) for row in ROWS])
    database.close()
    return folder / name


def duckdb_file(folder: Path) -> Path:
    with duckdb.connect(folder / "people.duckdb") as database:
        database.register("rows", TABLE)
        database.execute("CREATE TABLE people AS SELECT * FROM rows")
    return folder / "people.duckdb"


def dataset(folder: Path) -> Any:
    parquet_glob(folder)
    return pyarrow.dataset.dataset(folder, format="parquet")


DOORS: dict[str, Callable[[Path], Any]] = {
    "csv": lambda folder: written(folder / "p.csv", text().encode()),
    "csv with a mark": lambda folder: written(folder / "p.csv", text().encode("utf-8-sig")),
    "csv in UTF-16": lambda folder: written(folder / "p.csv", text().encode("utf-16")),
    "csv with semicolons": lambda folder: written(folder / "p.csv", text(";").encode()),
    "csv with line feeds": lambda folder: written(folder / "p.csv", text().replace("\r\n", "\n").encode()),
    "tsv": lambda folder: written(folder / "p.tsv", text("\t").encode()),
    "gz": lambda folder: written(folder / "p.csv.gz", gzip.compress(text().encode())),
    "zst": lambda folder: written(folder / "p.csv.zst", zstd(text().encode())),
    "parquet glob": parquet_glob,
    "parquet folder": parquet_folder,
    "xlsx": workbook,
    "spss": spss,
    "stata": stata,
    "sas": sas,
    "sqlite": sqlite,
    "duckdb file": duckdb_file,
    "duckdb relation": lambda _: duckdb.from_arrow(TABLE),
    "pandas": lambda _: TABLE.to_pandas(),
    "polars": lambda _: pl.from_arrow(TABLE),
    "polars lazy": lambda _: pl.from_arrow(TABLE).lazy(),
    "pyarrow table": lambda _: TABLE,
    "pyarrow reader": lambda _: TABLE.to_reader(max_chunksize=13),
    "pyarrow dataset": dataset,
    "pyarrow scanner": lambda folder: dataset(folder).scanner(),
}


def counted(rows: Any, schema: dict[str, Any], **options: Any) -> list[Any]:
    return [table.counts.tolist() for table in count(rows, Schema.from_dict(schema), TABLES, **options)]


@pytest.mark.parametrize("schema", [SCHEMA, BOUNDED, DIVIDED], ids=["rows", "units", "divided"])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_counts_of_the_reference(door: str, schema: dict[str, Any], tmp_path: Path) -> None:
    expected = plain_count(ROWS, schema, TABLES)
    assert 50 < expected[0] / (720_720 if schema is DIVIDED else 1) < 250  # many rows count and many do not
    assert counted(DOORS[door](tmp_path), schema) == expected


@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_same_groups_and_years(door: str, tmp_path: Path) -> None:
    expected = plain_count(*grouped(ROWS), GROUPED_TABLES)
    assert 50 < expected[0] < 250
    found = count(DOORS[door](tmp_path), Schema.from_dict(GROUPED), GROUPED_TABLES)
    assert [table.counts.tolist() for table in found] == expected


def test_a_german_file(tmp_path: Path) -> None:
    german = text(";", ",").replace("Łódź", "Graz").encode("cp1252")
    path = written(tmp_path / "p.csv", german)
    rows = [{**row, "town": "Graz" if row["town"] == "Łódź" else row["town"]} for row in ROWS]
    reading = Reading(encoding="cp1252", decimal=",")
    assert counted(path, SCHEMA, reading=reading) == plain_count(rows, SCHEMA, TABLES)
    by_column = Reading(encoding="cp1252", decimal={"age": ",", "height": ","})
    assert counted(path, SCHEMA, reading=by_column) == plain_count(rows, SCHEMA, TABLES)


def failure(rows: Any, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        counted(rows, SCHEMA, reading=Reading(**options))
    assert caught.value.__context__ is None
    return str(caught.value)


def test_a_sheet_is_named_where_there_are_several(tmp_path: Path) -> None:
    path, expected = workbook(tmp_path, sheets=3), plain_count(ROWS, SCHEMA, TABLES)
    assert failure(path) == (
        f"{str(path)!r} has 3 sheets: say --sheet (in Python: Reading(sheet=...)), its name or its number"
    )
    assert failure(path, sheet="nobody") == f"{str(path)!r} has no sheet 'nobody' among its 3"
    assert failure(path, sheet=4) == f"{str(path)!r} has no sheet 4 among its 3"
    for sheet in ("people", 1, "1"):
        assert counted(path, SCHEMA, reading=Reading(sheet=sheet)) == expected


def test_a_table_is_named_where_there_are_several(tmp_path: Path) -> None:
    path = sqlite(tmp_path, "people.db")
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (a)")
        database.execute("CREATE VIEW few AS SELECT * FROM people LIMIT 1")
    database.close()
    assert failure(path) == f"{str(path)!r} has 2 tables: say --table (in Python: Reading(table=...))"
    assert failure(path, table="few") == f"{str(path)!r} has no table 'few' among its 2; views are not read"
    assert counted(path, SCHEMA, reading=Reading(table="people")) == plain_count(ROWS, SCHEMA, TABLES)
    other = duckdb_file(tmp_path)
    assert failure(other, table="x") == f"{str(other)!r} has no table 'x' among its 1; views are not read"


def test_values_of_several_kinds_in_one_column(tmp_path: Path) -> None:
    """A database without types, and a sheet: one word among numbers changes how no other value is read."""
    values = [1, "1", 1.0, "01", True, "true", 2.5, "2,x", None, ""]
    schema = {"attributes": [{"name": "a", "values": ["1", "2.5", "true"], "outside": "other", "missing": True}]}
    with sqlite3.connect(tmp_path / "p.sqlite") as database:
        database.execute("CREATE TABLE p (a)")
        database.executemany("INSERT INTO p VALUES (?)", [(value,) for value in values if value is not True])
    database.close()
    (table,) = count(tmp_path / "p.sqlite", Schema.from_dict(schema), [("a",)])
    assert table.counts.tolist() == [3, 1, 1, 2, 2]
    with xlsxwriter.Workbook(tmp_path / "p.xlsx") as book:
        sheet = book.add_worksheet()
        for line, value in enumerate(["a", *values]):
            write = sheet.write_string if isinstance(value, str) else sheet.write
            write(line, 0, value if value is not None else "")
            sheet.write(line, 1, "b")
    (table,) = count(tmp_path / "p.xlsx", Schema.from_dict(schema), [("a",)])
    assert table.counts.tolist() == [3, 1, 2, 2, 2]


def test_bytes_in_a_database_are_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "p.sqlite") as database:
        database.execute("CREATE TABLE p (a)")
        database.executemany("INSERT INTO p VALUES (?)", [(b"CANARY",), (1,)])
    database.close()
    schema = Schema.from_dict({"attributes": [{"name": "a", "values": ["1", "2"]}]})
    with pytest.raises(
        SourceError, match="column 'a' must hold texts, numbers, booleans, dates or times, got large_bi"
    ):
        count(tmp_path / "p.sqlite", schema, [("a",)])


def test_files_that_are_damaged_say_nothing_of_their_rows(tmp_path: Path) -> None:
    for name in ("p.xlsx", "p.sav", "p.dta", "p.sas7bdat", "p.sqlite", "p.duckdb", "p.csv.zst"):
        path = written(tmp_path / name, b"CANARY-7f3a " * 100)
        message = failure(path)
        assert message.startswith(f"cannot read {str(path)!r}: ")
        assert "CANARY" not in message
        assert failure(tmp_path / name.replace("p", "none", 1)).endswith("No such file or directory")


def test_a_folder_with_files_of_several_kinds_is_refused(tmp_path: Path) -> None:
    parquet_glob(tmp_path)
    (tmp_path / "people.schema.json").write_text("{}", encoding="utf-8")
    assert counted(tmp_path, SCHEMA) == plain_count(ROWS, SCHEMA, TABLES)
    written(tmp_path / "copy.csv", text().encode())
    assert f"{str(tmp_path)!r} holds files in .csv, .parquet; name the files" in failure(tmp_path)
    (tmp_path / "copy.csv").unlink()
    (tmp_path / "_delta_log").mkdir()
    assert f"{str(tmp_path)!r} holds folders; name the files" in failure(tmp_path)
