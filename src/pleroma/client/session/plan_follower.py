"""The plans in force, as far as this client uses them, and how it hears of new ones.

The controller's stream says that there is a new plan; the plan itself is always read from its own address, by ETag. So
an item that was lost costs nothing once another comes, and without any stream, asking now and then will do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

from pleroma.client.backoff import Backoff
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.errors import PleromaError, RequestRefused
from pleroma.index.address import IPV6, AddressRange

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

PLAN_STREAM_PATH = "/v1/stream?types=plan"
MIN_POLL_SECONDS = 0.1
POLL_SECONDS = 2.0
"""Seconds between questions after a new plan, while there is no stream to tell."""

log = logging.getLogger("pleroma.client")


class PlanFollower:
    """`adopt` is called with every channel that is new, and with the one it replaces."""

    def __init__(self, api: ControllerApi, adopt: Callable[[SchemaChannel, SchemaChannel | None], None]) -> None:
        self._api = api
        self._adopt = adopt
        self._channels: dict[str, SchemaChannel] = {}
        self._addresses = IPV6
        self._due = asyncio.Event()

    async def channel(self, name: str, patience: float) -> SchemaChannel:
        """What is known, or else read."""
        return self._channels.get(name) or await self.read(name, patience)

    async def read(self, name: str, patience: float = 0.0) -> SchemaChannel:
        """The plan in force now."""
        known = self._channels.get(name)
        path = f"/v1/schemas/{quote(name, safe='')}/plan"
        answer = await self._api.ask("GET", path, patience=patience, etag=known.etag if known else None)
        if answer.body is None and known is not None:
            return self._channels[name]
        channel = SchemaChannel.from_json(answer.body, answer.etag, self._addresses)
        before = self._channels.get(name)  # another reader may have been faster
        self._channels[name] = channel
        if channel != before:
            self._adopt(channel, before)
        return channel

    def use(self, addresses: AddressRange) -> None:
        """Events travel under these in the network that the client has joined."""
        self._addresses = addresses
        for name, channel in self._channels.items():
            moved = channel.under(addresses)
            if moved is not channel:
                self._channels[name] = moved
                self._adopt(moved, channel)

    def hurry(self, name: str) -> None:
        """Somebody goes by a later plan for a schema already."""
        if name in self._channels:
            self._due.set()

    async def follow(self, doubt: Callable[[], None]) -> None:
        """Adopt new plans, for ever; `doubt` is called when the stream breaks."""
        if not self._api.has_streams:
            await self._ask_now_and_then()
        backoff = Backoff(most=POLL_SECONDS)
        while True:
            pause = 0.0
            try:
                await self._listen(backoff)
            except RequestRefused as refused:
                pause = POLL_SECONDS
                log.info("no stream of plans: %s", refused)
            except PleromaError as error:
                log.info("%s", error)
            if not pause:  # it broke, or ended in good order: perhaps the controller is going away
                doubt()
            await asyncio.sleep(backoff.pause(at_least=pause))
            with contextlib.suppress(PleromaError):
                await self.read_again()

    async def _ask_now_and_then(self) -> NoReturn:
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
            await asyncio.sleep(MIN_POLL_SECONDS)  # there may be many packets of a plan that is not answered yet

    async def _listen(self, backoff: Backoff) -> None:
        async with self._api.stream(PLAN_STREAM_PATH) as items:
            await self.read_again()  # what was missed before
            backoff.reset()
            async for kind, item in items:
                if kind in ("plan", "lost"):
                    named = item.get("schema") if isinstance(item, dict) else None
                    await self.read_again([named] if named in self._channels else None)

    async def read_again(self, names: Iterable[str] | None = None) -> None:
        """These, or all that are in use."""
        for name in list(self._channels if names is None else names):
            try:
                await self.read(name)
            except RequestRefused as refused:
                if refused.status != 404:  # that a schema is gone, registrations will tell
                    raise
