"""Commands of another distribution: listed without it, loaded when called, and one line where that fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from cli_runs import run
from crosstally.cli import app, laboratory

Installs = Callable[[str], None]


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installs]:
    """Makes the command ``reproduce`` that of a module, of which only this test knows; of none until then."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda **given: [each for each in found if each.matches(**given)]
    )
    app._of_laboratory.cache_clear()
    yield lambda module: found.append(EntryPoint("reproduce", module, "crosstally.commands"))
    app._of_laboratory.cache_clear()


@pytest.mark.parametrize("name", laboratory.COMMANDS)
@pytest.mark.parametrize("option", ["--help", "--quick"])
@pytest.mark.usefixtures("installs")
def test_without_the_laboratory_one_line_says_how_to_install_it(name: str, option: str) -> None:
    ran = run(name, option)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"crosstally: the command {name} belongs to the laboratory, which is not installed: pip install crosstally-lab "
        "(in a copy of the repository: pip install ./lab)\n"
    )


@pytest.mark.usefixtures("installs")
def test_help_lists_its_commands_without_it() -> None:
    ran = run("--help")
    assert (ran.code, ran.err) == (0, "")
    assert all(f"│ {name} " in ran.out for name in laboratory.COMMANDS)


def test_help_imports_none_of_it() -> None:
    code = "import sys; from crosstally.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert " reproduce " in ran.stdout
    assert "crosstally.cli.laboratory" in ran.stderr.split()
    assert not [name for name in ran.stderr.split() if name.startswith("crosstally_lab")]


def test_a_command_runs_with_its_options_and_help(installs: Installs, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("a_laboratory")
    exec("def reproduce(*, number: int = 1) -> None:\n    'Count.'\n    print(number + 1)\n", vars(module))
    module.EXAMPLES = ("crosstally reproduce --number 3",)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_laboratory", module)
    installs("a_laboratory")
    assert (run("reproduce", "--number", "41").out, run("table", "--help").code) == ("42\n", 0)
    assert "Usage: crosstally reproduce" in run("reproduce", "-h").out
    assert "is not a number" in run("reproduce", "--number", "4_1").err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, "ModuleNotFoundError: No module named 'a_laboratory'"),
        ("EXAMPLES = ()", "AttributeError: "),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_one_that_cannot_be_loaded_costs_one_line(
    code: str | None, said: str, installs: Installs, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    if code is not None:
        (tmp_path / "a_laboratory.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "a_laboratory", raising=False)
    installs("a_laboratory")
    ran = run("reproduce", "--list")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(f"crosstally: the command reproduce of the laboratory cannot be loaded ({said}")
    assert run("--help").code == 0
