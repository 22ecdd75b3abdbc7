"""The sending side of an advertisement, for applications: an event source with a registration at the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from pleroma.client.session.event_source import EventSource, Sender
from pleroma.client.session.outbox import BufferLimits
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.schema_channel import SchemaChannel

DRAIN_SECONDS = 0.01
"""Between two looks at whether events still wait."""


class Publisher(EventSource):
    """`publish` and `publish_many` do not wait; leaving `async with` withdraws the advertisement."""

    def __init__(
        self,
        registration: ClientRegistration,
        channel: SchemaChannel,
        number: int,
        sender: Sender,
        close: Callable[[Publisher], Awaitable[None]],
        *,
        limits: BufferLimits = BufferLimits(),  # noqa: B008 (a value that does not change)
        on_waiting: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(registration.filter, channel, number, sender, limits=limits, on_waiting=on_waiting)
        self.registration = registration
        self._close = close

    @property
    def id(self) -> str | None:
        """The id of the registration at the controller; None while it is not registered."""
        return self.registration.id

    async def drain(self) -> None:
        """Wait until no event waits to be sent. Raises why not, if the publisher ends before."""
        while self.waiting:
            await asyncio.sleep(DRAIN_SECONDS)
            if self.failure is not None:
                raise self.failure

    async def close(self) -> None:
        """Withdraw the advertisement. Events that wait are sent before, if the network takes them within seconds."""
        await self._close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Publisher({self.registration.description}, published={self.info.published}, waiting={self.waiting})"
