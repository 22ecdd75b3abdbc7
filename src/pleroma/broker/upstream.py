"""The broker above, of which this one is a client like any other: with it, a tree of brokers is as one.

What programs here want is subscribed to there, unless it lies inside something else that is; what they advertise is
advertised there, one by one, so that an event keeps the number it was published under. Events go up when they were
published here, and down when they came from above, and so never twice the same way. While the broker above is away,
everything goes on among the programs here; when it is back, it is told what stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from pleroma.broker.broker import Broker
from pleroma.broker.covering import Covering
from pleroma.broker.match_state import BrokerAdvertisement, BrokerSubscription
from pleroma.client.backoff import Backoff
from pleroma.client.relay import Relay
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.subscription import Subscription
from pleroma.content import Event, Filter, Schema
from pleroma.errors import ClientError, PleromaError
from pleroma.wire import EventPacket

ABOVE_PATIENCE_SECONDS = 3.0
CONFIRM_SECONDS = 2.0
"""Seconds that a request waits, at most, for the broker above to know of it."""
FIRST_JOIN_SECONDS = 3.0
"""Seconds that the start waits for the broker above."""
MAX_AWAY_SECONDS = 30.0
"""Seconds without the broker above after which the way there is made anew."""
COMPARE_SECONDS = 5.0
"""Seconds between looks after schemas, and after what could not be agreed on."""
MAX_REGISTRATIONS_ABOVE_IN_FLIGHT = 8
FOREIGN_PUBLISHER_BIT = 1 << 31
"""Numbers of publishers above are told apart from those here by this bit."""
MAX_FOREIGN_PUBLISHERS = 65_536

M = TypeVar("M", Subscription, Publisher)

log = logging.getLogger("pleroma.broker")


@dataclass(frozen=True, slots=True)
class BrokerAbove:
    """Where the broker above is, and as whom this one goes there."""

    url: str
    token: str | None = field(default=None, repr=False)
    principal: str | None = None


class Upstream:
    """After `join`, use it as `async with`."""

    def __init__(self, above: BrokerAbove) -> None:
        self.above = above
        self.failure: PleromaError | None = None
        """Why the broker above is not to be had, or does not agree."""
        self._broker: Broker | None = None
        self._learn: Callable[[Schema], Awaitable[None]] = _ignore
        self._is_learning = False
        self._relay: Relay | None = None
        self._wanted: dict[str, Covering] = {}
        self._promised: dict[str, BrokerAdvertisement] = {}
        self._subscribed: dict[str, Subscription] = {}
        self._advertised: dict[str, Publisher] = {}
        self._numbers: dict[int, int] = {}
        self._changes = self._agreed = 0
        self._changed, self._news = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def join(self, broker: Broker, learn: Callable[[Schema], Awaitable[None]]) -> None:
        """The broker whose events go up, and whose programs get what comes down.

        `learn` is called with schemas that the broker above has, to have them here too.
        """
        self._broker = broker
        self._learn = learn
        broker.onward = self._up

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

    # -- what stands here ----------------------------------------------------------------------------------------

    def wished(self, wish: BrokerSubscription) -> None:
        self._wanted.setdefault(wish.filter.schema.name, Covering()).add(wish.id, wish.filter)
        self._change()

    def unwished(self, wish: BrokerSubscription) -> None:
        self._wanted[wish.filter.schema.name].remove(wish.id)
        self._change()

    def promised(self, promise: BrokerAdvertisement) -> None:
        self._promised[promise.id] = promise
        self._change()

    def unpromised(self, promise: BrokerAdvertisement) -> None:
        del self._promised[promise.id]
        self._change()

    def _change(self) -> None:
        self._changes += 1
        self._changed.set()

    async def settled(self) -> None:
        """Until the broker above knows what stood here when this was called; but not for long."""
        wanted = self._changes
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_SECONDS):
                while self._agreed < wanted and self.is_connected and not self._is_learning:
                    self._news.clear()
                    await self._news.wait()

    # -- events --------------------------------------------------------------------------------------------------

    def _up(self, promise: BrokerAdvertisement, packet: EventPacket) -> None:
        assert self._broker is not None  # noqa: S101 (it is what calls)
        counters, publisher = self._broker.counters, self._advertised.get(promise.id)
        if publisher is None or not self.is_connected:
            counters.kept_back += 1
            return
        try:
            publisher.pass_on(packet.event, packet.sequence, packet.time)
        except PleromaError:  # it is about to be advertised anew
            counters.kept_back += 1
        else:
            counters.passed_up += 1

    def _down(self, packet: EventPacket) -> None:
        broker = self._broker
        space = None if broker is None else broker.standing.named(packet.event.schema.name)
        if broker is None or space is None:
            return
        event = Event(space.entry.schema, packet.event.keys)
        number = self._number(packet.publisher)
        broker.relay(
            space, EventPacket(space.entry.epoch, space.entry.number, number, packet.sequence, packet.time, event)
        )

    def _number(self, publisher: int) -> int:
        """The number that stands for a publisher above, among the numbers here."""
        known = self._numbers.get(publisher)
        if known is None:
            if len(self._numbers) >= MAX_FOREIGN_PUBLISHERS:
                del self._numbers[next(iter(self._numbers))]
            # by chance, so that after a restart nobody takes new events for old ones
            known = self._numbers[publisher] = FOREIGN_PUBLISHER_BIT | secrets.randbits(31)
        return known

    # -- staying in agreement ------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="upstream")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_JOIN_SECONDS):
                while not self.is_connected or self._agreed < self._changes:
                    self._news.clear()
                    await self._news.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        backoff, above = Backoff(most=2.0), self.above
        while True:
            try:
                await self._be_joined(backoff)
            except TimeoutError:
                self.failure = ClientError("it does not take us back")
            except PleromaError as error:
                if self.failure is None or str(error) != str(self.failure):
                    log.warning("the broker above, %s: %s", above.url, error)
                self.failure = error
            except Exception as error:  # whatever it is, programs here go on, and it is tried again
                log.exception("the broker above, %s", above.url)
                self.failure = ClientError(f"a fault: {error!r}")
            await asyncio.sleep(backoff.pause())

    async def _be_joined(self, backoff: Backoff) -> None:
        above = self.above
        relay = Relay(
            above.url,
            above.token,
            self._down,
            self._numbers.clear,
            principal=above.principal,
            patience=ABOVE_PATIENCE_SECONDS,
        )
        try:
            async with relay:
                self._relay, self.failure = relay, None
                self._numbers.clear()
                backoff.reset()
                while True:
                    async with asyncio.timeout(
                        MAX_AWAY_SECONDS
                    ):  # it comes back by itself, unless it was shown the door
                        await relay.connected()
                    await self._look(relay)
        finally:
            self._relay = None
            self._subscribed.clear()
            self._advertised.clear()
            self._news.set()

    async def _look(self, relay: Relay) -> None:
        """Agree on everything, and then on each change for a while."""
        try:
            await self._take_schemas(relay)
        except PleromaError as error:
            self.failure = error
        await self._agree(relay)
        loop = asyncio.get_running_loop()
        end = loop.time() + COMPARE_SECONDS
        with contextlib.suppress(TimeoutError):
            while relay.is_connected:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
                await self._agree(relay)

    async def _take_schemas(self, relay: Relay) -> None:
        schemas = await relay.schemas()
        self._is_learning = True  # nobody can wait for us meanwhile: we wait for them
        self._news.set()
        try:
            for schema in schemas:
                await self._learn(schema)
        finally:
            self._is_learning = False

    async def _agree(self, relay: Relay) -> None:
        """Tell the broker above what it does not know: first what is new, and only then what is no longer wanted."""
        self._changed.clear()
        changes, self.failure = self._changes, None
        if any(each.is_over for each in self._subscribed.values()) or any(
            each.failure is not None for each in self._advertised.values()
        ):
            raise ClientError("it has dropped what was registered")
        wanted = {name: asked for each in self._wanted.values() for name, asked in each.outermost.items()}
        promised = {name: promise.filter for name, promise in self._promised.items()}
        lacking = await self._add(relay, wanted, self._subscribed, relay.subscribe)
        await self._add(relay, promised, self._advertised, relay.advertise)
        await self._drop(wanted, self._subscribed, lacking)
        await self._drop(promised, self._advertised, set())
        self._agreed = changes
        self._news.set()

    async def _add(
        self,
        relay: Relay,
        wanted: Mapping[str, Filter],
        there: dict[str, M],
        register: Callable[[str, Filter], Awaitable[M]],
    ) -> set[str]:
        """The schemas in which it was not possible."""
        slots, lacking = asyncio.Semaphore(MAX_REGISTRATIONS_ABOVE_IN_FLIGHT), set[str]()

        async def add(name: str, asked: Filter) -> None:
            async with slots:
                if not relay.is_connected:  # or each would be waited for
                    lacking.add(asked.schema.name)
                    return
                try:
                    there[name] = await register(asked.schema.name, asked)
                except PleromaError as error:
                    self.failure = error
                    lacking.add(asked.schema.name)

        await asyncio.gather(*(add(name, asked) for name, asked in wanted.items() if name not in there))
        return lacking

    async def _drop(self, wanted: Mapping[str, Filter], there: dict[str, M], lacking: set[str]) -> None:
        """What is no longer wanted; but not where it may be what stands in for something that is lacking."""
        for name in [name for name, each in there.items() if name not in wanted]:
            if there[name].registration.schema not in lacking:
                with contextlib.suppress(PleromaError):  # its lease will end it
                    await there.pop(name).close()


async def _ignore(schema: Schema) -> None:
    """Nobody is there to learn it."""
