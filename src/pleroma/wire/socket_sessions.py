"""Which UDP sockets are attached at a port: a session for each secret, kept alive by repeating the secret.

The service admits a session with a secret; the client attaches one socket with that secret (`pleroma.wire.attach`), and
a socket belongs to one session. A session ends when its client detaches or is silent for too long; its secret is worth
nothing from then on. Both the hosts of the live network and the broker keep their clients here. The caller passes the
time in, so nothing here reads a clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from pleroma.errors import RoutingError
from pleroma.wire import attach
from pleroma.wire.attach import SECRET_BYTES, AttachKind

T = TypeVar("T")
SocketAddress = tuple[Any, ...]
"""An address as the operating system gives and takes it."""


class SocketSession(Generic[T]):
    """`owner` is whatever the caller admitted the session for; `seconds` of silence end the session.

    `token` is the digest of the token by which it was admitted, if it was by one.
    """

    __slots__ = ("ends", "on_end", "owner", "seconds", "socket", "token")

    def __init__(self, owner: T, seconds: float, ends: float, on_end: Callable[[], None], token: str | None) -> None:
        self.owner = owner
        self.seconds = seconds
        self.ends = ends
        self.on_end = on_end
        self.token = token
        self.socket: SocketAddress | None = None


class AttachOutcome(NamedTuple):
    """Whether the secret of an attach frame is known, and the frame to answer with, if any."""

    known: bool
    answer: bytes | None = None


def _ignore(*_: object) -> None:
    pass


class SocketSessions(Generic[T]):
    """The sessions at one port. `sockets` has those with a socket; only to be read.

    `on_attached` is called when a session gets a socket, `on_detached` when it loses that socket.
    """

    def __init__(
        self,
        on_attached: Callable[[SocketSession[T]], None] = _ignore,
        on_detached: Callable[[SocketSession[T]], None] = _ignore,
    ) -> None:
        self.sockets: dict[SocketAddress, SocketSession[T]] = {}
        self._by_secret: dict[bytes, SocketSession[T]] = {}
        self._next_end = math.inf  # no session ends before
        self._on_attached = on_attached
        self._on_detached = on_detached

    def __len__(self) -> int:
        """How many sessions are admitted, with a socket or still without."""
        return len(self._by_secret)

    def admit(
        self,
        secret: bytes,
        owner: T,
        seconds: float,
        now: float,
        on_end: Callable[[], None] = _ignore,
        *,
        token: str | None = None,
    ) -> None:
        """Begin a session. `on_end` is called when it ends, for whatever reason."""
        if len(secret) != SECRET_BYTES:
            raise RoutingError(f"has {SECRET_BYTES} bytes, not {len(secret)}", field="secret", value=len(secret))
        if not (math.isfinite(seconds) and seconds > 0):
            raise RoutingError(f"{seconds} is not a time to live", field="seconds", value=seconds)
        if secret in self._by_secret:
            raise RoutingError("is in use", field="secret")
        self._by_secret[secret] = SocketSession(owner, seconds, now + seconds, on_end, token)
        self._next_end = min(self._next_end, now + seconds)

    def take(self, frame: bytes, sender: SocketAddress, now: float) -> AttachOutcome:
        """Carry out an attach or detach frame; raises WireError for a frame that is neither."""
        kind, secret = attach.unpack(frame)
        if kind is AttachKind.ATTACH:
            known = self.attach(secret, sender, now)
            return AttachOutcome(known, attach.pack(AttachKind.ATTACHED if known else AttachKind.REFUSED, secret))
        if kind is AttachKind.DETACH:
            return AttachOutcome(self.end(secret))
        return AttachOutcome(False)  # an answer, which nobody asked for

    def attach(self, secret: bytes, socket: SocketAddress, now: float) -> bool:
        """Attach a socket or keep it attached; False if no session has this secret."""
        session = self._by_secret.get(secret)
        if session is None:
            return False
        if session.socket != socket:
            self._detach(session)
            before = self.sockets.get(socket)
            if before is not None:
                self._detach(before)
            session.socket = socket
            self.sockets[socket] = session
            self._on_attached(session)
        session.ends = now + session.seconds
        return True

    def end(self, secret: bytes) -> bool:
        """End a session; False if no session has this secret."""
        session = self._by_secret.pop(secret, None)
        if session is not None:
            self._detach(session)
            session.on_end()
        return session is not None

    def dismiss(self, is_worthless: Callable[[str], bool]) -> None:
        """End the sessions whose tokens, by their digests, are worth nothing any more."""
        over = [each for each, held in self._by_secret.items() if held.token is not None and is_worthless(held.token)]
        for secret in over:
            self.end(secret)

    def expire(self, now: float) -> float:
        """End the sessions that were silent for too long. Returns a time before which no other ends by silence."""
        if now >= self._next_end:
            for secret in [secret for secret, session in self._by_secret.items() if session.ends <= now]:
                self.end(secret)
            self._next_end = min((session.ends for session in self._by_secret.values()), default=math.inf)
        return self._next_end

    def _detach(self, session: SocketSession[T]) -> None:
        if session.socket is not None:
            del self.sockets[session.socket]
            session.socket = None
            self._on_detached(session)
