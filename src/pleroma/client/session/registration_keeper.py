"""The publishers and subscriptions of a client, and how they are kept in place at the controller.

What the application asked for is remembered here, registered under one lease, and made again when the controller lost
it. What somebody withdrew on purpose is not: its reader, or its publisher, is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from pleroma.client.backoff import Backoff
from pleroma.client.links.network_link import NetworkLink
from pleroma.client.session.lease import Lease
from pleroma.client.session.plan_follower import PlanFollower
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.receiver import Receiver
from pleroma.client.session.registrar import Registrar
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.reports import UnreportedCounters
from pleroma.client.session.sampling import send_samples
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscription import Subscription
from pleroma.errors import ClientError, PleromaError, RequestRefused

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

CLOSE_SECONDS = 3.0
"""Seconds that closing may take when nobody answers."""
MAX_REGISTRATIONS_IN_FLIGHT = 8
"""Registrations made at the same time after a reconnect."""

log = logging.getLogger("pleroma.client")

Member = Publisher | Subscription
Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class RegistrationKeeper:
    """`link` gives the link of the moment, `start` begins work in the background."""

    def __init__(self, api: ControllerApi, receiver: Receiver, link: Callable[[], NetworkLink], start: Start) -> None:
        self.plans = PlanFollower(api, self._adopt)
        self.members: dict[Member, None] = {}
        self._api = api
        self._receiver = receiver
        self._link = link
        self._start = start
        self._reports = UnreportedCounters()
        self._lease = Lease(api)
        self._registrar = Registrar(api, self._lease.name)
        self._mending: dict[Member, asyncio.Task[None]] = {}
        self._undoing: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_REGISTRATIONS_IN_FLIGHT)

    @property
    def lease(self) -> str:
        """What all are registered under."""
        return self._lease.name

    # -- joining and leaving -------------------------------------------------------------------------------------

    async def join(self, member: Member, patience: float) -> None:
        link = self._link()
        try:
            await self._register(member, link, patience)
        except asyncio.CancelledError:  # nobody knows whether it stands now
            task = self._start(self._undo(member.registration, link.attachment.host, patience))
            self._undoing.add(task)
            task.add_done_callback(self._undoing.discard)
            raise
        self.members[member] = None
        self._reports.add(member)
        self._lease.begin()
        if link is not self._link():  # another attachment meanwhile
            self.mend(self.members)

    async def leave(self, member: Member) -> None:
        """Withdraw it. It ends here first, so that nobody puts it back in place meanwhile."""
        if member not in self.members:
            return
        if isinstance(member, Publisher):
            member.stop()
        try:
            with contextlib.suppress(PleromaError):
                await self.report()
        finally:
            await self._withdraw(member)

    async def leave_all(self, patience: float) -> list[str]:
        """Withdraw everything, where anybody answers; returns what still stands."""
        members = list(self.members)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(patience, CLOSE_SECONDS)):  # it may be slow, with many who leave at once
                with contextlib.suppress(PleromaError):
                    await self.report()
                await asyncio.gather(*map(self._withdraw, members), *self._undoing, return_exceptions=True)
        return [each.id for each in members if each.id is not None]

    def dismiss(self, member: Member, failure: PleromaError | None) -> None:
        """Nothing more comes of this one."""
        if member not in self.members:
            return
        del self.members[member]
        self._reports.remove(member)
        if isinstance(member, Subscription):
            self._receiver.ignore(member.listener)
            member.end(failure)
        else:
            member.failure = failure or member.failure
            member.stop()

    async def report(self) -> None:
        """Say what was counted since the last time, and hand over what was sampled."""
        try:
            await self._report_counters()
        finally:
            for publisher in [each for each in self.members if isinstance(each, Publisher)]:
                await send_samples(self._api, publisher.samples)

    async def _report_counters(self) -> None:
        report = self._reports.write()
        if report is None:
            return
        try:
            await self._api.ask("POST", "/v1/reports", report.body)
        except RequestRefused as refused:
            if refused.status == 404:  # a subscription that the controller does not know: the lease tells which
                self._lease.hurry()
            raise
        self._reports.accepted(report)

    async def _register(self, member: Member, link: NetworkLink, patience: float) -> None:
        registration = member.registration
        answer = await self._registrar.register(registration, link.attachment.host, patience)
        channel = await self.plans.channel(registration.schema, patience)
        if answer.get("epoch", channel.epoch) != channel.epoch:
            channel = await self.plans.read(registration.schema, patience)
        if isinstance(member, Publisher):
            member.reroute(channel, answer["publisher"], link)

    async def _undo(self, registration: ClientRegistration, host: str, patience: float) -> None:
        """Repeat the request to learn what came of it, and withdraw that."""
        with contextlib.suppress(PleromaError):
            answer = await self._registrar.register(registration, host, patience)
            await self._registrar.withdraw(registration, answer["id"], patience)

    async def _withdraw(self, member: Member) -> None:
        self.dismiss(member, None)
        registration = member.registration
        if registration.id is not None:
            await self._registrar.withdraw(registration, registration.id, CLOSE_SECONDS)
            registration.id = registration.host = None

    def _adopt(self, channel: SchemaChannel, before: SchemaChannel | None) -> None:
        """Another plan, or another schema of the same name."""
        concerned = [each for each in self.members if each.registration.schema == channel.schema.name]
        if before is not None and channel.schema != before.schema:
            name = channel.schema.name
            for member in concerned:
                self.dismiss(member, ClientError(f"{name!r} is another schema now", field="schema", value=name))
            return
        self._receiver.adopt(channel)
        for member in concerned:
            if isinstance(member, Publisher):
                member.reroute(channel)
        if before is not None and channel.epoch != before.epoch:
            log.info("adopted plan %d of %s", channel.epoch, channel.schema.name)
            if any(isinstance(each, Publisher) for each in concerned):
                self._lease.hurry()  # the controller waits for those who publish by the old one

    # -- staying in place ----------------------------------------------------------------------------------------

    async def stay(self) -> None:
        """Renew the lease for as long as there is anybody to keep in place."""
        backoff = Backoff(most=1.0)
        while True:
            pause = self._lease.pause
            if self.members:
                try:
                    await self._renew()
                    backoff.reset()
                    pause = self._lease.pause or backoff.pause()
                except RequestRefused as refused:
                    if refused.status == 401:  # whatever a principal registered goes with it
                        for member in list(self.members):
                            self.dismiss(member, refused)
                    log.info("%s", refused)
                    pause = backoff.pause(refused.retry_after)
                except PleromaError as error:
                    log.info("%s", error)
                    pause = backoff.pause()
            await self._lease.wait(pause)

    async def _renew(self) -> None:
        before = {each: each.id for each in self.members if each not in self._mending}
        try:
            renewal = await self._lease.renew(self._plans_in_use())
        except RequestRefused as refused:
            if refused.code != "plan_too_old":
                raise
            log.warning("%s", refused)
            await self.plans.read_again()
            self._lease.hurry()
            return
        if renewal is None:
            log.warning("the lease expired; registering everything again")
            self.mend(self.members)
            return
        for member, identity in before.items():
            touched = member.id != identity or member in self._mending or member not in self.members
            if touched or identity in renewal.standing:
                continue
            if renewal.unbroken:
                reason = "it was withdrawn, by an administrator or with the same token"
                log.warning("%s %s is gone: %s", member.registration.kind, identity, reason)
                self.dismiss(member, ClientError(reason, field="id", value=identity))
            else:
                self.mend([member])

    def _plans_in_use(self) -> dict[str, int]:
        """By schema, the epoch that events are published by."""
        publishers = (each for each in self.members if isinstance(each, Publisher))
        return {each.channel.schema.name: each.channel.epoch for each in publishers}

    async def come_back(self) -> None:
        """Put everything back in place, after the controller was away."""
        await self.stop_mending()
        self._lease.doubt()
        self.mend(self.members)

    async def stop_mending(self) -> None:
        await cancelled(self._mending.values())

    def mend(self, members: Iterable[Member]) -> None:
        """Begin with those that are not being mended already: two at a time would register twice."""
        for member in list(members):
            if member not in self._mending:
                task = self._mending[member] = self._start(self._mend(member))
                task.add_done_callback(lambda _, member=member: self._mending.pop(member))  # type: ignore[misc]

    async def _mend(self, member: Member) -> None:
        """See that a registration still stands, or make it again; for as long as that takes."""
        backoff, registration = Backoff(), member.registration
        while member in self.members:
            try:
                async with self._slots:
                    await self._stand_again(member)
                return
            except RequestRefused as refused:
                if refused.status in (400, 401, 403):
                    log.error("%s %s is gone: %s", registration.kind, registration.id, refused)
                    self.dismiss(member, refused)
                    return
                log.info("%s", refused)
            except ClientError as error:
                log.info("%s", error)
            await asyncio.sleep(backoff.pause())

    async def _stand_again(self, member: Member) -> None:
        registration, link = member.registration, self._link()
        channel = await self.plans.read(registration.schema)
        there = await self._registrar.find(registration, link.attachment.host)
        if there is not None:
            if isinstance(member, Publisher):
                member.reroute(channel, there["publisher"], link)
            return
        if registration.host == link.attachment.host:
            registration.lost()
            self._receiver.forget()
        await self._register(member, link, 0.0)
        if member not in self.members and registration.id is not None:  # closed meanwhile
            await self._registrar.withdraw(registration, registration.id, CLOSE_SECONDS)


async def cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel, and wait until they are gone."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
