"""Where a file lies: file systems on which a lock does not hold everybody off are found here."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from crosstally.platform_files import device

__all__ = ["Mount", "read_mounts", "unfit"]

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


@lru_cache(maxsize=4)  # a ledger looks at its place before every step, and mounts seldom change
def _mount_of(text: str, real: Path, device: str | None) -> Mount | None:
    """The mount that a path is on, by the words of the kernel."""
    return _holding(read_mounts(text), real, device)


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


def _holding(mounts: Sequence[Mount], real: Path, device: str | None) -> Mount | None:
    """The mount that a path is on: the deepest, and the last of those.

    A mount on the way may be hidden by a later one, hence those of the file's own device come first. Some file systems
    (btrfs) give their files a device that no mount has; then the path alone decides.
    """
    above = {real, *real.parents}
    on_the_way = [mount for mount in mounts if mount.point in above]
    own = [mount for mount in on_the_way if mount.device == device]
    return max(reversed(own or on_the_way), key=lambda mount: len(mount.point.parts), default=None)
