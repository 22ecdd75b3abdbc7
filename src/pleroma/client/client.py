"""The client: one connection to a controller, one socket, and the publishers and subscriptions that live on them.

What the application asked for is remembered here. Tasks keep it true: one stays attached to the network and comes back
when the controller was away, one follows plans, one reports what was counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from pleroma.client.backoff import Backoff
from pleroma.client.channel import Channel
from pleroma.client.inbox import QUEUE
from pleroma.client.link import Attachment, Link
from pleroma.client.plans import Plans
from pleroma.client.publisher import Publisher
from pleroma.client.receiver import Receiver
from pleroma.client.registrar import Registrar
from pleroma.client.registration import Kind, Registration, read_filter
from pleroma.client.reports import Reports
from pleroma.client.subscription import Subscription
from pleroma.content import Filter, Schema
from pleroma.errors import ClientClosed, ClientError, ControllerAway, PleromaError, RequestRefused

if TYPE_CHECKING:
    from pleroma.client.api import Api

ANY = "any"
PATIENCE = 10.0
REPORT = 3.0
SETTLE = 0.1
PAUSE = 0.002
"""Seconds between two pieces of work that can wait: a queue of datagrams is to be read meanwhile."""
GOODBYE = 3.0
"""Seconds that closing may take when nobody answers."""
AT_ONCE = 8
"""Registrations made at the same time after a reconnect."""

log = logging.getLogger("pleroma.client")

Member = Publisher | Subscription


class Client:
    """Use it as `async with`; it then is connected, and unsubscribes and withdraws everything on the way out.

    `patience` is how many seconds a call waits for a controller that does not answer. Losing the controller later does
    not end anything: the client tries to come back until it is closed.
    """

    def __init__(self, url: str, token: str | None = None, host: str = ANY, *, patience: float = PATIENCE) -> None:
        self.url = url
        self.patience = patience
        self._token = token
        self._wanted_host = host
        self._receiver = Receiver()
        self._reports = Reports()
        self._members: dict[Member, None] = {}
        self._connected = asyncio.Event()
        self._link: Link | None = None
        self._overrun = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._mending: dict[Member, asyncio.Task[None]] = {}
        self._undoing: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._opened: tuple[Api, Plans, Registrar] | None = None

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
        return (await self._plans.channel(name, self.patience)).schema

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
        channel = await self._plans.channel(schema, self.patience)
        registration = _registration("advertisements", channel, filter)
        publisher = Publisher(registration, channel, 0, _Nowhere(), self._leave)
        await self._join(publisher)
        return publisher

    async def subscribe(self, schema: str, filter: str | Filter = "true", *, queue: int = QUEUE) -> Subscription:
        """Receive the events that match the filter; at most `queue` of them wait for the application."""
        channel = await self._plans.channel(schema, self.patience)
        registration = _registration("subscriptions", channel, filter)
        subscription = Subscription(registration, self._leave, queue)
        # listening begins first: events may come before the controller's answer does
        self._receiver.listen(channel, subscription.listener)
        try:
            await self._join(subscription)
        except BaseException:
            self._receiver.ignore(subscription.listener)
            raise
        return subscription

    # -- opening and closing -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        from pleroma.client.api import Api  # brings httpx, which takes a while to load

        if self._opened is not None:
            raise ClientError("a client is used once")
        api = Api(self.url, self._token)
        plans = Plans(api, self._adopt)
        self._opened = api, plans, Registrar(api)
        try:
            self._link = await self._attached(self._wanted_host, self.patience)
        except BaseException:
            await api.close()
            raise
        self._connected.set()
        works = (self._keep(), plans.follow(self._doubt), self._report(), self._settle())
        self._tasks = [self._start(work) for work in works]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Unsubscribe, withdraw and detach; where nobody answers, leave nevertheless."""
        if self._opened is None:
            return
        await _cancelled((*self._tasks, *self._mending.values()))
        members = list(self._members)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self.patience, GOODBYE)):  # it may be slow, with many who leave at once
                with contextlib.suppress(PleromaError):
                    await self._send_report()
                await asyncio.gather(*map(self._withdraw, members), *self._undoing, return_exceptions=True)
        if left := [each.id for each in members if each.id is not None]:
            log.warning("could not withdraw %s at %s", ", ".join(left), self.url)
        self._connected.clear()
        if self._link is not None:
            self._overrun += self._link.overrun
            self._link.close()
            self._link = None
        await self._api.close()

    # -- publishers and subscriptions ----------------------------------------------------------------------------

    async def _join(self, member: Member) -> None:
        link = self._present_link()
        try:
            await self._register(member, link, self.patience)
        except asyncio.CancelledError:  # nobody knows whether it stands now
            task = self._start(self._undo(member.registration, link.attachment.host))
            self._undoing.add(task)
            task.add_done_callback(self._undoing.discard)
            raise
        self._members[member] = None
        self._reports.add(member)
        if link is not self._link:  # another attachment meanwhile
            self._mend_all()

    async def _register(self, member: Member, link: Link, patience: float) -> None:
        registration = member.registration
        answer = await self._registrar.register(registration, link.attachment.host, patience)
        channel = await self._plans.channel(registration.schema, patience)
        if answer.get("epoch", channel.epoch) != channel.epoch:
            channel = await self._plans.read(registration.schema, patience)
        if isinstance(member, Publisher):
            member.reroute(channel, answer["publisher"], link)

    async def _undo(self, registration: Registration, host: str) -> None:
        """Repeat the request to learn what came of it, and withdraw that."""
        with contextlib.suppress(PleromaError):
            answer = await self._registrar.register(registration, host, self.patience)
            await self._registrar.withdraw(registration, answer["id"], self.patience)

    async def _leave(self, member: Member) -> None:
        """Withdraw it. It ends here first, so that nobody puts it back in place meanwhile."""
        if member not in self._members:
            return
        if isinstance(member, Publisher):
            member.stop()
        try:
            with contextlib.suppress(PleromaError):
                await self._send_report()
        finally:
            await self._withdraw(member)

    async def _withdraw(self, member: Member) -> None:
        self._dismiss(member, None)
        registration = member.registration
        if registration.id is not None:
            await self._registrar.withdraw(registration, registration.id, GOODBYE)
            registration.id = registration.host = None

    def _dismiss(self, member: Member, failure: PleromaError | None) -> None:
        """Nothing more comes of this one."""
        if member not in self._members:
            return
        del self._members[member]
        self._reports.remove(member)
        if isinstance(member, Subscription):
            self._receiver.ignore(member.listener)
            member.end(failure)
        else:
            member.failure = failure or member.failure
            member.stop()

    def _adopt(self, channel: Channel, before: Channel | None) -> None:
        """Another plan, or another schema of the same name."""
        concerned = [each for each in self._members if each.registration.schema == channel.schema.name]
        if before is not None and channel.schema != before.schema:
            name = channel.schema.name
            for member in concerned:
                self._dismiss(member, ClientError(f"{name!r} is another schema now", field="schema", value=name))
            return
        self._receiver.adopt(channel)
        for member in concerned:
            if isinstance(member, Publisher):
                member.reroute(channel)
        if before is not None and channel.epoch != before.epoch:
            log.info("adopted plan %d of %s", channel.epoch, channel.schema.name)

    # -- staying attached ----------------------------------------------------------------------------------------

    async def _attached(self, host: str, patience: float) -> Link:
        """A new attachment, and a socket that the network has accepted."""
        path = f"/v1/hosts/{quote(host, safe='')}/attachments"
        answer = (await self._api.ask("POST", path, patience=patience)).body
        link = Link(Attachment.from_json(answer), self._receiver.receive, self._receiver.echo)
        try:
            if await link.attach():
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
            await _cancelled(self._mending.values())
            self._mend_all()
            self._connected.set()
            log.warning("connected again to %s", self.url)

    async def _found_again(self, host: str) -> Link:
        """A new link, however long it takes."""
        backoff = Backoff(most=2.0)
        while True:
            try:
                return await self._attached(host, 0.0)
            except RequestRefused as refused:
                if refused.status == 404 and self._wanted_host == ANY and host != ANY:
                    host = ANY  # the network has no such host any more
                    continue
                if refused.status in (401, 403):
                    raise
                log.info("%s", refused)
            except ClientError as error:
                log.info("%s", error)
            await asyncio.sleep(backoff.pause())

    def _mend_all(self) -> None:
        """Begin with those that are not being mended already: two at a time would register twice."""
        for member in list(self._members):
            if member not in self._mending:
                task = self._mending[member] = self._start(self._mend(member))
                task.add_done_callback(lambda _, member=member: self._mending.pop(member))  # type: ignore[misc]

    async def _mend(self, member: Member) -> None:
        """See that a registration still stands, or make it again; for as long as that takes."""
        backoff, registration = Backoff(), member.registration
        while member in self._members:
            try:
                async with self._slots:
                    await self._stand_again(member)
                return
            except RequestRefused as refused:
                if refused.status in (400, 401, 403):
                    log.error("%s %s is gone: %s", registration.kind, registration.id, refused)
                    self._dismiss(member, refused)
                    return
                log.info("%s", refused)
            except ClientError as error:
                log.info("%s", error)
            await asyncio.sleep(backoff.pause())

    async def _stand_again(self, member: Member) -> None:
        registration, link = member.registration, self._present_link()
        channel = await self._plans.read(registration.schema)
        there = await self._registrar.find(registration, link.attachment.host)
        if there is not None:
            if isinstance(member, Publisher):
                member.reroute(channel, there["publisher"], link)
            return
        if registration.host == link.attachment.host:
            registration.lost()
            self._receiver.forget()
        await self._register(member, link, 0.0)
        if member not in self._members and registration.id is not None:  # closed meanwhile
            await self._registrar.withdraw(registration, registration.id, GOODBYE)

    def _doubt(self) -> None:
        if self._link is not None:
            self._link.doubt()

    # -- counters ------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Find out what each subscription brings, between other things."""
        while True:
            await asyncio.sleep(PAUSE if self._receiver.settle() else SETTLE)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT)
            try:
                await self._send_report()
            except RequestRefused as refused:
                if refused.status == 404:  # a subscription that the controller does not know
                    self._mend_all()
                log.info("%s", refused)
            except PleromaError as error:
                log.info("%s", error)

    async def _send_report(self) -> None:
        report = self._reports.write()
        if report is not None:
            await self._api.ask("POST", "/v1/reports", report.body)
            self._reports.accepted(report)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> tuple[Api, Plans, Registrar]:
        if self._opened is None:
            raise ClientError("the client is not connected: use it as `async with`")
        return self._opened

    @property
    def _api(self) -> Api:
        return self._parts[0]

    @property
    def _plans(self) -> Plans:
        return self._parts[1]

    @property
    def _registrar(self) -> Registrar:
        return self._parts[2]

    def _present_link(self) -> Link:
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
        for member in list(self._members):
            self._dismiss(member, failure)


class _Nowhere:
    """Where events go before there is a link."""

    def send(self, frame: bytes) -> bool:  # noqa: ARG002
        return False


def _registration(kind: Kind, channel: Channel, filter: str | Filter) -> Registration:
    return Registration(kind, channel.schema.name, read_filter(channel.schema, filter))


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel, and wait until they are gone."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def connect(url: str, token: str | None = None, host: str = ANY, *, patience: float = PATIENCE) -> Client:
    """A client of the controller at `url`, to be used as `async with`."""
    return Client(url, token, host, patience=patience)
