"""Every call that the documentation shows is accepted by ``mypy --strict``: README, pages and doctests.

``typed_calls.py`` has the calls written out, with what users receive; here are those that stand in texts.
"""

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import crosstally as ct

ROOT = Path(__file__).parent.parent
SOURCES = [ROOT / "src", ROOT / "lab/src"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "lab/evidence").glob("*.md"))]
GIVEN = """\
from typing import Any
import crosstally as ct
rows: Any
frame: Any
row: dict[str, Any]
queries: list[list[float]]
schema: ct.Schema
notebook: ct.Notebook
release: ct.Release
"""  # what a page takes as given when it shows a call
WRONG = """\
import crosstally as ct
ct.relese("people.csv")
ct.Budget(epsilon=[1])
ct.Workload([1])
ct.Attribute("age", edges=["0", "18"])
"""


def said_by_mypy(folder: Path, programs: dict[str, str]) -> list[tuple[str, int, str]]:
    """The program, line and message of all that mypy says. The programs form the package that is checked strictly."""
    package = folder / "typed_calls"
    package.mkdir()
    for name, text in {"__init__": "", **programs}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(package)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said = [line.rpartition("typed_calls/")[2].split(":", 2) for line in done.stdout.splitlines()]
    return [(program.removesuffix(".py"), int(line), message.strip()) for program, line, message in said]


def blocks() -> Iterator[tuple[str, str]]:
    """Each block of Python on a page, by the page and a number."""
    for page in PAGES:
        found = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        whole = page.name == "analyst.md"  # a notebook: each cell goes on from those before
        for number, block in enumerate(["\n".join(found)] if whole else found):
            yield f"{page.stem.replace('-', '_').lower()}_{number}", GIVEN + block


def doctests() -> Iterator[tuple[str, str]]:
    """Each doctest, by the name of what it documents; it sees what its module has."""
    finder = doctest.DocTestFinder()
    for path in (path for source in SOURCES for path in sorted(source.rglob("*.py"))):
        if ">>>" not in path.read_text(encoding="utf-8"):
            continue
        name = path.as_posix().rpartition("src/")[2].removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        module = importlib.import_module(name)
        for test in finder.find(module, name):
            text = "".join(example.source for example in test.examples)
            own = set(re.findall(r"^(\w+) =", text, re.MULTILINE))
            seen = sorted((set(re.findall(r"\w+", text)) - own) & set(vars(module)))
            yield re.sub(r"\W", "_", test.name), "".join(imported(each, module) for each in seen) + text


def imported(name: str, module: ModuleType) -> str:
    """A line that imports what a module knows by a name from where it is at home."""
    found = getattr(module, name)
    if inspect.ismodule(found):
        return f"import {found.__name__} as {name}\n"
    home = found.__module__ if inspect.isclass(found) or inspect.isfunction(found) else module.__name__
    return f"from {home} import {name}\n"


def test_documented_calls_have_the_right_types_and_wrong_ones_do_not(tmp_path: Path) -> None:
    """One run of mypy for all of them, since it takes seconds."""
    shown, tried = dict(blocks()), dict(doctests())
    assert len(shown) >= 12
    assert len(tried) >= 60
    names = "import crosstally as ct\n" + "".join(f"reveal_type(ct.{name})\n" for name in ct.__all__)
    said = said_by_mypy(tmp_path, {**shown, **tried, "wrong": WRONG, "names": names})
    assert [line for program, line, message in said if program == "wrong" and "error" in message] == [2, 3, 4, 5, 5]
    revealed = [message for program, _, message in said if program == "names"]
    assert len(revealed) == len(ct.__all__)
    assert not [message for message in revealed if message.startswith("error") or message.endswith(' "Any"')]
    assert not [each for each in said if each[0] not in ("wrong", "names")]
