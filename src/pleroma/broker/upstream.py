"""The connection to the broker above. This broker is a client of it like any other; so a tree of brokers is as one.

Subscriptions here are subscribed to above, unless they lie inside others. Advertisements here are advertised above one
by one, so that an event keeps the number it was published under. An event goes up when it was published here and down
when it came from above, and so never the same way twice. Every broker tells which brokers are above it, so one that
finds itself there does not join: in a circle, events would go round for ever. While the broker above is away, the
programs here go on among themselves; when it is back, it is told what is registered here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pleroma.broker.broker import Broker
from pleroma.broker.match_state import BrokerAdvertisement
from pleroma.broker.needed_above import NeededAbove
from pleroma.client.backoff import Backoff
from pleroma.client.relay import Relay
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.subscription import Subscription
from pleroma.content import Filter, Schema
from pleroma.content.schema_versions import lowered
from pleroma.errors import ClientError, PleromaError
from pleroma.wire import EventPacket

ABOVE_PATIENCE_SECONDS = 3.0
"""How long one call waits for the broker above to answer."""
CONFIRM_SECONDS = 2.0
"""How long a request here waits, at most, until the broker above knows of it."""
FIRST_JOIN_SECONDS = 3.0
"""How long the start of this broker waits for the broker above."""
MAX_AWAY_SECONDS = 30.0
"""How long a lost connection may take to come back by itself, before it is made anew."""
COMPARE_SECONDS = 5.0
"""Between two looks at the schemas above, and at registrations that the broker above has refused."""
MAX_REGISTRATIONS_ABOVE_IN_FLIGHT = 8
FOREIGN_PUBLISHER_BIT = 1 << 31
"""Set in the numbers that stand for publishers above, and in no number of a publisher here."""
MAX_FOREIGN_PUBLISHERS = 65_536
MAX_BROKERS_ABOVE = 64
"""On the way to the highest one."""

M = TypeVar("M", Subscription, Publisher)

log = logging.getLogger("pleroma.broker")


@dataclass(frozen=True, slots=True)
class BrokerAbove:
    """Where the broker above is, and the principal as which this broker is its client."""

    url: str
    token: str | None = field(default=None, repr=False)
    principal: str | None = None


class Upstream:
    """Keeps the broker above told of what is `needed` there, and passes events up and down, while `joined`."""

    def __init__(self, above: BrokerAbove, needed: NeededAbove) -> None:
        self.above = above
        self.failure: PleromaError | None = None
        """Why the broker above cannot be reached, or what it has refused."""
        self.name = secrets.token_hex(8)
        """By which this broker finds itself above itself."""
        self.names_above: tuple[str, ...] = ()
        """Of the broker above, and of those above it, as far as they tell."""
        self._needed = needed
        self._told = 0
        """The version of what is needed that the broker above knows."""
        self._progress = asyncio.Event()
        """Set when the broker above was told something, came or went."""
        self._is_learning = False
        self._relay: Relay | None = None
        self._subscribed: dict[str, Subscription] = {}
        self._advertised: dict[str, Publisher] = {}
        """At the broker above, by the ids that the registrations have here."""
        self._numbers: dict[int, int] = {}
        """By the number of a publisher above, the number that stands for it here."""

    @property
    def is_connected(self) -> bool:
        return self._relay is not None and self._relay.is_connected

    def condition(self) -> dict[str, object]:
        return {
            "url": self.above.url,
            "connected": self.is_connected,
            "subscriptions": len(self._subscribed),
            "advertisements": len(self._advertised),
            "failure": None if self.failure is None else str(self.failure),
        }

    async def confirmed(self) -> None:
        """Wait until the broker above knows what is registered here now; but not longer than `CONFIRM_SECONDS`."""
        wanted = self._needed.version
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_SECONDS):
                while self._told < wanted and self.is_connected and not self._is_learning:
                    self._progress.clear()
                    await self._progress.wait()

    @asynccontextmanager
    async def joined(self, broker: Broker, learn: Callable[[Schema], Awaitable[None]]) -> AsyncIterator[None]:
        """Be connected to the broker above, or try to be. `broker` gets the events that come from there.

        `learn` is called with every schema that the broker above has, to have it here too.
        """
        task = asyncio.create_task(self._run(broker, learn), name="upstream")
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_JOIN_SECONDS):
                    while not self.is_connected or self._told < self._needed.version:
                        self._progress.clear()
                        await self._progress.wait()
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def pass_up(self, advertisement: BrokerAdvertisement, packet: EventPacket) -> bool:
        """Pass an event that was published here to the broker above; False if it could not be."""
        publisher = self._advertised.get(advertisement.id)
        if publisher is None or not self.is_connected:
            return False
        try:
            publisher.pass_on(packet.event, packet.sequence, packet.time, packet.payload)
        except PleromaError:  # the publisher is closed: it is about to be advertised anew
            return False
        return True

    def _pass_down(self, broker: Broker, packet: EventPacket) -> None:
        schema = broker.match_state.find_schema(packet.event.schema.name)
        if schema is not None:
            entry, number = schema.entry, self._number(packet.publisher)
            event = lowered(packet.event, entry.schema)
            if event is None:  # of a version that this broker has not learned yet
                return
            relayed = replace(packet, epoch=entry.epoch, schema_number=entry.number, publisher=number, event=event)
            broker.relay(schema, relayed)

    def _number(self, publisher: int) -> int:
        """The number that stands here for a publisher above."""
        known = self._numbers.get(publisher)
        if known is None:
            if len(self._numbers) >= MAX_FOREIGN_PUBLISHERS:
                del self._numbers[next(iter(self._numbers))]
            # a random number, so that after a restart no program takes new events for ones that it had before
            known = self._numbers[publisher] = FOREIGN_PUBLISHER_BIT | secrets.randbits(31)
        return known

    async def _run(self, broker: Broker, learn: Callable[[Schema], Awaitable[None]]) -> None:
        """Connect again and again, whatever goes wrong."""
        backoff, above = Backoff(max_seconds=2.0), self.above
        while True:
            try:
                await self._stay_connected(broker, learn, backoff)
            except TimeoutError:
                self.failure = ClientError("it does not take us back")
            except PleromaError as error:
                if self.failure is None or str(error) != str(self.failure):
                    log.warning("the broker above, %s: %s", above.url, error)
                self.failure = error
            except Exception as error:  # a fault of ours must not end the programs here, nor the attempts
                log.exception("the broker above, %s", above.url)
                self.failure = ClientError(f"a fault: {error!r}")
            await asyncio.sleep(backoff.pause())

    async def _stay_connected(
        self, broker: Broker, learn: Callable[[Schema], Awaitable[None]], backoff: Backoff
    ) -> None:
        above = self.above
        relay = Relay(
            above.url,
            above.token,
            lambda packet: self._pass_down(broker, packet),
            principal=above.principal,
            patience=ABOVE_PATIENCE_SECONDS,
        )
        try:
            async with relay:
                self._relay, self.failure = relay, None
                self._numbers.clear()
                backoff.reset()
                while True:
                    async with asyncio.timeout(MAX_AWAY_SECONDS):  # the relay reconnects, unless it is not let in
                        await relay.connected()
                    await self._compare(relay, learn)
        finally:
            self._relay, self.names_above = None, ()
            self._subscribed.clear()
            self._advertised.clear()
            self._progress.set()

    async def _compare(self, relay: Relay, learn: Callable[[Schema], Awaitable[None]]) -> None:
        """Learn the schemas above and tell what is needed there, and then every change, for `COMPARE_SECONDS`."""
        await self._check_above(relay)
        try:
            await self._learn_schemas(relay, learn)
        except PleromaError as error:
            self.failure = error
        await self._tell(relay)
        await self._check_above(relay)  # that broker may have joined this one at the same moment
        end = asyncio.get_running_loop().time() + COMPARE_SECONDS
        with contextlib.suppress(TimeoutError):
            while relay.is_connected:
                async with asyncio.timeout_at(end):
                    await self._needed.changed.wait()
                await self._tell(relay)

    async def _check_above(self, relay: Relay) -> None:
        """Refuse to be joined if the brokers above lead back to this one."""
        names = await relay.brokers()
        if self.name in names:
            raise ClientError("the brokers above lead back to this one: they would be a circle")
        if len(names) > MAX_BROKERS_ABOVE:
            raise ClientError(f"more than {MAX_BROKERS_ABOVE} brokers are above this one")
        self.names_above = names

    async def _learn_schemas(self, relay: Relay, learn: Callable[[Schema], Awaitable[None]]) -> None:
        schemas = await relay.schemas()
        # learning a schema is a request here, and would wait in `confirmed` for this task, which waits for it
        self._is_learning = True
        self._progress.set()
        try:
            for schema in schemas:
                await learn(schema)
        finally:
            self._is_learning = False

    async def _tell(self, relay: Relay) -> None:
        """Register above what is needed there, and only then withdraw what is not needed any more."""
        self._needed.changed.clear()
        version, self.failure = self._needed.version, None
        if any(each.is_over for each in self._subscribed.values()) or any(
            each.failure is not None for each in self._advertised.values()
        ):
            raise ClientError("it has dropped what was registered")
        subscriptions, advertisements = self._needed.subscriptions(), dict(self._needed.advertisements)
        lacking = await self._register(relay, subscriptions, self._subscribed, relay.subscribe)
        await self._register(relay, advertisements, self._advertised, relay.advertise)
        await self._withdraw(subscriptions, self._subscribed, lacking)
        await self._withdraw(advertisements, self._advertised, set())
        self._told = version
        self._progress.set()

    async def _register(
        self,
        relay: Relay,
        needed: Mapping[str, Filter],
        there: dict[str, M],
        register: Callable[[str, Filter], Awaitable[M]],
    ) -> set[str]:
        """Register what is needed and not there; returns the names of the schemas in which that was not possible."""
        slots, lacking = asyncio.Semaphore(MAX_REGISTRATIONS_ABOVE_IN_FLIGHT), set[str]()

        async def register_one(key: str, wanted: Filter) -> None:
            async with slots:
                if not relay.is_connected:  # each request would wait for its patience to end
                    lacking.add(wanted.schema.name)
                    return
                try:
                    there[key] = await register(wanted.schema.name, wanted)
                except PleromaError as error:
                    self.failure = error
                    lacking.add(wanted.schema.name)

        await asyncio.gather(*(register_one(key, wanted) for key, wanted in needed.items() if key not in there))
        return lacking

    async def _withdraw(self, needed: Mapping[str, Filter], there: dict[str, M], lacking: set[str]) -> None:
        """Withdraw what is not needed; but nothing of a schema in `lacking`, where it may cover what is lacking."""
        for key in [key for key in there if key not in needed]:
            if there[key].registration.schema not in lacking:
                with contextlib.suppress(PleromaError):  # then it stands until the lease ends
                    await there.pop(key).close()
