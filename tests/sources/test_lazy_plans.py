"""Queries of DuckDB and Polars whose rows may depend on other rows are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import crosstally as ct
from crosstally.errors import SourceError
from crosstally.sources import count

SCHEMA = ct.Schema.from_dict({"attributes": [{"name": "sex", "values": ["F", "M"]}]})
UNITS = ct.Schema.from_dict({**SCHEMA.to_dict(), "unit": {"id": "person", "max_rows": 1}})
ROWS = {"person": [1, 1, 2], "sex": ["F", "F", "M"], "n": [1, 2, 3]}


def counts(rows: Any, schema: ct.Schema = SCHEMA) -> list[int]:
    return count(rows, schema, [("sex",)])[0].counts.tolist()


# DuckDB


@pytest.fixture
def connection() -> Iterator[Any]:
    with duckdb.connect() as made:
        made.execute(
            "CREATE TABLE people AS SELECT unnest([1, 1, 2]) AS person, unnest(['F', 'F', 'M']) AS sex, 3 AS n"
        )
        made.execute("CREATE TABLE vip AS SELECT 1 AS person, 'F' AS city, 3 AS n")
        yield made


RELATIONS = {
    "LIMIT": lambda made: made.table("people").limit(2),
    "DISTINCT": lambda made: made.table("people").distinct(),
    "GROUP": lambda made: made.table("people").aggregate("sex, count(*)", "sex"),
    "a window": lambda made: made.sql("SELECT sex, sum(n) OVER () AS s FROM people"),
    "a JOIN": lambda made: made.table("people").join(made.table("vip").set_alias("v"), "n"),
    "UNION": lambda made: made.table("people").union(made.table("people")),
    "a subquery": lambda made: made.sql("SELECT sex FROM people WHERE n IN (SELECT n FROM vip)"),
}


@pytest.mark.parametrize("what", RELATIONS)
def test_relations_that_mix_rows(connection: Any, what: str) -> None:
    with pytest.raises(SourceError, match=f"the DuckDB relation: the query has {what}"):
        counts(RELATIONS[what](connection))


def test_relations_of_single_rows(connection: Any, tmp_path: Path) -> None:
    people = connection.table("people")
    people.write_parquet(str(tmp_path / "people.parquet"))
    frame = pl.DataFrame(ROWS).to_arrow()
    kept = people.filter("n > 0 AND sex IN ('F', 'M')").project("person, upper(sex) AS sex")
    read = connection.read_parquet(str(tmp_path / "people.parquet"))
    for relation in (people, kept, read, connection.from_arrow(frame), connection.sql("SELECT * FROM frame")):
        assert counts(relation) == [2, 1]
    joined = "SELECT p.person, p.sex FROM people AS p JOIN vip AS v ON p.person = v.person"
    assert counts(connection.sql(joined), UNITS) == [1, 0]
    stated = ct.release(connection.sql(joined), UNITS, epsilon=1).statement
    assert stated.joins == {"vip": "unit"}


# Polars

LAZY = {
    "Slice": lambda frame: frame.head(2),
    "the first rows of a file": lambda frame: pl.scan_csv("people.csv", n_rows=1),
    "Distinct": lambda frame: frame.unique(),
    "GroupBy": lambda frame: frame.group_by("sex").agg(pl.len()),
    "Join": lambda frame: frame.join(frame, on="n"),
    "Union": lambda frame: pl.concat([frame, frame]),
    "Window": lambda frame: frame.with_columns(pl.col("n").sum().over("sex")),
    "Agg": lambda frame: frame.filter(pl.col("n") == pl.col("n").max()),
    "Len": lambda frame: frame.filter(pl.col("n") < pl.len()),
    "shift": lambda frame: frame.with_columns(pl.col("sex").shift()),
    "BooleanFunction.IsDuplicated": lambda frame: frame.filter(pl.col("person").is_duplicated()),
    "BooleanFunction.IsIn with": lambda frame: frame.filter(pl.col("n").is_in(pl.col("person").implode())),
    "a part that Polars does not show": lambda frame: frame.map_batches(lambda batch: batch),
}


@pytest.mark.parametrize("what", LAZY)
def test_lazy_frames_that_mix_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(ROWS).write_csv("people.csv")
    with pytest.raises(SourceError, match=f"the LazyFrame has {what}"):
        counts(LAZY[what](pl.LazyFrame(ROWS)))


def test_lazy_frames_of_single_rows(tmp_path: Path) -> None:
    frame = pl.LazyFrame(ROWS)
    pl.DataFrame(ROWS).write_parquet(tmp_path / "people.parquet")
    changed = frame.filter((pl.col("n") > 0) & pl.col("sex").is_in(["F", "M"])).with_columns(
        pl.when(pl.col("n") > 1).then(pl.col("sex")).otherwise(pl.lit("F")).str.to_uppercase().alias("sex")
    )
    for query in (frame, changed, frame.rename({"n": "k"}).drop("k"), pl.scan_parquet(tmp_path / "people.parquet")):
        assert counts(query) == [2, 1]
    assert counts(frame.head(2).collect()) == [2, 0]  # a table in memory says nothing
