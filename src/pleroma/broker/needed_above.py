"""What the broker above has to know of the registrations here: every advertisement, and the outermost subscriptions.

A subscription that lies inside another one of its schema is not needed above: its events come with the other's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pleroma.broker.covering import Covering
from pleroma.content import Filter
from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Registrations


class NeededAbove:
    """Follows the registrations. `version` counts their changes, and `changed` is set with each."""

    def __init__(self) -> None:
        self.version = 0
        self.changed = asyncio.Event()
        self.advertisements: dict[str, Filter] = {}
        """By their id."""
        self._subscriptions: dict[str, Covering] = {}
        """By the name of the schema."""

    def follow(self, registrations: Registrations) -> None:
        """Take in the registrations in force, and hear of all changes from now on."""
        for each in registrations.values():
            self.on_registered(each)
        registrations.subscribe(self)

    def subscriptions(self) -> dict[str, Filter]:
        """The outermost of all schemas, by their id."""
        return {key: each for schema in self._subscriptions.values() for key, each in schema.outermost.items()}

    def on_registered(self, registered: Registered) -> None:
        if registered.kind == "advertisement":
            self.advertisements[registered.id] = registered.filter
        else:
            self._subscriptions.setdefault(registered.schema, Covering()).add(registered.id, registered.filter)
        self._change()

    def on_withdrawn(self, registered: Registered) -> None:
        if registered.kind == "advertisement":
            del self.advertisements[registered.id]
        else:
            self._subscriptions[registered.schema].remove(registered.id)
        self._change()

    def extend(self, schema: str, registered: Iterable[Registered]) -> None:
        """The schema has a later version now; these are its registrations."""
        self._subscriptions.pop(schema, None)
        for each in registered:
            self.on_registered(each)
        self._change()

    def _change(self) -> None:
        self.version += 1
        self.changed.set()
