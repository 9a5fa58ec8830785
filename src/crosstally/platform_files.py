"""What operating systems do differently: locks, modes, names, folders and limits. Of the library nobody else asks.

Linux and macOS have all of it. Windows has neither ``flock`` nor POSIX modes nor folders that can be opened; each
function says what it does there. ``local/client/`` stands alone, to be copied to a device, and uses none of this.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from crosstally.errors import CrosstallyError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:
    fcntl = None
resource: ModuleType | None
try:
    import resource
except ImportError:
    resource = None


_WRITABLE = 0o222  # by the owner, the group or others
_LOCKED_BY_ANOTHER = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EINTR}


# Locks


def open_for_lock(path: Path, *, to_read: bool = False) -> int:
    """A descriptor of a file that no child inherits, and that does not wait for a writer if the file is a pipe."""
    flags = (getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY", "O_NONBLOCK"))
    return os.open(path, (os.O_RDONLY if to_read else os.O_RDWR) | sum(flags))


def try_lock(descriptor: int) -> bool:
    """Lock a file against all other processes, whatever name they know it by; False while another has the lock.

    Raises OSError where the file system has no locks. Without ``flock`` (Windows) this is always True: SQLite's own
    locks still hold there, and a second name of the file, which they do not see, can only be a hard link, which is
    refused.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCKED_BY_ANOTHER:
            return False
        raise
    return True


def unlock(descriptor: int) -> None:
    """Let go of a lock; closing is not enough, since a forked child may have the descriptor too."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Have a function called in every forked child; nothing forks where this cannot be asked for (Windows)."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


# Modes and devices


def has_write_mode(path: Path, mode: int) -> bool:
    """Whether a file may be written: by its mode, which binds even root here, and by this user."""
    return bool(mode & _WRITABLE) and os.access(path, os.W_OK)


def device(path: Path) -> str | None:
    """The device of a file as Linux writes it, major:minor; None where devices have no such numbers (Windows)."""
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}" if hasattr(os, "major") else None


# Names and folders


def name_new_file(new: Path, path: Path) -> None:
    """Give a complete file its name for good; raises FileExistsError if that is taken."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: take the name first, then put the file there
        path.open("xb").close()
        new.replace(path)
    sync_folder(path.absolute().parent)


def check_room(folder: Path, start: int, size: int) -> None:
    """Raise an OSError unless a file in the folder that ends at ``start`` could grow by so many bytes now.

    A file without a name is given the room and goes away again. Where the system cannot reserve, it is written.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), start, size)
        else:
            file.seek(start)
            file.write(bytes(size))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; where a folder cannot be opened (Windows) the system does so itself."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Say in words why a file cannot be written, and what to do where its folder is missing."""
    try:
        yield
    except OSError as error:
        folder = Path(path).parent
        missing = not folder.is_dir()
        reason = f"there is no folder {str(folder)!r}; create it first" if missing else error.strerror or "it failed"
        raise CrosstallyError(f"cannot write {str(path)!r}: {reason}") from None


@contextlib.contextmanager
def whole_file(path: str | Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write to that takes the name once all of it is on the disk. Of one that failed nothing is left.

    Every output goes through here. A private one is its owner's alone (mode 600) from the start, even in place of one
    that was not; where there are no modes (Windows), it has the rights that its folder gives to new files. What is no
    file, such as a pipe or /dev/stdout, is written to as it is.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    target = target.resolve()  # a link stays, and what it points to is replaced
    new = target.with_name(f".{secrets.token_hex(8)}.new")  # not the name itself, which may be as long as names can be
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(new, flags, 0o600 if private else 0o666)
    try:
        with open(descriptor, "w+b") as file:  # noqa: PTH123 (a descriptor has no path)
            if not private and target.exists():
                new.chmod(stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())  # before it takes the place of another, which would be lost with it
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    with contextlib.suppress(PermissionError):  # a folder that may be written to and not read
        sync_folder(target.parent)


def write_bytes(path: str | Path, content: bytes, *, private: bool = False) -> None:
    """Write a file, whole or not at all."""
    with whole_file(path, private=private) as file:
        file.write(content)


def write_text(path: str | Path, text: str, *, private: bool = False) -> None:
    """Write a text as UTF-8, whole or not at all."""
    write_bytes(path, text.encode("utf-8"), private=private)


# Folders that only we write to


def add_private_line(path: Path, line: str) -> None:
    """Add a line to a text file that only its owner can read; it is made where there is none."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(descriptor, "a", encoding="utf-8") as file:  # noqa: PTH123 (a descriptor has no path)
        file.write(line)


def user_number() -> int:
    """The number of the user; 0 where users have none: on Windows each has a temporary folder of their own."""
    return os.getuid() if hasattr(os, "getuid") else 0


def make_private_folder(folder: Path) -> None:
    """Make a folder, unless it is there, that is closed to all others."""
    folder.mkdir(mode=0o700, exist_ok=True)


def entries_are_safe(parent: Path) -> bool:
    """Whether nobody else can rename what is ours in it: others do not write to it, or it is sticky, as /tmp is.

    Always so where modes say nothing (Windows).
    """
    if not hasattr(os, "getuid"):
        return True
    found = parent.stat()
    guarded = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or bool(found.st_mode & stat.S_ISVTX)
    return guarded and found.st_uid in (0, os.getuid())


def is_ours_alone(folder: Path) -> bool:
    """Whether it is a folder, not a link to one, that belongs to us and is closed to all others.

    Where modes say nothing (Windows), whether it is a folder and no link.
    """
    found = folder.lstat()
    if not hasattr(os, "getuid"):
        return stat.S_ISDIR(found.st_mode)
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return ours and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


# Processes


def limit_process(memory: int, seconds: int) -> None:
    """Limit this process for good: bytes of memory (its addresses), CPU time, no core file.

    macOS does not keep to the limit of memory, and Windows has no limits.
    """
    if resource is None:
        return
    for name, most in (("RLIMIT_AS", memory), ("RLIMIT_CPU", seconds), ("RLIMIT_CORE", 0)):
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, hard))
