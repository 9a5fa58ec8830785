"""Rows of a database server and of Spark, replayed on neighbours by part four of the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import crosstally as ct
from crosstally.budget import Budget, Neighbours
from crosstally_lab.audit.replay import LOOSE, Rows, pairs_of, released, replay_finding, table_of

EPSILON = Budget(epsilon=1)


@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("of", LOOSE)
def test_rows_of_spark(of: str, spark: Any) -> None:
    def opened(rows: Rows, _: Path) -> Any:
        return spark.createDataFrame(table_of(rows).to_pylist() or [], schema="id bigint, sex string, age bigint")

    run = released(opened, LOOSE[of], EPSILON, strategy="direct")
    found = replay_finding("spark", run, pairs_of(LOOSE[of], Neighbours.ADD_REMOVE)[:2])
    assert (found.broken, found.holds) == ("", True)
    assert found.exact > 0


@pytest.mark.parametrize("of", LOOSE)
def test_rows_of_postgresql(of: str, postgres_url: str) -> None:
    import adbc_driver_postgresql.dbapi as driver

    def opened(rows: Rows, _: Path) -> ct.Database:
        with driver.connect(postgres_url) as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS replayed")
            cursor.execute("CREATE TABLE replayed (id bigint, sex text, age bigint)")
            cursor.adbc_ingest("replayed", table_of(rows), mode="append")
            connection.commit()
        return ct.Database(url=postgres_url, query="SELECT id, sex, age FROM replayed")

    found = replay_finding(
        "postgresql", released(opened, LOOSE[of], EPSILON), pairs_of(LOOSE[of], Neighbours.ADD_REMOVE)[:2]
    )
    assert (found.broken, found.holds) == ("", True)
    assert found.exact > 0
