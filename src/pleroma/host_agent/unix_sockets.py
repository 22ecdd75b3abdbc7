"""Unix sockets that one group of users may connect to, and who is at the other end of a connection."""

from __future__ import annotations

import os
import shutil
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pleroma.errors import SetupError

SOCKET_MODE = 0o660
_FORBIDDEN = 0o777 ^ SOCKET_MODE
_PEER_CREDENTIALS = struct.Struct("3i")


class LocalUser(NamedTuple):
    """The process at the other end of a connection, as the kernel tells it."""

    pid: int
    uid: int
    gid: int


def user_of(descriptor: int) -> LocalUser:
    """Who is at the other end of the connection with this descriptor."""
    with socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM) as copied:
        packed = copied.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return LocalUser(*_PEER_CREDENTIALS.unpack(packed))


def bind_private(path: Path, kind: socket.SocketKind, group: str | None) -> socket.socket:
    """A socket at this path for its owner and a group. It does not listen yet.

    A file that an earlier process left there is replaced, one at which somebody listens is not.
    """
    if path.is_socket():
        if _is_answered(path, kind):
            raise SetupError("another agent listens there", field="socket", value=str(path))
        path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, kind)
    before = os.umask(_FORBIDDEN)
    try:
        bound.setblocking(False)
        bound.bind(str(path))
        if group is not None:
            shutil.chown(path, group=group)
    except (OSError, LookupError) as error:
        bound.close()
        raise SetupError(f"cannot listen at {path}: {error}", field="socket", value=str(path)) from None
    finally:
        os.umask(before)
    return bound


def _is_answered(path: Path, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_UNIX, kind) as probe, suppress(OSError):
        probe.connect(str(path))
        return True
    return False
