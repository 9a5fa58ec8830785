"""Locks, modes and folders: as they are here, and as they are on a system that lacks them."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import crosstally as ct
from crosstally import platform_files

ROOT = Path(__file__).parent.parent
SCHEMA = ct.Schema([ct.Attribute("sex", ["Female", "Male"])])


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what Windows does not have."""
    monkeypatch.setattr(platform_files, "fcntl", None)
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "register_at_fork", "major", "minor"):
        monkeypatch.delattr(os, name)


def test_a_lock_holds_off_every_other_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    one, two = platform_files.open_for_lock(path), platform_files.open_for_lock(path)
    try:
        assert platform_files.try_lock(one)
        assert not platform_files.try_lock(two)
        platform_files.unlock(one)
        assert platform_files.try_lock(two)
    finally:
        os.close(one)
        os.close(two)


def test_a_file_system_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Without:
        LOCK_EX = LOCK_NB = 0

        @staticmethod
        def flock(*_: int) -> None:
            raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(platform_files, "fcntl", Without)
    with pytest.raises(OSError, match="no locks"):
        platform_files.try_lock(0)


@pytest.mark.usefixtures("windows")
def test_without_flock_every_lock_is_given(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text")
    one, two = platform_files.open_for_lock(path), platform_files.open_for_lock(path)
    try:
        assert platform_files.try_lock(one)
        assert platform_files.try_lock(two)
        platform_files.unlock(one)
        assert os.read(two, 4) == b"text"
    finally:
        os.close(one)
        os.close(two)


@pytest.mark.usefixtures("windows")
def test_without_device_numbers_there_is_no_device(tmp_path: Path) -> None:
    assert platform_files.device(tmp_path) is None


def test_the_device_is_written_as_linux_does(tmp_path: Path) -> None:
    assert re.fullmatch(r"\d+:\d+", platform_files.device(tmp_path) or "")


@pytest.mark.usefixtures("windows")
def test_nothing_is_asked_of_forks_where_there_are_none() -> None:
    platform_files.after_fork_in_child(lambda: None)


def refuse_links(*_: object) -> None:
    raise OSError(errno.EPERM, "no links")


@pytest.mark.parametrize("link", [os.link, refuse_links])
def test_a_new_file_gets_its_name_and_never_another_files(
    link: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", link)
    new, path = tmp_path / "new", tmp_path / "path"
    new.write_text("first")
    platform_files.name_new_file(new, path)
    assert path.read_text() == "first"
    new.unlink(missing_ok=True)
    new.write_text("second")
    with pytest.raises(FileExistsError):
        platform_files.name_new_file(new, path)
    assert path.read_text() == "first"


@pytest.mark.parametrize(("mode", "writable"), [(0o600, True), (0o020, True), (0o444, False), (0o555, False)])
def test_a_mode_without_a_write_bit_binds_root_too(mode: int, writable: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert platform_files.has_write_mode(path, mode) is writable


def test_a_private_text_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    platform_files.write_text(path, "Zürich", private=True)
    assert path.read_text(encoding="utf-8") == "Zürich"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("windows")
def test_a_ledger_is_made_spent_from_and_read_without_any_of_it(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    ledger = ct.Ledger.create(path, schema=SCHEMA, budget=ct.Budget(epsilon=1), neighbours=ct.Neighbours.ADD_REMOVE)
    source = tmp_path / "people.csv"
    source.write_text("sex\nFemale\nMale\n")
    release = ct.release(str(source), SCHEMA, epsilon=1, ledger=ledger)
    release.save(tmp_path / "people.release.parquet")
    assert ct.Ledger.open(path).spent == 1
    assert ct.open_release(tmp_path / "people.release.parquet").marginal("sex").values.shape == (2,)


def test_the_package_is_imported_where_fcntl_and_resource_are_absent() -> None:
    code = (
        "import sys; sys.modules['fcntl'] = sys.modules['resource'] = None\n"
        "import crosstally.cli, crosstally.privacy.ledger, crosstally.pipeline\n"
        "from crosstally import platform_files; print(platform_files.fcntl)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_no_other_module_asks_which_system_it_is() -> None:
    """But commands about their own process, and the client of the local model, copied to devices without the rest."""
    asks = re.compile(
        r"import (?:fcntl|resource|msvcrt)\b|sys\.platform|os\.name\b|chmod|\b0o[0-7]+|os\.(?:link|major)\b"
    )
    sources = [path for root in ("src", "lab/src") for path in (ROOT / root).rglob("*.py")]
    asking = (path.as_posix() for path in sources if asks.search(path.read_text(encoding="utf-8")))
    found = {path.rpartition("src/")[2] for path in asking}
    assert found - {"crosstally/local/client/store.py"} == {
        "crosstally/platform_files.py",
        "crosstally/cli/interrupts.py",
    }


def test_folders_where_modes_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numbers of users: a folder is ours, and a link to one is not."""
    (tmp_path / "own").mkdir(mode=0o777)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "own").chmod(0o777)
    assert not platform_files.is_ours_alone(tmp_path / "own")
    monkeypatch.delattr(os, "getuid")
    assert platform_files.user_number() == 0
    assert platform_files.entries_are_safe(tmp_path)
    assert platform_files.is_ours_alone(tmp_path / "own")
    assert not platform_files.is_ours_alone(tmp_path / "link")


def test_room_is_looked_for_and_given_back(tmp_path: Path) -> None:
    platform_files.check_room(tmp_path, 10_000, 20_000)
    with pytest.raises(OSError, match="."):
        platform_files.check_room(tmp_path, 10_000, 2**62)
    assert list(tmp_path.iterdir()) == []


def test_where_the_system_cannot_reserve_room_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    platform_files.check_room(tmp_path, 10_000, 20_000)
    assert list(tmp_path.iterdir()) == []
