"""The programs that are attached to a broker, and whom each belongs to.

A program is a socket session at the broker's port (`pleroma.wire.socket_sessions`). Its owner is a principal, and the
lease that it named if it named one. Registrations have owners too: by the owner of a subscription the broker finds the
programs that an event is for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeVar

from pleroma.wire.socket_sessions import SocketSession, SocketSessions

Key = TypeVar("Key")


class ProgramOwner(NamedTuple):
    """A principal and the lease that it named, of a program or of a registration."""

    principal: str
    lease: str | None = None

    def has(self, other: ProgramOwner) -> bool:
        """Whether the two belong together. Without a lease, it is anything of the principal."""
        return self.principal == other.principal and (
            self.lease is None or other.lease is None or self.lease == other.lease
        )


Program = SocketSession[ProgramOwner]


class Programs:
    """`sessions` admits, attaches and ends programs; those with a socket are found here by their owners."""

    def __init__(self) -> None:
        self.sessions: SocketSessions[ProgramOwner] = SocketSessions(self._put_in, self._take_out)
        self._by_principal: dict[str, dict[Program, None]] = {}
        self._by_owner: dict[ProgramOwner, dict[Program, None]] = {}

    def of(self, owner: ProgramOwner) -> Collection[Program]:
        """The attached programs that something of this owner is for."""
        if owner.lease is None:
            return self._by_principal.get(owner.principal, ())
        own = self._by_owner.get(owner, {})
        shared = self._by_owner.get(ProgramOwner(owner.principal), {})
        return [*own, *shared] if shared else own

    def _put_in(self, program: Program) -> None:
        self._by_principal.setdefault(program.owner.principal, {})[program] = None
        self._by_owner.setdefault(program.owner, {})[program] = None

    def _take_out(self, program: Program) -> None:
        _remove(self._by_principal, program.owner.principal, program)
        _remove(self._by_owner, program.owner, program)


def _remove(groups: dict[Key, dict[Program, None]], name: Key, program: Program) -> None:
    group = groups[name]
    del group[program]
    if not group:
        del groups[name]
