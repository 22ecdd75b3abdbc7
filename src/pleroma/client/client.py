"""The client: one connection to a controller, one socket, and the publishers and subscriptions that live on them.

Tasks keep true what the application asked for: one stays attached to the network and comes back when the controller was
away, one renews the lease of all registrations, one follows plans, one reports what was counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from pleroma.client.backoff import Backoff
from pleroma.client.links.network_link import HostAttachment, NetworkLink, open_link
from pleroma.client.session.inbox import QUEUE_EVENTS
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.receiver import Receiver
from pleroma.client.session.registration import ClientRegistration, RegistrationKind, read_filter
from pleroma.client.session.registration_keeper import RegistrationKeeper, cancelled
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscription import Subscription
from pleroma.content import Filter, Schema
from pleroma.errors import ClientClosed, ClientError, ControllerAway, PleromaError, RequestRefused
from pleroma.wire.api_terms import ANY_HOST

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

PATIENCE_SECONDS = 10.0
REPORT_SECONDS = 3.0
IDLE_ATTRIBUTION_SECONDS = 0.1
BUSY_ATTRIBUTION_SECONDS = 0.002
"""Seconds between two pieces of work that can wait: a queue of datagrams is to be read meanwhile."""

log = logging.getLogger("pleroma.client")


class Client:
    """Use it as `async with`; it then is connected, and unsubscribes and withdraws everything on the way out.

    `patience` is how many seconds a call waits for a controller that does not answer. Losing the controller later does
    not end anything: the client tries to come back until it is closed.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        host: str = ANY_HOST,
        *,
        principal: str | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.url = url
        self._principal = principal
        self.patience = patience
        self._token = token
        self._wanted_host = host
        self._receiver = Receiver()
        self._connected = asyncio.Event()
        self._link: NetworkLink | None = None
        self._overrun = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._opened: tuple[ControllerApi, RegistrationKeeper] | None = None

    # -- what an application sees --------------------------------------------------------------------------------

    @property
    def host(self) -> str | None:
        """The host of the network that this client is attached to."""
        return self._link.attachment.host if self._link else None

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    async def connected(self) -> None:
        """Wait until the client is attached to the network."""
        await self._connected.wait()

    @property
    def info(self) -> dict[str, int]:
        """Counters of the socket: `overrun` are datagrams that the kernel dropped since nobody read them in time."""
        overrun = self._overrun + (self._link.overrun if self._link else 0)
        return asdict(self._receiver.info) | {"overrun": overrun}

    async def schema(self, name: str) -> Schema:
        return (await self._members.plans.channel(name, self.patience)).schema

    async def create_schema(self, schema: Schema) -> None:
        """Make sure the controller has this schema. Only an administrator can create one that is not there."""
        try:
            there = await self.schema(schema.name)
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            try:
                await self._api.ask("POST", "/v1/schemas", {"schema": schema.to_json()}, patience=self.patience)
            except RequestRefused as late:
                if late.status != 409:
                    raise
            there = await self.schema(schema.name)
        if there != schema:
            reason = f"the controller has another schema of the name {schema.name!r}"
            raise ClientError(reason, field="schema", value=schema.name)

    async def advertise(self, schema: str, filter: str | Filter = "true") -> Publisher:
        """Promise to publish events that match the filter, and no others."""
        channel = await self._members.plans.channel(schema, self.patience)
        registration = _registration("advertisements", channel, filter)
        publisher = Publisher(registration, channel, 0, _Nowhere(), self._members.leave)
        await self._members.join(publisher, self.patience)
        return publisher

    async def subscribe(self, schema: str, filter: str | Filter = "true", *, queue: int = QUEUE_EVENTS) -> Subscription:
        """Receive the events that match the filter; at most `queue` of them wait for the application."""
        channel = await self._members.plans.channel(schema, self.patience)
        registration = _registration("subscriptions", channel, filter)
        subscription = Subscription(registration, self._members.leave, queue)
        # listening begins first: events may come before the controller's answer does
        self._receiver.listen(channel, subscription.listener)
        try:
            await self._members.join(subscription, self.patience)
        except BaseException:
            self._receiver.ignore(subscription.listener)
            raise
        return subscription

    # -- opening and closing -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        from pleroma.client.api import ControllerApi  # brings httpx, which takes a while to load

        if self._opened is not None:
            raise ClientError("a client is used once")
        wanted = "" if self._wanted_host == ANY_HOST else self._wanted_host
        api = ControllerApi(self.url, self._token, self._principal, wanted)
        members = RegistrationKeeper(api, self._receiver, self._present_link, self._start)
        self._opened = api, members
        self._receiver.outdated = members.plans.hurry
        try:
            self._link = await self._attached(self._wanted_host, self.patience)
        except BaseException:
            await api.close()
            raise
        self._connected.set()
        works = (self._keep(), members.stay(), members.plans.follow(self._doubt), self._report(), self._settle())
        self._tasks = [self._start(work) for work in works]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Unsubscribe, withdraw and detach; where nobody answers, leave nevertheless."""
        if self._opened is None:
            return
        await cancelled(self._tasks)
        await self._members.stop_mending()
        if left := await self._members.leave_all(self.patience):
            log.warning("could not withdraw %s at %s", ", ".join(left), self.url)
        self._connected.clear()
        if self._link is not None:
            self._overrun += self._link.overrun
            self._link.close()
            self._link = None
        await self._api.close()

    # -- staying attached ----------------------------------------------------------------------------------------

    async def _attached(self, host: str, patience: float) -> NetworkLink:
        """A new attachment, and a socket that the network has accepted."""
        path = f"/v1/hosts/{quote(host, safe='')}/attachments?lease={self._members.lease}"
        answer = (await self._api.ask("POST", path, patience=patience)).body
        link = open_link(HostAttachment.from_json(answer, self._api.host), self._receiver.receive, self._receiver.echo)
        try:
            if await link.attach():
                self._members.plans.use(link.attachment.addresses)
                return link
        except BaseException:
            link.close()
            raise
        link.close()
        raise ControllerAway("the network does not answer at the host's port", field="host", value=host)

    async def _keep(self) -> None:
        """Stay attached. When the attachment is lost, get another, and put everything back in place."""
        while True:
            old = self._present_link()
            await old.stay()
            self._connected.clear()
            log.warning("lost the controller at %s; trying to come back", self.url)
            self._link = await self._found_again(old.attachment.host)
            self._overrun += old.overrun
            old.close()
            await self._members.come_back()
            self._connected.set()
            log.warning("connected again to %s", self.url)

    async def _found_again(self, host: str) -> NetworkLink:
        """A new link, however long it takes."""
        backoff = Backoff(most=2.0)
        while True:
            try:
                return await self._attached(host, 0.0)
            except RequestRefused as refused:
                if refused.status == 404 and self._wanted_host == ANY_HOST and host != ANY_HOST:
                    host = ANY_HOST  # the network has no such host any more
                    continue
                if refused.status in (401, 403):
                    raise
                log.info("%s", refused)
            except ClientError as error:
                log.info("%s", error)
            await asyncio.sleep(backoff.pause())

    def _doubt(self) -> None:
        if self._link is not None:
            self._link.doubt()

    # -- counters ------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Find out what each subscription brings, between other things."""
        while True:
            await asyncio.sleep(BUSY_ATTRIBUTION_SECONDS if self._receiver.settle() else IDLE_ATTRIBUTION_SECONDS)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            try:
                await self._members.report()
            except PleromaError as error:
                log.info("%s", error)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> tuple[ControllerApi, RegistrationKeeper]:
        if self._opened is None:
            raise ClientError("the client is not connected: use it as `async with`")
        return self._opened

    @property
    def _api(self) -> ControllerApi:
        return self._parts[0]

    @property
    def _members(self) -> RegistrationKeeper:
        return self._parts[1]

    def _present_link(self) -> NetworkLink:
        if self._link is None:
            raise ClientClosed("the client is closed")
        return self._link

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        """What runs in the background ends only when nothing can go on."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("the client stops: %s", error, exc_info=None if isinstance(error, PleromaError) else error)
        failure = error if isinstance(error, PleromaError) else ClientError(f"a fault in the client: {error!r}")
        for each in self._tasks:
            each.cancel()
        for member in list(self._members.members):
            self._members.dismiss(member, failure)


class _Nowhere:
    """Where events go before there is a link."""

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
