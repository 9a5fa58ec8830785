"""Runs of the command line inside the test process, and a small private table to run it on."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crosstally.cli import main

QUESTIONS = tuple(f"q{i}" for i in range(1, 38))
NAMES = ("sexe", "âge", "région", *QUESTIONS)
REGIONS = ("Île-de-France", "Côte d'Azur", "")

# 12 people: 4 women and 8 men; ages 10, 30 and 50 in turn; regions by turns of two, each third one missing.
AGE_BY_SEX = {("Femme", "[0, 18)"): 4, ("Homme", "[18, 40)"): 4, ("Homme", "[40, 99]"): 4}
SCHEMA = {
    "attributes": [
        {"name": "sexe", "values": ["Femme", "Homme"]},
        {"name": "âge", "edges": [0, 18, 40, 99]},
        {"name": "région", "values": ["Côte d'Azur", "Île-de-France"], "missing": True},
        *({"name": name, "values": ["non", "oui"]} for name in QUESTIONS),
    ]
}

# At ε = 40 for two tables a cell is wrong with probability 2 e^-20 / (1 - e^-20) < 5e-9: counts can be asserted.
PLANNED = ("--epsilon", "40", "--tables", "sexe,âge", "--tables", "région", "--strategy", "direct-uniform")
EXACT = ("--yes-epsilon", *PLANNED)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


def run(*arguments: object) -> Ran:
    """Run a command; neither stdout nor stderr is a terminal."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


def ran_well(*arguments: object) -> Ran:
    """Run a command that must succeed."""
    ran = run(*arguments)
    assert ran.code == 0, ran.err
    return ran


def on_a_terminal(
    *arguments: object,
    environment: Mapping[str, str],
    first: str = "",
    folder: Path | None = None,
    stdout: int | None = None,
) -> tuple[int, bytes]:
    """How a command ends and what it shows on a terminal, progress from the first moment included.

    ``first`` is Python that runs before it; ``stdout`` is where results go, where that is not the terminal.
    """
    import pty  # not on every system

    show_at_once = "import sys, crosstally.cli.output.screen as s; s._PATIENCE = 0; from crosstally.cli import main; "
    code = show_at_once + first + "sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    mine, theirs = pty.openpty()
    out = theirs if stdout is None else stdout
    started = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error on Linux
        while part := os.read(mine, 65_536):
            shown += part
    os.close(mine)
    return started.wait(60), shown


def write_small_schema(folder: Path) -> Path:
    """A schema of two sexes and three ages, in a file."""
    ages = {"name": "age", "edges": [0, 18, 40, 99]}
    path = folder / "s.json"
    path.write_text(json.dumps({"attributes": [{"name": "sex", "values": ["f", "m"]}, ages]}))
    return path


def write_people(path: Path) -> None:
    """Twelve people with accents and missing values, forty attributes."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        for i in range(12):
            sex, age = ("Femme", 10) if i % 3 == 0 else ("Homme", 30 if i % 3 == 1 else 50)
            writer.writerow([sex, age, REGIONS[i // 4], *("oui" if i < j else "non" for j, _ in enumerate(QUESTIONS))])


def write_schema(path: Path, **fields: object) -> None:
    """The reviewed schema of those people."""
    path.write_text(json.dumps({**fields, **SCHEMA}, ensure_ascii=False), encoding="utf-8")
