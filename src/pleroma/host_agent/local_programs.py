"""The programs of this machine that are attached to the agent, and what each has registered.

A program is known by its token and the lease that it registers under. It is there from its attachment until its
connection for events ends. What it registered is what the controller said of it in answers that passed through the
agent: the agent itself has no rights, and gives none.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from pleroma.client.session.inbox import Inbox
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.content import Filter
from pleroma.errors import LimitReached
from pleroma.wire.attach import SECRET_BYTES
from pleroma.wire.event_tags import PacketSeal

FIRST_LAPSE_SECONDS = 60.0
"""How long registrations stand here that were never renewed; a renewal tells the period of the lease."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """As whom a program asks the controller; `principal` is needed where the agent asks in-band."""

    token: str | None = field(repr=False)
    principal: str | None = None


class ProgramConnection(Protocol):
    def send(self, frame: bytes) -> bool:
        """Hand a frame over; False if there is no room for it."""

    def close(self) -> None: ...


class LocalSubscription(EventListener):
    """A subscription of a program. Of its inbox only the counters are used: events wait in the program's queue."""

    __slots__ = ("program", "told_forged", "told_wasted")

    def __init__(self, program: LocalProgram, id: str, wanted: Filter) -> None:
        super().__init__(wanted, Inbox(1))
        self.program = program
        self.id = id
        self.told_wasted = self.told_forged = 0

    def untold(self) -> tuple[int, int]:
        """Packets wasted and forged that the program has not been told of."""
        info = self.inbox.info
        return info.wasted - self.told_wasted, info.forged - self.told_forged

    def told(self) -> None:
        self.told_wasted, self.told_forged = self.inbox.info.wasted, self.inbox.info.forged


@dataclass(frozen=True, slots=True, eq=False)
class LocalAdvertisement:
    id: str
    schema: str
    number: int
    """Of the publisher, which packets carry."""
    filter: Filter
    seal: PacketSeal | None
    """Protects its packets, by a tag or by encryption; None where nothing does."""

    def opened(self, data: bytes) -> bytes | None:
        """A packet that a codec can read, from one of this publisher's; None if that is not genuine."""
        return data if self.seal is None else self.seal.opened(data)


class LocalProgram:
    """It belongs to a user of this machine, by number, and is forgotten at `ends` if it has no connection by then."""

    def __init__(self, who: Credentials, lease: str, host: str, user: int, ends: float) -> None:
        self.who = who
        self.lease = lease
        self.host = host
        self.user = user
        self.ends = ends
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self.connection: ProgramConnection | None = None
        self.subscriptions: dict[str, LocalSubscription] = {}
        self.advertisements: dict[str, LocalAdvertisement] = {}
        self.publishers: dict[int, LocalAdvertisement] = {}
        self.overrun = 0
        """Events that were not handed over, because the program did not read fast enough."""
        self.overrun_before = 0
        """What the socket of the network had lost before this program came."""
        self.told_overrun = 0
        self._confirmed: dict[str, float] = {}
        """By the id of a registration: when the controller last said that it stands."""
        self._lapse_seconds = FIRST_LAPSE_SECONDS

    @property
    def registered(self) -> frozenset[str]:
        """The ids of its registrations."""
        return frozenset((*self.subscriptions, *self.advertisements))

    def lapsed(self, now: float) -> list[str]:
        """The registrations that the controller has not confirmed for so long that they count no more."""
        return [each for each in self.registered if now - self._confirmed.get(each, -inf) > self._lapse_seconds]

    def confirm(self, now: float, ids: Iterable[str], lapse_seconds: float | None = None) -> None:
        """The controller has said that these registrations stand; or there is no controller now that could say so."""
        stand = self.registered
        self._confirmed = {each: since for each, since in self._confirmed.items() if each in stand}
        self._confirmed.update((each, now) for each in ids if each in stand)
        self._lapse_seconds = lapse_seconds or self._lapse_seconds

    def hand_over(self, frame: bytes) -> bool:
        """Give it an event; False if it has no room for it, which is counted."""
        if self.connection is not None and self.connection.send(frame):
            return True
        self.overrun += 1
        return False


class LocalPrograms:
    """At most `max_programs`, and half of them of one user. `on_end` is called with a program that is gone."""

    def __init__(self, max_programs: int, on_end: Callable[[LocalProgram], None]) -> None:
        self._max_programs = max_programs
        self._on_end = on_end
        self._by_secret: dict[bytes, LocalProgram] = {}
        self._by_lease: dict[tuple[Credentials, str], LocalProgram] = {}
        self._of_user: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._by_secret)

    def __iter__(self) -> Iterator[LocalProgram]:
        return iter(list(self._by_secret.values()))

    def admit(self, program: LocalProgram) -> None:
        """Take a program in, in place of one with the same token and lease that has not connected."""
        before = self.find(program.who, program.lease)
        if before is not None and before.connection is None:
            self.end(before)
        if len(self) >= self._max_programs or self._of_user[program.user] >= max(self._max_programs // 2, 1):
            reason = f"the agent has no room for more programs of this user, or for more than {self._max_programs}"
            raise LimitReached(reason, field="programs", value=len(self))
        self._by_secret[program.secret] = program
        self._by_lease[program.who, program.lease] = program
        self._of_user[program.user] += 1

    def find(self, who: Credentials, lease: str) -> LocalProgram | None:
        return self._by_lease.get((who, lease))

    def __contains__(self, program: LocalProgram) -> bool:
        return self._by_secret.get(program.secret) is program

    def with_secret(self, secret: bytes) -> LocalProgram | None:
        return self._by_secret.get(secret)

    def end(self, program: LocalProgram) -> None:
        """Forget a program. May be called twice."""
        if self._by_secret.pop(program.secret, None) is None:
            return
        if self.find(program.who, program.lease) is program:
            del self._by_lease[program.who, program.lease]
        self._of_user[program.user] -= 1
        if not self._of_user[program.user]:
            del self._of_user[program.user]
        if program.connection is not None:
            program.connection.close()
            program.connection = None
        self._on_end(program)

    def expire(self, now: float) -> None:
        """End the programs that have no connection and had time to make one."""
        for program in self:
            if program.connection is None and program.ends <= now:
                self.end(program)
