"""The client: one connection to a controller, one socket, and the publishers and subscriptions that live on them.

Tasks in the background keep true what the application asked for: one stays attached to the network and comes back when
the controller was away, one renews the lease of all registrations, one follows plans, one sends events that wait, one
reports counters, and one finds out which subscription brings which events.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pleroma.client.agent_address import AgentAddress
from pleroma.client.arguments import (
    check_callable,
    check_filters,
    check_schema,
    check_schema_name,
    check_seconds,
    check_texts,
)
from pleroma.client.links.network_link import NetworkLink
from pleroma.client.session.attachment_keeper import AttachmentKeeper
from pleroma.client.session.inbox import QUEUE_EVENTS
from pleroma.client.session.lease import Lease
from pleroma.client.session.outbox import BUFFER_BYTES, BUFFER_EVENTS, BufferLimits, WhenFull
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.receiver import PacketReceiver, Receiver
from pleroma.client.session.registration import ClientRegistration, RegistrationKind, read_filter
from pleroma.client.session.registration_keeper import RegistrationKeeper, cancelled
from pleroma.client.session.resending import Resending
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscription import OnEvent, Subscription
from pleroma.content import Filter, Schema
from pleroma.content.schema_difference import schema_differences
from pleroma.errors import ClientError, PleromaError, RequestRefused
from pleroma.wire.api_terms import ANY_HOST

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

PATIENCE_SECONDS = 10.0
REPORT_SECONDS = 3.0
IDLE_ATTRIBUTION_SECONDS = 0.1
BUSY_ATTRIBUTION_SECONDS = 0.002
"""Between the covers of two subscriptions: datagrams that wait are read meanwhile."""
MADE_PER_TURN = 50
"""Subscriptions that are made before the event loop looks at something else."""

log = logging.getLogger("pleroma.client")


class _Connection(NamedTuple):
    """What a client has from being entered on."""

    api: ControllerApi
    attachment: AttachmentKeeper
    registrations: RegistrationKeeper
    resending: Resending


class Client:
    """Use it as `async with`; it then is connected, and unsubscribes and withdraws everything on the way out.

    `patience` is how many seconds a call waits for a controller that does not answer. Losing the controller later does
    not end anything: the client tries to come back until it is closed. Without a `url` it asks the host agent of this
    machine, with the token in $PLEROMA_TOKEN and the principal in $PLEROMA_PRINCIPAL if none are given. `receiver`
    makes what takes the packets; it is given a callable for names of schemas that have a later plan than is known here.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        host: str = ANY_HOST,
        *,
        principal: str | None = None,
        patience: float = PATIENCE_SECONDS,
        ca: str | Path | None = None,
        receiver: Callable[[Callable[[str], None]], PacketReceiver] = Receiver,
    ) -> None:
        check_texts(token=token, host=host, principal=principal)
        check_seconds("patience", patience)
        if url is None:
            url = AgentAddress.find().url
            token = os.environ.get("PLEROMA_TOKEN") if token is None else token
            principal = os.environ.get("PLEROMA_PRINCIPAL") if principal is None else principal
        self.url = url
        self.patience = patience
        self._token = token
        self._principal = principal
        self._ca = ca
        self._wanted_host = host
        self._receiver = receiver(self._read_later_plan)
        self._connection: _Connection | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def host(self) -> str | None:
        """The host of the network that this client is attached to."""
        return self._connection.attachment.host if self._connection else None

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.attachment.is_connected

    async def connected(self) -> None:
        """Wait until the client is attached to the network."""
        await self._connected_parts.attachment.connected()

    @property
    def info(self) -> dict[str, int]:
        """Counters of the socket, and what was lost: `overrun` by the kernel, since nobody read datagrams in time, and
        what publishers and subscriptions have as `unsent`, `dropped` and `missed`, those that are closed among them.
        """
        losses = self._connection.registrations.losses if self._connection else {}
        return asdict(self._receiver.schemas.info) | losses

    async def schema(self, name: str) -> Schema:
        """A schema, as the controller has it now."""
        check_schema_name(name)
        return (await self._connected_parts.registrations.plans.read(name, self.patience)).schema

    async def schemas(self) -> list[Schema]:
        """All schemas that the controller has."""
        pages = self._connected_parts.api.pages("/v1/schemas", patience=self.patience)
        return [Schema.from_json(each["schema"]) async for page in pages for each in page]

    async def health(self) -> dict[str, Any]:
        """What the controller says of its own state."""
        said: dict[str, Any] = (await self._connected_parts.api.ask("GET", "/health", patience=self.patience)).body
        return said

    async def create_schema(self, schema: Schema) -> None:
        """Make sure the controller has this schema, in this version or a later one.

        Only an administrator can create one that is not there.
        """
        check_schema(schema)
        plans = self._connected_parts.registrations.plans
        try:
            there = await plans.read(schema.name, self.patience)
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            try:
                body = {"schema": schema.to_json()}
                await self._connected_parts.api.ask("POST", "/v1/schemas", body, patience=self.patience)
            except RequestRefused as late:
                if late.status != 409:
                    raise
            there = await plans.read(schema.name, self.patience)
        if not there.has(schema):
            differing = "; ".join(schema_differences(there.schema, schema))
            reason = f"the controller has another schema {schema.name!r}: {differing}"
            raise ClientError(reason, field="schema", value=schema.name)

    async def advertise(
        self,
        schema: str,
        filter: str | Filter = "true",
        *,
        buffer: int = BUFFER_EVENTS,
        buffer_bytes: int = BUFFER_BYTES,
        when_full: WhenFull = "raise",
    ) -> Publisher:
        """Promise to publish events that match the filter, and no others.

        While the client is cut off, at most `buffer` events of `buffer_bytes` wait to be sent. If one more is published
        then, that raises `BufferFull`, or with `drop_oldest` the oldest is dropped.
        """
        limits = BufferLimits(buffer, buffer_bytes, when_full)
        registrations, channel = self._connected_parts.registrations, await self._channel(schema)
        registration = _registration("advertisements", channel, filter)
        begin = self._connected_parts.resending.begin
        publisher = Publisher(
            registration, channel, 0, _Nowhere(), registrations.leave, limits=limits, on_waiting=begin
        )
        await registrations.join(publisher, self.patience)
        return publisher

    async def subscribe(
        self,
        schema: str,
        filter: str | Filter = "true",
        *,
        queue: int = QUEUE_EVENTS,
        on_event: OnEvent | None = None,
    ) -> Subscription:
        """Receive the events that match the filter; at most `queue` of them wait for the application.

        `on_event` is called with each, one after another. An error that it raises is logged, and the next call follows.
        """
        check_callable("on_event", on_event)
        channel = await self._channel(schema)
        subscription = self._subscription(channel, filter, queue)
        await self._join(channel, subscription)
        if on_event is not None:
            subscription.call(on_event)
        return subscription

    async def subscribe_many(
        self, schema: str, filters: Iterable[str | Filter], *, queue: int = QUEUE_EVENTS
    ) -> list[Subscription]:
        """Subscribe with each of the filters, in few requests; all or none.

        If one is refused, the others are closed, and that error is raised. Subscriptions that were made in this way
        have no `share`.
        """
        channel = await self._channel(schema)
        subscriptions = []
        for each in check_filters(filters):
            subscriptions.append(self._subscription(channel, each, queue))
            if len(subscriptions) % MADE_PER_TURN == 0:
                await asyncio.sleep(0)
        joined = await asyncio.gather(*(self._join(channel, each) for each in subscriptions), return_exceptions=True)
        failures = [each for each in joined if each is not None]
        if failures:
            await asyncio.gather(*(each.close() for each in subscriptions), return_exceptions=True)
            raise failures[0]
        return subscriptions

    def _subscription(self, channel: SchemaChannel, filter: str | Filter, queue: int) -> Subscription:
        registrations = self._connected_parts.registrations
        registration = _registration("subscriptions", channel, filter)
        update = partial(registrations.update, patience=self.patience)
        return Subscription(registration, registrations.leave, update, queue)

    async def _join(self, channel: SchemaChannel, subscription: Subscription) -> None:
        # listening begins first: events may come before the controller's answer does
        self._receiver.schemas.listen(channel, subscription.listener)
        try:
            await self._connected_parts.registrations.join(subscription, self.patience)
        except BaseException:
            self._receiver.schemas.ignore(subscription.listener)
            raise

    async def __aenter__(self) -> Self:
        from pleroma.client.api import ControllerApi  # brings httpx, which takes a while to load

        if self._connection is not None:
            raise ClientError("a client is used once")
        wanted = "" if self._wanted_host == ANY_HOST else self._wanted_host
        api = ControllerApi(self.url, self._token, self._principal, wanted, ca=self._ca)
        lease = Lease(api)
        attachment = AttachmentKeeper(api, lease.name, self._wanted_host, self._receiver)
        registrations = RegistrationKeeper(
            api, lease, self._receiver, attachment.link, self._start, lambda: attachment.overrun
        )
        resending = Resending(lambda: registrations.publishers)
        self._connection = _Connection(api, attachment, registrations, resending)
        try:
            link = await attachment.attach(self.patience)
        except BaseException:
            await api.close()
            raise
        registrations.plans.use(link.attachment.addresses)
        works = (
            attachment.stay(self._come_back),
            registrations.stay(),
            registrations.plans.follow(attachment.doubt),
            resending.stay(),
            self._report(),
            self._cover_subscriptions(),
        )
        self._tasks = [self._start(work) for work in works]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what waits, unsubscribe, withdraw and detach; if the controller does not answer, leave nevertheless."""
        if self._connection is None:
            return
        api, attachment, registrations, _ = self._connection
        await registrations.drain()
        await cancelled(self._tasks)
        await registrations.stop_restoring()
        if left := await registrations.leave_all(self.patience):
            log.warning("could not withdraw %s at %s", ", ".join(left), self.url)
        attachment.close()
        await api.close()

    async def _come_back(self, link: NetworkLink) -> None:
        """Register everything again behind a new link."""
        registrations = self._connected_parts.registrations
        registrations.plans.use(link.attachment.addresses)
        await registrations.come_back()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            try:
                await self._connected_parts.registrations.report()
            except PleromaError as error:
                log.info("%s", error)

    async def _cover_subscriptions(self) -> None:
        """Find the cells of each subscription, between other things."""
        while True:
            is_busy = self._receiver.cover_next()
            await asyncio.sleep(BUSY_ATTRIBUTION_SECONDS if is_busy else IDLE_ATTRIBUTION_SECONDS)

    def _read_later_plan(self, schema: str) -> None:
        if self._connection is not None:
            self._connection.registrations.plans.hurry(schema)

    async def _channel(self, schema: str) -> SchemaChannel:
        check_schema_name(schema)
        return await self._connected_parts.registrations.plans.channel(schema, self.patience)

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"Client({self.url!r}, host={self.host!r}, {state})"

    @property
    def _connected_parts(self) -> _Connection:
        if self._connection is None:
            raise ClientError("the client is not connected: use it as `async with`")
        return self._connection

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        """A task in the background ends with an error only when nothing can go on: then everything ends with it."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("the client stops: %s", error, exc_info=None if isinstance(error, PleromaError) else error)
        failure = error if isinstance(error, PleromaError) else ClientError(f"a fault in the client: {error!r}")
        for each in self._tasks:
            each.cancel()
        registrations = self._connected_parts.registrations
        for member in list(registrations.members):
            registrations.dismiss(member, failure)


class _Nowhere:
    """Takes no packet: the sender of a publisher before it is registered."""

    def send(self, address: bytes, packet: bytes) -> bool:  # noqa: ARG002
        return False


def _registration(kind: RegistrationKind, channel: SchemaChannel, filter: str | Filter) -> ClientRegistration:
    return ClientRegistration(kind, channel.schema.name, read_filter(channel.schema, filter))


def connect(
    url: str | None = None,
    token: str | None = None,
    host: str = ANY_HOST,
    *,
    principal: str | None = None,
    patience: float = PATIENCE_SECONDS,
    ca: str | Path | None = None,
) -> Client:
    """A client of the controller at `url`, to be used as `async with`.

    `principal` is for `inband://` and `udp://`, `ca` (the file of an authority that the system does not know) for
    `https://`. Without a `url` it is a client of the host agent of this machine.
    """
    return Client(url, token, host, principal=principal, patience=patience, ca=ca)
