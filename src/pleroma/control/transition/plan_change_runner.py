"""Takes a change of plans from step to step: each begins when every switch has confirmed the one before.

The steps are commands in the log, so a controller that is started again goes on with the step it finds. Before the last
one it waits for the publishers to say that they use the new plan. One that cannot be reached loses its lease meanwhile;
one without a lease has `UNLEASED_ADOPTION_SECONDS`. Before each step it waits as long as a packet may be under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from pleroma.control.control_state import ControlState
from pleroma.control.state.command import Advance, ChangePlan
from pleroma.control.state.network_rules import PlanChange
from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Lease
from pleroma.control.state.result import Done
from pleroma.errors import ControllerClosed, PlanTooOld, PleromaError

UNLEASED_ADOPTION_SECONDS = 2.0
LEASED_ADOPTION_SECONDS = 60.0
"""Seconds that publishers have to adopt a plan: more than any lease lasts without being renewed."""
IN_FLIGHT_SECONDS = 0.25
"""Seconds after which a packet is through the network, or lost, and no switch forwards by rules that it had before."""
STEP_RETRY_SECONDS = 0.2
_CLOSING = "the controller is closing; the change goes on when it is back"


class PlanChangeRunner:
    """`submit` carries out a command, `confirmed` waits until the network has all that was decided so far."""

    def __init__(
        self,
        state: ControlState,
        submit: Callable[[Advance | ChangePlan], Awaitable[Done]],
        confirmed: Callable[[], Awaitable[None]],
    ) -> None:
        self.under_way = IN_FLIGHT_SECONDS
        self.unleased = UNLEASED_ADOPTION_SECONDS
        self.longest = LEASED_ADOPTION_SECONDS
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        """Until so many seconds have passed for those that are under way."""
        self.stragglers: list[str] = []
        """Advertisements whose publishers had not adopted the plan when the last change went on without them."""
        self._state = state
        self._submit = submit
        self._confirmed = confirmed
        self._adopted: dict[Lease, dict[str, int]] = {}
        self._news = asyncio.Event()
        self._work = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name="transitions")
        self.look()

    def look(self) -> None:
        """There may be a change to take further."""
        if self._state.plans.change is not None:
            self._work.set()

    async def change(self, command: ChangePlan) -> dict[str, Any]:
        """From the first step to the last."""
        done = await self._submit(command)
        if not done.value.get("unchanged"):
            await self.finished()
        return done.value | {"epoch": self._state.schemas[command.schema].epoch}

    async def finished(self) -> None:
        """Until no change is under way."""
        if self._state.plans.change is not None:
            if self._closed:
                raise ControllerClosed(_CLOSING)
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def adopted(self, principal: str, lease: str, epochs: Mapping[str, int]) -> None:
        """A client says which plans it uses. One that has missed two is refused: nobody serves it any more."""
        for name, epoch in epochs.items():
            entry = self._state.schemas.get(name)
            if entry is not None and epoch < entry.epoch - 1:
                reason = f"plan {epoch} of {name} is {entry.epoch - epoch} behind; read the plan again"
                raise PlanTooOld(reason, field="plans", value=epoch)
        self._adopted[principal, lease] = dict(epochs)
        self._news.set()

    async def close(self) -> None:
        self._closed = True
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        for future in self._waiting:
            if not future.done():
                future.set_exception(ControllerClosed(_CLOSING))
                future.exception()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while (changing := self._state.plans.change) is not None:
                try:
                    await self._step(changing)
                except PleromaError:  # the network is behind, or the disk is full: it is tried until it succeeds
                    await asyncio.sleep(STEP_RETRY_SECONDS)
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def _step(self, changing: PlanChange) -> None:
        await self._confirmed()
        if changing.phase == "swapped":
            await self._publishers(changing)
        if self._is_published(changing):
            await self.sleep(self.under_way)
        await self._submit(Advance(changing.schema, "swap" if changing.phase == "prepared" else "clear"))

    def _is_published(self, changing: PlanChange) -> bool:
        """Where nobody may send, nothing is under way."""
        standing = self._state.registrations.values()
        return any(each.kind == "advertisement" and each.schema == changing.schema for each in standing)

    async def _publishers(self, changing: PlanChange) -> None:
        """Until all have adopted the plan, or had their time."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        for seconds, leased in ((self.unleased, False), (self.longest, True)):
            while self._late(changing, leased) and (left := start + seconds - loop.time()) > 0:
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, 1.0)):  # leases also end without a word
                        await self._news.wait()
        self._adopted = {
            lease: said for lease, said in self._adopted.items() if lease in self._state.registrations.by_lease
        }
        self.stragglers = [each.id for leased in (False, True) for each in self._late(changing, leased)]

    def _late(self, changing: PlanChange, leased: bool) -> list[Registered]:
        """Publishers that may still use the old plan."""
        epoch = self._state.schemas[changing.schema].epoch
        standing = (self._state.registrations.get(each) for each in changing.other)
        return [
            each
            for each in standing
            if each is not None
            and each.kind == "advertisement"
            and (each.lease is not None) == leased
            and self._adopted.get((each.principal, each.lease or ""), {}).get(changing.schema, 0) < epoch
        ]
