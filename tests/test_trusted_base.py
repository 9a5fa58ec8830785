"""The page of the trusted base lists just the files that its entrances import, and tests that exist."""

import re
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/project/trusted-base.md"
ENTRANCES = ("privacy.measure", "sources.counts", "sources.parts", "local.client")
JOINING = {"pipeline.py", "notebook/notebook.py"}  # trusted for how they join the entrances, not for all they import


def listed(section: str, column: int) -> list[str]:
    """The names in backticks in a column of a section's table."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[column])]


def reached() -> set[str]:
    """The files that the entrances import, themselves among them; folders' own modules hold no code to rely on."""
    graph = grimp.build_graph("crosstally")
    modules = {f"crosstally.{entrance}" for entrance in ENTRANCES}
    modules |= {found for entrance in modules for found in graph.find_upstream_modules(entrance)}
    files = {Path(*module.split(".")[1:]) for module in modules if module != "crosstally"}
    folders = {file for file in files if (ROOT / "src/crosstally" / file).is_dir()}
    return {f"{file}.py" for file in files - folders}


def test_the_lists_are_the_import_graph() -> None:
    trusted, others = listed("Files that the guarantee depends on", 0), listed("Files that are imported only", 0)
    assert len({*trusted, *others}) == len(trusted) + len(others)
    assert {*trusted, *others} == reached() | JOINING


def test_every_file_and_test_named_exists() -> None:
    for name in listed("Files that the guarantee depends on", 0):
        assert (ROOT / "src/crosstally" / name).is_file(), name
    for name in listed("Files that the guarantee depends on", 2):
        assert (ROOT / name).is_file(), name
