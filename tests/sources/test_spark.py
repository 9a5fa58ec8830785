"""Rows that Spark holds: the counts of a file, whatever becomes of its tasks, and errors that quote nobody."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import crosstally as ct
from cli_runs import Ran, run
from crosstally.errors import SourceError
from crosstally.schema import Schema
from crosstally.sources import count, encode_rows
from crosstally.sources import spark as spark_source
from crosstally.sources.spark import SparkTable
from mixed_people import BOUNDED, DIVIDED, GROUPED, GROUPED_TABLES, ROWS, SCHEMA, TABLES, grouped
from reference_sources import count as plain_count

pytestmark = [
    pytest.mark.xdist_group("spark"),  # one session for the whole run
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),  # where a test calls it itself
]
KINDS = {"person": pa.int32(), "sex": pa.string(), "age": pa.decimal128(6, 3), "height": pa.float64()}
KINDS |= {"town": pa.string(), "children": pa.int16(), "born": pa.string()}
SEX = {"attributes": [{"name": "sex", "values": ["Female", "Male"], "outside": "other"}]}


def typed(value: Any, kind: pa.DataType) -> Any:
    return Decimal(str(value)) if value is not None and pa.types.is_decimal(kind) else value


def people_table() -> pa.Table:
    table = pa.table({n: pa.array([typed(row[n], kind) for row in ROWS], kind) for n, kind in KINDS.items()})
    return table.set_column(table.num_columns - 1, "born", pc.cast(table["born"], pa.date32()))


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Parquet files, so that there are several partitions."""
    folder, table = tmp_path_factory.mktemp("people"), people_table()
    for part in range(3):
        pyarrow.parquet.write_table(table.slice(part * 134, 134), folder / f"part-{part}.parquet")
    return folder


@pytest.fixture(scope="module")
def frame(spark: Any, people: Path) -> Any:
    return spark.read.parquet(str(people))


def counted(rows: Any, schema: dict[str, Any], tables: Any = TABLES) -> list[Any]:
    return [table.counts.tolist() for table in count(rows, Schema.from_dict(schema), tables)]


@pytest.mark.parametrize(
    ("schema", "named"), [(SCHEMA, "people"), (BOUNDED, "path"), (DIVIDED, "path")], ids=["rows", "units", "divided"]
)
def test_spark_gives_the_counts_of_the_file(frame: Any, people: Path, schema: dict[str, Any], named: str) -> None:
    expected = plain_count(ROWS, schema, TABLES)
    assert counted(people, schema) == expected
    assert counted(frame, schema) == expected
    frame.createOrReplaceTempView("people")
    assert counted(SparkTable(str(people) if named == "path" else named), schema) == expected


def test_spark_gives_the_groups_and_years_of_the_file(frame: Any) -> None:
    assert counted(frame, GROUPED, GROUPED_TABLES) == plain_count(*grouped(ROWS), GROUPED_TABLES)


@pytest.mark.parametrize("schema", [SCHEMA, BOUNDED, DIVIDED], ids=["rows", "units", "divided"])
def test_stages_count_the_rows_that_were_read_once(spark: Any, frame: Any, schema: dict[str, Any]) -> None:
    with closing(encode_rows(frame, Schema.from_dict(schema))) as encoded:
        for _ in range(2):
            assert [table.counts.tolist() for table in encoded.count(TABLES)] == plain_count(ROWS, schema, TABLES)
        assert spark.sparkContext._jsc.getPersistentRDDs().size() == 1
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0


READ: dict[str, Any] = {
    "crosstally-schema": 1,
    "attributes": [
        {"name": "town", "values": ["Zurich", "other towns"], "outside": "drop", "missing": True},
        {"name": "year", "values": ["1999", "2000"], "outside": "other", "missing": True},
        {"name": "moment", "values": ["2020-02-29T22:30:00+00:00", "-"], "outside": "other"},
    ],
    "unit": {"id": "who", "max_rows": 2},
    "reading": {
        "missing": ["n/a"],
        "columns": {
            "town": {"column": "Ort", "groups": {"Zurich": ["zürich", "ZH"], "other towns": ["Köln"]}, "trim": True},
            "year": {"column": "born.on", "date": {"into": "year"}},
            "who": {"trim": True, "ignore_case": True},
        },
    },
}


