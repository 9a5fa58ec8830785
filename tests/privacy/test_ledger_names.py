"""One file, several names, threads and processes: no charge that was acknowledged is ever lost."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from crosstally.errors import LedgerError
from crosstally.privacy import ledger_file, ledger_lock
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_file import Store
from ledgers import EPSILON, SCHEMA, TENTH, ledger_in, spend

PROCESSES = get_context("forkserver")


# Another process, under another name

CHARGE = """
import sys
from pathlib import Path
from crosstally.privacy import ledger_lock
from crosstally.privacy.ledger import Ledger
from ledgers import TENTH
if sys.argv[2] == "unchecked":
    ledger_lock.Held.check = lambda held: None
ledger = Ledger.open(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
ledger.charge(TENTH, "other")
print("charged", flush=True)
"""


def namespace() -> list[str] | None:
    """A command that runs another where mounting is permitted and concerns nobody else; None where there is none."""
    for command in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        with contextlib.suppress(OSError):
            if (
                subprocess.run([*command, "mount", "--bind", "/", "/"], capture_output=True, check=False).returncode
                == 0
            ):
                return command
    return None


@contextlib.contextmanager
def other_name(file: Path, other: Path, kind: str, checks: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the same file under another name. Where nothing can be mounted, that is a hard link."""
    command = [sys.executable, "-c", CHARGE, str(other), checks]
    mounting = namespace() if kind == "bind mount" else None
    if mounting is None:
        os.link(file, other)
    else:
        other.touch()
        command = [
            *mounting,
            "sh",
            "-c",
            'mount --bind "$0" "$1" && shift && exec "$@"',
            str(file),
            str(other),
            *command,
        ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        with process:
            yield process
    finally:
        process.kill()


def said(process: subprocess.Popen[str], seconds: float) -> str:
    """The next line of a process, or nothing if it does not come in time."""
    assert process.stdout is not None
    return process.stdout.readline().strip() if select.select([process.stdout], [], [], seconds)[0] else ""


@pytest.mark.parametrize("kind", ["hard link", "bind mount"])
def test_a_charge_under_another_name_waits_and_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The lock by itself, with the refusal of other names switched off: three are acknowledged, three recorded."""
    ledger = ledger_in(tmp_path)
    ledger.charge(TENTH, "first")
    monkeypatch.setattr(ledger_lock.Held, "check", lambda _: None)
    write_back = Store._write_back
    with other_name(tmp_path / "people.ledger", tmp_path / "other.ledger", kind, "unchecked") as other:
        assert said(other, 60) == "ready"

        def late(*given: Any) -> None:  # committed to the log of this name, not yet in the file
            assert other.stdin is not None
            other.stdin.write("go\n")
            other.stdin.flush()
            assert said(other, 1) == ""
            write_back(*given)

        with monkeypatch.context() as patched:
            patched.setattr(Store, "_write_back", late)
            ledger.charge(TENTH, "mine")
        assert said(other, 60) == "charged"
    assert [entry.key for entry in ledger.entries()] == ["first", "mine", "other"]
    ledger.verify()


def test_a_file_mounted_by_itself_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.ledger"
    ledger_in(tmp_path)
    if namespace() is not None:
        with other_name(path, tmp_path / "other.ledger", "bind mount", "checked") as other:
            assert other.stderr is not None
            assert "the file is mounted by itself, so that its log would lie" in other.stderr.read()
    device = f"{os.major(path.stat().st_dev)}:{os.minor(path.stat().st_dev)}"
    mounted(
        tmp_path, monkeypatch, f"1 0 {device} / / rw - ext4 /dev/vda rw\n2 1 {device} /x {path} rw - ext4 /dev/vda rw"
    )
    with pytest.raises(LedgerError, match="the file is mounted by itself, .* mount its folder instead"):
        Ledger.open(path)


# Hard links


def test_a_file_with_two_links_is_refused_under_both(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, "k")
    os.link(tmp_path / "people.ledger", tmp_path / "other.ledger")
    for name in ("people.ledger", "other.ledger"):
        with pytest.raises(LedgerError, match=rf"'.*{name}': the file has 2 names \(hard links\)"):
            Ledger.open(tmp_path / name)
    uses: list[Callable[[], object]] = [
        lambda: ledger.charge(TENTH, "l"),
        lambda: ledger.delivered("k"),
        lambda: ledger.spent,
        ledger.verify,
    ]
    for use in uses:
        with pytest.raises(LedgerError, match="the file has 2 names"):
            use()
    (tmp_path / "other.ledger").unlink()
    assert ledger.charge(TENTH, "l")
    assert ledger.spent == Fraction(2, 10)


def test_a_link_to_the_name_is_no_other_name(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.ledger"
    link.symlink_to(tmp_path / "people.ledger")
    assert Ledger.open(link).charge(TENTH, "k")
    assert ledger.spent == Fraction(1, 10)
    assert list((tmp_path / "folder").iterdir()) == [link]


def dies_while_creating(folder: Path) -> None:
    """In a process of its own: die when the new file has its name and still the one it was made under."""
    give_name = ledger_file.name_new_file  # type: ignore[attr-defined]

    def die(new: Path, path: Path) -> None:
        give_name(new, path)
        os._exit(9)

    ledger_file.name_new_file = die  # type: ignore[attr-defined]
    ledger_in(folder)


def test_the_name_that_a_crash_while_creating_left_is_removed(tmp_path: Path) -> None:
    process = PROCESSES.Process(target=dies_while_creating, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 9
    path = tmp_path / "people.ledger"
    assert path.stat().st_nlink == 2
    (tmp_path / ".other.new").write_text("mine", encoding="utf-8")
    (tmp_path / ".link.new").symlink_to(path)
    spend(Ledger.open(path), "k")
    assert sorted(each.name for each in tmp_path.iterdir()) == [".link.new", ".other.new", "people.ledger"]
    os.link(path, tmp_path / ".more.new")
    os.link(path, tmp_path / "copy.new")
    with pytest.raises(LedgerError, match="the file has 2 names"):
        Ledger.open(path)
    assert (tmp_path / "copy.new").exists()
    assert not (tmp_path / ".more.new").exists()


# A log that a crash left


def crashed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, key: str) -> bytes:
    """The log of a charge as a crash before its write-back leaves it."""
    assert ledger.path is not None
    log = ledger.path.with_name(ledger.path.name + "-wal")
    before, left = ledger.path.read_bytes(), []
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_write_back", lambda *_: left.append(log.read_bytes()))
        ledger.charge(TENTH, key)
    ledger.path.write_bytes(before)
    log.write_bytes(left[0])
    return left[0]


def test_a_log_is_not_laid_over_spends_made_under_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, path = ledger_in(tmp_path), tmp_path / "people.ledger"
    ledger.charge(TENTH, "first")
    crashed(ledger, monkeypatch, "unacknowledged")
    path.rename(tmp_path / "moved.ledger")
    moved = Ledger.open(tmp_path / "moved.ledger")
    assert moved.charge(TENTH, "second")
    assert moved.charge(TENTH, "third")
    (tmp_path / "moved.ledger").rename(path)
    with pytest.raises(LedgerError, match="lies a log of another state of it, '.*people.ledger-wal'"):
        Ledger.open(path)
    with pytest.raises(LedgerError, match="move the log away"):
        ledger.charge(TENTH, "fourth")
    (tmp_path / "people.ledger-wal").unlink()
    assert [entry.key for entry in ledger.entries()] == ["first", "second", "third"]
    ledger.verify()


def test_a_log_that_goes_on_from_the_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_in(tmp_path)
    ledger.charge(TENTH, "first")
    crashed(ledger, monkeypatch, "unacknowledged")
    assert [entry.key for entry in ledger.entries()] == ["first", "unacknowledged"]
    assert [path.name for path in tmp_path.iterdir()] == ["people.ledger"]


def test_the_log_of_another_ledger_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    log = crashed(ledger_in(tmp_path / "theirs"), monkeypatch, "theirs")
    ledger = ledger_in(tmp_path)
    (tmp_path / "people.ledger-wal").write_bytes(log)
    with pytest.raises(LedgerError, match="lies a log of another state of it"):
        ledger.charge(TENTH, "k")


# Threads


LOCKED = """
import fcntl, os, struct, sys
lock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0x40000000 + 2, 510, 0)
with open(sys.argv[1], "r+b") as file:
    print(struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, lock))[0] != fcntl.F_UNLCK)
