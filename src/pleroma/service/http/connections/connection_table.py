"""Who holds how much of the room for connections, and who gives way when it is short.

Room is counted in slots. A connection takes one, and one more for every 16 KiB that it holds: of a request that is not
answered yet, or of an answer that its client does not read. A quarter of the slots is for connections that have not
shown a valid token, the rest for those that have, so neither kind can keep the other out. Within its part an owner (the
address of anonymous connections, the principal of the others) has at most its share (`pleroma.service.shares`). Nobody
is turned away: when an owner has more than its share, its oldest connection is closed, and when all are taken, the
oldest of all. A newcomer that soon shows its token is never the oldest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import Metric

from pleroma.service.metric_families import counter, gauge
from pleroma.service.shares import share

SLOT_BYTES = 16_384
_ANONYMOUS_PART = 4
"""One in so many slots is for anonymous connections."""


class TabledConnection(Protocol):
    """A connection as the table sees it."""

    def cut(self) -> None:
        """Close the connection at once, whatever is under way."""

    def overdue(self) -> str | None:
        """What it has taken too long for, if for anything."""


class Seat:
    """The place of one connection in the table; given up by `leave`, which may be called again."""

    __slots__ = ("_address", "_table", "connection", "owner", "pool", "slots")

    def __init__(self, table: ConnectionTable, connection: TabledConnection, address: str) -> None:
        self._table = table
        self._address = address
        self.connection = connection
        self.pool = table.anonymous
        self.owner = address
        self.slots = 1

    def weigh(self, held_bytes: int) -> None:
        """The connection holds so many bytes now."""
        slots = 1 + held_bytes // SLOT_BYTES
        if slots != self.slots and self in self.pool:
            self.pool.change(self, slots)
            self._table.make_room(self)

    def belong_to(self, principal: str | None) -> None:
        """The connection has shown a token of this principal, or (None) one that is not valid."""
        pool, owner = (self._table.anonymous, self._address) if principal is None else (self._table.known, principal)
        if (self.owner != owner or self.pool is not pool) and self in self.pool:
            self.pool.remove(self)
            self.pool, self.owner = pool, owner
            pool.add(self)
            self._table.make_room(self)

    def leave(self) -> None:
        if self in self.pool:
            self.pool.remove(self)


class SeatPool:
    """Seats that have a number of slots together, in the order in which they came."""

    def __init__(self, slots: int) -> None:
        self.slots = max(1, slots)
        self.taken = 0
        self._seats: dict[Seat, None] = {}
        self._by_owner: dict[str, dict[Seat, None]] = {}
        self._taken_by: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._seats)

    def __contains__(self, seat: Seat) -> bool:
        return seat in self._seats

    def __iter__(self) -> Iterator[Seat]:
        return iter(self._seats)

    def add(self, seat: Seat) -> None:
        self._seats[seat] = None
        self._by_owner.setdefault(seat.owner, {})[seat] = None
        self._count(seat.owner, seat.slots)

    def change(self, seat: Seat, slots: int) -> None:
        self._count(seat.owner, slots - seat.slots)
        seat.slots = slots

    def remove(self, seat: Seat) -> None:
        del self._seats[seat]
        mine = self._by_owner[seat.owner]
        del mine[seat]
        self._count(seat.owner, -seat.slots)
        if not mine:
            del self._by_owner[seat.owner], self._taken_by[seat.owner]

    def surplus(self, owner: str) -> Seat | None:
        """The seat that has to go now that this owner has taken more, if one has."""
        mine = self._taken_by[owner]
        if mine > share(self.slots, self.taken - mine):
            return next(iter(self._by_owner[owner]))
        return next(iter(self._seats)) if self.taken > self.slots else None

    def _count(self, owner: str, slots: int) -> None:
        self.taken += slots
        self._taken_by[owner] += slots


class ConnectionTable:
    """All connections. `tick` counts the calls of `sweep`: the seconds in which the event loop ran."""

    def __init__(self, slots: int) -> None:
        self.anonymous = SeatPool(slots // _ANONYMOUS_PART)
        self.known = SeatPool(slots - slots // _ANONYMOUS_PART)
        self.tick = 0
        self._closed: Counter[str] = Counter()

    def join(self, connection: TabledConnection, address: str) -> Seat:
        seat = Seat(self, connection, address)
        seat.pool.add(seat)
        self.make_room(seat)
        return seat

    def make_room(self, cause: Seat) -> None:
        """Close the connections that have to go because one has taken more."""
        while cause in cause.pool and (surplus := cause.pool.surplus(cause.owner)) is not None:
            surplus.leave()
            self.count("room")
            surplus.connection.cut()

    def sweep(self) -> None:
        """Close the connections that are overdue. To be called every second.

        Time is counted by these calls: if the event loop stands still, that is not the fault of a connection.
        """
        self.tick += 1
        for seat in (*self.anonymous, *self.known):
            late = seat.connection.overdue()
            if late is not None:
                self.count(late)
                seat.connection.cut()

    def count(self, reason: str) -> None:
        """A connection is closed for this reason."""
        self._closed[reason] += 1

    def metrics(self) -> Iterator[Metric]:
        kinds = {"anonymous": float(len(self.anonymous)), "known": float(len(self.known))}
        yield gauge("pleroma_connections", "Open connections, without and with a valid token", kinds.items(), "kind")
        closed = [(reason, float(count)) for reason, count in self._closed.items()]
        what = "Connections that were cut: no room, a request too late or too large, an answer not read"
        yield counter("pleroma_connections_cut", what, closed, "reason")
