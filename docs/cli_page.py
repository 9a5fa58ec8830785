"""Writes docs/reference/cli.md: the ``--help`` of every command, as it looks on a terminal of 100 columns."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.update(COLUMNS="100", TERMINAL_WIDTH="100", NO_COLOR="1", _TYPER_FORCE_DISABLE_TERMINAL="1")

import typer.main

from crosstally.cli.app import app, main
from crosstally.cli.laboratory import COMMANDS as OF_LABORATORY

PAGE = Path(__file__).parent / "reference" / "cli.md"
HEAD = """# Command line

Commands write data to stdout and messages for people to stderr.

| exit code | meaning |
| --- | --- |
| 0 | the command is done |
| 1 | a check that you asked for failed |
| 2 | the input was wrong: one line on stderr says what, and nothing is spent |
| 3 | crosstally itself made a mistake |
| 130 | Ctrl-C stopped the command |

Ctrl-C before the charge stops the command, and nothing is spent. After the charge the command finishes, delivers
what was paid for, and exits with 0. Commands respect `NO_COLOR`, show progress only on a terminal, and offer `--json`
wherever a program may read the output. If stdout is not UTF-8, characters that its encoding lacks are spelled out
(epsilon, +-) or escaped; in JSON they are escaped as JSON escapes them. CSV with such labels is refused: write it
with `-o`, as UTF-8.

`calibrate`, `compare`, `reproduce` and `audit` belong to the laboratory, which is installed apart
(`pip install ./lab`); each has a `--help` of its own.

This page is written by `make docs`.
"""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every command of the product, groups before what is in them."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        if name not in OF_LABORATORY:
            yield from commands(inner, (*path, name))


def help_text(path: tuple[str, ...]) -> str:
    """What ``--help`` prints, without blanks at the ends of lines."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        main([*path, "--help"])
    return "\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines()).strip("\n")


def page() -> str:
    """The whole page."""
    paths = commands(typer.main.get_command(app))
    parts = (f"## {' '.join(('crosstally', *path))}\n\n```text\n{help_text(path)}\n```\n" for path in paths)
    return "\n".join([HEAD, *parts])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
