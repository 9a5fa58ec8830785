"""Where compiled code is kept: a tree that cannot be written to, no home, and folders that someone planted."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import crosstally
from crosstally.errors import CrosstallyError
from crosstally.kernels.compiled_code import private_folder

OURS = f"crosstally-{os.getuid()}"
# Root may write anywhere, whatever the modes say: without its capabilities it is a user like others.
PLAIN_USER = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--") if os.geteuid() == 0 else ()
WORK = """
import sys
from crosstally.cli import main
release = ["release", "people.csv", "--schema", "schema.json", "--epsilon", "1", "--ledger", "people.ledger"]
commands = [
    ["plan", "schema.json", "--epsilon", "1", "--strategy", "direct"],
    ["ledger", "create", "people.ledger", "--schema", "schema.json", "--epsilon", "1"],
    [*release, "--strategy", "direct", "-o", "people.parquet"],
    ["table", "people.parquet", "sex"],
]
sys.exit(max(main(command) for command in commands))
"""


@pytest.fixture
def tree() -> Iterator[Path]:
    """The package where nobody can write, and a folder to work in."""
    top = Path(tempfile.mkdtemp(prefix="read-only-"))
    shutil.copytree(
        Path(crosstally.__file__).parent, top / "src/crosstally", ignore=shutil.ignore_patterns("__pycache__")
    )
    folders = [top / "src", *(path for path in (top / "src").rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    (top / "tmp").mkdir(mode=0o700)
    (top / "work").mkdir()
    (top / "work/people.csv").write_text("sex\nf\nm\nf\n", encoding="utf-8")
    (top / "work/schema.json").write_text('{"attributes": [{"name": "sex", "values": ["f", "m"]}]}', encoding="utf-8")
    yield top
    for folder in folders:
        folder.chmod(0o755)
    shutil.rmtree(top)


def run_there(tree: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code on the package of the tree, without a home."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(tree / "src/no-home"),  # which cannot be made
        "TMPDIR": str(tree / "tmp"),
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(
        [*PLAIN_USER, sys.executable, "-c", code],
        cwd=tree / "work",
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_read_only_tree_without_a_home(tree: Path) -> None:
    """It works, and a second process finds what the first compiled."""
    ran = run_there(tree, WORK)
    assert ran.returncode == 0, ran.stderr
    folder = tree / "tmp" / OURS
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    compiled = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}
    assert compiled
    assert not list((tree / "src").rglob("__pycache__"))
    again = run_there(tree, "import crosstally.kernels.counting")
    assert again.returncode == 0, again.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")} == compiled


def test_a_planted_folder_is_not_used(tree: Path) -> None:
    planted = tree / "tmp" / OURS
    planted.mkdir()
    planted.chmod(0o777)
    ran = run_there(tree, "import crosstally.kernels.lookup")
    assert ran.returncode == 0, ran.stderr
    assert "is not a private folder of ours" in ran.stderr
    assert list(planted.iterdir()) == []
    assert [path.name for path in (tree / "tmp").iterdir()] == [OURS]  # what was used instead is gone with its process


# The choice itself


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of this process."""
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_folder_is_made_and_found_again(temporary: Path) -> None:
    assert private_folder() == temporary / OURS
    assert private_folder() == temporary / OURS
    assert stat.S_IMODE((temporary / OURS).stat().st_mode) == 0o700


@pytest.mark.parametrize("planted", ["open to all", "open to a group", "readable", "link", "dangling link", "file"])
def test_what_is_not_ours_alone_is_refused(temporary: Path, planted: str) -> None:
    folder, elsewhere = temporary / OURS, temporary / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    modes = {"open to all": 0o777, "open to a group": 0o770, "readable": 0o755}
    if planted in modes:
        folder.mkdir()
        folder.chmod(modes[planted])
    elif planted == "file":
        folder.touch(mode=0o700)
    else:
        folder.symlink_to(elsewhere if planted == "link" else temporary / "nowhere")
    with pytest.warns(UserWarning, match="is not a private folder of ours"):
        chosen = private_folder()
    assert chosen not in (folder, elsewhere)
    assert stat.S_IMODE(chosen.lstat().st_mode) == 0o700


def test_a_folder_of_someone_else_is_refused(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours as long as we are who we are; to another user it is a stranger's, and so is the temporary folder."""
    (temporary / "crosstally-4711").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    if temporary.stat().st_uid == 0:  # root's folder is trusted, as /tmp is
        with pytest.warns(UserWarning, match="is not a private folder of ours"):
            assert private_folder() != temporary / "crosstally-4711"
    else:
        with pytest.raises(CrosstallyError, match="others can replace"):
            private_folder()


def test_a_temporary_folder_where_others_can_replace_ours_is_refused(temporary: Path) -> None:
    temporary.chmod(0o777)
    with pytest.raises(CrosstallyError, match="others can replace what is in the temporary folder"):
        private_folder()
    temporary.chmod(0o1777)
    assert private_folder() == temporary / OURS
