"""One lock on a ledger's file itself, whatever its path, and the file systems on which such a lock is unreliable.

SQLite locks a file in write-ahead mode through a second file beside it, found by name: two names of one file have two
locks, and two writers that do not see each other. So every user of a ledger first takes ``flock`` on the file.

SQLite uses POSIX locks, which belong to a process: closing any descriptor of the file drops them all. So the descriptor
of the lock is the only one opened beside SQLite's, and threads take turns: it is closed when this process has no
connection to the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from crosstally.errors import LedgerError, did_you_mean
from crosstally.platform_files import after_fork_in_child, device, has_write_mode, open_for_lock, try_lock, unlock

# The mounts that this process sees, on Linux (man 5 proc_pid_mountinfo). On other systems nothing is known or refused.
_MOUNTS = Path("/proc/self/mountinfo")

# File systems that other machines (or the host of a virtual machine) write without seeing this machine's locks, or
# whose shared memory does not reach them: SQLite's write-ahead log needs both. Names as the kernel gives them.
_SHARED = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "davfs", "sshfs"),
    *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "fhgfs", "panfs", "orangefs", "pvfs2", "ocfs2", "gfs2"),
    *("9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"),
}
# FUSE file systems are usually remote (sshfs, s3fs, gcsfuse, rclone); these are on a local disk.
_LOCAL_FUSE = {"fuse.gocryptfs", "fuse.encfs", "fuse.cryfs", "fuse.securefs", "fuse.fuse-overlayfs"}


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: ``device`` as major:minor, ``point`` where it is seen, ``kind`` of file system."""

    device: str
    point: Path
    kind: str

    @property
    def shared(self) -> bool:
        """Whether other machines may write it without this machine's locks."""
        fuse = self.kind == "fuse" or self.kind.startswith("fuse.")
        return self.kind in _SHARED or (fuse and self.kind not in _LOCAL_FUSE)


def unfit(path: Path) -> str | None:
    """Why locks are unreliable for a file, existing or to be created; None if no problem is known."""
    try:
        mounts = os.fsdecode(_MOUNTS.read_bytes())
    except OSError:
        return None
    real = path.resolve()
    mount = _mount_of(mounts, real, device(path))
    if mount is None:
        return None
    if mount.shared:
        return (
            f"it lies on {mount.kind}, which other machines may write without seeing this one's locks; "
            "move it to a local disk"
        )
    if mount.point == real and not real.is_dir():
        return (
            "the file is mounted by itself, so that its log would lie in another folder than under its other name; "
            "mount its folder instead"
        )
    return None


def read_mounts(text: str) -> list[Mount]:
    r"""The mounts in the kernel's format; later ones cover earlier ones.

    >>> read_mounts("36 35 98:0 /a /my\\040data rw,noatime master:1 - ext4 /dev/root rw")
    [Mount(device='98:0', point=PosixPath('/my data'), kind='ext4')]
    """
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) >= 5 and kind:
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
            mounts.append(Mount(fields[2], Path(point), kind))
    return mounts


@lru_cache(maxsize=4)  # a ledger checks its mount before every step, and mounts seldom change
def _mount_of(text: str, real: Path, device: str | None) -> Mount | None:
    """The mount that a path is on, according to the kernel: the deepest, and the last of those.

    A mount on the way may be hidden by a later one, hence those of the file's own device come first. Some file systems
    (btrfs) give their files a device that no mount has; then the path alone decides.
    """
    above = {real, *real.parents}
    on_the_way = [mount for mount in read_mounts(text) if mount.point in above]
    own = [mount for mount in on_the_way if mount.device == device]
    return max(reversed(own or on_the_way), key=lambda mount: len(mount.point.parts), default=None)


_MAGIC = b"SQLite format 3\0"
_PAUSE = 0.005  # seconds between two attempts: about the length of a transaction

Identity = tuple[int, int]


class _Turn:
    """The right of one thread of this process to use a file; its holder closes the ``late`` descriptors."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.late: list[int] = []


_turns: weakref.WeakValueDictionary[Identity, _Turn] = weakref.WeakValueDictionary()
_turns_lock = threading.Lock()
_open: set[int] = set()


def _forget() -> None:
    """In a forked child: close the parent's descriptors, which would keep its locks after it exits."""
    global _turns_lock  # noqa: PLW0603 - a thread that the child does not have may hold it
    for descriptor in _open:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _open.clear()
    _turns.clear()
    _turns_lock = threading.Lock()


after_fork_in_child(_forget)


