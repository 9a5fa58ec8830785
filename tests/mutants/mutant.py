"""One planted fault, and a copy of the package in which it is planted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SOURCE", "TESTS", "Copy", "Drawn", "Mutant"]

TESTS = Path(__file__).resolve().parents[1]
SOURCE = TESTS.parent / "src" / "crosstally"

LONGEST = 600
"""Seconds for one test. The slowest takes about 20 on a loaded machine; a fault may make a search endless."""


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


@dataclass(frozen=True, slots=True)
class Drawn:
    """One operator, from ``start`` to ``end`` in the text of a file, and what stands there instead."""

    file: str
    start: int
    end: int
    new: str

    def __str__(self) -> str:
        text = (SOURCE / self.file).read_text(encoding="utf-8")
        line = text.count("\n", 0, self.start)
        old, new = (each.splitlines()[line].strip() for each in (text, self.applied(text)))
        return f"{self.file}:{line + 1}  {old}  ->  {new}"

    def applied(self, text: str) -> str:
        """The text of the file with the fault in it."""
        return text[: self.start] + self.new + text[self.end :]


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
        return bool(self.first_failure(mutant, mutant.test))

    def first_failure(self, mutant: Mutant | Drawn, *tests: str) -> str | None:
        """The first test that fails while the fault is planted, None where all pass."""
        file = self._source / "crosstally" / mutant.file
        original = SOURCE / mutant.file
        if file.parent.name == "kernels":
            shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
        file.write_text(mutant.applied(original.read_text(encoding="utf-8")), encoding="utf-8")
        try:
            code, printed = self.run(*tests)
        finally:
            shutil.copy2(original, file)  # with its time: what was compiled of it is valid again
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, re.MULTILINE)
        if failed is None and code != 0:
            raise RuntimeError(f"pytest could not run {', '.join(tests)} (it ended with {code})")
        return failed[1] if failed else None

    def run(self, *tests: str) -> tuple[int, str]:
        """How pytest ends for some tests, all but those of ``make verify``, and what it prints."""
        # no byte code: a changed file may have the size, and in one second the time, of the one before
        changed = {"PYTHONPATH": str(self._source), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not verify"]
        done = subprocess.run(
            [*command, *(str(TESTS / test) for test in tests)],
            cwd=TESTS.parent,
            env={**os.environ, **changed},
            capture_output=True,
            text=True,
            timeout=LONGEST * len(tests),
            check=False,
        )
        return done.returncode, done.stdout
