"""Sessions of hosts that talk to the controller through the network, and what is remembered of their requests.

A request is carried out once, however often it comes: its answer is kept until the client says, with a later request,
that it waits for it no longer. All that is kept is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pleroma.routing.presence import Place
from pleroma.wire.inband_messages import Welcome
from pleroma.wire.parts import Assembly

CALLS = 64
"""Requests that a session has under way or remembers."""


@dataclass(slots=True)
class Room:
    """Bytes that all sessions share."""

    most: int
    by_session: int
    used: int = 0


@dataclass(slots=True)
class Call:
    """A request: first it gathers, then it runs, then it is answered."""

    gathering: Assembly
    is_running: bool = False
    answer: Sequence[bytes] | None = None
    kept: int = 0
    """Bytes."""


@dataclass(slots=True)
class Session:
    principal: str
    digest: str
    place: Place
    address: str
    wanted: str
    """The name that the host would like to have."""
    key: bytes = field(repr=False)
    welcome: Welcome
    room: Room
    used: float
    """When it was, by a clock."""
    floor: int = 0
    """Requests below it are over."""
    calls: dict[int, Call] = field(default_factory=dict)
    _kept: int = 0

    def call(self, sequence: int, parts: int) -> Call | None:
        """What is known of a request, or a new one; None if it is over, or too many are under way."""
        if sequence < self.floor:
            return None
        known = self.calls.get(sequence)
        if known is None:
            if len(self.calls) >= CALLS and not self._drop_one():
                return None
            known = self.calls[sequence] = Call(Assembly(parts))
        return known if known.gathering.parts == parts else None

    def gather(self, call: Call, part: int, body: bytes) -> bool | None:
        """A part of a request: whether to ask for more now, or None if there is no room for it."""
        room = self.room
        if room.used + len(body) > room.most or self._kept + len(body) > room.by_session:
            return None
        asks = call.gathering.add(part, body)
        self._keep(call, call.gathering.size)
        return asks

    def answered(self, call: Call, answer: Sequence[bytes]) -> None:
        call.is_running, call.answer = False, answer
        self._keep(call, sum(map(len, answer)))
        self.settle(self.floor)

    def settle(self, floor: int) -> None:
        """The client waits for nothing below this any more."""
        self.floor = max(self.floor, floor)
        for sequence in [each for each in self.calls if each < self.floor and not self.calls[each].is_running]:
            self._drop(sequence)

    def end(self) -> None:
        for sequence in list(self.calls):
            self._drop(sequence)

    def _keep(self, call: Call, size: int) -> None:
        self._kept += size - call.kept
        self.room.used += size - call.kept
        call.kept = size

    def _drop(self, sequence: int) -> None:
        self._keep(self.calls.pop(sequence), 0)

    def _drop_one(self) -> bool:
        """One that never became whole, or else the oldest answer; its request is over then."""
        unfinished = [n for n, call in self.calls.items() if call.answer is None and not call.is_running]
        answered = [n for n, call in self.calls.items() if call.answer is not None]
        if not unfinished and not answered:
            return False
        sequence = min(unfinished or answered)
        self._drop(sequence)
        if not unfinished:
            self.floor = max(self.floor, sequence + 1)
        return True
