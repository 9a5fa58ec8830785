"""What a command leaves behind or sends beside its output: core files, codes for terminals."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cli_runs import on_a_terminal, write_people, write_schema
from crosstally.cli import app
from crosstally.cli.interrupts import no_core_dumps


def test_no_core_file_can_be_written_while_a_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    seen: list[tuple[int, int]] = []

    def running(_: list[str]) -> int:
        seen.append(resource.getrlimit(resource.RLIMIT_CORE))
        return 0

    monkeypatch.setattr(app, "_run", running)
    assert app.main(["demo"]) == 0
    assert seen == [(0, before[1])]
    assert resource.getrlimit(resource.RLIMIT_CORE) == before


def test_a_crash_leaves_no_core_file(tmp_path: Path) -> None:
    """The limit is what the system goes by: with it a process that is aborted does not say that it dumped core."""
    script = "import os\nfrom crosstally.cli.interrupts import no_core_dumps\nwith no_core_dumps(): os.abort()"
    ended = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.DEVNULL)
    _, status = os.waitpid(ended.pid, 0)
    ended.returncode = status
    assert os.WIFSIGNALED(status)
    assert not os.WCOREDUMP(status)
    assert list(tmp_path.iterdir()) == []


def test_the_limit_is_put_back_when_a_command_fails() -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    with pytest.raises(ValueError, match="x"), no_core_dumps():
        raise ValueError("x")
    assert resource.getrlimit(resource.RLIMIT_CORE) == before


# Terminals


def sent(*arguments: object, **environment: str) -> bytes:
    """All that a command sends to a terminal."""
    own = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    if "NO_COLOR" not in environment:
        own.pop("NO_COLOR", None)
    code, shown = on_a_terminal(*arguments, environment=own)
    assert code in (0, 2)
    return shown


@pytest.mark.parametrize("what", ["help", "plan", "release"])
def test_no_color_sends_no_codes_at_all(what: str, tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv")
    write_schema(tmp_path / "people.schema.json")
    arguments: dict[str, list[object]] = {
        "help": ["release", "--help"],
        "plan": ["plan", tmp_path / "people.schema.json", "--epsilon", "1", "--tables", "sexe"],
        "release": [
            *("release", tmp_path / "people.csv", "--schema", tmp_path / "people.schema.json", "--epsilon", "1"),
            *("--tables", "sexe", "-o", tmp_path / "r.parquet"),
        ],
    }
    plain = sent(*arguments[what], NO_COLOR="1")
    assert plain.strip()
    assert b"\x1b" not in plain
    if what != "release":
        assert b"\x1b[" in sent(*arguments[what])
