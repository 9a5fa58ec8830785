"""The package as a whole: its public names, what importing it loads, and that every name in the docs exists."""

import inspect
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from shutil import copy

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import crosstally as ct

ROOT = Path(__file__).parent.parent

PUBLIC = [
    "Attribute", "Budget", "CrosstallyError", "Database", "Ledger", "Marginal", "Neighbours", "Notebook", "Plan",
    "Release", "Schema", "SparkTable", "Unit", "Workload", "analysis", "count", "errors", "local", "open_notebook",
    "open_release", "plan", "release", "sources", "strategies", "total",
]  # fmt: skip


def test_public_names() -> None:
    assert sorted(ct.__all__) == PUBLIC
    assert all(getattr(ct, name) is not None for name in PUBLIC)
    assert dir(ct) == sorted([*PUBLIC, "__version__"])


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ct, "relese")


def test_no_module_bears_the_name_of_a_public_function() -> None:
    """Importing such a child would put the module where the function stands."""
    children = {path.stem for path in (ROOT / "src/crosstally").iterdir()}
    functions = {name for name in PUBLIC if inspect.isfunction(getattr(ct, name))}
    assert functions == {"count", "open_notebook", "open_release", "plan", "release", "total"}
    assert not children & functions


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "crosstally.__version__"}
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", ct.__version__)  # .dev: unreleased


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
    """At most 0.3 s of CPU more than a bare interpreter, the best of five."""
    code = "import time; start = time.process_time(); import crosstally; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    assert min(float(run.stdout) for run in runs) < 0.3


def test_only_the_noise_module_imports_opendp() -> None:
    """A program that other Pythons run is no module of the laboratory."""
    both = (path for root in ("src", "lab/src") for path in (ROOT / root).rglob("*.py"))
    sources = (path for path in both if path.parent.name != "elsewhere")
    found = [p.name for p in sources if any("import" in x and "opendp" in x for x in p.read_text().splitlines())]
    assert found == ["noise.py"]


# The source distribution and what surrounds the code


def kept(folder: Path = ROOT) -> set[str]:
    """The files of the repository: all that .gitignore does not name. In an unpacked distribution there is no git."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()]
    ignored += [".git", "PKG-INFO", "setup.cfg"]  # the last two are made by the distribution
    out = set()
    for found, folders, files in os.walk(folder):
        where = Path(found).relative_to(folder)

        def stays(name: str, where: Path = where) -> bool:
            return not any(fnmatch(name, each) or fnmatch(str(where / name), each) for each in ignored)

        folders[:] = filter(stays, folders)
        out |= {str(where / name) for name in filter(stays, files)}
    return out


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from a copy of the repository and unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    for name in kept():
        target = folder / "copy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, target)
    code = "from setuptools import build_meta; build_meta.build_sdist('..')"
    subprocess.run([sys.executable, "-c", code], cwd=folder / "copy", capture_output=True, text=True, check=True)
    with tarfile.open(folder / f"crosstally-{ct.__version__}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"crosstally-{ct.__version__}"


def test_the_source_distribution_holds_the_repository(unpacked: Path) -> None:
    assert kept(unpacked) == kept()
    assert {"docs/index.md", "tests/test_package.py", "lab/benchmarks/peers.txt", ".importlinter"} <= kept()


def test_the_source_distribution_passes_tests_of_its_own(unpacked: Path) -> None:
    files = ["tests/test_workload.py", "tests/test_budget.py", "src/crosstally/schema/schema.py"]
    code = "import pytest, crosstally, sys; print(crosstally.__file__); sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", *files],
        cwd=unpacked,
        env={**os.environ, "PYTHONPATH": str(unpacked / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(str(unpacked)), done.stdout
    assert done.returncode == 0, done.stdout


def wheel_of(folder: Path, into: Path) -> set[str]:
    """The files in the wheel that a folder's project makes."""
    into.mkdir()
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(into)]
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    (wheel,) = into.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_no_experiment_no_peer_and_no_audit(unpacked: Path, tmp_path: Path) -> None:
    """They are in the wheel of the laboratory, with the programs that other Pythons run."""
    product, laboratory = wheel_of(unpacked, tmp_path / "one"), wheel_of(unpacked / "lab", tmp_path / "other")
    source = unpacked / "src/crosstally"
    own = {f"crosstally/{path.relative_to(source).as_posix()}" for path in source.rglob("*.py")}
    assert own == {name for name in product if name.endswith(".py")}
    assert not any(re.search(r"crosstally_lab|papers|peers|audit|benchmarks|test", name) for name in product)
    experiments = {"papers/experiments.py", "papers/elsewhere/opendp_tables.py", "papers/elsewhere/joint_fit.py"}
    assert {f"crosstally_lab/{name}" for name in (*experiments, "audit/sampled.py", "py.typed")} <= laboratory
    assert not any(name.startswith("crosstally/") for name in laboratory)


