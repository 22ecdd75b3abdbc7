"""A client that passes events on, for a broker that is joined to another broker.

A relay registers like any client, but has no readers: every event that arrives is handed over once, whichever
subscriptions it matches, and what it publishes are events of others under the numbers that they have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from pleroma.client.client import PATIENCE_SECONDS, Client
from pleroma.client.session.duplicates import Duplicates
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.subscribed_schemas import SubscribedSchemas
from pleroma.client.session.subscription import Subscription
from pleroma.content import Filter, Schema
from pleroma.wire import EventPacket
from pleroma.wire.event_tags import identity


class Relay:
    """`on_event` gets every event that arrives."""

    def __init__(
        self,
        url: str,
        token: str | None,
        on_event: Callable[[EventPacket], None],
        *,
        principal: str | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._client = Client(
            url,
            token,
            principal=principal,
            patience=patience,
            receiver=lambda on_outdated: RelayReceiver(on_event, on_outdated),
        )

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    async def connected(self) -> None:
        """Wait until the relay is attached to the network."""
        await self._client.connected()

    async def schemas(self) -> list[Schema]:
        """All schemas that the controller has."""
        return await self._client.schemas()

    async def brokers(self) -> tuple[str, ...]:
        """The names of the broker that this one is joined to and of those above that one; none of another network."""
        found = await self._client.health()
        names = found.get("brokers")
        return tuple(map(str, names)) if isinstance(names, list) else ()

    async def subscribe(self, schema: str, filter: Filter) -> Subscription:
        return await self._client.subscribe(schema, filter)

    async def advertise(self, schema: str, filter: Filter) -> Publisher:
        return await self._client.advertise(schema, filter)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


class RelayReceiver:
    """Hands every event over once, instead of matching it with the subscriptions of this client."""

    def __init__(self, on_event: Callable[[EventPacket], None], on_outdated: Callable[[str], object]) -> None:
        self.schemas = SubscribedSchemas(on_outdated)
        self._on_event = on_event
        self._duplicates = Duplicates()

    def cover_next(self) -> bool:
        """A relay does not count waste, so it needs no covers."""
        return False

    def charge(self, subscription: str, wasted: int, forged: int) -> None:
        """A relay does not count waste."""

    def echo(self, data: bytes) -> None:
        """An event that goes up must not come down again."""

    def receive(self, data: bytes) -> None:
        self.schemas.info.packets += 1
        found = self.schemas.read(data)
        if found is not None:
            _, packet = found
            if not self._duplicates.repeats(identity(data)):
                self._on_event(packet)
