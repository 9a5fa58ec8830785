"""A canary planted in the data appears in nothing that a user can print, log, catch or download."""

import csv
import json
import logging
import os
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import crosstally as ct
from crosstally.errors import SourceError
from crosstally.sources import count

CANARY = "CANARY"
FEMALES = 54_321  # an exact count that no noise of this size gives by chance: P(0) is below 1e-6
SCHEMA = {
    "unit": {"id": "person", "max_rows": 2},
    "attributes": [
        {"name": "sex", "values": ["Female", "Male"], "outside": "other"},
        {"name": "job", "values": ["cook", "nurse"], "outside": "drop"},
        {"name": "age", "edges": [0, 50, 100], "outside": "other", "missing": True},
    ],
}
EPSILON = "0.000001"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("canary")
    with (folder / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "sex", "job", "age", "name"])
        for i in range(FEMALES):
            writer.writerow([i, "Female", "cook", 20, "CANARY-NAME"])
        writer.writerow(["CANARY-ID", "CANARY-SEX", "nurse", "CANARY-AGE", ""])
        writer.writerow(["x", "Male", "CANARY-JOB", 70, ""])
    (folder / "people.schema.json").write_text(json.dumps(SCHEMA))
    refusing = {**SCHEMA, "attributes": [{**a, "outside": "refuse"} for a in SCHEMA["attributes"]]}
    (folder / "refusing.schema.json").write_text(json.dumps(refusing))
    (folder / "broken.csv").write_text('person,sex,job,age\n1,"CANARY-OPEN,cook,20\n2,CANARY-LONG,cook,1,2,3\n')
    (folder / "tmp").mkdir()
    return folder


def crosstally(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "COLUMNS": "200"}
    command = [str(Path(sys.executable).parent / "crosstally"), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def assert_clean(text: str) -> None:
    assert CANARY not in text
    assert str(FEMALES) not in text.replace(",", "").replace("_", "")


def test_the_command_line_shows_and_writes_no_canary(folder) -> None:
    commands = {
        "create": ["ledger", "create", "people.ledger", "--schema", "people.schema.json", "--epsilon", "1"],
        "plan": ["plan", "people.schema.json", "--rows", "1000", "--epsilon", EPSILON, "-o", "people.plan.json"],
        "release": ["release", "people.csv", "--plan", "people.plan.json", "--ledger", "people.ledger", "--key", "one"],
        "table": ["table", "people.release.parquet", "sex", "age", "--plot", "chart.svg"],
        "json": ["table", "people.release.parquet", "sex", "--format", "json"],
        "inspect": ["inspect", "people.release.parquet"],
        "show": ["ledger", "show", "people.ledger"],
        "verify": ["ledger", "verify", "people.ledger"],
        "export": ["ledger", "export", "people.ledger", "one", "-o", "again.release.parquet"],
    }
    for name, arguments in commands.items():
        done = crosstally(folder, *arguments)
        assert done.returncode == 0, (name, done.stderr)
        assert_clean(done.stdout + done.stderr)
    for arguments in (
        ["release", "people.csv", "--schema", "refusing.schema.json", "--epsilon", "1", "-o", "r.parquet"],
        ["release", "broken.csv", "--schema", "people.schema.json", "--epsilon", "1", "-o", "r.parquet"],
        ["release", "people.csv", "--schema", "people.csv", "--epsilon", "1", "-o", "r.parquet"],
        ["table", "people.csv", "sex"],
        ["ledger", "show", "people.csv"],
    ):
        done = crosstally(folder, *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert_clean(done.stdout + done.stderr)
    data = {"people.csv", "broken.csv"}
    written = [path for path in folder.rglob("*") if path.is_file() and path.name not in data]
    assert {"people.ledger", "people.release.parquet", "again.release.parquet", "chart.svg"} <= {
        p.name for p in written
    }
    for path in written:
        content = path.read_bytes()
        assert CANARY.encode() not in content, path
        assert np.int64(FEMALES).tobytes() not in content, path
        assert str(FEMALES).encode() not in content, path


def test_parquet_metadata_columns_and_statistics(folder) -> None:
    file = pq.ParquetFile(folder / "people.release.parquet")
    metadata = file.metadata
    assert_clean(str(metadata.metadata) + str(file.schema))
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            assert_clean(str(metadata.row_group(group).column(column)))
    table = file.read()
    for name in table.column_names:
        assert FEMALES not in table[name].to_pylist()
        assert not any(CANARY in str(value) for value in set(table[name].to_pylist()))


def test_errors_warnings_logs_and_reprs(folder, caplog) -> None:
    schema = ct.Schema.load(folder / "people.schema.json")
    refusing = ct.Schema.load(folder / "refusing.schema.json")
    shown = []
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        exact = count(folder / "people.csv", schema, [("sex",), ("sex", "job", "age"), ()])
        shown += [repr(exact), str(exact[0]), f"{exact[1]!r}"]
        for source, rules in (("people.csv", refusing), ("broken.csv", schema)):
            with pytest.raises(SourceError) as error:
                count(folder / source, rules, [("sex",)])
            shown.append("".join(traceback.format_exception(error.value)))
        release = ct.release(folder / "people.csv", schema, epsilon=EPSILON)
        shown += [repr(release), str(release.statement), repr(release.measurements), repr(release.estimate)]
        shown += [str(release.marginal("sex")), json.dumps(release.marginal("sex", "age").plot().to_dict())]
    shown += [str(warning.message) for warning in caught] + [caplog.text]
    for text in shown:
        assert_clean(text)
