"""The sessions of all hosts that talk to the controller through the network. Their number is bounded."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

from pleroma.routing import Host
from pleroma.routing.presence import Place
from pleroma.service.inband.carrier import Peer
from pleroma.service.inband.inband_limits import InbandLimits
from pleroma.service.inband.inband_session import ByteBudget, InbandSession
from pleroma.wire.inband_messages import MAX_NAME_BYTES, NONCE_BYTES, SESSION_BYTES, Hello, Welcome, session_key


class SessionTable:
    def __init__(self, limits: InbandLimits, clock: Callable[[], float]) -> None:
        self.budget = ByteBudget(limits.max_bytes, limits.max_session_bytes)
        self._sessions: dict[bytes, InbandSession] = {}
        self._limits = limits
        self._clock = clock

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[InbandSession]:
        return iter(self._sessions.values())

    def find(self, name: bytes, peer: Peer) -> InbandSession | None:
        """The session of this name, if it was opened from the peer's place and address."""
        session = self._sessions.get(name)
        if session is None or session.place != peer.place or session.address != str(peer.address):
            return None
        return session

    def is_open(self, session: InbandSession) -> bool:
        return session.welcome.session in self._sessions

    def touch(self, session: InbandSession) -> None:
        """The session is in use."""
        session.used_at = self._clock()

    def open(self, peer: Peer, hello: Hello, digest: str, key: bytes, known: Host | None) -> InbandSession:
        """A new session, or the one that the same hello has opened. `known` is the host at the peer's place."""
        same = (each for each in self._at(peer.place) if each.welcome.nonce == hello.nonce)
        return next(same, None) or self._new(peer, hello, digest, key, known)

    def _new(self, peer: Peer, hello: Hello, digest: str, key: bytes, known: Host | None) -> InbandSession:
        self._make_room(peer.place)
        name, nonce = secrets.token_bytes(SESSION_BYTES), secrets.token_bytes(NONCE_BYTES)
        session = self._sessions[name] = InbandSession(
            principal=hello.principal,
            digest=digest,
            place=peer.place,
            address=str(peer.address),
            wanted_name=hello.host,
            key=session_key(key, hello.nonce, nonce),
            welcome=Welcome(hello.nonce, name, nonce, _sendable(known.name) if known else ""),
            budget=self.budget,
            used_at=self._clock(),
        )
        return session

    def _at(self, place: Place) -> list[InbandSession]:
        return [session for session in self if session.place == place]

    def _make_room(self, place: Place) -> None:
        """End idle sessions, and where there are too many nevertheless, the one that was not used for longest."""
        now, limits = self._clock(), self._limits
        for session in list(self):
            if now - session.used_at > limits.idle_seconds:
                self._end(session)
        for crowd, max_sessions in (
            (self._at(place), limits.max_sessions_at_a_place),
            (self._sessions.values(), limits.max_sessions),
        ):
            if len(crowd) >= max_sessions:
                self._end(min(crowd, key=lambda each: each.used_at))

    def _end(self, session: InbandSession) -> None:
        del self._sessions[session.welcome.session]
        session.end()


def _sendable(name: str) -> str:
    """The name, if a welcome has room for it; else nothing."""
    return name if len(name.encode(errors="replace")) <= MAX_NAME_BYTES else ""
