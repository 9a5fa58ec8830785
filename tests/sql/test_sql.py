"""What statements are refused, how names are read, and what an answer becomes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cli_runs import run
from crosstally.answers.joint_draws import Joint
from crosstally.errors import QueryError
from crosstally.sql.group_by import SqlNumbers
from released import views

REFUSED = {
    "": "does not begin with SELECT",
    "DROP TABLE people": "does not begin with SELECT",
    "SELECT": "without one table after FROM",
    "SELECT count(*) FROM people; SELECT 1": "one statement at a time, got 2",
    "SELECT count(*) FROM people WHERE (": "the statement is not SQL",
    "SELECT * FROM people": "there are no rows",
    "SELECT sex FROM people": "'sex' must stand in GROUP BY",
    "SELECT DISTINCT sex FROM people": "say GROUP BY",
    "SELECT sex, count(*) FROM a JOIN b USING (x) GROUP BY sex": "JOIN cannot be answered",
    "SELECT count(*) FROM (SELECT * FROM people)": "without one table",
    "SELECT count(*) FROM people UNION SELECT 1": "a statement other than one SELECT (Union)",
    "SELECT avg(value) FROM people": "AVG(value)': the values of people are not in it",
    "SELECT count(DISTINCT sex) FROM people": "COUNT(DISTINCT sex)': the values of people are not in it",
    "SELECT sum(sex) FROM people": "the values of people are not in it",
    "SELECT sx, count(*) FROM people GROUP BY sx": "there is no attribute 'sx'; did you mean 'sex'?",
    "SELECT count(*) FROM people WHERE sex = 'Femal'": "has no label 'Femal'",
    "SELECT count(*) FROM people WHERE sex = value": "which is no constant",
    "SELECT count(*) FROM people WHERE lower(sex) = 'female'": "LOWER(sex)': the values of people are not in it",
    "SELECT count(*) FROM people WHERE âge >= 20": "bounds must be edges of its bins",
    "SELECT count(*) FROM people WHERE sex > 'A'": "bounds must be numbers",
    "SELECT count(*) FROM people WHERE value IS NULL": "IS NULL cannot be answered",
    "SELECT count(*) FROM people WHERE sex IN (SELECT sex FROM others)": "a subquery in IN",
    "SELECT sex, count(*) FROM people GROUP BY lower(sex)": "LOWER(sex)': the values of people are not in it",
    "SELECT sex, count(*) FROM people GROUP BY (sex = 'Male')": "neither an attribute nor CASE",
    "SELECT sex, rank() OVER (ORDER BY count(*)) FROM people GROUP BY sex": "the window",
    "SELECT sex, sum(count(*)) OVER (PARTITION BY âge) FROM people GROUP BY sex": "must stand in GROUP BY",
    "SELECT sex, count(*) FROM people GROUP BY sex LIMIT 1 + 1": "must be whole numbers",
    "SELECT sex, count(*) FROM people GROUP BY sex ORDER BY 3": "must be one of the 2 columns selected",
    "SELECT CASE WHEN sex = 'Male' THEN value ELSE 'x' END AS c, count(*) FROM people GROUP BY c": "no constant",
    "SELECT CASE WHEN sex = 'Male' THEN 'm' END AS c, count(*) FROM people": "the values of people are not in it",
    "SELECT grouping(*) FROM people GROUP BY sex": "grouping() takes attributes",
    "SELECT n + 1 AS n FROM people": "nested too deeply",
    "SELECT count(*) FROM people WHERE " + "sex = 'Male' AND " * 900 + "sex = 'Male'": "nested too deeply",
    "SELECT count(*) FROM people WHERE " + "(" * 900 + "sex = 'Male'" + ")" * 900: "nested too deeply",
    "SELECT sex, read_csv('/etc/passwd') FROM people GROUP BY sex": "the values of people are not in it",
}


@pytest.mark.parametrize("statement", REFUSED, ids=lambda statement: statement[:60])
def test_what_a_release_cannot_answer_is_said_in_one_line(statement: str) -> None:
    with pytest.raises(QueryError) as raised:
        views().sql(statement)
    assert REFUSED[statement] in str(raised.value)
    assert "\n" not in str(raised.value)


def test_counts_are_those_of_the_marginal() -> None:
    release = views()
    answer = release.sql('SELECT sex, "âge", count(*) FROM x GROUP BY sex, "âge"', level=0.9)
    marginal = release.marginal("sex", "âge")
    low, high = marginal.interval(0.9)
    assert list(answer.columns) == ["sex", "âge", "count", "count_low", "count_high"]
    np.testing.assert_allclose(answer.columns["count"], marginal.values.ravel(), atol=1e-8)
    np.testing.assert_allclose(answer.columns["count_low"], low.ravel(), atol=1e-8)
    np.testing.assert_allclose(answer.columns["count_high"], high.ravel(), atol=1e-8)
    assert answer.rows()[5][:2] == ("Male", "[18, 65.5)")


@pytest.mark.parametrize(
    ("share", "most"),
    [
        ("count(*) / sum(count(*)) OVER ()", 1),
        ("100.0 * count(*)::DOUBLE / nullif(sum(count(*)) OVER (), 0)", 100),
        ("count(*) FILTER (WHERE value = 'va') / count(*)", 1),
    ],
)
def test_a_share_is_at_most_the_whole(share: str, most: float) -> None:
    columns = views().sql(f"SELECT sex, {share} AS s FROM x GROUP BY sex").columns
    low, value, high = (np.array(columns[name], float) for name in ("s_low", "s", "s_high"))  # None becomes NaN
    assert not (low > value).any()
    assert (high <= most).all()


def test_what_is_computed_in_sql_is_as_sure_as_what_is_computed_from_answers() -> None:
    release = views()
    table = release.marginal("sex", "âge")
    share = release.sql('SELECT sex, "âge", count(*) / sum(count(*)) OVER (PARTITION BY sex) AS s FROM x GROUP BY ALL')
    low, high = table.shares("sex").interval()
    np.testing.assert_allclose(share.columns["s_low"], low.ravel(), atol=1e-8)
    np.testing.assert_allclose(share.columns["s_high"], high.ravel(), atol=1e-8)
    women, men = (f"count(*) FILTER (WHERE sex = '{label}')" for label in ("Female", "Male"))
    apart = release.sql(f'SELECT "âge", {women} - {men} AS d FROM x GROUP BY 1')
    low, high = (table["Female"] - table["Male"]).interval()
    np.testing.assert_allclose(apart.columns["d_low"], low, atol=1e-8)
    np.testing.assert_allclose(apart.columns["d_high"], high, atol=1e-8)


def test_an_answer_is_a_table_for_other_tools() -> None:
    answer = views().sql("SELECT sex, count(*) AS n FROM x GROUP BY ROLLUP (sex)")
    assert pa.table(answer).column_names == ["sex", "n", "n_low", "n_high"]
    assert answer.to_pandas()["sex"].isna().tolist() == [False, False, True]
    assert repr(answer).splitlines()[0].split() == ["sex", "n", "n_low", "n_high"]
    assert len(repr(views().sql('SELECT "âge", value, count(*) FROM x GROUP BY ALL')).splitlines()) == 12


def test_ends_of_arithmetic() -> None:
    """Two columns that vary together, by hand: 5 and 3 with errors of +-1 that cancel in the sum."""
    draws = np.array([[5.0], [6.0], [4.0], [6.0], [4.0]]), np.array([[3.0], [2.0], [4.0], [2.0], [4.0]])
    a, b = (SqlNumbers(each[0], Joint((), partial(np.asarray, each))) for each in draws)
    quantile = 2.776445  # of Student's t with 4 degrees of freedom, 95%
    found = {"sum": a + b, "difference": a - b, "twice": a + a, "known": SqlNumbers.exactly(10.0, 1) - a}
    half = {name: (each.interval(0.95)[1] - each.value)[0] for name, each in found.items()}
    assert half == pytest.approx({"sum": 0, "difference": 2 * quantile, "twice": 2 * quantile, "known": quantile})
    assert [each.value[0] for each in found.values()] == [8, 2, 10, 5]
    ratio = a / SqlNumbers.exactly(0.0, 1)
    assert np.isnan([ratio.value[0], *np.ravel(ratio.interval(0.95))]).all()
    exact = SqlNumbers.exactly(6.0, 1) / SqlNumbers.exactly(2.0, 1)
    assert [end[0] for end in exact.interval(0.95)] == [3, 3]


def test_the_command(tmp_path: Path) -> None:
    views().save(tmp_path / "given.parquet")
    statement = "SELECT sex, count(*) AS n FROM people GROUP BY sex"
    shown = run("sql", tmp_path / "given.parquet", statement)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[0].split() == ["sex", "n", "n_low", "n_high"]
    ran = run("sql", tmp_path / "given.parquet", statement, "--format", "csv")
    assert ran.out.splitlines()[0] == "sex,n,n_low,n_high"
    rows = json.loads(run("sql", tmp_path / "given.parquet", statement, "--format", "json").out)["rows"]
    assert [row["sex"] for row in rows] == ["Female", "Male"]
    target = tmp_path / "answer.parquet"
    assert run("sql", tmp_path / "given.parquet", statement, "-o", target).code == 0
    assert target.read_bytes()[:4] == b"PAR1"
    book = tmp_path / "answer.xlsx"
    assert run("sql", tmp_path / "given.parquet", statement, "-o", book).code == 0
    frame = pd.read_excel(book)
    assert list(frame.columns) == ["sex", "n", "n_low", "n_high"]
    assert frame["n"].tolist() == pytest.approx([row["n"] for row in rows])
    assert "95% intervals" in pd.read_excel(book, sheet_name="about", header=None).iloc[1, 1]
    assert "name a file with -o" in run("sql", tmp_path / "given.parquet", statement, "--format", "xlsx").err
    wrong = run("sql", tmp_path / "given.parquet", "SELECT avg(sex) FROM people")
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)
