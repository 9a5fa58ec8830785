"""Every file that a command writes is there whole or not at all, on a full disk too; a full stdout is one line."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import resource
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_runs import ran_well, run
from crosstally.cli.app import _command
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_file import Store
from ledgers import ledger_in, spend

FORMATS = Path(__file__).parent.parent / "formats"
RELEASE = FORMATS / "release-1-two-ways.parquet"
SOURCES = [Path(__file__).parents[2] / name for name in ("src", "lab/src")]
_ROOM = 8  # bytes that a file may have: no output is as short

# Words of options that name a file to write; what each command is called with before it.
_WRITES = ("--output", "--plot", "--kept")
OUTPUTS: dict[tuple[str, str], Callable[[Path], list[object]]] = {
    ("schema draft", "--output"): lambda at: [at / "p.csv"],
    ("plan", "--output"): lambda at: [at / "s.json", "--epsilon", "1"],
    ("part", "--output"): lambda at: [at / "p.csv", "--plan", at / "plan.json", "--share", "1/2"],
    ("release", "--output"): lambda at: [
        *(at / "p.csv", "--schema", at / "s.json", "--epsilon", "1"),
        *("--new-ledger", at / f"{secrets.token_hex(4)}.ledger"),
    ],
    ("ledger export", "--output"): lambda at: [at / "people.ledger", "paid"],
    ("collect plan", "--output"): lambda at: [at / "s.json", "--epsilon", "1", "--people", "10000", "--ways", "1"],
    ("collect tokens", "--output"): lambda at: [at / "tokens.json", "--number", "3"],
    ("collect simulate", "--output"): lambda at: [at / "protocol.json", at / "p.csv"],
    ("collect release", "--output"): lambda _: [FORMATS / "protocol-1.json", FORMATS / "reports-1.bin"],
    ("table", "--output"): lambda _: [RELEASE, "sex"],
    ("table", "--plot"): lambda _: [RELEASE, "sex"],
    ("sql", "--output"): lambda _: [RELEASE, "SELECT COUNT(*) FROM release"],
    ("synth", "--output"): lambda _: [RELEASE, "--rows", "50"],
    ("page", "--output"): lambda _: [RELEASE],
    ("statement", "--output"): lambda _: [RELEASE],
}
_ENDINGS = {
    ("table", "--output"): (".csv", ".json", ".px", ".parquet", ".xlsx"),
    ("table", "--plot"): (".svg", ".png", ".json"),
    ("sql", "--output"): (".csv", ".json", ".parquet", ".xlsx"),
    ("synth", "--output"): (".csv", ".parquet"),
    ("page", "--output"): (".html",),
    ("statement", "--output"): (".html", ".pdf", ".md", ".json"),
}


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for word, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{name} {word}".strip())
    if not getattr(command, "commands", {}):
        yield name, command


def test_every_output_is_here() -> None:
    found = {
        (name, word)
        for name, command in commands(_command())
        for option in command.params
        for word in option.opts
        if word in _WRITES or "to write" in (getattr(option, "help", None) or "")
        if word.startswith("--")
    }
    assert found == OUTPUTS.keys()


def test_there_is_one_writer() -> None:
    """No other call opens a file to write; those of the laboratory write into folders that go away again."""
    calls = {"write_text", "write_bytes", "write_csv", "write_table"}
    elsewhere = {"crosstally/platform_files.py"}
    elsewhere |= {
        "crosstally_lab/papers/peers.py",
        "crosstally_lab/audit/end_to_end.py",
        "crosstally_lab/audit/replay.py",
    }
    found = set()
    for path in (path for root in SOURCES for path in root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            text = {each.value for each in node.args if isinstance(each, ast.Constant)}
            on_path = node.func.attr in calls - {"write_csv", "write_table"}
            opened = node.func.attr == "open" and any(
                isinstance(mode, str) and mode[:1] in "wxa" for mode in text if mode
            )
            if on_path or opened:
                found.add(path.as_posix().rpartition("src/")[2])
    assert found == elsewhere


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("outputs")
    (at / "p.csv").write_text("sex\n" + "f\nm\n" * 50)
    (at / "s.json").write_text(json.dumps({"attributes": [{"name": "sex", "values": ["f", "m"]}]}))
    spend(ledger_in(at), "paid")
    ran_well("plan", at / "s.json", "--epsilon", "1", "--strategy", "direct", "--tables", "sex", "-o", at / "plan.json")
    collected = ["--epsilon", "1", "--people", "10000", "--ways", "1", "-o", at / "protocol.json"]
    ran_well("collect", "plan", at / "s.json", *collected)
    ran_well("collect", "plan", at / "s.json", *collected[:-1], at / "tokens.json", "--tokens")
    return at


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("name", "word", "ending"),
    [(*key, ending) for key in OUTPUTS for ending in _ENDINGS.get(key, (".parquet",))],
    ids=lambda each: str(each).strip("-."),
)
def test_a_full_disk_leaves_nothing_that_blocks_the_next_run(
    name: str, word: str, ending: str, place: Path, tmp_path: Path
) -> None:
    target = tmp_path / f"made{ending}"
    arguments = [*name.split(), *OUTPUTS[name, word](place), word, target]
    with full_disk():
        ran = run(*arguments)
    assert ran.code == 2, ran.err
    *_, said = ran.err.splitlines()
    assert said.startswith("crosstally: ")
    assert any(reason in said for reason in ("File too large", "file too large", "disk I/O error"))
    assert list(tmp_path.iterdir()) == []
    ran_well(*arguments)
    assert target.stat().st_size > _ROOM


def test_an_output_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "t.csv"
    target.write_text("old")
    with full_disk():
        assert run("table", RELEASE, "sex", "-o", target, "--force").code == 2
    assert target.read_text() == "old"
    target.chmod(0o640)
    (tmp_path / "link.csv").symlink_to(target)
    ran_well("table", RELEASE, "sex", "-o", tmp_path / "link.csv", "--force")
    assert target.read_text().startswith("sex,")
    assert target.stat().st_mode & 0o777 == 0o640
    assert {each.name for each in tmp_path.iterdir()} == {"t.csv", "link.csv"}


@pytest.mark.parametrize("words", [("table", RELEASE, "sex"), ("sql", RELEASE, "SELECT COUNT(*) FROM release")])
def test_a_full_stdout_is_one_line(words: tuple[object, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "crosstally", *map(str, words)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    said = "crosstally: cannot write to stdout or to a temporary file: No space left on device\n"
    assert (ran.returncode, ran.stderr) == (2, said)


def test_a_read_only_ledger_is_shown_and_verified(tmp_path: Path) -> None:
    """Modes bind root here too: what cannot be written by its mode is opened so that SQLite cannot write to it."""
    made = ledger_in(tmp_path)
    spend(made, "paid")
    path, last = tmp_path / "people.ledger", made.anchor
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        anchor = ran_well("ledger", "anchor", path).out.strip()
        assert anchor == last
        assert "paid" in ran_well("ledger", "show", path).out
        ran_well("ledger", "verify", path, "--anchor", anchor)
        store = Store.open(path, read_only=True)
        with store.reading() as connection, pytest.raises(Exception, match="readonly"):
            connection.execute("UPDATE head SET number = 7")
        with store.reading():
            assert os.listdir(tmp_path) == ["people.ledger"]  # noqa: PTH208
        refused = run("ledger", "raise", path, "--epsilon", "99")
        assert (refused.code, "the file is read-only" in refused.err) == (2, True)
    finally:
        tmp_path.chmod(0o755)
    path.chmod(0o644)
    assert Ledger.open(path).anchor == last


def test_a_title_before_the_names_is_told(tmp_path: Path) -> None:
    """Its line is named, and nothing of it is quoted."""
    import pandas as pd

    rows = [["Survey of Bern", None], [None, None], ["sex", "age"], ["f", 30], ["m", 40]]
    (tmp_path / "s.json").write_text(json.dumps({"attributes": [{"name": "sex", "values": ["f", "m"]}]}))
    (tmp_path / "p.csv").write_text("Survey of Bern\nof 2024\nsex,age\nf,30\nm,40\n")
    pd.DataFrame(rows).to_excel(tmp_path / "p.xlsx", index=False, header=False)
    for name in ("p.csv", "p.xlsx"):
        ran = run("schema", "check", tmp_path / name, tmp_path / "s.json")
        assert ran.code == 2
        assert "has its names in line 3, after a title: say --header 3 (in Python: Reading(header=3))" in ran.err
        assert "Bern" not in ran.err
        assert ran_well("schema", "check", tmp_path / name, tmp_path / "s.json", "--header", "3").code == 0