def test_a_steward_s_reading(spark: Any, tmp_path: Path) -> None:
    """Groups of spellings, dates, missing tokens, ids in several spellings, moments, a point in a name."""
    rows = 300
    moments = pa.array([1583015400, 1583015401], pa.timestamp("s", "UTC")).take(pa.array([i % 2 for i in range(rows)]))
    table = pa.table(
        {
            "who": [f" P{i % 90}" if i % 2 else f"p{i % 90} " for i in range(rows)],
            "Ort": [["ZH", " zürich", "Köln ", "n/a", "Bern", None][i % 6] for i in range(rows)],
            "born.on": [["1999-12-31", "2000-01-01", "1970-01-01", "n/a"][i % 4] for i in range(rows)],
            "moment": moments,
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet", row_group_size=100)
    tables = [(), ("town", "year"), ("moment",)]
    expected = counted(tmp_path / "p.parquet", READ, tables)
    assert 60 < expected[0] < 160
    found = spark.read.parquet(str(tmp_path / "p.parquet"))
    assert counted(found, READ, tables) == expected
    with pytest.raises(SourceError, match="the DataFrame has no column for 'town' among its 4"):
        counted(found.withColumnRenamed("Ort", "ORT"), READ, tables)  # to Spark it would be the same name


def test_a_worker_that_is_killed_changes_nothing(frame: Any, tmp_path: Path) -> None:
    mark = tmp_path / "killed"

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows, and the first time after some of them the process is gone."""
        for batch in batches:
            yield batch
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    fragile = SparkTable(frame.mapInArrow(dying, frame.schema), rows_are_units=True)
    for schema in (SCHEMA, BOUNDED):
        mark.unlink(missing_ok=True)
        assert counted(fragile, schema) == plain_count(ROWS, schema, TABLES)
        assert mark.exists()


def test_rows_of_a_unit_in_two_tasks_are_refused(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    together = spark_source._by_place
    monkeypatch.setattr(spark_source, "_by_place", lambda *given: together(*given).repartition(2))
    with pytest.raises(SourceError, match="Spark gave rows of one unit to several tasks"):
        counted(frame, BOUNDED)


def test_one_unit_more_or_less(spark: Any) -> None:
    """On a real shuffle; tests of the tasks alone try all small tables."""
    schema = {"attributes": [{"name": "a", "values": [0, 1, 2]}], "unit": {"id": "who", "max_rows": 2}}
    rows = (
        "SELECT cast(id % 7 AS string) who, id % 3 a FROM range(0, 90, 1, 3) UNION ALL SELECT {} , id % 3 FROM range(9)"
    )
    with_p, without = (
        SparkTable(spark.sql(rows.format(who)), rows_are_units=True) for who in ("'p'", "cast(NULL AS string)")
    )
    (more,), (less,) = (counted(each, schema, [("a",)]) for each in (with_p, without))
    assert sum(less) == 14
    assert [after - before >= 0 for after, before in zip(more, less, strict=True)] == [True] * 3
    assert sum(more) - sum(less) == 2


def failure(rows: Any, schema: dict[str, Any] = SEX) -> str:
    with pytest.raises(SourceError) as caught:
        counted(rows, schema, [("sex",)])
    assert caught.value.__context__ is None
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_errors_of_spark_quote_nobody(spark: Any, frame: Any, tmp_path: Path, capfd: Any) -> None:
    canary = frame.selectExpr("cast(concat('CANARY', person) AS int) AS sex")
    assert failure(canary) == (
        "cannot read the Spark table: a value does not fit what the query does with it (Spark's CAST_INVALID_INPUT)"
    )
    assert failure(SparkTable("CANARY.x")) == (
        "cannot read the Spark table: the query names a table that is not there (Spark's TABLE_OR_VIEW_NOT_FOUND)"
    )
    assert failure(SparkTable(str(tmp_path / "none"))).endswith("(Spark's PATH_NOT_FOUND)")
    (tmp_path / "_delta_log").mkdir()
    assert "is a table with a log, whose files hold rows that were deleted" in failure(SparkTable(str(tmp_path)))
    assert failure(frame.select("age")).startswith("the DataFrame has no column 'sex' among its 1;")
    assert "holds random functions" in failure(frame.where("rand() < 0.5"))
    refusing = {"attributes": [{"name": "sex", "values": ["Female", "Male"]}]}
    assert failure(frame, refusing).startswith("column 'sex' holds values, or missing values, that the schema does not")
    assert failure(frame.selectExpr("array('CANARY') AS sex")).startswith("column 'sex' must hold texts, numbers")

    def raising(batches: Any) -> Iterator[pa.RecordBatch]:
        raise ValueError("CANARY")
        yield

    assert "a Python worker failed" in failure(SparkTable(frame.mapInArrow(raising, "sex string"), rows_are_units=True))
    printed = capfd.readouterr()
    assert "CANARY" not in printed.out + printed.err
    for wrong in ("", None):
        with pytest.raises(SourceError, match="a Spark table must be named by a text"):
            SparkTable(wrong)


def test_a_session_of_our_own_encrypts_what_it_writes(spark: Any) -> None:
    configured = dict(spark.sparkContext.getConf().getAll())
    assert configured["spark.io.encryption.enabled"] == "true"
    assert configured["spark.log.level"] == "OFF"
    assert configured["spark.master"] == "local[2,2]"  # the machine's own configuration holds


# From the command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    Schema.from_dict(SEX).save(tmp_path / "people.schema.json")
    monkeypatch.chdir(tmp_path)
    assert run("ledger", "create", "people.ledger", "--schema", "people.schema.json", "--epsilon", 100).code == 0
    return tmp_path


def release(*arguments: str) -> Ran:
    return run("release", *arguments, "--schema", "people.schema.json", "--epsilon", "50", "--yes-epsilon")


def test_a_release_from_spark(folder: Path, frame: Any) -> None:
    frame.createOrReplaceTempView("people")
    ran = release("--spark", "people", "--ledger", "people.ledger", "-o", "people.parquet")
    assert (ran.code, ran.err.count("Traceback")) == (0, 0)
    females = sum(row["sex"] == "Female" for row in ROWS)
    table = ct.open_release("people.parquet").marginal("sex")
    assert abs(float(table.values[0]) - females) < 5  # at this epsilon off by 5 with probability below 1e-50
    again = ct.release(frame, Schema.from_dict(SEX), epsilon=50).marginal("sex")
    assert abs(float(again.values[0]) - females) < 5


def test_what_fails_spends_nothing(folder: Path, spark: Any, frame: Any) -> None:
    frame.selectExpr("array('CANARY') AS sex").createOrReplaceTempView("wrong")
    before = sorted(path.name for path in folder.iterdir())
    ran = release("--spark", "wrong", "--ledger", "people.ledger", "-o", "people.parquet")
    assert ran.code == 2
    assert ran.err.startswith("crosstally: column 'sex' must hold texts, numbers")
    assert sorted(path.name for path in folder.iterdir()) == before
    assert ct.Ledger.open("people.ledger").spent == 0


def test_a_table_has_no_name_to_go_by(folder: Path) -> None:
    assert "a Spark table has no name to go by: say --ledger FILE" in release("--spark", "x", "-o", "p.parquet").err
    assert "a Spark table has no name to go by: say -o FILE" in release("--spark", "x", "--ledger", "p.ledger").err
    assert "leave out SOURCE or --spark" in release("people.csv", "--spark", "x").err
    assert "leave out --spark or --query" in release("--query", "SELECT 1", "--spark", "x").err


def test_from_a_draft_to_a_check(folder: Path, people: Path, spark: Any) -> None:
    drafted = run("schema", "draft", "--spark", people, "-o", "drafted.json")
    assert drafted.code == 0, drafted.err
    assert f"Next: crosstally schema check --spark {people} drafted.json" in drafted.err
    assert {"sex", "town", "children"} <= set(Schema.load("drafted.json").names)
    checked = run("schema", "check", "--spark", people, "people.schema.json")
    assert (checked.code, "400" in checked.out) == (0, True)


MIXING = {
    "GlobalLimit": "SELECT * FROM three_people LIMIT 2",
    "Distinct": "SELECT * FROM sexes_of_people",
    "Aggregate": "SELECT sex, count(*) FROM three_people GROUP BY sex",
    "Window": "SELECT sex, sum(n) OVER () FROM three_people",
    "Join": "SELECT a.sex FROM three_people AS a JOIN three_people AS b ON a.n = b.n",
    "Union": "SELECT sex FROM three_people UNION ALL SELECT sex FROM three_people",
    "Generate": "SELECT explode(array(sex, sex)) AS sex FROM three_people",
    "a subquery": "SELECT sex FROM three_people WHERE n IN (SELECT max(n) FROM three_people)",
}


@pytest.fixture(scope="module")
def three(spark: Any) -> Any:
    rows = "VALUES ('Female', 1), ('Female', 2), ('Male', 3) AS given(sex, n)"
    spark.sql(f"CREATE TABLE three_people USING parquet AS SELECT * FROM {rows}")
    spark.sql("CREATE VIEW sexes_of_people AS SELECT DISTINCT sex FROM three_people")
    return spark.table("three_people")


def sexes(rows: Any) -> list[int]:
    return counted(rows, SEX, [("sex",)])[0][:2]


@pytest.mark.parametrize("what", MIXING)
def test_a_plan_that_mixes_rows_is_refused(spark: Any, three: Any, what: str) -> None:
    with pytest.raises(SourceError, match=f"has [A-Za-z ]*{what}"):
        sexes(spark.sql(MIXING[what]))


def test_a_mixed_plan_may_be_asserted_and_is_stated(spark: Any, three: Any, tmp_path: Path) -> None:
    for mixed in (three.dropDuplicates(["sex"]), three.mapInArrow(lambda batches: batches, three.schema)):
        with pytest.raises(SourceError, match="so that rows may depend on other rows"):
            sexes(mixed)
    assert sexes(three.where("n > 0").selectExpr("trim(sex) AS sex").orderBy("sex").repartition(2)) == [2, 1]
    with pytest.raises(SourceError, match="rows_are_units=True"):
        sexes(SparkTable("sexes_of_people"))
    asserted = ct.release(SparkTable("sexes_of_people", rows_are_units=True), Schema.from_dict(SEX), epsilon=1)
    assert asserted.statement.rows_are_units
    assert sexes(SparkTable(three.dropDuplicates(["sex"]), rows_are_units=True)) == [1, 1]