"""


def is_locked(path: Path) -> bool:
    """Whether a process holds SQLite's shared lock: 510 bytes from 2^30 + 2 on, by SQLite's file format."""
    ran = subprocess.run([sys.executable, "-c", LOCKED, str(path)], capture_output=True, text=True, check=True)
    return ran.stdout == "True\n"


def test_threads_that_open_during_a_charge_wait_and_leave_its_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing any descriptor of a file drops the POSIX locks that its process has on it, hence those of the charge."""
    ledger, path = ledger_in(tmp_path), tmp_path / "people.ledger"
    seen: list[Fraction] = []
    uses: list[Callable[[], object]] = [
        lambda: seen.append(Ledger.open(path).spent),
        lambda: Ledger.open(path).verify(),
        lambda: seen.append(ledger.spent),
    ]
    threads = [threading.Thread(target=use) for use in uses]
    write_back, noted = Store._write_back, []

    def slow(*given: Any) -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(0.3)
        noted.append((is_locked(path), [thread.is_alive() for thread in threads]))
        write_back(*given)

    assert not is_locked(path)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_write_back", slow)
        ledger.charge(TENTH, "k")
    for thread in threads:
        thread.join()
    assert noted == [(True, [True] * 3)]
    assert seen == [Fraction(1, 10)] * 2


