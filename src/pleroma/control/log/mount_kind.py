"""On what kind of file system a path is, as the kernel lists its mounts, and whether other machines may be on it too.

A lock of one machine need not hold on another one there. NFS passes `flock` on to the server, but not when mounted with
`nolock` or `local_lock`; SMB not with `nobrl`; FUSE only if the program behind it wants to know of locks.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED_KINDS = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2",
    "orangefs", "smb3", "smbfs", "vboxsf", "virtiofs",
})  # fmt: skip


def mount_kind(path: Path, mounts: str | None = None) -> str | None:
    """The kind of the file system, such as `ext4` or `fuse.sshfs`; None where the kernel does not tell."""
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text()
        except OSError:
            return None
    wanted, best, kind = os.path.realpath(path), "", None
    for line in mounts.splitlines():
        mount, separator, source = line.partition(" - ")
        fields = mount.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if len(point) >= len(best) and (wanted == point or wanted.startswith(point.rstrip("/") + "/")):
            best, kind = point, source.split(" ")[0]
    return kind


def is_shared(kind: str | None) -> bool:
    """Whether such a file system may be mounted by several machines at once."""
    return kind is not None and (kind in _SHARED_KINDS or kind.startswith("fuse"))
