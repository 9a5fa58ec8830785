"""The package as a whole: its public names, what importing it loads, and that every name in the docs exists."""

import subprocess
import sys
import tomllib
from pathlib import Path

import crosstally as ct

ROOT = Path(__file__).parent.parent

PUBLIC = [
    "Attribute", "Budget", "CrosstallyError", "Ledger", "Marginal", "Measurement", "Neighbours", "Notebook", "Outside",
    "Plan", "Release", "Schema", "Statement", "Unit", "Workload", "count", "local", "open_notebook", "open_release",
    "plan", "release", "strategies", "total",
]  # fmt: skip


def test_public_names() -> None:
    assert sorted(ct.__all__) == PUBLIC
    assert all(getattr(ct, name) is not None for name in PUBLIC)
    assert dir(ct) == sorted([*PUBLIC, "__version__"])


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ct, "relese")


def test_no_module_bears_the_name_of_a_public_function() -> None:
    modules = {path.stem for path in (ROOT / "src/crosstally").glob("*.py")}
    assert not modules & {"release", "plan", "open_release"}


def test_the_version_is_the_same_everywhere() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == ct.__version__


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


HEAVY = {"numba", "scipy", "opendp", "pandas", "polars", "altair", "dp_accounting"}


def test_importing_loads_nothing_heavy() -> None:
    assert not loaded_by("import crosstally") & HEAVY


def test_neither_does_reading_and_planning() -> None:
    names = "; ".join(f"crosstally.{name}" for name in PUBLIC)
    assert not loaded_by(f"import crosstally; {names}") & HEAVY


def test_importing_is_fast() -> None:
    """At most 0.3 s of CPU more than a bare interpreter, the best of five (targets.md)."""
    code = "import time; start = time.process_time(); import crosstally; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    assert min(float(run.stdout) for run in runs) < 0.3


def test_only_the_noise_module_imports_opendp() -> None:
    sources = (ROOT / "src").rglob("*.py")
    found = [p.name for p in sources if any("import" in x and "opendp" in x for x in p.read_text().splitlines())]
    assert found == ["noise.py"]
