"""The plans in force of the schemas that a client uses, and how it learns of new ones.

The controller's stream only says that there is a new plan; the client then reads the plan itself, by ETag. So an item
of the stream that was lost costs nothing once another comes. Where there is no stream, the client reads the plans every
few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

from pleroma.client.backoff import Backoff
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.errors import PleromaError, RequestRefused
from pleroma.index.address import IPV6, AddressRange

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

PLAN_STREAM_PATH = "/v1/stream?types=plan"
POLL_SECONDS = 2.0
"""Between two readings of the plans, while there is no stream."""
MIN_POLL_SECONDS = 0.1
"""Between two readings when packets of a later plan arrive."""

log = logging.getLogger("pleroma.client")


class PlanFollower:
    """`adopt` is called with every new channel, and with the channel that it replaces, if any."""

    def __init__(self, api: ControllerApi, adopt: Callable[[SchemaChannel, SchemaChannel | None], None]) -> None:
        self._api = api
        self._adopt = adopt
        self._channels: dict[str, SchemaChannel] = {}
        self._reading: dict[str, asyncio.Task[SchemaChannel]] = {}
        self._addresses = IPV6
        self._due = asyncio.Event()

    async def channel(self, name: str, patience: float) -> SchemaChannel:
        """The channel of a schema: the one that is known, or else read from the controller."""
        return self._channels.get(name) or await self.read(name, patience)

    async def read(self, name: str, patience: float = 0.0) -> SchemaChannel:
        """Read the plan in force of a schema from the controller, and adopt it if it is new."""
        known = self._channels.get(name)
        path = f"/v1/schemas/{quote(name, safe='')}/plan"
        try:
            answer = await self._api.ask("GET", path, patience=patience, etag=known.etag if known else None)
        except RequestRefused as refused:
            if refused.status == 404:  # it was removed; another one of its name is another schema
                self._channels.pop(name, None)
            raise
        if answer.body is None and known is not None:
            return self._channels.get(name, known)
        channel = SchemaChannel.from_json(answer.body, answer.etag, self._addresses)
        before = self._channels.get(name)  # another reader may have been faster
        self._channels[name] = channel
        if channel != before:
            self._adopt(channel, before)
        return channel

    async def read_together(self, name: str) -> SchemaChannel:
        """As `read`, but all who ask for a schema while it is being read share the answer."""
        reading = self._reading.get(name)
        if reading is None:
            reading = self._reading[name] = asyncio.create_task(self.read(name))
            reading.add_done_callback(partial(self._has_read, name))
        return await asyncio.shield(reading)

    def _has_read(self, name: str, reading: asyncio.Task[SchemaChannel]) -> None:
        del self._reading[name]
        if not reading.cancelled():
            reading.exception()  # it is no mistake if nobody waits for it any more

    def use(self, addresses: AddressRange) -> None:
        """Go by this range of addresses, which events have in the network that the client is attached to."""
        self._addresses = addresses
        for name, channel in self._channels.items():
            moved = channel.under(addresses)
            if moved is not channel:
                self._channels[name] = moved
                self._adopt(moved, channel)

    def hurry(self, name: str) -> None:
        """Read the plans soon: somebody publishes by a later plan for this schema."""
        if name in self._channels:
            self._due.set()

    async def follow(self, doubt: Callable[[], None]) -> None:
        """Adopt new plans, for ever. `doubt` is called when the stream ends, since the controller may be gone."""
        if not self._api.has_streams:
            await self._poll()
        backoff = Backoff(max_seconds=POLL_SECONDS)
        while True:
            pause = 0.0
            try:
                await self._listen(backoff)
            except RequestRefused as refused:
                pause = POLL_SECONDS
                log.info("no stream of plans: %s", refused)
            except PleromaError as error:
                log.info("%s", error)
            if not pause:
                doubt()
            await asyncio.sleep(backoff.pause(at_least=pause))
            with contextlib.suppress(PleromaError):
                await self.read_again()

    async def _poll(self) -> NoReturn:
        while True:
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            try:
                await self.read_again()
            except PleromaError as error:
                log.info("%s", error)
            await asyncio.sleep(MIN_POLL_SECONDS)  # every packet of the later plan asks for a reading

    async def _listen(self, backoff: Backoff) -> None:
        async with self._api.stream(PLAN_STREAM_PATH) as items:
            await self.read_again()  # plans that came into force before the stream began
            backoff.reset()
            async for kind, item in items:
                if kind in ("plan", "lost"):
                    named = item.get("schema") if isinstance(item, dict) else None
                    await self.read_again([named] if named in self._channels else None)

    async def read_again(self, names: Iterable[str] | None = None) -> None:
        """Read the plans of these schemas, or of all that are in use."""
        for name in list(self._channels if names is None else names):
            try:
                await self.read(name)
            except RequestRefused as refused:
                if refused.status != 404:  # a removed schema ends its registrations, which the lease tells
                    raise
