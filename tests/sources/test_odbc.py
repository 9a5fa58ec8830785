"""Rows through ODBC, from a real server: exact values, our own words for errors, no password where others see it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import adbc_driver_postgresql.dbapi
import pytest

import crosstally as ct
from crosstally.errors import SourceError
from crosstally.sources import count
from crosstally.sources.databases import Database
from crosstally.sources.drivers import check_odbc
from postgres_server import odbc

SCHEMA = ct.Schema(
    [
        ct.Attribute("town", ["Köln", "Łódź"], outside="other", missing=True),
        ct.Attribute("share", edges=[0, 1.7499999999, 3], outside="other"),
        ct.Attribute("exact", edges=[0, 1.23456789012, 3], outside="other"),
    ]
)


@pytest.fixture(scope="module")
def address(postgres_url: str) -> str:
    with closing(adbc_driver_postgresql.dbapi.connect(postgres_url)) as connection, closing(connection.cursor()) as now:
        now.execute("CREATE TABLE fine (town text, share double precision, exact numeric)")
        # Of both numbers one is just below its edge: as a float of 32 bits, or with six digits, they would be equal.
        now.execute(
            "INSERT INTO fine VALUES ('Köln', 1.7499999998, 1.234567), ('Łódź', 1.7499999999, 1.23456789012), "
            "(NULL, NULL, NULL)"
        )
        now.execute("CREATE TABLE long AS SELECT CAST(repeat('CANARY', 3000) AS varchar) AS town")
        connection.commit()
    return odbc(postgres_url)


def counts(query: str, address: str, *names: str) -> list[object]:
    return [table.counts.tolist() for table in count(Database(query=query, url=address), SCHEMA, [names])]


def test_numbers_keep_every_digit(address: str) -> None:
    """The cells: two bins and other; the row without values is in other, a missing town in its own cell."""
    query = "SELECT town, share, exact FROM fine"
    assert counts(query, address, "share") == [[1, 1, 1]]
    assert counts(query, address, "exact") == [[1, 1, 1]]
    assert counts(query, address, "town") == [[1, 1, 0, 1]]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT nobody AS town FROM fine", "the query names a column that is not there (SQLSTATE 42703)"),
        (
            "SELECT CAST(town AS integer) AS town FROM fine",
            "a value does not fit what the query does with it (SQLSTATE 22P02)",
        ),
        ("SELECT town FROM long", "a value is longer than the driver says that its column holds; cast it in the query"),
    ],
)
def test_errors_are_in_our_words(query: str, reason: str, address: str) -> None:
    schema = ct.Schema([SCHEMA["town"]])
    with pytest.raises(SourceError) as caught:
        count(Database(query=query, url=address), schema, [("town",)])
    assert reason in str(caught.value)
    for quoted in ("Köln", "nobody", "CANARY", "Driver"):
        assert quoted not in str(caught.value)


def test_an_unknown_data_source(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"ODBC knows no such data source or driver \(SQLSTATE IM002\)"):
        counts("SELECT town FROM fine", f"odbc://{tmp_path.name}", "town")


def test_a_password_is_taken_from_a_variable_alone(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT town, share, exact FROM fine"
    with pytest.raises(SourceError, match="must hold no password") as caught:
        Database(query=query, url=f"{address};PWD=secret")
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("PEOPLE", f"{address};PWD=secret")
    given = Database(query=query, dsn_env="PEOPLE")
    assert repr(given) == "Database(PEOPLE)"
    assert count(given, SCHEMA, [()])[0].counts == 3


@pytest.mark.parametrize(
    "wrong", ["odbc://", "odbc://people;Pwd=x", "odbc://people%3BPwd=x", "odbc://{x}", "odbc://a=b"]
)
def test_the_name_of_a_data_source_is_a_name_alone(wrong: str) -> None:
    with pytest.raises(SourceError, match="name of a data source alone"):
        check_odbc(wrong)


@pytest.mark.parametrize("wrong", ["odbc:DSN=a;Pwd=x", "odbc:password = x", "odbc:DSN=a; PASSWORD=x", "odbc:{;pwd=x}"])
def test_passwords_in_connection_strings_are_seen(wrong: str) -> None:
    with pytest.raises(SourceError, match="must hold no password"):
        check_odbc(wrong)


def test_data_is_not_changed(address: str) -> None:
    with pytest.raises(SourceError):
        Database(query="DELETE FROM fine", url=address)
    assert repr(Database(query="SELECT town FROM fine", url=address)) == "Database(odbc)"
