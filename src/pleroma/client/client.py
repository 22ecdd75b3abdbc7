"""The client: one connection to a controller, one socket, and the publishers and subscriptions that live on them.

Tasks in the background keep true what the application asked for: one stays attached to the network and comes back when
the controller was away, one renews the lease of all registrations, one follows plans, one reports counters, and one
finds out which subscription brings which events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pleroma.client.links.network_link import NetworkLink
from pleroma.client.session.attachment_keeper import AttachmentKeeper
from pleroma.client.session.inbox import QUEUE_EVENTS
from pleroma.client.session.lease import Lease
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.receiver import PacketReceiver, Receiver
from pleroma.client.session.registration import ClientRegistration, RegistrationKind, read_filter
from pleroma.client.session.registration_keeper import RegistrationKeeper, cancelled
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscription import Subscription
from pleroma.content import Filter, Schema
from pleroma.errors import ClientError, PleromaError, RequestRefused
from pleroma.wire.api_terms import ANY_HOST

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

PATIENCE_SECONDS = 10.0
REPORT_SECONDS = 3.0
IDLE_ATTRIBUTION_SECONDS = 0.1
BUSY_ATTRIBUTION_SECONDS = 0.002
"""Between the covers of two subscriptions: datagrams that wait are read meanwhile."""

log = logging.getLogger("pleroma.client")


class _Connection(NamedTuple):
    """What a client has from being entered on."""

    api: ControllerApi
    attachment: AttachmentKeeper
    registrations: RegistrationKeeper


class Client:
    """Use it as `async with`; it then is connected, and unsubscribes and withdraws everything on the way out.

    `patience` is how many seconds a call waits for a controller that does not answer. Losing the controller later does
    not end anything: the client tries to come back until it is closed. `receiver` makes what takes the packets; it is
    given a callable for names of schemas that have a later plan than is known here.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        host: str = ANY_HOST,
        *,
        principal: str | None = None,
        patience: float = PATIENCE_SECONDS,
        receiver: Callable[[Callable[[str], None]], PacketReceiver] = Receiver,
    ) -> None:
        self.url = url
        self.patience = patience
        self._token = token
        self._principal = principal
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
        """Counters of the socket: `overrun` are datagrams that the kernel dropped since nobody read them in time."""
        overrun = self._connection.attachment.overrun if self._connection else 0
        return asdict(self._receiver.schemas.info) | {"overrun": overrun}

    async def schema(self, name: str) -> Schema:
        return (await self._channel(name)).schema

    async def schemas(self) -> list[Schema]:
        """All schemas that the controller has."""
        pages = self._connected_parts.api.pages("/v1/schemas", patience=self.patience)
        return [Schema.from_json(each["schema"]) async for page in pages for each in page]

    async def health(self) -> dict[str, Any]:
        """What the controller says of its own state."""
        said: dict[str, Any] = (await self._connected_parts.api.ask("GET", "/health", patience=self.patience)).body
        return said

    async def create_schema(self, schema: Schema) -> None:
        """Make sure the controller has this schema. Only an administrator can create one that is not there."""
        try:
            there = await self.schema(schema.name)
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            try:
                body = {"schema": schema.to_json()}
                await self._connected_parts.api.ask("POST", "/v1/schemas", body, patience=self.patience)
            except RequestRefused as late:
                if late.status != 409:
                    raise
            there = await self.schema(schema.name)
        if there != schema:
            reason = f"the controller has another schema of the name {schema.name!r}"
            raise ClientError(reason, field="schema", value=schema.name)

    async def advertise(self, schema: str, filter: str | Filter = "true") -> Publisher:
        """Promise to publish events that match the filter, and no others."""
        registrations, channel = self._connected_parts.registrations, await self._channel(schema)
        registration = _registration("advertisements", channel, filter)
        publisher = Publisher(registration, channel, 0, _Nowhere(), registrations.leave)
        await registrations.join(publisher, self.patience)
        return publisher

    async def subscribe(self, schema: str, filter: str | Filter = "true", *, queue: int = QUEUE_EVENTS) -> Subscription:
        """Receive the events that match the filter; at most `queue` of them wait for the application."""
        registrations, channel = self._connected_parts.registrations, await self._channel(schema)
        registration = _registration("subscriptions", channel, filter)
        subscription = Subscription(registration, registrations.leave, queue)
        # listening begins first: events may come before the controller's answer does
        self._receiver.schemas.listen(channel, subscription.listener)
        try:
            await registrations.join(subscription, self.patience)
        except BaseException:
            self._receiver.schemas.ignore(subscription.listener)
            raise
        return subscription

    async def __aenter__(self) -> Self:
        from pleroma.client.api import ControllerApi  # brings httpx, which takes a while to load

        if self._connection is not None:
            raise ClientError("a client is used once")
        wanted = "" if self._wanted_host == ANY_HOST else self._wanted_host
        api = ControllerApi(self.url, self._token, self._principal, wanted)
        lease = Lease(api)
        attachment = AttachmentKeeper(api, lease.name, self._wanted_host, self._receiver)
        registrations = RegistrationKeeper(api, lease, self._receiver, attachment.link, self._start)
        self._connection = _Connection(api, attachment, registrations)
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
            self._report(),
            self._cover_subscriptions(),
        )
        self._tasks = [self._start(work) for work in works]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Unsubscribe, withdraw and detach; if the controller does not answer, leave nevertheless."""
        if self._connection is None:
            return
        api, attachment, registrations = self._connection
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
        return await self._connected_parts.registrations.plans.channel(schema, self.patience)

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
    url: str,
    token: str | None = None,
    host: str = ANY_HOST,
    *,
    principal: str | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Client:
    """A client of the controller at `url`, to be used as `async with`; `principal` is for `inband://` and `udp://`."""
    return Client(url, token, host, principal=principal, patience=patience)
