"""The client for programs without an event loop: the same names, without `await`.

An event loop runs in a thread of its own. Publishing, and taking events that have been received, happen in the caller's
thread; only calls that must wait are handed over to the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from pleroma.client import client as asynchronous
from pleroma.client.client import PATIENCE_SECONDS
from pleroma.client.loop_thread import LoopThread
from pleroma.client.session.event_source import PublisherInfo
from pleroma.client.session.inbox import QUEUE_EVENTS, SubscriptionInfo
from pleroma.client.session.publisher import Publisher as AsyncPublisher
from pleroma.client.session.subscription import Subscription as AsyncSubscription
from pleroma.client.session.traffic_share import TrafficShare
from pleroma.content import Event, Filter, Schema
from pleroma.errors import ClientClosed, ClientError
from pleroma.wire import EventPacket
from pleroma.wire.api_terms import ANY_HOST


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

    def publish(self, event: Event | Mapping[str, Any]) -> int:
        with self._lock:
            return self._inner.publish(event)

    def publish_many(self, events: Iterable[Event | Mapping[str, Any]]) -> list[int]:
        with self._lock:
            return self._inner.publish_many(events)

    def close(self) -> None:
        self._loop.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Subscription:
    def __init__(self, inner: AsyncSubscription, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

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

    def receive(self, timeout: float | None = None) -> EventPacket:
        """The next event with its publisher, sequence number and time; TimeoutError after `timeout` seconds."""
        packet = self._inner.listener.inbox.take()
        return packet if packet is not None else self._loop.run(self._inner.receive(), timeout)

    def __iter__(self) -> Iterator[Event]:
        """Ends when the subscription is closed."""
        while True:
            try:
                yield self.receive().event
            except ClientClosed:
                return

    def close(self) -> None:
        self._loop.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """Use it as `with`; it then is connected, and unsubscribes and withdraws everything on the way out."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        host: str = ANY_HOST,
        *,
        principal: str | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._inner = asynchronous.Client(url, token, host, principal=principal, patience=patience)
        self._loop: LoopThread | None = None

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

    def advertise(self, schema: str, filter: str | Filter = "true") -> Publisher:
        return Publisher(self._running.run(self._inner.advertise(schema, filter)), self._running)

    def subscribe(self, schema: str, filter: str | Filter = "true", *, queue: int = QUEUE_EVENTS) -> Subscription:
        return Subscription(self._running.run(self._inner.subscribe(schema, filter, queue=queue)), self._running)

    def close(self) -> None:
        if self._loop is not None:
            loop, self._loop = self._loop, None
            try:
                loop.run(self._inner.close())
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

    @property
    def _running(self) -> LoopThread:
        if self._loop is None:
            raise ClientClosed("the client is not connected: use it as `with`")
        return self._loop


def connect(
    url: str,
    token: str | None = None,
    host: str = ANY_HOST,
    *,
    principal: str | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Client:
    """A client of the controller at `url`, to be used as `with`; `principal` is for `inband://` and `udp://`."""
    return Client(url, token, host, principal=principal, patience=patience)
