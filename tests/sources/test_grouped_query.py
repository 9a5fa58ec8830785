"""Rows that a database groups: the counts of rows one by one, and one person moves one cell by one."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import duckdb
import pytest

from crosstally.schema import Schema
from crosstally.sources import count, databases, encode_rows
from crosstally.sources.counts import CodedRows
from crosstally.sources.counts import counted as counted_rows
from crosstally.sources.databases import Database, grouped_query
from crosstally.sources.source import WEIGHT

NAMES = ["code", "sex", "grown", "day", "amount"]
SCHEMA: dict[str, Any] = {
    "attributes": [
        {"name": "code", "values": [1, 2], "outside": "other", "missing": True},
        {"name": "sex", "values": ["abc", "Zürich"], "outside": "other", "missing": True},
        {"name": "grown", "values": ["true", "false"], "outside": "other"},
        {"name": "day", "values": ["2000-02-29", "1999-12-31"], "outside": "other"},
    ]
}
TABLES = [(), ("code", "sex"), ("grown", "day"), ("code", "sex", "grown", "day")]
KINDS = "code integer, sex {text}, grown boolean, day date"
TEXTS = {
    "postgresql": 'varchar COLLATE "insensitive"',
    "duckdb": "varchar COLLATE NOCASE",
    "sqlite": "text COLLATE NOCASE",
}


def people(number: int = 3_000) -> list[tuple[Any, ...]]:
    """Few different rows, among them texts that some collations take for equal."""
    draw = random.Random(5)
    codes, texts = [1, 2, 3, None], ["abc", "ABC", "Zürich", "Zu\u0308rich", "abc ", "", None]
    choices = (codes, texts, [True, False, None], ["2000-02-29", None])
    return [tuple(draw.choice(each[: draw.choice([1, 9])]) for each in choices) for _ in range(number)]


class Places:
    """The same tables in each of the databases."""

    def __init__(self, folder: Path, postgres_url: str) -> None:
        self.folder, self.postgres_url = folder, postgres_url
        self.url = {"postgresql": postgres_url, "sqlite": f"sqlite:///{folder}/p.sqlite"}
        self.url["duckdb"] = f"duckdb:///{folder}/p.duckdb"

    def fill(self, table: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
        values = ", ".join(f"({', '.join('NULL' if v is None else repr(v) for v in row)})" for row in rows)
        for database, text in TEXTS.items():
            statements = [
                f"CREATE TABLE {table} ({columns.format(text=text)})",
                f"INSERT INTO {table} VALUES {values}",
            ]
            with closing(self.connect(database)) as connection:
                for statement in statements:
                    with closing(connection.cursor()) as cursor:
                        cursor.execute(statement)
                connection.commit()

    def connect(self, database: str) -> Any:
        if database == "postgresql":
            return adbc_driver_postgresql.dbapi.connect(self.postgres_url)
        path = self.folder / f"p.{database}"
        return sqlite3.connect(path) if database == "sqlite" else duckdb.connect(path)


@pytest.fixture(scope="module")
def places(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Places:
    found = Places(tmp_path_factory.mktemp("grouped"), postgres_url)
    with closing(found.connect("postgresql")) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(
            "CREATE COLLATION insensitive (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        connection.commit()
    found.fill("grouped", KINDS, people())
    spellings = [(1, "abc", True, "2000-02-29")] * 1000
    found.fill("spellings", KINDS, spellings)
    found.fill("one_more", KINDS, [*spellings, (1, "ABC", True, "2000-02-29")])
    found.fill("others", "code integer, amount numeric", [(i % 3, 1.5) for i in range(300)])
    found.fill("different", "code integer, sex {text}", [(i, f"x{i}") for i in range(300)])
    return found


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each query that was read was a grouped one."""
    seen: list[bool] = []
    plain = databases._grouped

    def watched(*given: Any) -> str | None:
        query = plain(*given)
        seen.append(query is not None)
        return query

    monkeypatch.setattr(databases, "_grouped", watched)
    return seen


def counted(source: Any, schema: dict[str, Any] = SCHEMA, tables: Any = TABLES) -> list[Any]:
    return [table.counts.tolist() for table in count(source, Schema.from_dict(schema), tables)]


def select(places: Places, database: str, table: str) -> Database:
    return Database(query=f"SELECT * FROM {table} -- all of them", url=places.url[database])


