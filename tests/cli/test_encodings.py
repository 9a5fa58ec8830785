"""Every command with stdout in encodings that cannot hold what it prints: nothing dies, JSON and CSV stay exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import crosstally
from cli_runs import run

ENCODINGS = ("ascii", "latin-1", "cp1252")
DRIVER = """
import json, sys
from crosstally.cli import main
for number, arguments in enumerate(json.load(open("commands.json", encoding="utf-8"))):
    sys.stdout.write(f"\\n@{number}\\n")
    sys.stdout.flush()
    sys.stderr.write(f"\\n@{number} {main(arguments)}\\n")
    sys.stdout.flush()
"""
SCHEMA = {
    "attributes": [
        {"name": "sex", "values": ["f", "m"]},
        {"name": "town", "values": ["Zürich", "東京", "Łódź"]},
    ]
}
HELP = (
    "",
    "demo",
    "schema",
    "schema draft",
    "schema check",
    "plan",
    "calibrate",
    "release",
    "ask",
    "ledger",
    "ledger create",
    "ledger show",
    "ledger verify",
    "ledger export",
    "collect",
    "collect plan",
    "collect report",
    "collect simulate",
    "collect release",
    "table",
    "serve",
    "inspect",
    "reproduce",
)
COMMANDS = {
    "version": "--version",
    "draft": "schema draft people.csv",
    "check": "schema check people.csv schema.json",
    "check json": "schema check people.csv schema.json --json",
    "plan": "plan schema.json --epsilon 1",
    "plan approximate": "plan schema.json --epsilon 1 --delta 1e-9 --rows 1000",
    "plan json": "plan schema.json --epsilon 1 --json",
    "create": "ledger create {name}.ledger --schema schema.json --epsilon 2",
    "release": "release people.csv --schema schema.json --epsilon 0.5 --strategy direct --ledger {name}.ledger "
    "--key first -o {name}.parquet",
    "ask": "ask people.csv --ledger {name}.ledger town=東京 --epsilon 0.1 --rows 6",
    "ask free": "ask --ledger {name}.ledger town=東京 --free --rows 6",
    "show": "ledger show {name}.ledger",
    "show json": "ledger show {name}.ledger --json",
    "verify": "ledger verify {name}.ledger",
    "export": "ledger export {name}.ledger first -o {name}.again.parquet",
    "inspect": "inspect given.parquet",
    "inspect json": "inspect given.parquet --json",
    "table": "table given.parquet town sex",
    "table level": "table given.parquet town",
    "table json": "table given.parquet town --format json",
    "table json-stat": "table given.parquet town --format json-stat",
    "table csv": "table given.parquet town --format csv",
    "table csv sex": "table given.parquet sex --format csv",
    "list": "reproduce --list",
    "collect plan": "collect plan schema.json --epsilon 1 --people 1000 -o {name}.protocol.json",
    "collect report": "collect report {name}.protocol.json row.json --store {name}.store --cap 2",
    "collect simulate": "collect simulate {name}.protocol.json people.csv -o {name}.reports",
    "collect release": "collect release {name}.protocol.json {name}.reports -o {name}.local.parquet",
    "wrong": "table given.parquet 東京",
    **{f"help {words}": f"{words} --help" for words in HELP},
}
FAIL = {"collect release": 2, "wrong": 2, "table csv": 2}
"""Too few reports, no such attribute, and labels that the encoding cannot hold."""
SAME = ("check json", "inspect json", "table json", "table json-stat", "draft")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six people in three towns, and a release about them."""
    place = tmp_path_factory.mktemp("towns")
    towns = ["Zürich", "東京", "Łódź"] * 2
    rows = [f"{sex},{town}\n" for sex, town in zip("fmfmfm", towns, strict=True)]
    (place / "people.csv").write_text("sex,town\n" + "".join(rows), encoding="utf-8")
    (place / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (place / "row.json").write_text(json.dumps({"sex": "f", "town": "東京"}), encoding="utf-8")
    schema, ledger = ("--schema", place / "schema.json"), place / "given.ledger"
    created = run("ledger", "create", ledger, *schema, "--epsilon", "1")
    assert created.code == 0, created.err
    output = ("-o", place / "given.parquet")
    made = run("release", place / "people.csv", *schema, "--epsilon", "1", "--ledger", ledger, *output)
    assert made.code == 0, made.err
    return place


@cache
def printed(folder: Path, encoding: str) -> dict[str, tuple[int, str, str]]:
    """How each command ended, and what it printed: all in one process, since starting one takes longest."""
    name = encoding.replace("-", "")
    given = [[word.format(name=name) for word in line.split()] for line in COMMANDS.values()]
    (folder / "commands.json").write_text(json.dumps(given), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(crosstally.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
        "PYTHONIOENCODING": encoding,
        "PYTHONUTF8": "0",
    }
    command = [sys.executable, "-c", DRIVER]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=600, check=False)
    out, err = ran.stdout.decode(encoding), ran.stderr.decode(encoding)
    assert ran.returncode == 0, err[-3000:]
    found, before = {}, 0
    for number, command_name in enumerate(COMMANDS):
        start, end = out.index(f"\n@{number}\n") + len(f"\n@{number}\n"), out.find(f"\n@{number + 1}\n")
        stop = err.index(f"\n@{number} ", before)
        after = err.index("\n", stop + 1)
        code = int(err[stop:after].split()[-1])
        found[command_name] = code, out[start : end if end >= 0 else None], err[before:stop].strip()
        before = after
    return found


@pytest.mark.parametrize("encoding", [*ENCODINGS, "utf-8"])
def test_every_command_ends_as_it_should(folder: Path, encoding: str) -> None:
    found = printed(folder, encoding)
    ended = {name: (code, err) for name, (code, _, err) in found.items() if code}
    expected = {name: code for name, code in FAIL.items() if encoding != "utf-8" or name != "table csv"}
    assert {name: code for name, (code, _) in ended.items()} == expected, ended
    assert all(err.count("\n") == 0 for _, err in ended.values())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_json_is_the_same_value(folder: Path, encoding: str) -> None:
    def values(name: str) -> list[Any]:
        return [json.loads(printed(folder, name)[command][1]) for command in SAME]

    assert values(encoding) == values("utf-8")
    assert "東京" in printed(folder, "utf-8")["table json"][1]
    assert "\\u6771\\u4eac" in printed(folder, encoding)["table json"][1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_csv_is_exact_or_refused(folder: Path, encoding: str) -> None:
    found = printed(folder, encoding)
    assert found["table csv sex"][1] == printed(folder, "utf-8")["table csv sex"][1]
    _, out, err = found["table csv"]
    assert out == ""
    assert "cannot hold these labels; write to a file with -o" in err


def test_words_are_spelled_and_columns_stay_aligned(folder: Path) -> None:
    found = printed(folder, "ascii")
    assert "epsilon = 1" in found["plan"][1]
    assert "epsilon = 0.5" in found["show"][1]
    lines = [line for line in found["table level"][1].splitlines() if "\\" in line]
    assert [line.split()[0] for line in lines] == ["Z\\xfcrich", "\\u6771\\u4eac", "\\u0141\\xf3d\\u017a"]
    assert len({len(line) for line in lines}) == 1
    assert all(" to " in line for line in lines)


def test_a_locale_of_plain_ascii(folder: Path) -> None:
    """As under cron: LC_ALL=C, where Python would otherwise turn to UTF-8 by itself."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(crosstally.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
    }
    environment.pop("PYTHONIOENCODING", None)
    code = "import sys; from crosstally.cli import main; sys.exit(main())"
    for line in ("table given.parquet town", "plan schema.json --epsilon 1", "table given.parquet 東京"):
        ran = subprocess.run(
            [sys.executable, "-c", code, *line.split()], cwd=folder, env=environment, capture_output=True, check=False
        )
        assert ran.returncode == (2 if "東京" in line else 0), ran.stderr
        assert (ran.stdout + ran.stderr).isascii()


def test_the_demo_in_ascii(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(crosstally.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
        "PYTHONIOENCODING": "ascii",
        "PYTHONUTF8": "0",
    }
    code = "import sys; from crosstally.cli import main; sys.exit(main(['demo']))"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    assert b"epsilon = 1" in ran.stdout
