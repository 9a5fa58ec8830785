"""Help, version, exit codes, pipes, and what is loaded when."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import crosstally
from cli_runs import ran_well, run, write_people, write_schema
from crosstally.cli import plan as plan_command

ROOT = Path(crosstally.__file__).parents[2]
COMMANDS = (
    "demo",
    "schema draft",
    "schema check",
    "ledger create",
    "ledger show",
    "ledger verify",
    "ledger export",
    "plan",
    "release",
    "table",
    "serve",
    "inspect",
)
ANSI = re.compile(r"\x1b\[")


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    code = "import sys; from crosstally.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str) -> None:
    out = ran_well(*command.split(), "--help").out
    assert f"Usage: crosstally {command}" in out
    assert f" crosstally {command}" in out.split("Example")[1]


@pytest.mark.parametrize("command", ["reproduce", "schema draft", "schema review"])
def test_help_is_wrapped_once(command: str) -> None:
    """A line ends where the next word does not fit, and not also where the source's own line ends."""
    printed = python(*command.split(), "--help", env={**os.environ, "COLUMNS": "80"}).stdout
    for paragraph in re.split(r"\n\s*\n", printed.partition("╭")[0].strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        for line, following in pairwise(lines):
            assert len(line) + 1 + len(following.split()[0]) > 78, line


def test_no_command_is_a_request_for_help() -> None:
    assert "Usage: crosstally" in ran_well().out
    assert "Usage: crosstally schema" in ran_well("schema").out
    assert "Usage: crosstally ledger" in ran_well("ledger").out


def test_version() -> None:
    assert ran_well("--version").out == f"crosstally {crosstally.__version__}\n"


def test_the_package_runs_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "crosstally", "table", "no.parquet"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("crosstally: ")
    assert "no.parquet" in ran.stderr


def test_help_loads_nothing_heavy_and_is_quick() -> None:
    code = (
        "import sys; from crosstally.cli import main; main(['--help']); "
        "print([name for name in ('numba', 'scipy', 'pandas', 'altair', 'opendp', 'numpy', 'pyarrow')"
        " if name in sys.modules], file=sys.stderr)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr == "[]\n"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.6


def test_the_reference_is_up_to_date() -> None:
    """docs/reference/cli.md holds the --help of every command; make docs writes it."""
    code = "import sys; sys.path.insert(0, 'docs'); import cli_page; sys.stdout.write(cli_page.page())"
    ran = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == ran.stdout, "run make docs"
    assert [f"## crosstally {command}\n" in page for command in COMMANDS] == [True] * len(COMMANDS)
    assert not ANSI.search(page)


def test_what_nobody_foresaw_ends_without_its_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_schema(tmp_path / "s.json")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("4711 people in Zanzibar")

    monkeypatch.setattr(plan_command, "_show", broken)
    ran = run("plan", tmp_path / "s.json", "--epsilon", "1", "--tables", "sexe")
    assert ran.code == 3
    assert ran.err.startswith("crosstally: internal error in crosstally.cli.plan plan, nothing confidential is shown;")
    assert "4711" not in ran.err
    assert ran.err.count("\n") == 1
    monkeypatch.setenv("CROSSTALLY_DEBUG", "1")
    assert "4711 people in Zanzibar" in run("plan", tmp_path / "s.json", "--epsilon", "1", "--tables", "sexe").err


def test_a_chained_error_of_a_reader_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("sexe,âge\nZanzibar-4711\n", encoding="utf-8")
    write_schema(tmp_path / "s.json")
    ran = python("schema", "check", str(tmp_path / "bad.csv"), str(tmp_path / "s.json"))
    assert ran.returncode == 2
    assert "4711" not in ran.stderr
    assert ran.stderr.startswith("crosstally: ")
    assert ran.stderr.count("\n") == 1


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_schema(tmp_path / "s.json")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan_command, "_show", interrupted)
    ran = run("plan", tmp_path / "s.json", "--epsilon", "1", "--tables", "sexe")
    assert (ran.code, ran.err) == (130, "crosstally: stopped\n")


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    write_schema(tmp_path / "s.json")
    code = "import sys; from crosstally.cli import main; sys.exit(main())"
    arguments = ["plan", str(tmp_path / "s.json"), "--epsilon", "1", "--tables", "sexe"]
    command = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    assert command.stderr.read() == ""
    assert command.wait(60) == 128 + signal.SIGPIPE
    command.stderr.close()


def test_piped_output_has_no_codes_and_no_progress(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv")
    write_schema(tmp_path / "s.json")
    release = (
        "release",
        str(tmp_path / "people.csv"),
        "--schema",
        str(tmp_path / "s.json"),
        "--epsilon",
        "1",
        "--tables",
        "sexe,âge",
    )
    environment = {**os.environ, "TERM": "xterm-256color"}
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        environment.pop(name, None)
    for arguments in (release, ("table", str(tmp_path / "people.release.parquet"), "sexe", "âge")):
        ran = python(*arguments, env=environment)
        assert ran.returncode == 0, ran.stderr
        assert not ANSI.search(ran.stdout + ran.stderr)
        assert "\r" not in ran.stdout + ran.stderr
    assert "rows" not in ran.stderr
    assert all(line == line.rstrip() for line in ran.stdout.splitlines())