@pytest.mark.parametrize("database", TEXTS)
def test_grouped_rows_give_the_counts_of_all(
    database: str, places: Places, sent: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, schema = select(places, database, "grouped"), Schema.from_dict(SCHEMA)
    grouped = counted(source)
    with closing(encode_rows(source, schema)) as encoded:
        for _ in range(2):
            assert [table.counts.tolist() for table in encoded.count(TABLES)] == grouped
    assert sent == [True, True]
    monkeypatch.setattr(databases, "_grouped", lambda *_: None)
    assert counted(source) == grouped
    assert grouped[0] == 3_000
    assert len({value for row in grouped[1] for value in row}) > 6


@pytest.mark.parametrize("database", TEXTS)
def test_one_spelling_moves_one_cell_by_one(database: str, places: Places, sent: list[bool]) -> None:
    """Under a collation that overlooks case: 1,000 'abc', and one person with 'ABC' more."""
    (before,), (after,) = (
        counted(select(places, database, table), tables=[("sex",)]) for table in ("spellings", "one_more")
    )
    assert sent == [True, True]
    assert before == [1000, 0, 0, 0]
    assert after == [1000, 0, 1, 0]


@pytest.mark.parametrize("database", ["postgresql", "duckdb"])
def test_other_types_and_units_are_streamed(database: str, places: Places, sent: list[bool]) -> None:
    amount = {"name": "amount", "edges": [0, 1, 2]}
    assert counted(select(places, database, "others"), {"attributes": [amount]}, [()]) == [300]
    assert sent == [False]
    unit = {**SCHEMA, "unit": {"id": "who", "max_rows": 2}}
    counted(Database(query="SELECT *, code AS who FROM grouped", url=places.url[database]), unit)
    assert sent == [False]


@pytest.mark.parametrize("database", TEXTS)
def test_rows_that_mostly_differ_are_streamed(database: str, places: Places, sent: list[bool]) -> None:
    schema = {"attributes": [{"name": "sex", "values": ["x1", "x2"], "outside": "other"}]}
    assert counted(select(places, database, "different"), schema, [("sex",)]) == [[1, 1, 298]]
    assert sent == [False]


def test_values_of_several_kinds_in_one_column(tmp_path: Path, sent: list[bool]) -> None:
    """SQLite: 1, 1.0, '1' and 'x' are groups of their own, and fall into the cells they have one by one."""
    with closing(sqlite3.connect(tmp_path / "p.sqlite")) as database, database:
        database.execute("CREATE TABLE p (a)")
        database.executemany(
            "INSERT INTO p VALUES (?)", [(v,) for v in [1, 1.0, "1", "x", None, 2.5] for _ in range(20)]
        )
    source = Database(query="SELECT a FROM p", url=f"sqlite:///{tmp_path}/p.sqlite")
    schema = {"attributes": [{"name": "a", "values": ["1", "2.5"], "outside": "other", "missing": True}]}
    assert counted(source, schema, [("a",)]) == [[60, 20, 20, 20]]
    assert sent == [True]


def test_counts_above_32_bits(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    """As if each group held three thousand million rows."""
    many = 3_000_000_000

    def times_many(rows: Iterable[CodedRows], *given: Any) -> Any:
        return counted_rows((replace(each, weights=each.weights * 0 + many) for each in rows), *given)

    monkeypatch.setattr("crosstally.sources.kinds.counted", times_many)
    total, table, *_ = counted(select(places, "duckdb", "one_more"))
    assert total == 2 * many
    assert (table[0][0], table[0][2]) == (many, many)


def test_what_is_grouped_by() -> None:
    assert grouped_query("Q", ["a", 'b"'], ["integer", "text"]) == (
        f'SELECT "a" AS "a", CAST("b""" AS text) COLLATE "C" AS "b""", COUNT(*) AS "{WEIGHT}" '
        'FROM (\nQ\n) AS crosstally_query GROUP BY "a", CAST("b""" AS text) COLLATE "C"'
    )
    for kind in ("numeric", "real", "character", "citext", "timestamp without time zone", "USER-DEFINED", "time"):
        assert grouped_query("Q", ["a", "b"], ["integer", kind]) is None
    assert grouped_query("Q", ["a", "A"], ["integer", "integer"]) is None
