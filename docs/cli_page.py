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

PAGE = Path(__file__).parent / "reference" / "cli.md"
HEAD = """# Command line

Data goes to stdout, words for people to stderr. Exit codes: 0 done, 1 a check that was asked for failed, 2 the input
was wrong (one line on stderr says what, and nothing is spent), 3 a mistake of crosstally's own, 130 stopped by Ctrl-C.
Ctrl-C before the charge spends nothing; what is charged is finished and delivered, and ends with 0.
`NO_COLOR` is respected, progress is shown only on a terminal, `--json` is there wherever a program may read.
Where stdout is not UTF-8, what its encoding cannot hold is spelled out (epsilon, +-) or escaped, JSON is escaped as
JSON is, and CSV with such labels is refused: `-o` writes it as UTF-8.

This page is written by `make docs`.
"""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every command, groups before what is in them."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
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
