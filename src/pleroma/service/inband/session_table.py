"""The sessions of all hosts that talk to the controller through the network, and the rule for who gets one.

Their number is bounded: at a place, at an address, of a principal and overall. Where there are too many, the principal
that has most of them there makes room with the one that it has not used for longest. So nobody, however many sessions
it opens, ends a session that is in use of a principal that has fewer.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Iterator

from pleroma.routing import Host
from pleroma.routing.presence import Place
from pleroma.service.inband.carrier import Peer
from pleroma.service.inband.inband_limits import InbandLimits
from pleroma.service.inband.inband_session import ByteBudget, InbandSession
from pleroma.wire.inband_messages import MAX_NAME_BYTES, NONCE_BYTES, SESSION_BYTES, Hello, Welcome
from pleroma.wire.token_proof import session_key

_Crowd = dict[bytes, InbandSession]
"""Sessions that share a limit, by name, those that were not used for longest first."""


class SessionTable:
    def __init__(self, limits: InbandLimits, clock: Callable[[], float]) -> None:
        self.budget = ByteBudget(limits.max_bytes, limits.max_principal_bytes, limits.max_session_bytes)
        self._sessions: _Crowd = {}
        self._crowds: dict[tuple[str, Hashable], _Crowd] = {}
        self._by_hello: dict[tuple[Place, bytes], InbandSession] = {}
        """By place and nonce of the hello that opened it."""
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
        name = session.welcome.session
        for crowd in (self._sessions, *self._crowds_of(session)):
            crowd[name] = crowd.pop(name)

    def open(self, peer: Peer, hello: Hello, digest: str, key: bytes, known: Host | None) -> InbandSession | None:
        """A new session, or the one that the same hello has opened; None if nobody can be asked to make room.

        `key` is the client's, and `known` is the host at the peer's place.
        """
        same = self._by_hello.get((peer.place, hello.nonce))
        if same is not None and same.principal == hello.principal:
            return same
        if not self._make_room(peer, hello.principal):
            return None
        name, nonce = secrets.token_bytes(SESSION_BYTES), secrets.token_bytes(NONCE_BYTES)
        session = InbandSession(
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
        for crowd in (self._sessions, *self._crowds_of(session)):
            crowd[name] = session
        self._by_hello[peer.place, hello.nonce] = session
        return session

    def dismiss(self, is_worthless: Callable[[str], bool]) -> None:
        """End the sessions whose tokens, by their digests, are worth nothing any more.

        One that waits for answers to earlier requests gets them, and has nothing else answered.
        """
        for session in [each for each in self if is_worthless(each.digest) and not each.is_busy]:
            self._end(session)

    def _crowds_of(self, session: InbandSession) -> Iterator[_Crowd]:
        for kind in _kinds(session.place, session.address, session.principal):
            yield self._crowds.setdefault(kind, {})

    def _make_room(self, peer: Peer, principal: str) -> bool:
        """End sessions until there is room for one more of this principal; False if there can be none."""
        now, limits = self._clock(), self._limits
        while self and now - (oldest := next(iter(self))).used_at > limits.idle_seconds:
            self._end(oldest)
        at_place, at_address, of_principal = (
            self._crowds.get(kind, {}) for kind in _kinds(peer.place, str(peer.address), principal)
        )
        for crowd, max_sessions in (
            (of_principal, limits.max_sessions_of_a_principal),
            (at_place, limits.max_sessions_at_a_place),
            (at_address, limits.max_sessions_at_an_address),
            (self._sessions, limits.max_sessions),
        ):
            if len(crowd) >= max_sessions:
                leaving = self._who_leaves(crowd, principal, now)
                if leaving is None:
                    return False
                self._end(leaving)
        return True

    def _who_leaves(self, crowd: _Crowd, newcomer: str, now: float) -> InbandSession | None:
        shares = Counter(session.principal for session in crowd.values())
        shares[newcomer] += 1
        most = max(shares.values())
        for session in crowd.values():
            gives_way = session.principal == newcomer or most > shares[newcomer]
            if shares[session.principal] == most and (gives_way or now - session.used_at > self._limits.in_use_seconds):
                return session
        return None

    def _end(self, session: InbandSession) -> None:
        name = session.welcome.session
        del self._sessions[name]
        del self._by_hello[session.place, session.welcome.nonce]
        for kind in _kinds(session.place, session.address, session.principal):
            crowd = self._crowds[kind]
            del crowd[name]
            if not crowd:
                del self._crowds[kind]
        session.end()


def _kinds(place: Place, address: str, principal: str) -> tuple[tuple[str, Hashable], ...]:
    """The names of the crowds that a session belongs to."""
    return ("place", place), ("address", address), ("principal", principal)


def _sendable(name: str) -> str:
    """The name, if a welcome has room for it; else nothing."""
    return name if len(name.encode(errors="replace")) <= MAX_NAME_BYTES else ""
