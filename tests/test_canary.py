"""A canary planted in the data appears in nothing that a user can print, log, catch or download."""

import contextlib
import csv
import io
import json
import logging
import os
import re
import stat
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crosstally as ct
from cli_runs import on_a_terminal
from crosstally.cli import main
from crosstally.errors import CrosstallyError, SourceError
from crosstally.sources import check, count, draft

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


# Files that are not what they should be

HEADER = b"person,sex,job,age\n"
PERSON = b"CANARY-ID,CANARY-SEX,CANARY-JOB,CANARY-AGE\n"
MALFORMED = {
    "no header": PERSON + b"2,Female,cook,20\n",
    "no header, near the names": b"CANARY,Sex,jobs,ages\n" + PERSON,
    "no header, values twice": b"CANARY,CANARY,CANARY-B,CANARY-B\n" + PERSON,
    "a name in the header": HEADER.replace(b"job", b"CANARY-JOB") + PERSON,
    "more fields": HEADER + PERSON.strip() + b",CANARY-MORE\n",
    "fewer fields": HEADER + b"CANARY-ID,CANARY-SEX\n",
    "an open quote": HEADER + b'CANARY-ID,"CANARY-SEX,cook,20\n' + PERSON,
    "a quote within": HEADER + b'CANARY-ID,CAN"ARY-SEX,"CANARY"-JOB,20,CANARY\n' + PERSON,
    "a quote in the header": b'"CANARY-ID,sex,job,age\n' + PERSON,
    "not UTF-8": HEADER + b"CANARY-ID,CANARY-\xff\xfe,cook,20\n",
    "not UTF-8 in the header": b"CANARY-\xff,sex,job,age\n" + PERSON,
    "UTF-16 cut short": "person,sex,job,age\nCANARY-ID,CANARY-SEX,cook,20\n".encode("utf-16")[:-1],
    "UTF-32 with too large a letter": "person,sex,job,age\nCANARY-ID,".encode("utf-32") + b"\xff" * 4,
    "a null byte": HEADER + b"CANARY\x00,Female,cook,20,CANARY\n",
}


def everything_in(error: BaseException) -> str:
    """All that an error and those that follow it show: text, arguments, notes and traceback."""
    shown, each = "".join(traceback.format_exception(error)), error
    while each is not None:
        shown += f"{each!s}{each!r}{each.args!r}{vars(each)!r}{getattr(each, '__notes__', ())!r}"
        each = each.__cause__ or each.__context__
    return shown.replace("\0", "")


def error_of(work: Callable[[], object]) -> CrosstallyError | None:
    try:
        work()
    except CrosstallyError as error:
        return error
    return None


@pytest.mark.parametrize("name", MALFORMED)
def test_no_error_about_a_file_quotes_it(name, folder, tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(MALFORMED[name])
    schema = ct.Schema.load(folder / "refusing.schema.json")
    ledger = ct.Ledger.in_memory(schema=schema, budget=ct.Budget(epsilon=1))
    works = {
        "count": lambda: count(path, schema, [("sex",)]),
        "release": lambda: ct.release(path, schema, epsilon=1),
        "ask": lambda: ct.Notebook(ledger).ask(path, "sex = Female", epsilon=1),
        "check": lambda: check(path, schema),  # a report of what does not fit, where the file can be read
        "draft": lambda: draft(path),
    }
    errors = {doing: error_of(work) for doing, work in works.items()}
    assert all(errors[doing] for doing in ("count", "release", "ask"))
    for error in filter(None, errors.values()):
        assert error.__context__ is None
        assert_clean(everything_in(error))
    assert not ledger.entries()


@pytest.mark.parametrize("name", MALFORMED)
def test_no_command_prints_what_is_wrong_with_a_file_by_quoting_it(name, folder, tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(MALFORMED[name])
    schema = str(folder / "refusing.schema.json")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert (
            main(["release", str(path), "--schema", schema, "--epsilon", "1", "-o", str(tmp_path / "r.parquet")]) == 2
        )
        code = main(["schema", "check", "--quiet", str(path), schema])
    assert code in (1, 2)
    assert err.getvalue().count("\n") == 2
    assert_clean((out.getvalue() + err.getvalue()).replace("\0", ""))
    assert [each.name for each in tmp_path.iterdir()] == ["people.csv"]


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table], ids=["pandas", "arrow"])
def test_no_error_about_a_frame_quotes_its_names(make, folder) -> None:
    schema = ct.Schema.load(folder / "people.schema.json")
    frame = make({"CANARY-ID": ["2"], "sexe": ["CANARY"], "jobs": ["cook"]})
    with pytest.raises(SourceError) as error:
        ct.release(frame, schema, epsilon=1)
    assert_clean(everything_in(error.value))
    assert "sexe" not in str(error.value)


def errors_on_a_terminal(folder: Path, *arguments: str) -> tuple[int, str]:
    """How a command ends and what it shows on a terminal beside its results."""
    # A bar is drawn ten times a second: what it is told in between is drawn at once here, so that nothing is missed.
    draw_all = "import rich.progress as p; u = p.Progress.update; "
    draw_all += "p.Progress.update = lambda bar, task, **told: u(bar, task, refresh=True, **told); "
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    code, shown = on_a_terminal(
        *arguments, environment=environment, first=draw_all, folder=folder, stdout=subprocess.DEVNULL
    )
    return code, shown.decode()


def test_progress_shows_bytes_and_no_number_of_rows(folder, tmp_path) -> None:
    ledger, output = str(tmp_path / "people.ledger"), str(tmp_path / "people.parquet")
    ct.Ledger.create(ledger, schema=ct.Schema.load(folder / "people.schema.json"), budget=ct.Budget(epsilon=1))
    options = ("--schema", "people.schema.json", "--epsilon", EPSILON, "--strategy", "direct", "--no-units")
    code, shown = errors_on_a_terminal(folder, "release", "people.csv", *options, "--ledger", ledger, "-o", output)
    assert code == 0, shown
    size = (folder / "people.csv").stat().st_size
    assert f"{size / 1e6:.1f} MB of {size / 1e6:.1f} MB" in shown
    with (folder / "people.csv").open("rb") as file:
        rows = sum(1 for _ in file) - 1
    assert str(rows) not in shown.replace(",", "")
    assert not re.search("[0-9] rows", shown)
    assert_clean(shown)


def test_a_draft_is_for_the_owner_alone(folder, tmp_path) -> None:
    """From its creation: no moment at which others could open it, whatever the umask."""
    people = str(folder / "people.csv")
    (tmp_path / "known.json").write_text("{}")
    before = os.umask(0)
    try:
        for name in ("new.json", "known.json"):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                assert main(["schema", "draft", people, "-o", str(tmp_path / name), "--force"]) == 0
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
            assert "no other user of this machine may read it" in err.getvalue()
            assert CANARY in (tmp_path / name).read_text()
        drafted = ct.Schema.load(tmp_path / "new.json")
        ct.plan(drafted, epsilon=1, strategy="uniform").chosen.save(tmp_path / "plan.json")
        assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == 0o600
        ct.Schema(drafted.attributes[:1]).save(tmp_path / "public.json")
        assert stat.S_IMODE((tmp_path / "public.json").stat().st_mode) == 0o666
    finally:
        os.umask(before)
    assert len(list(tmp_path.iterdir())) == 4
