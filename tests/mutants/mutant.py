"""One planted fault, and a copy of the package in which it is planted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SOURCE", "TESTS", "Copy", "Mutant"]

TESTS = Path(__file__).resolve().parents[1]
SOURCE = TESTS.parent / "src" / "crosstally"

LONGEST = 600
"""Seconds for one test. The slowest takes about 20 on a loaded machine; a fault may make a search endless."""

FAILED = 1
"""How pytest ends where a test failed. Other codes say that it could not be run, and then it shows nothing."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place in a file of the package (``old`` occurs there once), and the test that must fail by it."""

    file: str
    old: str
    new: str
    test: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.old.split())}  ->  {' '.join(self.new.split())}"

    def applied(self, text: str) -> str:
        """The text of the file with the fault in it."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} must hold {self.old!r} once, and holds it {text.count(self.old)} times")
        return text.replace(self.old, self.new)


class Copy:
    """A copy of the package in a folder; tests of this repository run against it.

    Compiled kernels lie beside their sources and are copied with them. Numba compiles a changed file anew, but not
    the kernels of other files that call it: all kernels are compiled anew where one is changed.
    """

    def __init__(self, folder: Path) -> None:
        self._source = folder / "src"
        shutil.copytree(SOURCE, self._source / "crosstally")

    def test_fails(self, mutant: Mutant) -> bool:
        """Whether the test fails while the fault is planted."""
        file = self._source / "crosstally" / mutant.file
        original = SOURCE / mutant.file
        if file.parent.name == "kernels":
            shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
        file.write_text(mutant.applied(original.read_text(encoding="utf-8")), encoding="utf-8")
        try:
            code = self.run(mutant.test)
        finally:
            shutil.copy2(original, file)  # with its time: what was compiled of it is valid again
        if code not in {0, FAILED}:
            raise RuntimeError(f"pytest could not run {mutant.test} (it ended with {code})")
        return code == FAILED

    def run(self, *tests: str) -> int:
        """How pytest ends for some tests, all but those of ``make verify``."""
        # no byte code: a changed file may have the size, and in one second the time, of the one before
        changed = {"PYTHONPATH": str(self._source), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not verify"]
        done = subprocess.run(
            [*command, *(str(TESTS / test) for test in tests)],
            cwd=TESTS.parent,
            env={**os.environ, **changed},
            capture_output=True,
            timeout=LONGEST * len(tests),
            check=False,
        )
        return done.returncode
