"""Every number that a module names says where it comes from; and the script that looks for silent ones finds them."""

from __future__ import annotations

import runpy
from pathlib import Path

CONSTANTS = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "constants.py"))

SILENT = """\
from fractions import Fraction

ONE = 1
_HALF = Fraction(1, 2)
LEAST, _MOST = 2, 2**20
SIZES = {2: (10, ONE)}
GRID: tuple[float, ...] = (
    -0.5,
    0.5,
)
"""
EXPLAINED = '''\
# the line above
ONE = 1
TWO = 2  # the same line
THREE = 3
"""A docstring below."""
GRID = (
    0.5,  # a line within
)
'''
NO_NUMBERS = """\
NAME = "one"
FLAG = True
ROWS = (("a", 1), ("b", 2))
made = 3


def function():
    INSIDE = 4
    return INSIDE
"""


def test_every_constant_of_the_package_is_explained(capsys) -> None:
    assert CONSTANTS["main"](["--check"]) == 0, capsys.readouterr().out


def test_what_is_silent_is_found() -> None:
    assert CONSTANTS["unexplained"](SILENT) == [
        (3, "ONE"),
        (4, "_HALF"),
        (5, "LEAST, _MOST"),
        (6, "SIZES"),
        (7, "GRID"),
    ]
    assert CONSTANTS["unexplained"](EXPLAINED) == []
    assert CONSTANTS["unexplained"](NO_NUMBERS) == []


def test_a_comment_beside_the_constant_before_is_not_its_own() -> None:
    assert CONSTANTS["unexplained"]("ONE = 1  # said\nTWO = 2\n") == [(2, "TWO")]


def test_only_a_check_fails(tmp_path: Path, capsys) -> None:
    module = tmp_path / "module.py"
    module.write_text("ONE = 1\n", encoding="utf-8")
    assert CONSTANTS["main"]([str(tmp_path)]) == 0
    assert CONSTANTS["main"]([str(tmp_path), "--check"]) == 1
    assert f"{module}:1: ONE\n1 constants without a source\n" * 2 == capsys.readouterr().out