class Held:
    """A file that this thread has locked."""

    def __init__(self, path: Path, title: str, descriptor: int) -> None:
        self._path = path
        self._title = title
        self._descriptor = descriptor

    def is_named(self) -> bool:
        """Whether the path still leads to this file."""
        try:
            return _identity(self._path.stat()) == _identity(os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def check(self) -> None:
        """Raise unless this is an SQLite database with one name, on a file system where locks hold."""
        if os.read(self._descriptor, len(_MAGIC)) != _MAGIC:
            raise LedgerError(f"{str(self._path)!r} is not a ledger")
        check_place(self._path, self._title)
        if os.fstat(self._descriptor).st_nlink > 1:
            self._remove_leftovers()
        links = os.fstat(self._descriptor).st_nlink
        if links > 1:
            raise LedgerError(
                f"cannot open {self._title}: the file has {links} names (hard links), and charges under one could be "
                "lost to the other; remove the other names"
            )

    def _remove_leftovers(self) -> None:
        """Remove the names under which this file was made, if a crash left them."""
        identity = _identity(os.fstat(self._descriptor))
        real = self._path.resolve()
        for other in real.parent.glob(".*.new"):
            with contextlib.suppress(FileNotFoundError):  # its creator is alive and removed it first
                if other != real and _identity(other.lstat()) == identity:
                    other.unlink()


def check_place(path: Path, title: str) -> None:
    """Raise if locks are unreliable where a ledger is or is to be created."""
    reason = unfit(path)
    if reason is not None:
        raise LedgerError(f"cannot use {title}: {reason}")


@contextlib.contextmanager
def holding(path: Path, title: str, patience: float, *, to_read: bool = False) -> Iterator[Held]:
    """The file, locked against every other thread and process, whatever path they use.

    Args:
        path: A name of the file.
        title: What errors call it.
        patience: How many seconds to wait while the file does not change.
        to_read: Whether the file may be write-protected.
    """
    while True:
        _check_status(path, title, to_read=to_read)
        turn, descriptor = _take(path, title, patience, to_read=to_read)
        try:
            held = Held(path, title, descriptor)
            if held.is_named():  # and was not replaced while this waited
                held.check()
                yield held
                return
        finally:
            _give(turn, descriptor)


def _check_status(path: Path, title: str, *, to_read: bool) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise LedgerError(
            f"cannot open {title}: there is no such file{_nearest(path)} To make a new one: "
            f"crosstally ledger create {shlex.quote(str(path))} --schema FILE --epsilon N"
        ) from None
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise LedgerError(f"cannot open {title}: {reason}") from None
    if stat.S_ISDIR(mode):
        raise LedgerError(f"cannot open {title}: it is a folder")
    if not stat.S_ISREG(mode):
        raise LedgerError(f"{str(path)!r} is not a ledger")
    if not to_read and not has_write_mode(path, mode):
        raise LedgerError(f"cannot open {title}: the file is read-only; make it writable")


def _nearest(path: Path) -> str:
    """The end of the message that a ledger is missing: a similarly named file beside it."""
    try:
        beside = sorted(each.name for each in path.parent.glob("*.ledger"))
    except OSError:
        beside = []
    words = did_you_mean(path.name, beside)
    return words if words.endswith("?") else f"{words}."


class _Patience:
    """A waiting limit: this many seconds in which the file does not change.

    Concurrent charges are served in no order, so one may wait longer than any fixed limit; as long as others make
    progress, its turn comes.
    """

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._descriptor, self._seconds = descriptor, seconds
        self._seen, self._until = self._state(), time.monotonic() + seconds

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_mtime_ns, status.st_size

    def is_over(self) -> bool:
        """Whether nothing has changed for that long."""
        if time.monotonic() <= self._until:
            return False
        seen, self._seen = self._seen, self._state()
        self._until = time.monotonic() + self._seconds
        return seen == self._seen


def _take(path: Path, title: str, seconds: float, *, to_read: bool) -> tuple[_Turn, int]:
    """Open the file, take the turn among threads, then the lock among processes."""
    descriptor = open_for_lock(path, to_read=to_read)
    _open.add(descriptor)
    with _turns_lock:
        turn = _turns.setdefault(_identity(os.fstat(descriptor)), _Turn())
    patience = _Patience(descriptor, seconds)
    while not turn.lock.acquire(timeout=seconds):
        if patience.is_over():
            turn.late.append(descriptor)  # closed here, it would drop the locks of the thread whose turn it is
            raise _busy(title)
    try:
        _lock(descriptor, title, patience)
    except BaseException:
        _give(turn, descriptor)
        raise
    return turn, descriptor


def _lock(descriptor: int, title: str, patience: _Patience) -> None:
    try:
        while not try_lock(descriptor):
            if patience.is_over():
                raise _busy(title)
            time.sleep(_PAUSE)
    except OSError:
        raise LedgerError(f"cannot use {title}: its file system has no locks; move it to a local disk") from None


def _give(turn: _Turn, descriptor: int) -> None:
    unlock(descriptor)
    for each in (descriptor, *turn.late):
        _open.discard(each)
        os.close(each)
    turn.late.clear()
    turn.lock.release()


def _busy(title: str) -> LedgerError:
    return LedgerError(f"{title} is kept busy by another program; close that and look at the ledger again")


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
