"""The controller's own loop: looks at every schema every few seconds, and moves it to a better plan or to other trees.

It stands back while a watcher of the lake claims a schema, and while any plan changes. A plan is handed over as the
successor of the epoch that it was made to follow, so of two plans for the same epoch one is refused, whoever made it.
A schema that cannot be looked at is tried again after a pause that doubles each time: a search that fails costs as much
as one that succeeds.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import structlog

from pleroma.control import ChangePlan, Controller, SchemaEntry
from pleroma.control.state.plan_origin import PlanOrigin
from pleroma.errors import ControllerClosed, LimitReached, PlanChanging, PlanMoved, PleromaError
from pleroma.replanning.decisions import Decision, Outcome
from pleroma.replanning.live_replanner import Look
from pleroma.replanning.proposals import Proposal
from pleroma.replanning.tree_balance import TreeBalance
from pleroma.service.replanning.planner import Planner
from pleroma.service.replanning.watcher_claims import WatcherClaims

CALM_SECONDS = 0.5
"""If nothing was registered for so long, those who came are probably all who will come now."""
LONGEST_REST_SECONDS = 300.0
"""Of a schema that cannot be looked at, until it is tried again."""

log = structlog.get_logger("pleroma.service")


class PlanLoop:
    """As `async with`, it re-plans until it is left."""

    def __init__(
        self,
        controller: Controller,
        planner: Planner,
        claims: WatcherClaims,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Every schema is looked at every so many seconds."""
        self.looks: dict[str, Look] = {}
        """By schema, what the last look found."""
        self.changes: Counter[str] = Counter()
        """By schema, how many plans of this loop came into force."""
        self.balances: dict[str, TreeBalance] = {}
        """By schema, how the busiest cable was last compared on other trees."""
        self.moves: Counter[str] = Counter()
        """By schema, how often this loop moved events to other trees, index and all else unchanged."""
        self.failures: dict[str, str] = {}
        """By schema that cannot be looked at now: why, in one line."""
        self._controller = controller
        self._planner = planner
        self._claims = claims
        self._seconds = seconds
        self._checked: int | None = None
        """The position of the log at which there were no newcomers, or they were looked at."""
        self._task: asyncio.Task[None] | None = None
        self._is_warm = False
        self._clock = clock
        self._rests: dict[str, tuple[float, float]] = {}
        """By schema that cannot be looked at now: how long it is left alone, and until when."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="re-planning")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def forget(self, schema: str) -> None:
        """The schema was removed."""
        for known in (self.looks, self.changes, self.balances, self.moves, self.failures, self._rests):
            known.pop(schema, None)

    async def _changed(self, entry: SchemaEntry, found: Proposal, after: int | None) -> dict[str, Any]:
        """Change to a plan: with the rules of both side by side, so that nothing is wasted meanwhile, if they fit."""
        change, is_whole = self._controller.plan_changes.change, found.part is None
        origin = PlanOrigin.now(None, {"waste_at_hosts": found.after.rate, "rules": found.rules})
        if self._planner.has_room_beside(entry, found.rules_by_switch):
            versions = "versioning", after, found.members, is_whole, found.trees
            beside = ChangePlan(entry.name, found.index, *versions, origin)
            with suppress(LimitReached):  # all prefixes are taken by schemas
                return await change(beside)
        return await change(ChangePlan(entry.name, found.index, "lightweight", after, found.members, origin=origin))

    async def _next_look(self) -> bool:
        """Wait until a look is due, early if subscriptions have come and no more follow; whether it is calm."""
        loop = asyncio.get_running_loop()
        begun = changed = loop.time()
        position = self._controller.position
        while (left := begun + self._seconds - loop.time()) > 0:
            await asyncio.sleep(min(left, CALM_SECONDS / 4))
            if self._controller.position != position:
                position, changed = self._controller.position, loop.time()
            elif loop.time() - changed >= CALM_SECONDS and position != self._checked:
                self._checked = position
                await self._controller.settled()
                if await self._has_newcomers():
                    return True
        return loop.time() - changed >= CALM_SECONDS

    async def _has_newcomers(self) -> bool:
        for entry in list(self._controller.state.schemas.values()):
            if await self._planner.has_newcomers(entry):
                return True
        return False

    async def _run(self) -> None:
        while True:
            is_calm = await self._next_look()
            await self._controller.settled()
            try:
                for entry in list(self._controller.state.schemas.values()):
                    await self.attempt(entry, is_calm)
                    await asyncio.sleep(0)  # there may be many schemas without work, and requests wait
                await self._warm_up()
            except ControllerClosed:
                return

    async def _warm_up(self) -> None:
        """Once there is a schema, and whether or not anybody subscribes, get ready for the first search."""
        await self._controller.settled()
        if self._controller.state.schemas and not self._is_warm:
            self._is_warm = True
            with suppress(PleromaError):  # a look will say what is wrong
                await self._planner.warm_up()

    async def attempt(self, entry: SchemaEntry, is_calm: bool = False) -> None:
        """Look at a schema, unless that has failed of late. If it fails now, note why."""
        name = entry.name
        if self._controller.state.schemas.get(name) is not entry:
            return  # removed, while others were looked at
        rest, until = self._rests.get(name, (self._seconds / 2, 0.0))
        if name in self._rests and self._clock() < until:
            return
        try:
            await self.look(entry, is_calm)
        except ControllerClosed:
            raise
        except Exception as error:  # whatever it is, requests and events go on, and so do other schemas
            if name not in self.failures:
                log.warning("a schema cannot be re-planned now", schema=name, reason=str(error))
            self.failures[name] = str(error) or type(error).__name__
            rest = min(2 * rest, LONGEST_REST_SECONDS)
            self._rests[name] = rest, self._clock() + rest
        else:
            self.failures.pop(name, None)
            self._rests.pop(name, None)

    async def look(self, entry: SchemaEntry, is_calm: bool = False) -> None:
        """Look at a schema once, unless somebody else takes care of it or there is nothing to plan for."""
        await self._controller.settled()
        if self._stands_back(entry) or not self._planner.has_work(entry):
            return
        found = await self._planner.look(entry, is_calm)
        self.looks[entry.name] = found
        if found.proposal is not None:
            await self._hand_over(entry, found.proposal, found.decision)
        if found.balance is not None:
            self.balances[entry.name] = found.balance
            if found.balance.outcome == "handing":
                await self._move(entry, found.balance, found.decision.epoch)

    def _stands_back(self, entry: SchemaEntry) -> bool:
        return self._controller.state.plans.change is not None or self._claims.is_claimed(entry.name)

    async def _hand_over(self, entry: SchemaEntry, found: Proposal, decision: Decision) -> None:
        await self._controller.settled()
        if self._stands_back(entry):
            return self._planner.handed(entry, "moved")
        begun = time.monotonic()
        try:
            done = await self._changed(entry, found, decision.epoch)
        except (PlanMoved, PlanChanging):
            self._planner.handed(entry, "moved")
        except PleromaError as error:
            self._planner.handed(entry, "failed")
            log.warning("a better plan was refused", schema=entry.name, reason=str(error))
        else:
            self._planner.handed(entry, "adopted", done["epoch"])
            self.changes[entry.name] += 1
            log.info(
                "a better plan is in force",
                schema=entry.name,
                epoch=done["epoch"],
                waste_before=round(found.before.rate, 3),
                waste_after=round(found.after.rate, 3),
                rules=found.rules,
                change_s=round(time.monotonic() - begun, 2),
                search_s=None if decision.seconds is None else round(decision.seconds, 2),
            )

    async def _move(self, entry: SchemaEntry, found: TreeBalance, after: int | None) -> None:
        """Have events travel on other trees, if tables and prefixes have room for both versions."""
        await self._controller.settled()
        if self._stands_back(entry):
            return self._moved(entry, "moved")
        if not self._planner.has_room_beside(entry, found.rules_by_switch):
            return self._moved(entry, "failed")
        begun = time.monotonic()
        command = ChangePlan(
            entry.name, entry.index, "versioning", after, trees=found.trees, origin=PlanOrigin.now(None, {})
        )
        try:
            done = await self._controller.plan_changes.change(command)
        except (PlanMoved, PlanChanging):
            self._moved(entry, "moved")
        except PleromaError as error:
            self._moved(entry, "failed")
            log.warning("events cannot move to other trees", schema=entry.name, reason=str(error))
        else:
            self._moved(entry, "adopted", done["epoch"])
            self.moves[entry.name] += 1
            log.info(
                "events travel on other trees",
                schema=entry.name,
                epoch=done["epoch"],
                trees=len(found.trees),
                busiest_cable_before=round(found.before, 3),
                busiest_cable_after=round(found.after, 3),
                change_s=round(time.monotonic() - begun, 2),
            )

    def _moved(self, entry: SchemaEntry, outcome: Outcome, epoch: int | None = None) -> None:
        self._planner.handed(entry, outcome, epoch)
        self.balances[entry.name] = replace(self.balances[entry.name], outcome=outcome)
