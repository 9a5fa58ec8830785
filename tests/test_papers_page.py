"""The page that leads from a paper's section to its module: every file that it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/methods/index.md"


def named_files() -> list[str]:
    """The paths of all rows; a name without a folder stands in the folder of the one before it."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        folder = ""
        for path in re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", line) if line.startswith("|") else ():
            folder, name = (path.rpartition("/")[0], path) if "/" in path else (folder, f"{folder}/{path}")
            found.append(name)
    return found


@pytest.mark.parametrize("name", sorted(set(named_files())))
def test_every_module_on_the_page_exists(name: str) -> None:
    """In the product, or in the laboratory, where experiments are."""
    assert any((ROOT / root / name).exists() for root in ("src/crosstally", "lab/src/crosstally_lab"))


def test_all_folders_of_papers_are_on_the_page() -> None:
    folders = {path.parent.name for path in (ROOT / "lab/src/crosstally_lab/papers").glob("*/__init__.py")}
    assert folders == {"baselines", "priview", "calm", "icde13", "pods07", "edbt12"}
    assert all(any(name.startswith(f"papers/{folder}/") for name in named_files()) for folder in folders)
    assert len(named_files()) > 60
