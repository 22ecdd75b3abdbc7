"""The receiving side of a subscription, for applications: an asynchronous iterator over events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from pleroma.client.session.inbox import QUEUE_EVENTS, Inbox, SubscriptionInfo
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.client.session.traffic_share import TrafficShare
from pleroma.content import Event, Filter
from pleroma.errors import ClientClosed, PleromaError
from pleroma.wire import EventPacket

MAX_EVENTS_IN_A_ROW = 64
"""Events taken before other tasks have a turn: a busy `async for` must not keep the socket from being read."""


class Subscription:
    """Iterate over it, or `receive` one packet at a time; leaving `async with` unsubscribes."""

    def __init__(
        self,
        registration: ClientRegistration,
        close: Callable[[Subscription], Awaitable[None]],
        queue: int = QUEUE_EVENTS,
    ) -> None:
        self.registration = registration
        self.listener = EventListener(registration.filter, Inbox(queue), self._wake)
        self._arrived = asyncio.Event()
        self._ended = False
        self._failure: PleromaError | None = None
        self._in_a_row = 0
        self._close = close

    @property
    def id(self) -> str | None:
        """The id of the registration at the controller; None while it is not registered."""
        return self.registration.id

    @property
    def filter(self) -> Filter:
        return self.registration.filter

    @property
    def share(self) -> TrafficShare | None:
        """What it brought of the traffic and what it wanted when it was registered; None where nothing was sampled."""
        return self.registration.share

    @property
    def info(self) -> SubscriptionInfo:
        return self.listener.inbox.info

    @property
    def is_over(self) -> bool:
        """Whether no more events will be received."""
        return self._ended

    @property
    def waiting(self) -> int:
        """Events received and not yet taken."""
        return len(self.listener.inbox)

    async def receive(self) -> EventPacket:
        """The next event with its publisher, sequence number and time of publication."""
        packet = await self._next()
        if packet is None:
            raise ClientClosed("the subscription is closed")
        return packet

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        packet = await self._next()
        if packet is None:
            raise StopAsyncIteration
        return packet.event

    async def _next(self) -> EventPacket | None:
        """The next event; None if the subscription has ended and all its events are taken."""
        while (packet := self.listener.inbox.take()) is None:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return None
            self._in_a_row = 0
            self._arrived.clear()
            await self._arrived.wait()
        self._in_a_row += 1
        if self._in_a_row >= MAX_EVENTS_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        return packet

    async def close(self) -> None:
        """Unsubscribe. What has been received can still be taken."""
        await self._close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def end(self, failure: PleromaError | None = None) -> None:
        """For the client: no more events will be received. A reader gets the failure after the last event."""
        self._ended = True
        self._failure = self._failure or failure
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()
