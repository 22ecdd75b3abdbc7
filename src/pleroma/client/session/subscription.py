"""The receiving side of a subscription, for applications: an asynchronous iterator over events, or calls with each."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

from pleroma.client.session.inbox import QUEUE_EVENTS, Inbox, SubscriptionInfo
from pleroma.client.session.registration import ClientRegistration, read_filter
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.client.session.traffic_share import TrafficShare
from pleroma.content import Event, Filter
from pleroma.errors import ClientClosed, ClientError, PleromaError
from pleroma.wire import EventPacket

OnEvent = Callable[[Event], Any]
"""A function that is called with each event; what an asynchronous one returns is awaited."""

MAX_EVENTS_IN_A_ROW = 64
"""Events taken before other tasks have a turn: a busy `async for` must not keep the socket from being read."""
LAST_CALLS_SECONDS = 3.0
"""How long closing waits for calls with events that were received before."""

log = logging.getLogger("pleroma.client")


class Subscription:
    """Iterate over it, or `receive` one packet at a time; leaving `async with` unsubscribes.

    `update` has the controller replace the registration by one with another filter.
    """

    def __init__(
        self,
        registration: ClientRegistration,
        close: Callable[[Subscription], Awaitable[None]],
        update: Callable[[Subscription, Filter], Awaitable[None]],
        queue: int = QUEUE_EVENTS,
    ) -> None:
        self.registration = registration
        self.listener = EventListener(registration.filter, Inbox(queue), self._wake)
        self._arrived = asyncio.Event()
        self._ended = False
        self._failure: PleromaError | None = None
        self._in_a_row = 0
        self._close = close
        self._update = update
        self._updating = asyncio.Lock()
        self._calls: asyncio.Task[None] | None = None

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

    async def update(self, filter: str | Filter) -> None:
        """Want another filter from now on.

        Until this returns, events of either filter are received, and then of the new one alone: none that both match
        is missed or comes twice. If the controller refuses the new filter, the old one stands.
        """
        wanted = read_filter(self.filter.schema, filter)
        async with self._updating:
            if wanted != self.filter:
                await self._update(self, wanted)

    def call(self, on_event: OnEvent) -> None:
        """For the client: call a function with each event, one after another, instead of iterating over them."""
        self._calls = asyncio.create_task(self._call(on_event))

    async def receive(self) -> EventPacket:
        """The next event with its payload, publisher, sequence number and time of publication."""
        self._check_reader()
        packet = await self._next()
        if packet is None:
            raise ClientClosed("the subscription is closed")
        return packet

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        self._check_reader()
        packet = await self._next()
        if packet is None:
            raise StopAsyncIteration
        return packet.event

    async def packets(self) -> AsyncIterator[EventPacket]:
        """As `async for` over the subscription, with what `receive` gives."""
        self._check_reader()
        while (packet := await self._next()) is not None:
            yield packet

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

    async def _call(self, on_event: OnEvent) -> None:
        try:
            while (packet := await self._next()) is not None:
                try:
                    answer = on_event(packet.event)
                    if inspect.isawaitable(answer):
                        await answer
                except Exception:
                    log.exception("on_event of %r failed with %s", self, packet.event)
        except PleromaError as failure:
            log.error("%r has ended: %s", self, failure)

    def _check_reader(self) -> None:
        if self._calls is not None:
            raise ClientError("the events of this subscription go to on_event")

    async def last_calls(self) -> None:
        """Wait until `on_event` was called with everything that was received; but for `LAST_CALLS_SECONDS` at most."""
        if self._calls is not None and self._calls is not asyncio.current_task():
            await asyncio.wait([self._calls], timeout=LAST_CALLS_SECONDS)
            self._calls.cancel()

    async def close(self) -> None:
        """Unsubscribe. What has been received can still be taken."""
        await self._close(self)
        await self.last_calls()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def end(self, failure: PleromaError | None = None) -> None:
        """For the client: no more events will be received. A reader gets the failure after the last event."""
        self._ended = True
        self._failure = self._failure or failure
        self._wake()

    def __repr__(self) -> str:
        return f"Subscription({self.registration.description}, waiting={self.waiting})"

    def _wake(self) -> None:
        self._arrived.set()
