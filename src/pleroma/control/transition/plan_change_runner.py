"""Takes a plan change from step to step: a step begins when the switches have confirmed the one before.

The steps are commands in the log, so a controller that is started again goes on with the step it finds. Before the last
step the runner waits for the publishers to say that they use the new plan. A publisher that cannot be reached loses its
lease meanwhile; one without a lease cannot say anything, and has a fixed time. Before each step the runner also waits
as long as a packet may be under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pleroma.control.state.command import Advance, ChangePlan
from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Lease, Registrations
from pleroma.control.state.result import Done
from pleroma.control.transition.plan_change import PlanChange
from pleroma.control.transition.schema_plans import SchemaPlans
from pleroma.errors import ControllerClosed, PlanTooOld, PleromaError
from pleroma.index import Dz

STEP_RETRY_SECONDS = 0.2
_MIN_REMEMBERED_LEASES = 64
_CLOSING = "the controller is closing; the change goes on when it is back"


@dataclass(frozen=True, slots=True)
class PlanChangeTiming:
    """How long a plan change waits before it goes on."""

    in_flight_seconds: float = 0.25
    """After this time a packet is through the network or lost, and no switch forwards by rules that it had before."""
    unleased_seconds: float = 2.0
    """How long publishers without a lease have to adopt a plan."""
    leased_seconds: float = 60.0
    """How long publishers with a lease have to adopt a plan: more than any lease lasts without being renewed."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for so many seconds of the network's time."""


class PlanChangeRunner:
    """Runs the plan change that is under way, if there is one, until it is closed.

    `submit` carries out a command; `confirmed` waits until switches have all that was decided so far about some cells.
    """

    def __init__(
        self,
        plans: SchemaPlans,
        registrations: Registrations,
        submit: Callable[[Advance | ChangePlan], Awaitable[Done]],
        confirmed: Callable[[Sequence[Dz]], Awaitable[None]],
        timing: PlanChangeTiming,
    ) -> None:
        self.stragglers: list[str] = []
        """Advertisements whose publishers had not adopted the plan when the last change went on without them."""
        self._plans = plans
        self._registrations = registrations
        self._submit = submit
        self._confirmed = confirmed
        self._timing = timing
        self._adopted: dict[Lease, dict[str, int]] = {}
        self._adoption = asyncio.Event()
        self._work = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name="plan changes")
        self.wake()

    def wake(self) -> None:
        """Go on with a change, if one is under way."""
        if self._plans.change is not None:
            self._work.set()

    async def change(self, command: ChangePlan) -> dict[str, Any]:
        """Carry out a change from its first step to its last."""
        done = await self._submit(command)
        if not done.value.get("unchanged"):
            await self.finished()
        return done.value | {"epoch": self._plans.schemas[command.schema].epoch}

    async def finished(self) -> None:
        """Wait until no change is under way."""
        if self._plans.change is not None:
            if self._closed:
                raise ControllerClosed(_CLOSING)
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def adopted(self, principal: str, lease: str, epochs: Mapping[str, int]) -> None:
        """Note which plans a client uses, if anything is registered under its lease.

        A client that has missed two plans is refused: no rules serve it any more.
        """
        for name, epoch in epochs.items():
            entry = self._plans.schemas.get(name)
            if entry is not None and epoch < entry.epoch - 1:
                reason = f"plan {epoch} of {name} is {entry.epoch - epoch} behind; read the plan again"
                raise PlanTooOld(reason, field="plans", value=epoch)
        by_lease = self._registrations.by_lease
        if (principal, lease) in by_lease:
            known = {name: epoch for name, epoch in epochs.items() if name in self._plans.schemas}
            self._adopted[principal, lease] = known
            self._adoption.set()
        if len(self._adopted) > 2 * len(by_lease) + _MIN_REMEMBERED_LEASES:
            self._forget_leases()

    def _forget_leases(self) -> None:
        """Forget what was said under leases that have ended."""
        by_lease = self._registrations.by_lease
        self._adopted = {lease: epochs for lease, epochs in self._adopted.items() if lease in by_lease}

    async def close(self) -> None:
        """Stop. A change that is under way stays where it is, and whoever waits for its end gets an error."""
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
            while (change := self._plans.change) is not None:
                try:
                    await self._step(change)
                except PleromaError:  # the network is behind, or the disk is full: it is tried until it succeeds
                    await asyncio.sleep(STEP_RETRY_SECONDS)
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def _step(self, change: PlanChange) -> None:
        await self._confirmed((change.entry.prefix, change.prefix))
        if change.phase == "swapped":
            await self._wait_for_publishers(change)
        if self._is_published(change):
            await self._timing.sleep(self._timing.in_flight_seconds)
        await self._submit(Advance(change.schema, "swap" if change.phase == "prepared" else "clear"))

    def _is_published(self, change: PlanChange) -> bool:
        """Whether anybody may send events of the schema. If not, none is under way."""
        everyone = self._registrations.values()
        return any(each.kind == "advertisement" and each.entry is change.entry for each in everyone)

    async def _wait_for_publishers(self, change: PlanChange) -> None:
        """Until all publishers have adopted the plan, or have had their time."""
        loop = asyncio.get_running_loop()
        start, timing = loop.time(), self._timing
        for seconds, leased in ((timing.unleased_seconds, False), (timing.leased_seconds, True)):
            while self._late(change, leased) and (left := start + seconds - loop.time()) > 0:
                self._adoption.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, 1.0)):  # leases also end without a word
                        await self._adoption.wait()
        self._forget_leases()
        self.stragglers = [each.id for leased in (False, True) for each in self._late(change, leased)]

    def _late(self, change: PlanChange, leased: bool) -> list[Registered]:
        """Advertisements whose publishers may still use the old plan."""
        concerned = (self._registrations.get(each) for each in change.other)
        return [
            each
            for each in concerned
            if each is not None
            and each.kind == "advertisement"
            and (each.lease is not None) == leased
            and self._epoch_of(each) < change.entry.epoch
        ]

    def _epoch_of(self, publisher: Registered) -> int:
        """The plan that a publisher said it uses; 0 if it said nothing."""
        return self._adopted.get((publisher.principal, publisher.lease or ""), {}).get(publisher.schema, 0)
