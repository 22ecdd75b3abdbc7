"""Which sockets are attached to a live host: a session for each secret, kept alive by repeating it.

A session is admitted by the service and has at most one socket; a socket has at most one session. It ends when its
client says so or is silent for too long, and its secret is worth nothing from then on. Times are the caller's, so that
nothing here reads a clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pleroma.errors import RoutingError
from pleroma.wire.attach import SECRET_BYTES

SocketAddress = tuple[str, int]


@dataclass(slots=True)
class Session:
    seconds: float
    ends: float
    socket: SocketAddress | None = None


class Sessions:
    """Those of one host. `sockets` are the attached ones, by the secrets of their sessions; only to be read."""

    def __init__(self) -> None:
        self.sockets: dict[SocketAddress, bytes] = {}
        self._by_secret: dict[bytes, Session] = {}

    def __len__(self) -> int:
        """How many are admitted, with a socket or still without."""
        return len(self._by_secret)

    def admit(self, secret: bytes, seconds: float, now: float) -> None:
        if len(secret) != SECRET_BYTES:
            raise RoutingError(f"has {SECRET_BYTES} bytes, not {len(secret)}", field="secret", value=len(secret))
        if not (math.isfinite(seconds) and seconds > 0):
            raise RoutingError(f"{seconds} is not a time to live", field="seconds", value=seconds)
        if secret in self._by_secret:
            raise RoutingError("is in use", field="secret")
        self._by_secret[secret] = Session(seconds, now + seconds)

    def attach(self, secret: bytes, socket: SocketAddress, now: float) -> bool:
        """Attach a socket or keep it attached; False where there is no such session."""
        session = self._by_secret.get(secret)
        if session is None:
            return False
        if session.socket != socket:
            if session.socket is not None:
                del self.sockets[session.socket]
            other = self.sockets.get(socket)
            if other is not None:
                self._by_secret[other].socket = None
            session.socket = socket
            self.sockets[socket] = secret
        session.ends = now + session.seconds
        return True

    def end(self, secret: bytes) -> bool:
        """False where there is no such session."""
        session = self._by_secret.pop(secret, None)
        if session is not None and session.socket is not None:
            del self.sockets[session.socket]
        return session is not None

    def expire(self, now: float) -> float:
        """End what was silent for too long. Returns when the next one will have been, if it stays silent."""
        for secret in [secret for secret, session in self._by_secret.items() if session.ends <= now]:
            self.end(secret)
        return min((session.ends for session in self._by_secret.values()), default=math.inf)
