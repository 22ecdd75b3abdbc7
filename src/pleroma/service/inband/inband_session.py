"""A session of a host that talks to the controller through the network, and what is remembered of its requests.

A request is carried out once, however often it arrives: its answer is kept until the client says, with a later request,
that it no longer waits for it. All that is kept is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pleroma.routing.presence import Place
from pleroma.wire.inband_messages import Welcome
from pleroma.wire.parts import Assembly

MAX_REQUESTS_PER_SESSION = 64
"""Requests that a session has under way or remembers."""


@dataclass(slots=True)
class ByteBudget:
    """Bytes that all sessions share, and the parts of them that one principal and one session may use."""

    max_bytes: int
    max_principal_bytes: int
    max_session_bytes: int
    used: int = 0
    used_by: Counter[str] = field(default_factory=Counter)
    """By principal."""

    def has_room(self, principal: str, session_bytes: int, more: int) -> bool:
        return (
            self.used + more <= self.max_bytes
            and self.used_by[principal] + more <= self.max_principal_bytes
            and session_bytes + more <= self.max_session_bytes
        )

    def use(self, principal: str, more: int) -> None:
        """`more` is below 0 for bytes that are no longer kept."""
        self.used += more
        self.used_by[principal] += more
        if not self.used_by[principal]:
            del self.used_by[principal]


@dataclass(slots=True)
class SessionRequest:
    """A request of a session: first its parts are gathered, then it runs, then it has an answer."""

    gathering: Assembly
    is_running: bool = False
    answer: Sequence[bytes] | None = None
    kept_bytes: int = 0


@dataclass(slots=True)
class InbandSession:
    principal: str
    digest: str
    place: Place
    address: str
    wanted_name: str
    """The name that the host would like to have."""
    key: bytes = field(repr=False)
    welcome: Welcome
    budget: ByteBudget
    used_at: float
    """The time of the last genuine message, by the server's clock."""
    floor: int = 0
    """The client waits for no answer to requests with a lower sequence number."""
    requests: dict[int, SessionRequest] = field(default_factory=dict)
    _kept_bytes: int = 0

    @property
    def is_busy(self) -> bool:
        """Whether a request of it is being carried out."""
        return any(each.is_running for each in self.requests.values())

    def request(self, sequence: int, parts: int) -> SessionRequest | None:
        """A known or new request; None if it is below the floor, its size changed, or too many are under way."""
        if sequence < self.floor:
            return None
        known = self.requests.get(sequence)
        if known is None:
            if len(self.requests) >= MAX_REQUESTS_PER_SESSION and not self._drop_one():
                return None
            known = self.requests[sequence] = SessionRequest(Assembly(parts))
        return known if known.gathering.parts == parts else None

    def gather(self, request: SessionRequest, part: int, body: bytes) -> bool | None:
        """Add a part to a request: whether to ask for missing parts now, or None if there is no room for it."""
        if not self.budget.has_room(self.principal, self._kept_bytes, len(body)):
            return None
        asks = request.gathering.add(part, body)
        self._keep(request, request.gathering.size)
        return asks

    def answered(self, request: SessionRequest, answer: Sequence[bytes]) -> None:
        request.is_running, request.answer = False, answer
        self._keep(request, sum(map(len, answer)))
        self.forget_below(self.floor)

    def forget_below(self, floor: int) -> None:
        """Forget the requests with a lower sequence number, except those that run."""
        self.floor = max(self.floor, floor)
        for sequence in [each for each in self.requests if each < self.floor and not self.requests[each].is_running]:
            self._drop(sequence)

    def end(self) -> None:
        for sequence in list(self.requests):
            self._drop(sequence)

    def _keep(self, request: SessionRequest, size: int) -> None:
        self._kept_bytes += size - request.kept_bytes
        self.budget.use(self.principal, size - request.kept_bytes)
        request.kept_bytes = size

    def _drop(self, sequence: int) -> None:
        self._keep(self.requests.pop(sequence), 0)

    def _drop_one(self) -> bool:
        """Drop a request that never became whole, or else the oldest answer, which raises the floor above it."""
        unfinished = [n for n, each in self.requests.items() if each.answer is None and not each.is_running]
        answered = [n for n, each in self.requests.items() if each.answer is not None]
        if not unfinished and not answered:
            return False
        sequence = min(unfinished or answered)
        self._drop(sequence)
        if not unfinished:
            self.floor = max(self.floor, sequence + 1)
        return True
