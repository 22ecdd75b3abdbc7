"""The registrations in force, found by id, by principal, by lease and by the publisher's number."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Protocol, TypeVar

from pleroma.control.state.records import Registered

Key = TypeVar("Key")

Lease = tuple[str, str]
"""A principal, and the name it gave: names of different principals are different leases."""


class RegistrationListener(Protocol):
    """Hears of every registration and withdrawal while it is applied, or at `tell`. It must not raise an error."""

    def on_registered(self, registered: Registered) -> None: ...

    def on_withdrawn(self, registered: Registered) -> None: ...


class Registrations(Mapping[str, Registered]):
    """Registrations by id, in the order of registration; `by_principal` and `by_lease` group them in the same order.

    `by_publisher` has the advertisements, by the number that packets carry.
    """

    def __init__(self) -> None:
        self.by_publisher: dict[int, Registered] = {}
        self.by_principal: dict[str, dict[str, Registered]] = {}
        self.by_lease: dict[Lease, dict[str, Registered]] = {}
        self._by_id: dict[str, Registered] = {}
        self._order: list[str] = []
        """All ids by number. Those that are gone are dropped when they are many."""
        self._subscriptions: dict[str, int] = {}
        self._boxes: dict[str, int] = {}
        self._listeners: list[RegistrationListener] = []
        self._holds_back = False
        self._untold: deque[tuple[Registered, bool]] = deque()
        """What was registered (True) or withdrawn (False) while listeners were not told."""

    def __getitem__(self, id: str) -> Registered:
        return self._by_id[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def values(self) -> ValuesView[Registered]:
        return self._by_id.values()

    def items(self) -> ItemsView[str, Registered]:
        return self._by_id.items()

    def subscribe(self, listener: RegistrationListener) -> None:
        """Have the listener hear of all changes from now on."""
        self._listeners.append(listener)

    @property
    def subscriptions(self) -> int:
        """How many of them are subscriptions."""
        return sum(self._subscriptions.values())

    def behind(self, number: int, principal: str | None = None) -> Iterator[Registered]:
        """The registrations with larger numbers, all of them or those of a principal.

        Others may come and go while they are looked at: those that come are left out.
        """
        order = self._order if principal is None else list(self.by_principal.get(principal, ()))
        for place in range(bisect_right(order, number, key=_number), len(order)):
            if (found := self._by_id.get(order[place])) is not None:
                yield found

    def subscriptions_of(self, principal: str) -> int:
        """How many subscriptions a principal has."""
        return self._subscriptions.get(principal, 0)

    @property
    def boxes(self) -> int:
        """How many boxes the filters of all registrations have together."""
        return sum(self._boxes.values())

    def boxes_of(self, principal: str) -> int:
        """How many boxes the filters of a principal's registrations have together."""
        return self._boxes.get(principal, 0)

    def add(self, registered: Registered) -> None:
        self._put(registered)
        self._order.append(registered.id)
        self._boxes[registered.principal] = self.boxes_of(registered.principal) + registered.box_count
        if registered.kind == "subscription":
            self._subscriptions[registered.principal] = self.subscriptions_of(registered.principal) + 1
        self._changed(registered, True)

    def replace(self, registered: Iterable[Registered]) -> None:
        """Put the same registrations with other regions in the place of those that are here."""
        for each in registered:
            self._put(each)

    def remove(self, registered: Registered) -> None:
        del self._by_id[registered.id]
        if len(self._order) > 2 * len(self._by_id) + 1000:
            self._order = list(self._by_id)
        _take_out(self.by_principal, registered.principal, registered.id)
        if registered.lease is not None:
            _take_out(self.by_lease, (registered.principal, registered.lease), registered.id)
        if registered.kind == "subscription":
            self._subscriptions[registered.principal] -= 1
        else:
            del self.by_publisher[registered.publisher]
        self._boxes[registered.principal] -= registered.box_count
        if registered.principal not in self.by_principal:
            self._boxes.pop(registered.principal)
            self._subscriptions.pop(registered.principal, None)
        self._changed(registered, False)

    def hold_back(self) -> None:
        """Tell listeners nothing until `tell`: another thread changes the registrations."""
        self._holds_back = bool(self._listeners)

    def tell(self, most: int) -> bool:
        """Tell listeners what was held back, at most so many changes; whether there are more."""
        for _ in range(min(most, len(self._untold))):
            self._tell(*self._untold.popleft())
        self._holds_back = bool(self._untold)
        return self._holds_back

    def _changed(self, registered: Registered, is_new: bool) -> None:
        if self._holds_back:
            self._untold.append((registered, is_new))
        else:
            self._tell(registered, is_new)

    def _tell(self, registered: Registered, is_new: bool) -> None:
        for listener in self._listeners:
            (listener.on_registered if is_new else listener.on_withdrawn)(registered)

    def _put(self, registered: Registered) -> None:
        self._by_id[registered.id] = registered
        if registered.kind == "advertisement":
            self.by_publisher[registered.publisher] = registered
        self.by_principal.setdefault(registered.principal, {})[registered.id] = registered
        if registered.lease is not None:
            self.by_lease.setdefault((registered.principal, registered.lease), {})[registered.id] = registered


def _number(id: str) -> int:
    return int(id[1:])


def _take_out(groups: dict[Key, dict[str, Registered]], group: Key, id: str) -> None:
    members = groups[group]
    del members[id]
    if not members:
        del groups[group]