def charge_many(path: Path, name: int, charges: int) -> None:
    """In a process of its own."""
    ledger = Ledger.open(path)
    for i in range(charges):
        assert ledger.charge(TENTH, f"{name}-{i}")


@pytest.mark.parametrize(("processes", "charges"), [(3, 6), pytest.param(16, 40, marks=pytest.mark.verify)])
def test_threads_that_look_while_processes_charge(tmp_path: Path, processes: int, charges: int) -> None:
    path = tmp_path / "people.ledger"
    Ledger.create(path, schema=SCHEMA, budget=type(EPSILON)(epsilon=1000))
    workers = [PROCESSES.Process(target=charge_many, args=(path, name, charges)) for name in range(processes)]
    done, mistakes = threading.Event(), []

    def look() -> None:
        try:
            while not done.is_set():
                Ledger.open(path).verify()
        except LedgerError as error:
            mistakes.append(error)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for start in [each.start for each in workers] + [each.start for each in lookers]:
        start()
    for worker in workers:
        worker.join()
    done.set()
    for looker in lookers:
        looker.join()
    assert mistakes == []
    assert [worker.exitcode for worker in workers] == [0] * processes
    assert Ledger.open(path).spent == Fraction(processes * charges, 10)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


def test_who_waits_in_vain_says_so_and_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, path = ledger_in(tmp_path), tmp_path / "people.ledger"
    monkeypatch.setattr(ledger_file, "_PATIENCE", 0.1)
    before = descriptors()
    with path.open("rb") as other:  # as another process would: flock belongs to a descriptor
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="is kept busy by another program"):
            ledger.charge(TENTH, "k")
    with ledger._store.reading(), pytest.raises(LedgerError, match="is kept busy by another program"):
        ledger.charge(TENTH, "k")
    assert ledger.entries() == ()
    assert descriptors() == before


def test_who_waits_goes_on_while_others_get_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many who spend at once keep each other waiting for longer than anybody would for one who hangs."""
    ledger, path = ledger_in(tmp_path), tmp_path / "people.ledger"
    monkeypatch.setattr(ledger_file, "_PATIENCE", 0.2)
    taken = threading.Event()

    def others() -> None:
        with path.open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            taken.set()
            for moment in range(20):
                time.sleep(0.05)
                os.utime(path, (moment, moment))  # as a charge would

    busy = threading.Thread(target=others)
    busy.start()
    taken.wait()
    started = time.monotonic()
    ledger.charge(TENTH, "k")
    assert time.monotonic() - started > 0.5
    busy.join()
    assert ledger.spent == Fraction(1, 10)


def test_a_file_replaced_while_one_waits_is_charged_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    ledger, path = ledger_in(tmp_path), tmp_path / "people.ledger"
    ledger_in(tmp_path / "new")
    charge = threading.Thread(target=ledger.charge, args=(TENTH, "k"))
    with ledger._store.reading():
        charge.start()
        time.sleep(0.1)
        path.rename(tmp_path / "old.ledger")
        shutil.move(tmp_path / "new" / "people.ledger", path)
    charge.join()
    assert Ledger.open(tmp_path / "old.ledger").spent == 0
    assert Ledger.open(path).spent == Fraction(1, 10)


FORK = """
import os, sys, time
from pathlib import Path
from crosstally.privacy.ledger_lock import holding
with holding(Path(sys.argv[1]), "the ledger", 5):
    if os.fork() == 0:
        os.close(1)
        time.sleep(30)
    os._exit(0)
