"""Keeps the publishers and subscriptions of a client registered at the controller.

What the application has asked for, its *members*, are remembered here and registered under one lease, which is renewed
for as long as there are any. Registrations get lost in two ways:

- The controller lost them: it was away, the lease expired, or the client has another attachment now. Then they are
  *restored*: looked for, and registered again if they are not there.
- Somebody withdrew them on purpose, or the client may not have them any more. Then their members are *dismissed*: the
  reader of the subscription, or the publisher, gets an error.

A renewal of the lease tells the two apart: it lists what stands, and whether the lease can have expired meanwhile.
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
from pleroma.client.session.receiver import PacketReceiver
from pleroma.client.session.registrar import Registrar
from pleroma.client.session.registration import ClientRegistration, publisher_seal, schema_seals
from pleroma.client.session.reports import UnreportedCounters
from pleroma.client.session.sampling import send_samples
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscription import Subscription
from pleroma.content import Filter
from pleroma.content.schema_versions import carried
from pleroma.errors import ClientClosed, ClientError, PleromaError, RequestRefused
from pleroma.wire.api_terms import MAX_REPORTED_SUBSCRIPTIONS

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

CLOSE_SECONDS = 3.0
"""How long closing may take when the controller does not answer."""
MAX_SEARCHES_IN_FLIGHT = 8
"""Registrations that are looked for at the same time. Those that have to be made again share requests."""

log = logging.getLogger("pleroma.client")

Member = Publisher | Subscription
Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class RegistrationKeeper:
    """`link` gives the link of the moment, `start` begins a task in the background, `overrun` is of all links.

    `plans` follows the plans of the schemas that members use, and has members go by new ones.
    """

    def __init__(
        self,
        api: ControllerApi,
        lease: Lease,
        receiver: PacketReceiver,
        link: Callable[[], NetworkLink],
        start: Start,
        overrun: Callable[[], int] = lambda: 0,
    ) -> None:
        self.plans = PlanFollower(api, self._adopt)
        self.members: dict[Member, None] = {}
        self._api = api
        self._receiver = receiver
        self._link = link
        self._start = start
        self._unreported = UnreportedCounters(overrun)
        self._lease = lease
        self._event_keys: str | None = None
        """Which keys the members have; None before the first renewal of the lease tells."""
        self._registrar = Registrar(api, lease.name)
        self._restoring: dict[Member, asyncio.Task[None]] = {}
        self._undoing: set[asyncio.Task[None]] = set()
        self._replaced: dict[str, ClientRegistration] = {}
        """By id: registrations of subscriptions that have others now, and that are still to be withdrawn."""
        self._slots = asyncio.Semaphore(MAX_SEARCHES_IN_FLIGHT)

    @property
    def publishers(self) -> list[Publisher]:
        return [each for each in self.members if isinstance(each, Publisher)]

    @property
    def losses(self) -> dict[str, int]:
        """What the client lost, as far as it knows, by counter."""
        return self._unreported.losses

    async def join(self, member: Member, patience: float) -> None:
        """Register a new member, and keep it registered from now on."""
        link = self._link()
        await self._register_first(member, member.registration, link, patience)
        self.members[member] = None
        self._unreported.add(member)
        self._lease.begin()
        if link is not self._link():  # the client was attached anew meanwhile
            self._restore(self.members)

    async def update(self, subscription: Subscription, wanted: Filter, patience: float) -> None:
        """Register another filter for a subscription, and then withdraw the registration that it had."""
        if subscription not in self.members:
            raise ClientClosed("the subscription is closed")
        old, old_id, link = subscription.registration, subscription.id, self._link()
        wanted = carried(wanted, old.filter.schema)
        new = ClientRegistration(old.kind, old.schema, wanted)
        schemas, listener = self._receiver.schemas, subscription.listener
        schemas.change(listener, old.filter | wanted)  # events may come before the controller's answer does
        try:
            await self._register_first(subscription, new, link, patience)
        except BaseException:
            schemas.change(listener, old.filter)
            raise
        restoring = self._restoring.get(subscription)
        if restoring is not None:
            await cancelled([restoring])
        if subscription not in self.members:  # closed meanwhile
            self._begin_undo(new, link.attachment.host, patience)
            raise ClientClosed("the subscription is closed")
        new.filter = carried(new.filter, old.filter.schema)
        schemas.change(listener, new.filter)
        subscription.registration = new
        self._replaced.update((each, old) for each in (old_id, old.id) if each is not None)
        if restoring is not None:  # it may have been registered anew just now
            self._begin_undo(old, self._link().attachment.host, patience)
        if link is not self._link():  # the client was attached anew meanwhile
            self._restore([subscription])
        with contextlib.suppress(PleromaError):
            await self._withdraw_replaced()

    async def drain(self) -> None:
        """Wait until no publisher has events that wait to be sent, but for `CLOSE_SECONDS` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(each.drain() for each in self.publishers), return_exceptions=True)

    async def leave(self, member: Member) -> None:
        """Withdraw a member's registration. The member ends first, so that nothing restores it meanwhile."""
        if member not in self.members:
            return
        if isinstance(member, Publisher):
            with contextlib.suppress(TimeoutError, PleromaError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await member.drain()
            self._stop(member, None)
        try:
            with contextlib.suppress(PleromaError):
                await self.report()
        finally:
            await self._withdraw(member)

    async def leave_all(self, patience: float) -> list[str]:
        """Withdraw all registrations if the controller answers; returns the ids of those that still stand."""
        members = list(self.members)
        with contextlib.suppress(TimeoutError):
            # with many members the controller may need longer than `CLOSE_SECONDS`
            async with asyncio.timeout(max(patience, CLOSE_SECONDS)):
                with contextlib.suppress(PleromaError):
                    await self.report()
                await asyncio.gather(*map(self._withdraw, members), *self._undoing, return_exceptions=True)
        await asyncio.gather(*(each.last_calls() for each in members if isinstance(each, Subscription)))
        return [each.id for each in members if each.id is not None]

    def dismiss(self, member: Member, failure: PleromaError | None) -> None:
        """End a member. With a failure, its reader or publisher gets that error."""
        if member not in self.members:
            return
        del self.members[member]
        if isinstance(member, Subscription):
            self._receiver.schemas.ignore(member.listener)
            member.end(failure)
        else:
            self._stop(member, failure)
        self._unreported.remove(member)

    async def report(self) -> None:
        """Tell the controller what was counted since the last report, and send it the sampled events."""
        try:
            for _ in range(2 + len(self.members) // MAX_REPORTED_SUBSCRIPTIONS):  # others count on meanwhile
                if not await self._report_counters():
                    break
        finally:
            for publisher in self.publishers:
                await send_samples(self._api, publisher.samples)

    async def stay(self) -> None:
        """Renew the lease, for ever, while there are members."""
        backoff = Backoff(max_seconds=1.0)
        while True:
            pause = self._lease.pause
            if self.members:
                try:
                    await self._renew()
                    backoff.reset()
                    pause = self._lease.pause or backoff.pause()
                except RequestRefused as refused:
                    if refused.status == 401:  # the principal was removed, and all that it registered with it
                        for member in list(self.members):
                            self.dismiss(member, refused)
                    log.info("%s", refused)
                    pause = backoff.pause(refused.retry_after)
                except PleromaError as error:
                    log.info("%s", error)
                    pause = backoff.pause()
            await self._lease.wait(pause)

    async def come_back(self) -> None:
        """Restore all registrations, after the controller was away."""
        await self.stop_restoring()
        self._lease.doubt()
        self._restore(self.members)

    async def stop_restoring(self) -> None:
        await cancelled(self._restoring.values())

    async def _report_counters(self) -> bool:
        """Send one report: whether another should follow, with what was not in this one."""
        is_repeated = self._unreported.is_sending
        report = self._unreported.write()
        if report is None:
            return False
        # brings httpx, which is loaded already where there is an API client
        from pleroma.client.api import is_temporary

        try:
            await self._api.ask("POST", "/v1/reports", report.body)
        except RequestRefused as refused:
            if not is_temporary(refused):
                self._unreported.refused(report)
            if refused.status == 404:  # the controller does not know one of the subscriptions: a renewal tells which
                self._lease.hurry()
            raise
        self._unreported.accepted(report)
        return is_repeated or report.is_full

    def _stop(self, publisher: Publisher, failure: PleromaError | None) -> None:
        if left := publisher.stop(failure):
            log.warning("%d events of %s were not sent: it ended before the network took them", left, publisher.id)

    async def _register_first(
        self, member: Member, registration: ClientRegistration, link: NetworkLink, patience: float
    ) -> None:
        """Register what the controller cannot know yet."""
        try:
            await self._register(member, registration, link, patience)
        except asyncio.CancelledError:  # nobody knows whether the controller has the registration now
            self._begin_undo(registration, link.attachment.host, patience)
            raise

    async def _register(
        self, member: Member, registration: ClientRegistration, link: NetworkLink, patience: float
    ) -> None:
        answer = await self._registrar.register(registration, link.attachment.host, patience)
        if isinstance(member, Subscription):
            member.listener.id = registration.id
            self._receiver.schemas.open(registration.schema, schema_seals(registration.filter.schema, answer))
        channel = await self.plans.channel(registration.schema, patience)
        if answer.get("epoch", channel.epoch) != channel.epoch:
            channel = await self.plans.read(registration.schema, patience)
        registration.filter = carried(registration.filter, channel.schema)
        if isinstance(member, Publisher):
            member.reroute(channel, answer["publisher"], link, publisher_seal(channel.schema, answer))

    def _begin_undo(self, registration: ClientRegistration, host: str, patience: float) -> None:
        task = self._start(self._undo(registration, host, patience))
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)

    async def _withdraw_replaced(self) -> None:
        """Withdraw what others have replaced. What cannot be withdrawn now is tried again when the lease is renewed."""
        for identity, registration in list(self._replaced.items()):
            await self._registrar.withdraw(registration, identity, 0.0)
            self._replaced.pop(identity, None)

    async def _undo(self, registration: ClientRegistration, host: str, patience: float) -> None:
        """Repeat a request to learn whether the controller carried it out, and withdraw what it registered."""
        with contextlib.suppress(PleromaError):
            answer = await self._registrar.register(registration, host, patience)
            await self._registrar.withdraw(registration, answer["id"], patience)

    async def _withdraw(self, member: Member) -> None:
        self.dismiss(member, None)
        registration = member.registration
        if registration.id is not None:
            await self._registrar.withdraw(registration, registration.id, CLOSE_SECONDS)
            registration.withdrawn()

    def _adopt(self, channel: SchemaChannel, before: SchemaChannel | None) -> None:
        """Have the members of a schema go by its new channel; end them if it is another schema of the same name."""
        name = channel.schema.name
        concerned = [each for each in self.members if each.registration.schema == name]
        if before is not None and not channel.has(before.schema):
            for member in concerned:
                self.dismiss(member, ClientError(f"{name!r} is another schema now", field="schema", value=name))
            return
        for member in concerned:
            member.registration.filter = carried(member.registration.filter, channel.schema)
            if isinstance(member, Publisher):
                member.follow(channel)
        for data in self._receiver.schemas.adopt(channel):
            self._receiver.receive(data)
        if before is not None and channel.epoch != before.epoch:
            log.info("adopted plan %d of %s", channel.epoch, name)
            if any(isinstance(each, Publisher) for each in concerned):
                self._lease.hurry()  # the controller waits for those who publish by the old plan

    async def _renew(self) -> None:
        """Renew the lease, and restore or dismiss the members whose registrations do not stand any more."""
        before = {each: each.id for each in self.members if each not in self._restoring}
        try:
            renewal = await self._lease.renew(self._epochs_in_use())
        except RequestRefused as refused:
            if refused.code != "plan_too_old":
                raise
            log.warning("%s", refused)
            await self.plans.read_again()
            self._lease.hurry()
            return
        if renewal is None:
            log.warning("the lease expired; registering everything again")
            for member, id_before in before.items():
                if member.id == id_before:  # nothing stands under the lease, so there is nothing to look for
                    member.registration.lost()
            self._restore(self.members)
            return
        if self._event_keys not in (None, renewal.event_keys):
            log.warning("events have other keys now; asking for them")
            self._restore(self.members)
        self._event_keys = renewal.event_keys
        for member, id_before in before.items():
            has_changed = member.id != id_before or member in self._restoring or member not in self.members
            if has_changed or id_before in renewal.registered:
                continue
            if renewal.is_unbroken:
                reason = "it was withdrawn, by an administrator or with the same token"
                log.warning("%s %s is gone: %s", member.registration.kind, id_before, reason)
                self.dismiss(member, ClientError(reason, field="id", value=id_before))
            else:
                self._restore([member])
        await self._withdraw_replaced()

    def _epochs_in_use(self) -> dict[str, int]:
        """By schema, the epoch of the plan that events are published by."""
        return {each.channel.schema.name: each.channel.epoch for each in self.publishers}

    def _restore(self, members: Iterable[Member]) -> None:
        """Begin to restore members, except those that are being restored: they would be registered twice."""
        for member in list(members):
            if member not in self._restoring:
                task = self._restoring[member] = self._start(self._restore_one(member))
                task.add_done_callback(lambda _, member=member: self._restoring.pop(member))  # type: ignore[misc]

    async def _restore_one(self, member: Member) -> None:
        """Try again and again, until the member is registered or the controller refuses it for good."""
        backoff, registration = Backoff(), member.registration
        while member in self.members:
            try:
                await self._find_or_register(member)
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

    async def _find_or_register(self, member: Member) -> None:
        """See that a member's registration stands at the host of the present link, or make it again."""
        registration, link = member.registration, self._link()
        channel = await self.plans.read_together(registration.schema)
        async with self._slots:
            there = await self._registrar.find(registration, link.attachment.host)
        if there is not None:
            if isinstance(member, Publisher):
                member.reroute(channel, there["publisher"], link, publisher_seal(channel.schema, there))
            else:
                self._receiver.schemas.open(registration.schema, schema_seals(channel.schema, there))
            return
        if registration.host == link.attachment.host:  # the controller lost it, and may give out its number again
            registration.lost()
        await self._register(member, registration, link, 0.0)
        if member not in self.members and registration.id is not None:  # closed meanwhile
            await self._registrar.withdraw(registration, registration.id, CLOSE_SECONDS)


async def cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
