"""Rows that a query finds: the same counts as from a file, one snapshot, and errors that quote nobody."""

from __future__ import annotations

import csv
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import adbc_driver_postgresql.dbapi
import adbc_driver_sqlite.dbapi
import duckdb
import pyarrow as pa
import pytest

import crosstally as ct
from cli_runs import Ran, run
from crosstally.errors import SourceError
from crosstally.schema import Schema
from crosstally.sources import count, databases, encode_rows
from crosstally.sources.databases import Database, read_query
from mixed_people import BOUNDED, DIVIDED, GROUPED, GROUPED_TABLES, ROWS, SCHEMA, TABLES, grouped
from postgres_server import odbc
from reference_sources import count as plain_count

COLUMNS = (
    "person integer, sex text, age numeric(6, 3), height double precision, town text, children smallint, born date"
)
NAMES = [column.split()[0] for column in COLUMNS.replace("6, 3", "6").split(", ")]
QUERY = f"SELECT {', '.join(NAMES)} FROM people"


def sql(url: str, *statements: str) -> None:
    with closing(adbc_driver_postgresql.dbapi.connect(url)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def literal(value: object) -> str:
    return "NULL" if value is None else repr(value)


VALUES = ", ".join(f"({', '.join(map(literal, row.values()))})" for row in ROWS)


@pytest.fixture(scope="module")
def url(postgres_url: str) -> str:
    sql(
        postgres_url,
        f"CREATE TABLE people ({COLUMNS})",
        f"INSERT INTO people VALUES {VALUES}",
        "CREATE TABLE named AS SELECT 'CANARY' || i AS sex FROM generate_series(1, 50000) AS i",
        "CREATE TABLE many AS SELECT i, 'Male' AS sex, repeat('x', 200) AS note FROM generate_series(1, 100000) i",
    )
    return postgres_url


def csv_file(folder: Path) -> Path:
    with (folder / "p.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, NAMES)
        writer.writeheader()
        writer.writerows(ROWS)
    return folder / "p.csv"


def sqlite_file(folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "p.sqlite")) as database, database:
        database.execute(f"CREATE TABLE people ({', '.join(NAMES)})")
        database.executemany(
            f"INSERT INTO people VALUES ({', '.join('?' * len(NAMES))})", [(*r.values(),) for r in ROWS]
        )
    return folder / "p.sqlite"


def duckdb_file(folder: Path) -> Path:
    with duckdb.connect(folder / "p.duckdb") as database:
        database.execute(f"CREATE TABLE people ({COLUMNS})")
        database.execute(f"INSERT INTO people VALUES {VALUES}")
    return folder / "p.duckdb"


@contextmanager
def on_connection(connection: Any) -> Iterator[Database]:
    with closing(connection):
        yield Database(query=QUERY, connection=connection)


@contextmanager
def at(url: str) -> Iterator[Database]:
    yield Database(query=QUERY, url=url)


DOORS: dict[str, Callable[[Path, str], Any]] = {
    "postgresql": lambda _, url: at(url),
    "sqlite": lambda folder, _: at(f"sqlite:///{sqlite_file(folder)}"),
    "duckdb": lambda folder, _: at(f"duckdb:///{duckdb_file(folder)}"),
    "odbc": lambda _, url: at(odbc(url)),
    "adbc postgresql": lambda _, url: on_connection(adbc_driver_postgresql.dbapi.connect(url)),
    "adbc sqlite": lambda folder, _: on_connection(adbc_driver_sqlite.dbapi.connect(str(sqlite_file(folder)))),
    "sqlite3": lambda folder, _: on_connection(sqlite3.connect(sqlite_file(folder))),
    "duckdb connection": lambda folder, _: on_connection(duckdb.connect(duckdb_file(folder))),
}


def counted(source: Any, schema: dict[str, Any]) -> list[Any]:
    return [table.counts.tolist() for table in count(source, Schema.from_dict(schema), TABLES)]


@pytest.mark.parametrize("schema", [SCHEMA, BOUNDED, DIVIDED], ids=["rows", "units", "divided"])
@pytest.mark.parametrize("door", DOORS)
def test_a_query_gives_the_counts_of_the_file(door: str, schema: dict[str, Any], tmp_path: Path, url: str) -> None:
    expected = plain_count(ROWS, schema, TABLES)
    assert 50 < expected[0] / (720_720 if schema is DIVIDED else 1) < 250  # many rows count and many do not
    assert counted(csv_file(tmp_path), schema) == expected
    with DOORS[door](tmp_path, url) as database:
        assert counted(database, schema) == expected


@pytest.mark.parametrize("door", DOORS)
def test_a_query_gives_the_groups_and_years_of_the_file(door: str, tmp_path: Path, url: str) -> None:
    expected = plain_count(*grouped(ROWS), GROUPED_TABLES)
    with DOORS[door](tmp_path, url) as database:
        found = count(database, Schema.from_dict(GROUPED), GROUPED_TABLES)
    assert [table.counts.tolist() for table in found] == expected


def test_stages_count_from_one_stream(url: str) -> None:
    schema = Schema.from_dict(BOUNDED)
    with closing(encode_rows(Database(query=QUERY, url=url), schema)) as encoded:
        for _ in range(2):
            assert [table.counts.tolist() for table in encoded.count(TABLES)] == plain_count(ROWS, BOUNDED, TABLES)


def of_sex(query: str, url: str, *values: str) -> list[int]:
    attribute = {"name": "sex", "values": [*values], "outside": "other", "missing": True}
    schema = Schema.from_dict({"attributes": [attribute]})
    return count(Database(query=query, url=url), schema, [("sex",)])[0].counts.tolist()


def test_what_a_query_computes(url: str) -> None:
    query = "SELECT UPPER(p.sex) AS sex FROM people p WHERE p.age >= 18 -- grown up"
    sexes = [str(row["sex"]).upper() for row in ROWS if row["age"] is not None and row["age"] >= 18]
    found = of_sex(query, url, "FEMALE", "MALE")
    assert found == [sexes.count("FEMALE"), sexes.count("MALE"), sexes.count("DIVERSE"), sexes.count("NONE")]


def test_the_transaction_is_one_snapshot_for_reading_alone(url: str) -> None:
    sql(
        url,
        "CREATE VIEW level AS SELECT current_setting('transaction_isolation') AS sex",
        "CREATE FUNCTION change() RETURNS text LANGUAGE sql AS $$ DELETE FROM people RETURNING sex $$",
        "CREATE VIEW changing AS SELECT change() AS sex",
    )
    assert of_sex("SELECT sex FROM level", url, "repeatable read", "read committed") == [1, 0, 0, 0]
    assert failure("SELECT sex FROM changing", url).endswith("not one for reading (SQLSTATE 25006)")


def failure(query: str, url: str) -> str:
    with pytest.raises(SourceError) as caught:
        of_sex(query, url, "Female", "Male")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_errors_of_drivers_quote_nobody(url: str, tmp_path: Path) -> None:
    value = "cannot read the database: a value does not fit what the query does with it (SQLSTATE 22P02)"
    assert failure("SELECT CAST(sex AS integer) AS sex FROM named", url) == value
    assert failure("SELECT CAST(sex || 'x' AS integer) AS sex FROM named WHERE sex > 'CANARY5'", url) == value
    late = "SELECT CAST(100 / (99999 - i) AS text) AS sex, note || note AS note FROM many"  # after several batches
    assert failure(late, url) == value.replace("22P02", "22012")
    assert failure("SELECT sex FROM nowhere", url) == (
        "cannot read the database: the query names a table that is not there (SQLSTATE 42P01)"
    )
    assert "(SQLSTATE 42703)" in failure("SELECT gender AS sex FROM named", url)
    assert failure("SELECT sex AS gender FROM named", url).startswith("the query has no column 'sex' among its 1")
    nowhere = url.replace("/postgres?", "/nowhere?")
    assert failure("SELECT sex FROM people", nowhere).startswith("cannot read the database: it cannot be opened")
    lite, duck = f"sqlite:///{sqlite_file(tmp_path)}", f"duckdb:///{duckdb_file(tmp_path)}"
    assert failure("SELECT sex FROM CANARY", lite) == (
        "cannot read the database: SQLite refuses the query (SQLITE_ERROR)"
    )
    assert failure("SELECT sex FROM CANARY", duck) == (
        "cannot read the database: DuckDB refuses the query (CatalogException)"
    )
    assert "CANARY" not in failure("SELECT CAST('CANARY' || sex AS integer) AS sex FROM people", duck)
    for scheme in ("sqlite", "duckdb"):
        missing = f"{scheme}:///{tmp_path}/none"
        assert failure("SELECT sex FROM people", missing) == "cannot read the database: No such file or directory"
    assert not (tmp_path / "none").exists()


def test_types_of_a_database_s_own(url: str) -> None:
    sql(
        url,
        "CREATE TYPE mood AS ENUM ('glad')",
        "CREATE TABLE typed AS SELECT 'glad'::mood AS mood, 1.5::money AS money, '::1'::inet AS host, "
        "'5a3e0e6c-36a5-4b53-8d53-0c5c3b2f3d0a'::uuid AS id, 'NaN'::numeric AS lost, 21.740 AS amount",
    )
    cast = "has a type of the database's own: cast it in the query, to text or numeric"
    assert failure("SELECT host AS sex FROM typed", url) == f"column 'sex' {cast}"
    assert failure("SELECT money AS sex FROM typed", url) == f"column 'sex' {cast}"
    assert of_sex("SELECT mood AS sex FROM typed", url, "glad", "sad") == [1, 0, 0, 0]
    assert of_sex("SELECT id AS sex FROM typed", url, "5a3e0e6c-36a5-4b53-8d53-0c5c3b2f3d0a", "x") == [1, 0, 0, 0]
    assert of_sex("SELECT lost AS sex FROM typed", url, "NaN", "0") == [0, 0, 0, 1]
    assert of_sex("SELECT amount AS sex FROM typed", url, "21.74", "21.740 ") == [1, 0, 0, 0]


class Given:
    """What psycopg and its like give: rows of Python's values."""

    def __init__(self, names: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.description, self._rows = [(name, None) for name in names], iter(rows)

    def cursor(self) -> Given:
        return self

    def execute(self, query: str) -> None:
        assert query == "SELECT id, amount FROM p"

    def fetchmany(self, rows: int) -> list[tuple[Any, ...]]:
        return list(islice(self._rows, 2))

    def close(self) -> None:
        pass


def test_values_of_a_driver_in_python() -> None:
    """Decimals are numbers in one way alone, however their texts look."""
    amounts = [Decimal("21.740"), Decimal("1.745"), Decimal("2.000"), None, Decimal(-3), Decimal("1E+3")]
    ids = [UUID(int=3), UUID(int=3), UUID(int=4), UUID(int=5), UUID(int=6), UUID(int=7)]
    source = Database(
        query="SELECT id, amount FROM p", connection=Given(["id", "amount"], [*zip(ids, amounts, strict=True)])
    )
    amount = {"name": "amount", "edges": [0, 2, 21.74, 1000], "outside": "other", "missing": True}
    schema = Schema.from_dict({"attributes": [amount], "unit": {"id": "id", "max_rows": 2}})
    assert count(source, schema, [("amount",)])[0].counts.tolist() == [1, 1, 2, 1, 1]


WITH_PASSWORD = [
    "postgresql://me:CANARY@host/people",
    "postgresql://me:CAN/ARY@host/people",
    "postgresql://:CANARY@host",
    "postgresql://host/people?password=CANARY",
    "postgresql://host/people?sslmode=require&Pass%77ord=CANARY",
]


@pytest.mark.parametrize("address", WITH_PASSWORD)
def test_a_password_in_a_url_is_refused(address: str) -> None:
    with pytest.raises(SourceError, match="a URL must hold no password") as caught:
        Database(query=QUERY, url=address)
    assert "CANARY" not in str(caught.value)
    ran = run("release", "--database", address, "--query", QUERY, "--schema", "none.json")
    assert (ran.code, ran.out) == (2, "")
    assert "CANARY" not in ran.err


def test_where_a_database_is_said_once(url: str) -> None:
    for given in ({}, {"url": url, "dsn_env": "X"}):
        with pytest.raises(SourceError, match="say in one way where the database is"):
            Database(query=QUERY, **given)
    with pytest.raises(SourceError, match="a database's URL must be postgresql://host/name"):
        Database(query=QUERY, url="mysql://host/people")
    with pytest.raises(SourceError, match="sqlite:///file"):
        Database(query=QUERY, url="sqlite://people.db")
    with pytest.raises(SourceError, match="connection must be one of ADBC or DB-API, got int"):
        Database(query=QUERY, connection=3)
    with pytest.raises(SourceError, match="query must be a text, got int"):
        Database(query=3, url=url)
    with pytest.raises(SourceError, match="the query has LIMIT"):
        Database(query=f"{QUERY} LIMIT 3", url=url)


def test_a_variable_holds_the_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(query=QUERY, dsn_env="PEOPLE_DSN")
    assert repr(database) == "Database(PEOPLE_DSN)"
    with pytest.raises(SourceError, match="the environment variable 'PEOPLE_DSN' is not set"):
        counted(database, SCHEMA)
    monkeypatch.setenv("PEOPLE_DSN", url.replace("postgres@", "postgres:secret@"))
    assert counted(database, SCHEMA) == plain_count(ROWS, SCHEMA, TABLES)
    with pytest.raises(SourceError, match="the query has DISTINCT"):
        counted(Database(query="SELECT DISTINCT sex FROM people", dsn_env="PEOPLE_DSN"), SCHEMA)


def test_a_service_holds_the_rest(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = url.partition("host=")[2]
    (tmp_path / "services").write_text(f"[people]\nhost={host}\nuser=postgres\ndbname=postgres\npassword=secret\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv("PGSERVICE", "people")
    assert counted(Database(query=QUERY, url="postgresql://"), SCHEMA) == plain_count(ROWS, SCHEMA, TABLES)


# From the command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    schema = {"attributes": [{"name": "sex", "values": ["Female", "Male"], "outside": "other"}]}
    Schema.from_dict(schema).save(tmp_path / "people.schema.json")
    monkeypatch.chdir(tmp_path)
    assert run("ledger", "create", "people.ledger", "--schema", "people.schema.json", "--epsilon", 100).code == 0
    return tmp_path


def release(url: str, *arguments: str, query: str = "SELECT sex FROM people") -> Ran:
    given = ("--database", url, "--query", query, "--schema", "people.schema.json", "--epsilon", "50", "--yes-epsilon")
    return run("release", *given, *arguments)


def test_a_release_of_a_query(folder: Path, url: str) -> None:
    assert release(url, "--ledger", "people.ledger", "-o", "people.parquet").code == 0
    females = sum(row["sex"] == "Female" for row in ROWS)
    table = ct.open_release("people.parquet").marginal("sex")
    assert abs(float(table.values[0]) - females) < 5  # at this epsilon off by 5 with probability below 1e-50
    again = ct.release(
        Database(query="SELECT sex FROM people", url=url), Schema.load("people.schema.json"), epsilon=50
    ).marginal("sex")
    assert abs(float(again.values[0]) - females) < 5


def test_what_a_steward_answers_for_is_in_the_statement(folder: Path, url: str) -> None:
    query = "SELECT MIN(sex) AS sex FROM people WHERE person IS NOT NULL GROUP BY person"
    given = ("--ledger", "people.ledger", "-o", "people.parquet")
    refused = release(url, *given, query=query)
    assert refused.code == 2
    assert "the query has GROUP BY, so that rows may depend on other rows: leave it out, or say --rows" in refused.err
    ran = release(url, *given, "--rows-are-units", "--key", "k", query=query)
    assert ran.code == 0, ran.err
    people = {row["person"] for row in ROWS} - {None}
    opened = ct.open_release("people.parquet")
    assert abs(float(opened.marginal("sex").values.sum()) - len(people)) < 10
    assert opened.statement.rows_are_units
    sentence = "asserted that each row is of one person alone, and the promise rests on that"
    assert any(sentence in each for each in opened.statement.plain(opened.schema))
    assert not release(url, *given, "--force", "--key", "other").code
    assert not ct.open_release("people.parquet").statement.rows_are_units
    export = ("ledger", "export", "people.ledger", "k", "-o", "again.parquet")
    assert run(*export, "--rows-are-units").code == 0
    assert ct.open_release("again.parquet").statement == opened.statement
    assert "--rows-are-units is about a query" in release("", "people.csv", "--rows-are-units", query="").err


def test_a_query_has_no_name_to_go_by(folder: Path, url: str) -> None:
    assert (
        "a query or a Spark table has no name to go by: say --ledger FILE" in release(url, "-o", "people.parquet").err
    )
    assert "a query or a Spark table has no name to go by: say -o FILE" in release(url, "--ledger", "people.ledger").err
    schema = ("--schema", "people.schema.json", "--epsilon", "1")
    assert "leave out SOURCE or --query" in run("release", "people.csv", "--query", QUERY, *schema).err
    assert "several files have no one name to go by: say -o FILE" in run("release", folder, *schema).err
    assert "SOURCE, --database and --query, or --spark" in run("release", *schema).err
    assert "say what to read from the database: --query" in run("release", "--database", url, *schema).err


def test_from_a_draft_to_a_release(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSN", url)
    where = ("--dsn-env", "DSN", "--query", "SELECT sex, children FROM people")
    drafted = run("schema", "draft", *where, "-o", "drafted.json")
    assert drafted.code == 0
    assert "Next: crosstally schema check --dsn-env DSN --query 'SELECT sex, children FROM people' drafted.json" in (
        drafted.err
    )
    assert Schema.load("drafted.json").names == ("sex", "children")
    checked = run("schema", "check", *where, "drafted.json")
    assert checked.code == 0
    assert "400" in checked.out
    assert "a check needs a source and a schema" in run("schema", "check", "people.csv").err
    assert "leave out SOURCE or --dsn-env" in run("schema", "check", "people.csv", "drafted.json", *where).err


def test_a_connection_that_is_lost_spends_nothing(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    others = "WHERE query LIKE 'COPY%note%' AND pid <> pg_backend_pid()"

    @contextmanager
    def cut_off(database: Database, *given: Any, **named: Any) -> Iterator[tuple[list[str], Iterator[pa.RecordBatch]]]:
        """The same stream, whose backend is ended by the server after the first batch."""
        with read_query(database, *given, **named) as (names, found):

            def batches() -> Iterator[pa.RecordBatch]:
                for batch in found:
                    seen.append(batch.num_rows)
                    if len(seen) == 1:
                        sql(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity {others}")
                    yield batch

            yield names, batches()

    monkeypatch.setattr(databases, "read_query", cut_off)
    before = sorted(path.name for path in folder.iterdir())
    ran = release(
        url,
        "--ledger",
        "people.ledger",
        "-o",
        "people.parquet",
        query="SELECT sex || i AS sex, note || note AS note FROM many",
    )
    assert ran.code == 2
    assert ran.err.removeprefix("crosstally: cannot read the database: ") in (  # the server's last word may be lost
        "the connection ended, or the query failed, before all rows had come\n",
        "the server stopped the query or closed the connection (SQLSTATE 57P01)\n",
    )
    assert seen
    assert sum(seen) < 100_000
    assert sorted(path.name for path in folder.iterdir()) == before
    assert ct.Ledger.open("people.ledger").spent == 0


def test_a_database_runs_what_was_checked_and_not_what_was_written() -> None:
    seen: list[str] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE people AS SELECT 'Male' AS sex")
        connection.set_trace_callback(seen.append)
        query = "select sex /* or 1 = 1 */ from people where sex not like 'F%' -- all"
        with read_query(Database(query=query, connection=connection)) as (names, found):
            assert (names, sum(batch.num_rows for batch in found)) == (["sex"], 1)
    assert seen == ["SELECT sex FROM people WHERE sex NOT LIKE 'F%'"]
