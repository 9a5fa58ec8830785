"""One person changes few rows of a query: attacks by IN, by joins and by aggregates, and all small databases tried."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import pytest

import crosstally as ct
from cli_runs import run
from crosstally.errors import SourceError
from crosstally.pipeline import count_part
from crosstally.sources import count
from crosstally.sources.databases import Database, read_query
from crosstally.sources.files import Parts
from crosstally.sources.one_select import checked_query

PEOPLE = 5_000
CITIES = ct.Schema.from_dict({"attributes": [{"name": "city", "values": ["Bern", "Chur"]}]})


def people_of(vip: str) -> sqlite3.Connection:
    """All live in Bern; one row of another table says what is special."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE people (id INTEGER, city TEXT, contact INTEGER)")
    connection.executemany("INSERT INTO people VALUES (?, 'Bern', 1)", [(i,) for i in range(PEOPLE)])
    connection.execute("CREATE TABLE vip (city TEXT)")
    connection.execute("INSERT INTO vip VALUES (?)", (vip,))
    connection.execute("CREATE TABLE contacts (id INTEGER, city TEXT)")
    connection.execute("INSERT INTO contacts VALUES (1, ?)", (vip,))
    return connection


ATTACKS = {
    "IN": "SELECT city FROM people WHERE city IN vip",
    "NOT IN": "SELECT city FROM people WHERE city NOT IN main.vip",
    "IN a column": "SELECT city FROM people WHERE city IN (contact)",
    "JOIN": "SELECT c.city FROM people AS p JOIN contacts AS c ON p.contact = c.id",
    "LEFT JOIN": "SELECT COALESCE(c.city, p.city) AS city FROM people AS p LEFT JOIN contacts AS c ON p.contact = c.id",
    "a JOIN by one name": "SELECT c.city FROM people p JOIN (SELECT city, id contact FROM contacts) c USING (contact)",
    "a comma": "SELECT c.city FROM people AS p, contacts AS c",
    "CROSS JOIN": "SELECT c.city FROM people AS p CROSS JOIN contacts AS c",
    "a JOIN in WITH": "WITH k AS (SELECT c.city FROM people p JOIN contacts c ON p.contact = c.id) SELECT city FROM k",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_row_of_another_table_changes_no_thousands(attack: str) -> None:
    """Each query is refused; run as it is, one row changes the counts of thousands (but for IN with a column)."""
    with closing(people_of("Bern")) as one, closing(people_of("Chur")) as other:
        changed = [one.execute(ATTACKS[attack]).fetchall(), other.execute(ATTACKS[attack]).fetchall()]
        assert (changed[0] != changed[1]) is (attack != "IN a column")
        for connection in (one, other):
            with pytest.raises(SourceError, match="so that (one person may change many rows|rows may depend)"):
                count(Database(query=ATTACKS[attack], connection=connection), CITIES, [("city",)])


UNIT = "person"
REFUSED_WITH_A_UNIT = {
    "SELECT p.person, v.ward FROM people p JOIN visits v ON p.id = v.person": "'person' of both sides",
    "SELECT p.person, v.ward FROM people p JOIN visits v ON p.person = v.person OR p.a = v.a": "of both sides",
    "SELECT p.person, v.ward FROM people p JOIN visits v ON p.town = v.town": "of both sides",
    "SELECT p.town AS person, v.ward FROM people p JOIN visits v ON p.person = v.person": "must select 'person'",
    "SELECT v.person, p.ward FROM people p LEFT JOIN visits v ON p.person = v.person": "must select 'person'",
    "SELECT * FROM people p JOIN visits v ON p.person = v.person": "must select 'person'",
    "SELECT p.person, v.ward FROM people p RIGHT JOIN visits v ON p.person = v.person": "RIGHT JOIN",
    "SELECT p.person, v.ward FROM people p FULL JOIN visits v ON p.person = v.person": "FULL JOIN",
    "SELECT p.person FROM people p NATURAL JOIN visits v": "NATURAL JOIN",
    "SELECT k.town AS person FROM (SELECT p.person, p.town FROM people p JOIN visits v USING (person)) k": "the name",
    "WITH k AS (SELECT p.* FROM people p JOIN visits v USING (person)) SELECT town AS person FROM k": "the name",
    "SELECT t.id AS person FROM people p JOIN towns t ON p.town = t.id": "must select 'person'",
    "SELECT person FROM people p JOIN towns t ON p.town = t.id JOIN visits v USING (person)": "of both sides",
}


@pytest.mark.parametrize("query", REFUSED_WITH_A_UNIT)
def test_a_join_by_anything_but_the_id(query: str) -> None:
    public = ["towns"] if "towns" in query else []
    with pytest.raises(SourceError, match=REFUSED_WITH_A_UNIT[query]):
        checked_query(query, "duckdb", public_tables=public, unit=UNIT)


REFUSED_OF_PUBLIC = {
    ("SELECT p.a FROM people p JOIN towns t ON p.town < t.id", "towns"): "without an equality",
    ("SELECT p.a FROM people p CROSS JOIN towns t", "towns"): "without an equality",
    ("SELECT p.a FROM towns t LEFT JOIN people p ON p.town = t.id", "towns"): "who is not there",
    ("SELECT p.a FROM people p JOIN towns t ON p.town = t.id JOIN friends f ON p.id = f.id", "towns"): "'friends'",
    ("SELECT p.a FROM people p JOIN geo.towns t ON p.town = t.id", "towns"): "must be one that the query selects from",
    ("SELECT t.a FROM towns t", "towns"): "would protect nobody",
    ("SELECT p.a FROM people p JOIN people q ON p.town = q.id", "people"): "would protect nobody",
    ("WITH towns AS (SELECT * FROM people) SELECT p.a FROM people p JOIN towns t ON p.town = t.id", "towns"): "WITH",
    ("SELECT p.a FROM people p JOIN (SELECT id FROM towns) t ON p.town = t.id", "towns"): "without an equality",
}


@pytest.mark.parametrize(("query", "table"), REFUSED_OF_PUBLIC)
def test_what_public_tables_do_not_excuse(query: str, table: str) -> None:
    with pytest.raises(SourceError, match=REFUSED_OF_PUBLIC[query, table]):
        checked_query(query, "duckdb", public_tables=[table])


# All small databases: rows (person, town) of people and of visits, each person there or not

ACCEPTED = {
    "SELECT p.person, p.town FROM people p": (None, 1),
    "SELECT p.town, t.name FROM people p JOIN towns t ON p.town = t.id": (None, 1),
    "SELECT t.name FROM towns t JOIN people p ON t.id = p.town WHERE p.town IN (1, 2)": (None, 1),
    "SELECT p.town, t.name FROM people p LEFT JOIN towns t ON p.town = t.id AND t.name <> 'Bern'": (None, 1),
    "SELECT p.person, v.town FROM people p JOIN visits v ON p.person = v.person": (UNIT, None),
    "SELECT p.person, v.town FROM people p LEFT JOIN visits v USING (person)": (UNIT, None),
    "SELECT person, v.town FROM people p JOIN visits v USING (person)": (UNIT, None),
    "WITH v AS (SELECT person, town FROM visits) SELECT p.person, v.town FROM people p JOIN v ON p.person = v.person": (
        UNIT,
        None,
    ),
    "SELECT p.person, t.name FROM people p CROSS JOIN towns t": (UNIT, None),
    "SELECT v.person, t.name FROM people p JOIN visits v ON v.person = p.person JOIN towns t ON t.id >= v.town": (
        UNIT,
        None,
    ),
}


def found(rows: dict[str, list[tuple[int, int]]], query: str, unit: str | None) -> Counter[tuple[Any, ...]]:
    public = ["towns"] if "towns" in query else []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE towns AS SELECT 1 AS id, 'Bern' AS name UNION ALL SELECT 2, 'Chur'")
        for table, each in rows.items():
            connection.execute(f"CREATE TABLE {table} (person INTEGER, town INTEGER)")
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", each)
        source = Database(query=query, connection=connection, public_tables=public)
        with read_query(source, unit=unit) as (names, batches):
            return Counter(tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("query", ACCEPTED)
def test_one_unit_changes_its_own_rows_alone(query: str) -> None:
    """Every database of two people with up to two towns, and every one of them taken away.

    Without a unit one row of the data is taken away, and one row of the result may change; with a unit all rows of a
    person are, and only rows that carry their id may change, of which the bound keeps as many as it says.
    """
    unit, most = ACCEPTED[query]
    lives = [[], [1], [1, 2]] if unit else [[], [1], [2]]
    tried = 0
    for people, visits in product(product(lives, repeat=2), product([[], [2], [1, 2]], repeat=2)):
        rows = {
            "people": [(person, town) for person, own in enumerate(people) for town in own],
            "visits": [(person, town) for person, own in enumerate(visits) for town in own],
        }
        for person in (0, 1):
            fewer = {table: [row for row in each if row[0] != person] for table, each in rows.items()}
            more, less = found(rows, query, unit), found(fewer, query, unit)
            changed = (more - less) + (less - more)
            if unit is None:
                assert changed.total() <= most, (query, rows)
            else:
                assert {row[0] for row in changed} <= {person}, (query, rows)
            tried += changed.total() > 0
    assert tried > 20


def test_a_public_table_with_repeats_is_refused() -> None:
    query = "SELECT p.city FROM people AS p JOIN contacts AS c ON p.contact = c.id"
    with closing(people_of("Bern")) as connection:
        source = Database(query=query, connection=connection, public_tables=["contacts"])
        assert count(source, CITIES, [("city",)])[0].counts.tolist() == [PEOPLE, 0]
        connection.execute("INSERT INTO contacts VALUES (1, 'Bern'), (NULL, 'x'), (NULL, 'y')")
        with pytest.raises(SourceError, match="several rows of the public table 'contacts'"):
            count(source, CITIES, [("city",)])


AGGREGATES = ["p.count", "p.array_agg", "p.mine", 'p."count"', "q.count"]


@pytest.mark.parametrize("column", AGGREGATES)
def test_postgresql_takes_no_aggregate_for_a_column(postgres_url: str, column: str) -> None:
    made = (
        "CREATE TABLE sexes AS SELECT 'Male' AS sex, 3 AS sum FROM generate_series(1, 5)",
        "CREATE FUNCTION first_of(text, sexes) RETURNS text LANGUAGE sql AS 'SELECT COALESCE($1, $2.sex)'",
        "CREATE AGGREGATE mine(sexes) (SFUNC = first_of, STYPE = text)",
    )
    with (
        closing(adbc_driver_postgresql.dbapi.connect(postgres_url)) as connection,
        closing(connection.cursor()) as asked,
    ):
        for statement in made:
            asked.execute(statement)
        source = "sexes AS p" if column.startswith("p") else "(SELECT sex FROM sexes) AS q"
        asked.execute(f"SELECT {column} FROM {source}")
        assert len(asked.fetchall()) == 1, "it is no aggregate to PostgreSQL"
        query = f"SELECT {column} FROM {source}"
        with (
            pytest.raises(SourceError, match="is no column and may be an aggregate"),
            read_query(Database(query=query, connection=connection)),
        ):
            pass
        plain = Database(query="SELECT p.sex, P.sum FROM sexes AS p", connection=connection)
        with read_query(plain) as (names, batches):
            assert (names, sum(batch.num_rows for batch in batches)) == (["sex", "sum"], 5)
        connection.rollback()


# What a release says of it


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.executescript(
            """CREATE TABLE people (person INTEGER, town INTEGER);
            INSERT INTO people VALUES (1, 1), (2, 1), (3, 2);
            CREATE TABLE towns (id INTEGER, city TEXT);
            INSERT INTO towns VALUES (1, 'Bern'), (2, 'Chur');
            CREATE TABLE orders (person INTEGER, city TEXT);
            INSERT INTO orders SELECT 1, 'Bern' FROM people AS a, people AS b, people AS c;"""
        )
    CITIES.save("cities.schema.json")
    unit = ct.Schema.from_dict({**CITIES.to_dict(), "unit": {"id": "person", "max_rows": 2}})
    unit.save("units.schema.json")
    return tmp_path


LOOKED_UP = "SELECT t.city FROM people AS p JOIN towns AS t ON p.town = t.id"
ORDERED = "SELECT p.person, o.city FROM people AS p JOIN orders AS o ON p.person = o.person"


def test_a_public_table_is_stated(shop: Path) -> None:
    given = ["--database", "sqlite:///shop.db", "--query", LOOKED_UP, "--epsilon", "1"]
    assert run("ledger", "create", "a.ledger", "--schema", "cities.schema.json", "--epsilon", "9").code == 0
    given = ["release", *given, "--schema", "cities.schema.json", "--ledger", "a.ledger", "-o", "a.parquet"]
    refused = run(*given)
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "--public-table" in refused.err
    ran = run(*given, "--public-table", "towns")
    assert ran.code == 0, ran.err
    statement = ct.open_release("a.parquet").statement
    assert statement.joins == {"towns": "public"}
    words = " ".join(statement.plain(CITIES))
    assert "declared public: towns." in words
    assert "People who appear only in towns are not protected." in words
    assert "--public-table is about a query" in run("release", "x.csv", "--public-table", "t", "--epsilon", "1").err


def test_a_join_by_id_is_stated_and_bounded(shop: Path) -> None:
    source = Database(query=ORDERED, url="sqlite:///shop.db")
    with pytest.raises(SourceError, match="so that one person may change many rows"):
        ct.release(source, ct.Schema.load("cities.schema.json"), epsilon=1)
    schema = ct.Schema.load("units.schema.json")
    assert count(source, schema, [("city",)])[0].counts.tolist() == [2, 0]  # of 27 orders of one person
    plan = ct.plan(schema, epsilon=1, strategy="flat").chosen
    released = ct.release(source, plan=plan)
    assert released.statement.joins == {"orders": "unit"}
    assert "joins tables by person" in " ".join(released.statement.plain(schema))
    assert "not protected" not in " ".join(released.statement.plain(schema)[:3])
    count_part(source, "part", plan=plan, share="1/1")
    assert ct.release(Parts("part"), plan=plan).statement.joins == {"orders": "unit"}


def test_an_asserted_join_is_stated(shop: Path) -> None:
    source = Database(query=ORDERED, url="sqlite:///shop.db", rows_are_units=True)
    statement = ct.release(source, ct.Schema.load("cities.schema.json"), epsilon=1).statement
    assert (statement.rows_are_units, statement.joins) == (True, {"orders": "asserted"})
    assert "People who appear only in orders are not protected." in statement.plain(CITIES)


def test_public_tables_are_a_list_and_no_assertion_of_all() -> None:
    for given, word in (
        ({"public_tables": "towns"}, "a list"),
        ({"public_tables": ["t"], "rows_are_units": True}, "either"),
    ):
        with pytest.raises(SourceError, match=word):
            Database(query=LOOKED_UP, url="sqlite:///shop.db", **given)
