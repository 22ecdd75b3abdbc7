"""The client for programs without an event loop: the same names, without `await`.

An event loop runs in a thread of its own. Publishing, and taking events that have been received, happen in the caller's
thread; only calls that must wait are handed over to the event loop.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pleroma.client import client as asynchronous
from pleroma.client.arguments import check_callable, check_seconds
from pleroma.client.client import PATIENCE_SECONDS
from pleroma.client.loop_thread import LoopThread
from pleroma.client.session.inbox import QUEUE_EVENTS, SubscriptionInfo
from pleroma.client.session.outbox import BUFFER_BYTES, BUFFER_EVENTS, PublisherInfo, WhenFull
from pleroma.client.session.publisher import Publisher as AsyncPublisher
from pleroma.client.session.subscription import LAST_CALLS_SECONDS, OnEvent
from pleroma.client.session.subscription import Subscription as AsyncSubscription
from pleroma.client.session.traffic_share import TrafficShare
from pleroma.content import Event, Filter, Schema
from pleroma.errors import ClientClosed, ClientError, PleromaError
from pleroma.wire import EventPacket
from pleroma.wire.api_terms import ANY_HOST

log = logging.getLogger("pleroma.client")


class Publisher:
    """May be used from several threads."""

    def __init__(self, inner: AsyncPublisher, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop
        self._lock = threading.Lock()

    @property
    def id(self) -> str | None:
        return self._inner.id

    @property
    def info(self) -> PublisherInfo:
        return self._inner.info

    @property
    def waiting(self) -> int:
        return self._inner.waiting

    def drain(self, timeout: float | None = None) -> None:
        """Wait until no event waits to be sent; TimeoutError after `timeout` seconds."""
        self._loop.run(self._inner.drain(), timeout)

    def publish(self, event: Event | Mapping[str, Any], payload: bytes = b"") -> int:
        with self._lock:
            return self._inner.publish(event, payload)

    def publish_many(self, events: Iterable[Event | Mapping[str, Any]]) -> list[int]:
        with self._lock:
            return self._inner.publish_many(events)

    def close(self) -> None:
        self._loop.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._inner)


class Subscription:
    """`on_event` is called with each event in a thread of its own, so it may take its time and use the client."""

    def __init__(self, inner: AsyncSubscription, loop: LoopThread, on_event: OnEvent | None = None) -> None:
        self._inner = inner
        self._loop = loop
        self._calls: threading.Thread | None = None
        if on_event is not None:
            self._calls = threading.Thread(target=self._call, args=[on_event], name=f"on_event {inner.id}", daemon=True)
            self._calls.start()

    @property
    def id(self) -> str | None:
        return self._inner.id

    @property
    def share(self) -> TrafficShare | None:
        return self._inner.share

    @property
    def info(self) -> SubscriptionInfo:
        return self._inner.info

    @property
    def waiting(self) -> int:
        return self._inner.waiting

    @property
    def is_over(self) -> bool:
        return self._inner.is_over

    def receive(self, timeout: float | None = None) -> EventPacket:
        """The next event with its payload, publisher, number and time; TimeoutError after `timeout` seconds."""
        if timeout is not None:
            check_seconds("timeout", timeout)
        if self._calls not in (None, threading.current_thread()):
            raise ClientError("the events of this subscription go to on_event")
        packet = self._inner.listener.inbox.take()
        return packet if packet is not None else self._loop.run(self._inner.receive(), timeout)

    def __iter__(self) -> Iterator[Event]:
        """Ends when the subscription is closed."""
        return (packet.event for packet in self.packets())

    def packets(self) -> Iterator[EventPacket]:
        """As `for` over the subscription, with what `receive` gives."""
        while True:
            try:
                yield self.receive()
            except ClientClosed:
                return

    def update(self, filter: str | Filter) -> None:
        """Want another filter from now on; what both match is neither missed nor received twice."""
        self._loop.run(self._inner.update(filter))

    def close(self) -> None:
        self._loop.run(self._inner.close())
        self.last_calls()

    def last_calls(self) -> None:
        """Wait until `on_event` was called with all that was received; but for `LAST_CALLS_SECONDS` at most."""
        if self._calls not in (None, threading.current_thread()):
            self._calls.join(LAST_CALLS_SECONDS)

    def _call(self, on_event: OnEvent) -> None:
        try:
            for event in self:
                try:
                    answer = on_event(event)
                    if inspect.iscoroutine(answer):
                        self._loop.run(answer)
                except Exception:
                    log.exception("on_event of %r failed with %s", self, event)
        except PleromaError as failure:
            log.error("%r has ended: %s", self, failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._inner)


class Client:
    """Use it as `with`; it then is connected, and unsubscribes and withdraws everything on the way out."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        host: str = ANY_HOST,
        *,
        principal: str | None = None,
        patience: float = PATIENCE_SECONDS,
        ca: str | Path | None = None,
    ) -> None:
        self._inner = asynchronous.Client(url, token, host, principal=principal, patience=patience, ca=ca)
        self._loop: LoopThread | None = None
        self._called: list[Subscription] = []
        """Subscriptions with `on_event`."""

    @property
    def host(self) -> str | None:
        return self._inner.host

    @property
    def is_connected(self) -> bool:
        return self._inner.is_connected

    @property
    def info(self) -> dict[str, int]:
        return self._inner.info

    def schema(self, name: str) -> Schema:
        return self._running.run(self._inner.schema(name))

    def schemas(self) -> list[Schema]:
        return self._running.run(self._inner.schemas())

    def create_schema(self, schema: Schema) -> None:
        self._running.run(self._inner.create_schema(schema))

    def advertise(
        self,
        schema: str,
        filter: str | Filter = "true",
        *,
        buffer: int = BUFFER_EVENTS,
        buffer_bytes: int = BUFFER_BYTES,
        when_full: WhenFull = "raise",
    ) -> Publisher:
        made = self._inner.advertise(schema, filter, buffer=buffer, buffer_bytes=buffer_bytes, when_full=when_full)
        return Publisher(self._running.run(made), self._running)

    def subscribe(
        self,
        schema: str,
        filter: str | Filter = "true",
        *,
        queue: int = QUEUE_EVENTS,
        on_event: OnEvent | None = None,
    ) -> Subscription:
        check_callable("on_event", on_event)
        inner = self._running.run(self._inner.subscribe(schema, filter, queue=queue))
        subscription = Subscription(inner, self._running, on_event)
        if on_event is not None:
            self._called = [*(each for each in self._called if not each.is_over), subscription]
        return subscription

    def subscribe_many(
        self, schema: str, filters: Iterable[str | Filter], *, queue: int = QUEUE_EVENTS
    ) -> list[Subscription]:
        made = self._running.run(self._inner.subscribe_many(schema, filters, queue=queue))
        return [Subscription(each, self._running) for each in made]

    def close(self) -> None:
        if self._loop is not None:
            loop, self._loop = self._loop, None
            try:
                loop.run(self._inner.close())
                for each in self._called:
                    each.last_calls()
            finally:
                loop.close()

    def __enter__(self) -> Self:
        if self._loop is not None:
            raise ClientError("the client is connected")
        self._loop = LoopThread()
        try:
            self._loop.run(self._inner.__aenter__())
        except BaseException:
            self._loop.close()
            self._loop = None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def _running(self) -> LoopThread:
        if self._loop is None:
            raise ClientClosed("the client is not connected: use it as `with`")
        return self._loop


def connect(
    url: str | None = None,
    token: str | None = None,
    host: str = ANY_HOST,
    *,
    principal: str | None = None,
    patience: float = PATIENCE_SECONDS,
    ca: str | Path | None = None,
) -> Client:
    """A client of the controller at `url`, to be used as `with`; the arguments are those of `pleroma.connect`.

    Without a `url` it is a client of the host agent of this machine.
    """
    return Client(url, token, host, principal=principal, patience=patience, ca=ca)
