"""Comments of the hard rooms: they are counted right, and no room has fewer than three in 100 lines."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "comment_density.py"))

MODULE = '''"""A docstring
of two lines."""

# why
A = 1  # behind code
"""What A is."""
B = "# no comment"  # noqa: F401


def f():  # type: ignore[misc]
    """One line."""
    return "no docstring"
'''


def test_comments_and_docstrings_are_counted() -> None:
    """By hand: 12 lines, comments on lines 4 and 5, docstrings on lines 1, 2, 6 and 11."""
    found = SCRIPT["density"](MODULE)
    assert (found.lines, found.comments, found.docstrings) == (12, 2, 4)
    assert found.comments_in_100 == pytest.approx(100 / 6)
    assert found.words_in_100 == pytest.approx(50)


def test_too_few_comments_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One comment in 34 lines is below three in 100, one in 33 is not."""
    for lines, code in ((33, 0), (34, 1)):
        module = tmp_path / "module.py"
        module.write_text("# why\n" + "a = 1\n" * (lines - 1), encoding="utf-8")
        assert SCRIPT["main"](["--check", str(module)]) == code
        assert ("too few" in capsys.readouterr().out) is bool(code)


def test_every_hard_room_has_comments(capsys: pytest.CaptureFixture[str]) -> None:
    assert SCRIPT["main"](["--check"]) == 0, capsys.readouterr().out
