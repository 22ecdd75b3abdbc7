"""The roll of registrations in force, found by id, by principal and by lease."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from pleroma.control.state.records import Registered

Key = TypeVar("Key")

Lease = tuple[str, str]
"""A principal, and the name it gave: names of different principals are different leases."""


class Watcher(Protocol):
    """Is told of every change, as it happens. Errors are not for it to raise."""

    def kept(self, registered: Registered) -> None: ...

    def dropped(self, registered: Registered) -> None: ...


class Roll:
    """In the order of registration, everywhere."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self.by_id: dict[str, Registered] = {}
        self.by_principal: dict[str, dict[str, Registered]] = {}
        self.by_lease: dict[Lease, dict[str, Registered]] = {}
        self._subscriptions: dict[str, int] = {}

    def subscriptions_of(self, principal: str) -> int:
        return self._subscriptions.get(principal, 0)

    def keep(self, registered: Registered) -> None:
        self._put(registered)
        if registered.kind == "subscription":
            self._subscriptions[registered.principal] = self.subscriptions_of(registered.principal) + 1
        if self.watcher is not None:
            self.watcher.kept(registered)

    def replace(self, registered: Iterable[Registered]) -> None:
        """The same registrations, with other regions."""
        for each in registered:
            self._put(each)

    def drop(self, registered: Registered) -> None:
        del self.by_id[registered.id]
        _take_out(self.by_principal, registered.principal, registered.id)
        if registered.lease is not None:
            _take_out(self.by_lease, (registered.principal, registered.lease), registered.id)
        if registered.kind == "subscription":
            self._subscriptions[registered.principal] -= 1
        if self.watcher is not None:
            self.watcher.dropped(registered)

    def _put(self, registered: Registered) -> None:
        self.by_id[registered.id] = registered
        self.by_principal.setdefault(registered.principal, {})[registered.id] = registered
        if registered.lease is not None:
            self.by_lease.setdefault((registered.principal, registered.lease), {})[registered.id] = registered


def _take_out(groups: dict[Key, dict[str, Registered]], group: Key, id: str) -> None:
    members = groups[group]
    del members[id]
    if not members:
        del groups[group]
