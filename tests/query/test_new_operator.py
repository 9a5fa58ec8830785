"""A new operator costs one file of ``query`` and one of ``residuals``: "every second value", added to a copy.

The copy then plans, measures, releases, saves and opens it; its counts, its sensitivity and the estimate are compared
with loops over rows and with dense least squares.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SOURCE = TESTS.parent / "src" / "crosstally"

PATCH = [
    (
        "query/operators.py",
        "def by_matrix(rows: Matrix) -> ByMatrix:\n",
        '''class EverySecond(ByMatrix):
    """The counts of the first value, the third and so on; no row moves more than one of them."""

    __slots__ = ()

    def l1(self, size: int) -> int:
        """A row is in one of the cells, or in none."""
        return 1

    l2_squared = l1

    def apply(self, counts: NDArray[Number], axis: int) -> NDArray[Number]:
        """These counts."""
        return counts.take(range(0, counts.shape[axis], 2), axis)


def every_second(size: int) -> Matrix:
    """Its matrix."""
    return tuple(tuple(int(i == j) for j in range(size)) for i in range(0, size, 2))


def by_matrix(rows: Matrix) -> ByMatrix:
''',
    ),
    (
        "query/operators.py",
        "    return ByMatrix(rows=rows, is_residual=_is_residual(rows))\n",
        """    if rows == every_second(len(rows[0])):
        return EverySecond(rows=rows)
    return ByMatrix(rows=rows, is_residual=_is_residual(rows))
""",
    ),
    (
        "query/operators.py",
        "    if len(matrix) < columns - 1:\n",
        "    if matrix == every_second(columns):\n        return matrix\n    if len(matrix) < columns - 1:\n",
    ),
    (
        "residuals/axes.py",
        "    inverse = np.linalg.inv(s.T @ s)\n",
        """    if rows < n:
        raise QueryError("every second value says nothing of the others: measure all values, too")
    inverse = np.linalg.inv(s.T @ s)
""",
    ),
    (
        "residuals/axes.py",
        "from crosstally.query.along import AskedAlong\n",
        "from crosstally.errors import QueryError\nfrom crosstally.query.along import AskedAlong\n",
    ),
]


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy in which the operator is."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(SOURCE, folder / "crosstally")
    for name, old, new in PATCH:
        file = folder / "crosstally" / name
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} must hold {old!r} once"
        file.write_text(text.replace(old, new), encoding="utf-8")
    return folder


def test_the_patch_touches_one_file_of_each() -> None:
    assert {name for name, _, _ in PATCH} == {"query/operators.py", "residuals/axes.py"}


@pytest.mark.parametrize("check", ["counts", "sensitivity", "json", "release", "alone"], ids=lambda name: name)
def test_it_is_counted_charged_combined_and_read_again(check: str, patched: Path, tmp_path: Path) -> None:
    program = TESTS / "query" / "every_second.py"
    path = os.pathsep.join(map(str, (patched, TESTS)))
    done = subprocess.run(
        [sys.executable, str(program), check, str(tmp_path / "saved.parquet")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [check, str(patched / "crosstally" / "__init__.py")]
