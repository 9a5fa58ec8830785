"""A query's rows each come of one row: what is not known to keep that is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import duckdb
import pytest

from crosstally.errors import SourceError
from crosstally.sources.one_select import checked_query

DIALECTS = ["postgres", "sqlite", "duckdb", None]
ROW_BY_ROW = [
    "SELECT sex, age FROM people",
    "select * from people;",
    "SELECT p.* FROM town.people AS p WHERE p.age >= 18 AND NOT p.left_on IS NULL ORDER BY p.age",
    "SELECT CASE WHEN age < 18 THEN 'child' ELSE 'adult' END AS age, UPPER(TRIM(sex)) AS sex FROM people -- all",
    "SELECT COALESCE(a, 'x'), NULLIF(b, ''), CAST(c AS int), d % 2, a || b, ROUND(n, 1), SUBSTR(a, 1, 2) FROM p",
    "SELECT a FROM p WHERE a IN ('x', 'y') AND b BETWEEN 1 AND 2 AND c LIKE 'x%' AND d IS DISTINCT FROM 3",
    "SELECT EXTRACT(YEAR FROM born) AS born, born >= CURRENT_DATE FROM people",
    "WITH adults AS (SELECT * FROM people WHERE age >= 18) SELECT sex FROM adults",
    "SELECT sex FROM (SELECT sex, age FROM people) AS p WHERE age > 3",
]
DEPENDING = {
    "SELECT a FROM p LIMIT 3": "LIMIT",
    "SELECT a FROM p ORDER BY b LIMIT 3 OFFSET 2": "LIMIT",
    "SELECT a FROM p OFFSET 2": "",  # LIMIT -1 OFFSET 2 in SQLite
    "SELECT DISTINCT a FROM p": "DISTINCT",
    "SELECT a FROM p GROUP BY a": "GROUP BY",
    "SELECT a, COUNT(*) FROM p GROUP BY a": "GROUP BY",
    "SELECT MAX(a) FROM p": "MAX",
    "SELECT COUNT(*) FROM p": "COUNT",
    "SELECT a FROM p HAVING a > 1": "HAVING",
    "SELECT ROW_NUMBER() OVER (ORDER BY a) FROM p": "a window function",
    "SELECT SUM(a) OVER () FROM p": "a window function",
    "SELECT a FROM p UNION SELECT a FROM q": "UNION",
    "SELECT a FROM p UNION ALL SELECT a FROM q": "UNION",
    "SELECT a FROM p EXCEPT SELECT a FROM q": "EXCEPT",
    "SELECT a FROM p INTERSECT SELECT a FROM q": "INTERSECT",
    "SELECT a FROM (SELECT a FROM p UNION ALL SELECT a FROM q) AS r": "UNION",
    "SELECT a FROM p WHERE RANDOM() < 0.5": "random",
    "SELECT a FROM p WHERE mine(a)": "the function 'mine'",
    "SELECT a FROM p WHERE EXISTS (SELECT 1 FROM q)": "EXISTS",
    "SELECT a FROM p WHERE a IN (SELECT a FROM q)": "a subquery in IN",
    "SELECT a FROM p WHERE a IN (b, 'x')": "a name in the list of IN",
    "SELECT (SELECT b FROM q) FROM p": "a subquery outside of FROM",
    "SELECT a FROM p WHERE a > ANY (SELECT b FROM q)": "ANY",
    "WITH RECURSIVE q AS (SELECT a FROM p) SELECT a FROM q": "WITH RECURSIVE",
    "SELECT UNNEST(a) FROM p": "",
    "SELECT GENERATE_SERIES(1, 3), a FROM p": "",
    "SELECT a FROM GENERATE_SERIES(1, 3) AS a": "",
}
OF_ONE_DIALECT = {
    ("SELECT DISTINCT ON (a) a FROM p", "postgres"): "DISTINCT",
    ("SELECT a FROM p FETCH FIRST 3 ROWS ONLY", "postgres"): "LIMIT",
    ("SELECT a FROM p TABLESAMPLE BERNOULLI (10)", "postgres"): "TABLESAMPLE",
    ("SELECT gen_random_uuid() FROM p", "postgres"): "a random UUID",
    ("SELECT a FROM p, LATERAL (SELECT 1) AS q", "postgres"): "LATERAL",
    ("SELECT a FROM p QUALIFY ROW_NUMBER() OVER () = 1", "duckdb"): "",
    ("SELECT a FROM p USING SAMPLE 10%", "duckdb"): "SAMPLE",
    ("SELECT LIST(a) FROM p", "duckdb"): "",
    ("FROM p", "duckdb"): "",
    ("SELECT a FROM read_csv('people.csv')", "duckdb"): "",
    ("SELECT group_concat(a) FROM p", "sqlite"): "",
    ("SELECT a FROM p WHERE a IN q", "sqlite"): "a name instead of a list in IN",
    ("SELECT a FROM p WHERE a NOT IN main.q", "sqlite"): "a name instead of a list in IN",
    ("SELECT p.a.max() FROM p", "duckdb"): "a dot after an expression",
    ("SELECT db.p.max FROM p", "postgres"): "a qualified name in COLUMN",
}
NO_SELECT = {
    "": "begins with SELECT",
    "SELECT FROM WHERE": "",
    "SELECT 1; SELECT a FROM p": "a query must be one statement, got 2",
    "SELECT a FROM p; DROP TABLE p": "a query must be one statement, got 2",
    "DELETE FROM p": "begins with SELECT",
    "EXPLAIN SELECT a FROM p": "begins with SELECT",
    "VALUES (1)": "begins with SELECT",
    "WITH gone AS (DELETE FROM p RETURNING *) SELECT * FROM gone": "must change nothing, got one with DELETE",
    "WITH q AS (SELECT 1) DELETE FROM p": "a query must be a SELECT, got DELETE",
    "SELECT a INTO q FROM p": "must change nothing, got one with INTO",
    "SELECT a FROM p FOR UPDATE": "FOR UPDATE",
    "SELECT 1": "the query selects from no table",
    "SELECT 'it''s": "not understood",
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("query", ROW_BY_ROW)
def test_rows_of_their_own(query: str, dialect: str | None) -> None:
    checked_query(query, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("query", DEPENDING)
def test_rows_that_depend_on_others(query: str, dialect: str | None) -> None:
    with pytest.raises(SourceError, match="so that rows may depend on other rows") as caught:
        checked_query(query, dialect)
    assert str(caught.value).lower().startswith(f"the query has {DEPENDING[query]}".lower())


@pytest.mark.parametrize(("query", "dialect"), OF_ONE_DIALECT)
def test_what_one_database_alone_has(query: str, dialect: str) -> None:
    with pytest.raises(SourceError) as caught:
        checked_query(query, dialect)
    assert OF_ONE_DIALECT[query, dialect] in str(caught.value)


PRINTED = [
    "SELECT a, b FROM p WHERE a NOT LIKE 'x%' AND NOT b IN (1, 3) AND c BETWEEN 1 AND 3 -- all",
    "SELECT a || '-' || b AS ab, substr(a, 1, 2) AS s, upper(trim(a)) AS u, length(a) AS l, a IS NULL AS m FROM p",
    "SELECT CASE WHEN b > 2 THEN 'x' ELSE coalesce(a, 'none') END AS k, CAST(c AS integer) + b * 2 - 7 % 4 AS n FROM p",
    "SELECT round(c, 1) AS r, abs(-b) AS f, nullif(a, 'xa') AS z, replace(a, 'a', '''') AS q FROM p ORDER BY b DESC",
    "WITH big AS (SELECT * FROM p WHERE b >= 2) SELECT \"a\", k.b FROM (SELECT a, b FROM big) AS k WHERE k.a <> ''",
    "SELECT b / 2 AS half, b = 2 OR c < 1 AS t FROM p /* or 1 = 1 */ WHERE (a, b) IN (('xa', 1), ('ya', 2))",
]


@pytest.mark.parametrize("query", PRINTED)
def test_a_printed_query_finds_the_rows_of_the_one_written(query: str) -> None:
    made = "CREATE TABLE p (a VARCHAR, b INTEGER, c DOUBLE)"
    rows = "INSERT INTO p VALUES ('xa', 1, 0.25), ('ya', 2, 1.5), (NULL, 3, 2.75), ('', 4, NULL), ('Xb', NULL, -1.5)"
    for dialect, connection in (("sqlite", sqlite3.connect(":memory:")), ("duckdb", duckdb.connect())):
        with closing(connection):
            connection.execute(made)
            connection.execute(rows)
            written = connection.execute(query).fetchall()
            printed = connection.execute(checked_query(query, dialect).text).fetchall()
        assert sorted(printed, key=repr) == sorted(written, key=repr)
        assert len(printed) > 0


def test_functions_keep_the_names_and_arguments_they_were_given() -> None:
    query = "SELECT LEN(a) AS l, substr(a, 1, 2) AS s, TRUNC(b) AS t, MOD(b, 2) AS m, NVL(a, 'x') AS n FROM p q"
    assert [checked_query(f"{query} -- all", dialect).text for dialect in (None, "postgres")] == [
        query,
        query.replace("p q", "p AS q"),
    ]


@pytest.mark.parametrize("query", NO_SELECT)
def test_one_select_that_changes_nothing(query: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SourceError) as caught:
        checked_query(query, "postgres")
    assert NO_SELECT[query] in str(caught.value)
    assert caught.value.__context__ is None
    assert not caplog.records


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("query", [*ROW_BY_ROW, *DEPENDING])
def test_a_steward_may_answer_for_it(query: str, dialect: str | None) -> None:
    """Every query that reads and no more; what a function does that is not known here, nobody can answer for."""
    unknown = ("mine(", "FROM GENERATE_SERIES")
    if any(each in query for each in unknown):
        with pytest.raises(SourceError, match="not known here"):
            checked_query(query, dialect, rows_are_units=True)
    else:
        checked_query(query, dialect, rows_are_units=True)


@pytest.mark.parametrize("query", [query for query in NO_SELECT if query != "SELECT 1"])
def test_nobody_may_answer_for_more_than_reading(query: str) -> None:
    with pytest.raises(SourceError):
        checked_query(query, "postgres", rows_are_units=True)
