"""The sending side of an advertisement, for applications: an event source with a registration at the controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Self

from pleroma.client.session.event_source import EventSource, Sender
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.schema_channel import SchemaChannel


class Publisher(EventSource):
    """`publish` and `publish_many` do not wait; leaving `async with` withdraws the advertisement."""

    def __init__(
        self,
        registration: ClientRegistration,
        channel: SchemaChannel,
        number: int,
        sender: Sender,
        close: Callable[[Publisher], Awaitable[None]],
    ) -> None:
        super().__init__(registration.filter, channel, number, sender)
        self.registration = registration
        self._close = close

    @property
    def id(self) -> str | None:
        """The id of the registration at the controller; None while it is not registered."""
        return self.registration.id

    async def close(self) -> None:
        """Withdraw the advertisement."""
        await self._close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
