"""The programs that are attached to a broker: whose they are, and from which sockets they send.

A program is admitted with a secret and attaches a socket with it (`pleroma.wire.attach`); it stays for as long as it
repeats that. What stands is somebody's, under a lease or without one, and so is a program: by these the broker knows
for whom an event is. Times are the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple, TypeVar

from pleroma.errors import RoutingError
from pleroma.wire.attach import SECRET_BYTES

Key = TypeVar("Key")
SocketAddress = tuple[Any, ...]
"""As the operating system gives and takes it."""


class ProgramOwner(NamedTuple):
    """A principal and the lease that it named, of a program or of a registration."""

    principal: str
    lease: str | None = None

    def has(self, other: ProgramOwner) -> bool:
        """Whether the two belong together. Without a lease, it is anything of the principal."""
        return self.principal == other.principal and (
            self.lease is None or other.lease is None or self.lease == other.lease
        )


class Program:
    __slots__ = ("ends", "owner", "seconds", "socket")

    def __init__(self, owner: ProgramOwner, seconds: float, ends: float) -> None:
        self.owner = owner
        self.seconds = seconds
        self.ends = ends
        self.socket: SocketAddress | None = None


class Programs:
    """`sockets` has the attached ones; only to be read."""

    def __init__(self) -> None:
        self.sockets: dict[SocketAddress, Program] = {}
        self._by_secret: dict[bytes, Program] = {}
        self._by_principal: dict[str, dict[Program, None]] = {}
        self._by_owner: dict[ProgramOwner, dict[Program, None]] = {}
        self._expiry = math.inf  # nobody leaves before

    def __len__(self) -> int:
        """How many are admitted, with a socket or still without."""
        return len(self._by_secret)

    def of(self, owner: ProgramOwner) -> Collection[Program]:
        """The attached programs that something of this owner is for."""
        if owner.lease is None:
            return self._by_principal.get(owner.principal, ())
        own = self._by_owner.get(owner, {})
        shared = self._by_owner.get(ProgramOwner(owner.principal), {})
        return [*own, *shared] if shared else own

    def admit(self, secret: bytes, owner: ProgramOwner, seconds: float, now: float) -> None:
        if len(secret) != SECRET_BYTES:
            raise RoutingError(f"has {SECRET_BYTES} bytes, not {len(secret)}", field="secret", value=len(secret))
        if not (math.isfinite(seconds) and seconds > 0):
            raise RoutingError(f"{seconds} is not a time to live", field="seconds", value=seconds)
        if secret in self._by_secret:
            raise RoutingError("is in use", field="secret")
        self._by_secret[secret] = Program(owner, seconds, now + seconds)
        self._expiry = min(self._expiry, now + seconds)

    def attach(self, secret: bytes, socket: SocketAddress, now: float) -> bool:
        """Attach a socket or keep it attached; False where nobody was admitted with this secret."""
        program = self._by_secret.get(secret)
        if program is None:
            return False
        if program.socket != socket:
            self._detach(program)
            before = self.sockets.get(socket)
            if before is not None:
                self._detach(before)
            program.socket = socket
            self.sockets[socket] = program
            self._by_principal.setdefault(program.owner.principal, {})[program] = None
            self._by_owner.setdefault(program.owner, {})[program] = None
        program.ends = now + program.seconds
        return True

    def end(self, secret: bytes) -> bool:
        """False where nobody was admitted with this secret."""
        program = self._by_secret.pop(secret, None)
        if program is not None:
            self._detach(program)
        return program is not None

    def expire(self, now: float) -> None:
        """End what was silent for too long."""
        if now < self._expiry:
            return
        for secret in [secret for secret, program in self._by_secret.items() if program.ends <= now]:
            self.end(secret)
        self._expiry = min((program.ends for program in self._by_secret.values()), default=math.inf)

    def _detach(self, program: Program) -> None:
        if program.socket is None:
            return
        del self.sockets[program.socket]
        program.socket = None
        _take_out(self._by_principal, program.owner.principal, program)
        _take_out(self._by_owner, program.owner, program)


def _take_out(groups: dict[Key, dict[Program, None]], name: Key, program: Program) -> None:
    group = groups[name]
    del group[program]
    if not group:
        del groups[name]
