"""A lock that only one process holds, and that dies with it.

The operating system ties an `flock` to the open file, so a holder that is killed leaves nothing to clean up. The lock
is on a file of its own for two reasons: SQLite's locks on the database are lost when anybody in the process closes
another handle of it, and other tools can still look at the log of a running controller.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from pleroma.control.log.private_files import open_private
from pleroma.errors import LogLocked


class LockFile:
    """Held from here to `release`, or to the end of the process. The file stays: to remove it would be a race."""

    def __init__(self, path: Path, guarded: Path) -> None:
        self._descriptor = open_private(path)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 20, 0).decode(errors="replace").strip()
            self.release()
            who = f"process {holder}" if holder else "another process"
            raise LogLocked(f"{who} has this log open", field=str(guarded), value=holder) from None
        with suppress(OSError):  # who holds it is only for people to read, and a full disk must not keep us out
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_holder(path: Path) -> str | None:
    """The number of the process that holds the lock, `?` if it did not say; None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "?"
    finally:
        os.close(descriptor)