"""


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_hold_its_dead_parents_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, path = ledger_in(tmp_path), tmp_path / "people.ledger"
    subprocess.run(
        [sys.executable, "-c", FORK, str(path)],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    monkeypatch.setattr(ledger_file, "_PATIENCE", 1.0)
    assert ledger.charge(TENTH, "k")


def test_only_an_unused_file_is_removed(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    other = Ledger.open(tmp_path / "people.ledger")
    ledger.charge(TENTH, "k")
    other.remove_unused()
    assert other.spent == Fraction(1, 10)
    (tmp_path / "new").mkdir()
    unused = ledger_in(tmp_path / "new")
    unused.remove_unused()
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(LedgerError, match="there is no such file"):
        unused.charge(TENTH, "k")


# File systems


def mounted(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let the kernel say that this is mounted."""
    (folder / "mountinfo").write_text(text, encoding="utf-8")
    monkeypatch.setattr(ledger_lock, "_MOUNTS", folder / "mountinfo")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "fuse", "fuse.sshfs"])
def test_file_systems_of_other_machines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    ledger = ledger_in(tmp_path)
    mounted(tmp_path, monkeypatch, f"1 0 9:9 / / rw - ext4 /dev/vda rw\n2 1 0:7 / {tmp_path} rw - {kind} server rw")
    reason = f"it lies on {kind}, which other machines may write .* move it to a local disk"
    with pytest.raises(LedgerError, match=reason):
        Ledger.open(tmp_path / "people.ledger")
    with pytest.raises(LedgerError, match=reason):
        ledger.charge(TENTH, "k")
    with pytest.raises(LedgerError, match=reason):
        Ledger.create(tmp_path / "new.ledger", schema=SCHEMA, budget=EPSILON)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mountinfo", "people.ledger"]


@pytest.mark.parametrize("kind", ["ext4", "btrfs", "tmpfs", "overlay", "fuseblk", "fuse.gocryptfs"])
def test_local_file_systems_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounted(tmp_path, monkeypatch, f"1 0 9:9 / / rw - nfs server rw\n2 1 0:7 / {tmp_path} rw - {kind} /dev/vdb rw")
    spend(ledger_in(tmp_path), "k")


def test_the_mount_that_holds_a_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deepest, the last of those at one place, by whole names and not by letters, hidden ones left out."""
    folder = tmp_path / "my data"
    folder.mkdir()
    status = tmp_path.stat()
    own, escaped = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}", str(folder).replace(" ", "\\040")
    for lines, refused in (
        ([f"0:1 / {escaped} rw - ext4 a rw", f"0:2 / {escaped} rw - nfs a rw"], True),
        ([f"0:1 / {escaped} rw - nfs a rw", f"0:2 / {escaped} rw - ext4 a rw"], False),
        ([f"0:1 / {escaped} rw - nfs a rw", f"{own} / {tmp_path} rw - ext4 a rw"], False),  # the first is hidden
        ([f"{own} / {escaped} rw shared:1 - nfs a rw", f"{own} / {tmp_path} rw - ext4 a rw"], True),
        ([f"0:1 / {escaped[:-1]} rw - nfs a rw", "0:2 / / rw - ext4 a rw"], False),
        (["broken", "0:2 / / rw - ext4 a rw"], False),
    ):
        mounted(tmp_path, monkeypatch, "\n".join(f"5 1 {line}" for line in lines))
        assert (ledger_lock.unfit(folder) is not None) is refused, lines
    monkeypatch.setattr(ledger_lock, "_MOUNTS", tmp_path / "none")
    assert ledger_lock.unfit(folder) is None
