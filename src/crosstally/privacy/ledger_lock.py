"""One lock on a ledger's file itself, whatever its name.

SQLite locks a file in write-ahead mode through a second file beside it, found by name: two names of one file have two
locks, and two writers who know nothing of each other. So whoever uses a ledger first takes ``flock`` on the file.

SQLite's own locks are of the POSIX kind, which belong to a process: closing any descriptor of the file drops them all.
So the descriptor of the lock is the only one that is opened beside SQLite's, and threads take turns: it is closed when
this process has no connection to the file.

Where a file lies: file systems on which a lock does not hold everybody off are found here.
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

# The mounts that this process sees, on Linux (man 5 proc_pid_mountinfo). Elsewhere nothing is known, nothing refused.
_MOUNTS = Path("/proc/self/mountinfo")

# File systems that other machines (or the host of a virtual machine) write without seeing this machine's locks, or
# whose shared memory does not reach them: SQLite's write-ahead log needs both. Names as the kernel gives them.
_SHARED = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "davfs", "sshfs"),
    *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "fhgfs", "panfs", "orangefs", "pvfs2", "ocfs2", "gfs2"),
    *("9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"),
}
# What FUSE serves is remote more often than not (sshfs, s3fs, gcsfuse, rclone); these lie on a local disk.
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
    """Why locks do not hold for a file, or for one to be made in a folder; None if nothing is known against it."""
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
    r"""The mounts in the words of the kernel, later ones on top of earlier ones.

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


@lru_cache(maxsize=4)  # a ledger looks at its place before every step, and mounts seldom change
def _mount_of(text: str, real: Path, device: str | None) -> Mount | None:
    """The mount that a path is on, by the words of the kernel: the deepest, and the last of those.

    A mount on the way may be hidden by a later one, hence those of the file's own device come first. Some file systems
    (btrfs) give their files a device that no mount has; then the path alone decides.
    """
    above = {real, *real.parents}
    on_the_way = [mount for mount in read_mounts(text) if mount.point in above]
    own = [mount for mount in on_the_way if mount.device == device]
    return max(reversed(own or on_the_way), key=lambda mount: len(mount.point.parts), default=None)


_MAGIC = b"SQLite format 3\0"
_PAUSE = 0.005  # seconds between two tries: a transaction takes about as long

Identity = tuple[int, int]


class _Turn:
    """The right of one thread of this process to use a file; ``late`` are descriptors to be closed by who has it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.late: list[int] = []


_turns: weakref.WeakValueDictionary[Identity, _Turn] = weakref.WeakValueDictionary()
_turns_lock = threading.Lock()
_open: set[int] = set()


def _forget() -> None:
    """In a forked child: let go of the parent's descriptors, which would hold its locks after its death."""
    global _turns_lock  # noqa: PLW0603 - a thread that the child does not have may hold it
    for descriptor in _open:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _open.clear()
    _turns.clear()
    _turns_lock = threading.Lock()


after_fork_in_child(_forget)


class Held:
    """A file that nobody else uses."""

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
            with contextlib.suppress(FileNotFoundError):  # its maker is alive and was faster
                if other != real and _identity(other.lstat()) == identity:
                    other.unlink()


def check_place(path: Path, title: str) -> None:
    """Raise when locks do not hold where a ledger is, or where it is to be made."""
    reason = unfit(path)
    if reason is not None:
        raise LedgerError(f"cannot use {title}: {reason}")


@contextlib.contextmanager
def holding(path: Path, title: str, patience: float, *, to_read: bool = False) -> Iterator[Held]:
    """The file, held against every other thread and process, whatever name they know it by.

    Args:
        path: A name of the file.
        title: What errors call it.
        patience: How many seconds to wait while others change nothing in the file.
        to_read: Whether the file may be one that cannot be written to.
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
    """The end of the sentence that a ledger is missing: which one beside it may have been meant."""
    try:
        beside = sorted(each.name for each in path.parent.glob("*.ledger"))
    except OSError:
        beside = []
    words = did_you_mean(path.name, beside)
    return words if words.endswith("?") else f"{words}."


class _Patience:
    """How long this goes on waiting: so many seconds in which nobody changes the file.

    Many who spend at once are served in no order, so that one of them may wait longer than any number fixed before;
    as long as charges are made, its turn comes.
    """

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._descriptor, self._seconds = descriptor, seconds
        self._seen, self._until = self._state(), time.monotonic() + seconds

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_mtime_ns, status.st_size

    def is_over(self) -> bool:
        """Whether nothing has changed for so long."""
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
