"""How a client's socket takes its place at a simulated host: four kinds of frame around a secret.

The controller tells the client the host's port and a secret, by which the client attaches the socket that it will send
and receive events with. It repeats that while it lives, so that sockets of clients that died are forgotten.
"""

from __future__ import annotations

from enum import IntEnum

from pleroma.errors import WireError, shown
from pleroma.wire.header import cut_short
from pleroma.wire.tunnel import stranger

MAGIC = b"PLA"
VERSION = 1
START = MAGIC + bytes((VERSION,))
SECRET_SIZE = 16
SIZE = len(START) + 1 + SECRET_SIZE


class Kind(IntEnum):
    """The first and the third come from the client, the others answer an `ATTACH`; a `DETACH` is not answered."""

    ATTACH = 1
    ATTACHED = 2
    DETACH = 3
    REFUSED = 4


def pack(kind: Kind, secret: bytes) -> bytes:
    if len(secret) != SECRET_SIZE:
        raise WireError(f"a secret has {SECRET_SIZE} bytes, not {len(secret)}", field="secret", value=len(secret))
    return START + bytes((Kind(kind),)) + secret


def unpack(frame: bytes) -> tuple[Kind, bytes]:
    """What kind of frame, and the secret."""
    if frame[:4] != START:
        raise stranger(frame, START, SIZE)
    if len(frame) < SIZE:
        raise cut_short(frame, SIZE)
    if len(frame) > SIZE:
        raise WireError(f"{len(frame)} bytes, a frame has {SIZE}", field="size", value=len(frame))
    try:
        return Kind(frame[4]), frame[5:]
    except ValueError:
        raise WireError(f"{shown(frame[4])} is not a kind of frame", field="kind", value=frame[4]) from None