def test_the_metadata_name_the_version_the_pythons_and_the_project(unpacked: Path) -> None:
    lines = (unpacked / "PKG-INFO").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    assert f"Version: {ct.__version__}" in lines
    pythons = [line for line in lines if line.startswith("Classifier: Programming Language :: Python :: 3.")]
    assert [line.rsplit(".", 1)[1] for line in pythons] == ["11", "12", "13", "14"]
    links = {line.split(", ")[0] for line in lines if line.startswith("Project-URL: ")}
    assert links == {f"Project-URL: {name}" for name in ("Documentation", "Source", "Issues", "Changelog")}


def test_the_workflow_is_one() -> None:
    """By the schema of GitHub's workflows, which the checker brings along; the workflow itself runs actionlint."""
    workflow = ROOT / ".github/workflows/ci.yml"
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    assert subprocess.run([*checker, workflow], capture_output=True, check=False).returncode == 0
    text = workflow.read_text(encoding="utf-8")
    assert all(f'"3.{minor}"' in text for minor in (11, 12, 13, 14))


def test_a_workflow_with_a_mistake_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "ci.yml"
    wrong.write_text("name: CI\non: push\njobs:\n  test:\n    runs-onn: ubuntu-latest\n    steps: [{run: make}]\n")
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    assert subprocess.run([*checker, wrong], capture_output=True, check=False).returncode == 1


def test_the_lock_file_holds_hashes_and_no_places() -> None:
    lock = (ROOT / "requirements-test.lock").read_text(encoding="utf-8")
    packages = re.findall(r"^([a-z0-9-]+)==\S+(?: ; .*)? \\$\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    assert {"numpy", "opendp", "pytest", "mkdocs-material"} <= set(packages)
    assert len(packages) == len(re.findall(r"^[a-z]", lock, re.MULTILINE))
    assert "//" not in lock


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements(*extras: str) -> list[Requirement]:
    """What the package requires, with these extras and those that they name."""
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in PROJECT["optional-dependencies"][extra])]
    read = [Requirement(text) for text in texts]
    own = {extra for each in read if each.name == "crosstally" for extra in each.extras}
    return [each for each in read if each.name != "crosstally"] + (requirements(*own) if own else [])


def test_constraints_pin_every_requirement_within_its_bounds_by_hash() -> None:
    """In the versions of the lock file, with which the tests ran."""
    text, lock = ((ROOT / name).read_text(encoding="utf-8") for name in ("constraints.txt", "requirements-test.lock"))
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)(?: ; .*)? \\$\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[a-z]", text, re.MULTILINE))
    assert set(pins) <= set(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    assert "//" not in text
    for each in requirements("all"):
        versions = [version for name, version in pins if name == canonicalize_name(each.name)]
        assert versions, each.name
        assert all(version in each.specifier for version in versions), each


@pytest.mark.parametrize(("package", "beyond"), [("opendp", "0.17.0"), ("sqlglot", "31.0.0")])
def test_what_guarantees_rest_on_is_held_below_the_next_version(package, beyond, unpacked) -> None:
    """The installed version, with which these tests run, is the newest that is allowed but for its last numbers."""
    bounds = [each.specifier for each in requirements("all") if each.name == package]
    assert bounds
    for each in bounds:
        assert version(package) in each
        assert beyond not in each
        assert Version(version(package)).release[:2] < Version(beyond).release[:2]
    metadata = (unpacked / "PKG-INFO").read_text(encoding="utf-8")
    told = re.findall(rf"^Requires-Dist: {package}(\S*)", metadata, re.MULTILINE)
    assert told
    assert all(beyond not in SpecifierSet(each.rstrip(";")) for each in told)


def test_nothing_names_a_registry_or_a_page_outside_the_repository() -> None:
    words = ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", ".." + "/shared", "targets" + ".md")
    for name in sorted(kept()):
        content = (ROOT / name).read_bytes()
        assert not [word for word in words if word.encode() in content], name


def test_arrays_of_floats_have_one_name() -> None:
    """A second alias of the same array type, somewhere else, is a second word for one thing."""
    alias = re.compile(r"^\w+ = NDArray\[np\.float64\]$", re.MULTILINE)
    sources = (path for root in ("src", "lab/src") for path in (ROOT / root).rglob("*.py"))
    assert [path.name for path in sources if alias.search(path.read_text())] == ["typing.py"]
