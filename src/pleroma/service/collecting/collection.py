"""Collecting for the pipeline: what the controller knows and what clients tell it goes into a lake.

Schemas, plans and subscriptions are looked at now and then and landed when they have changed; events and reports are
landed together after a few seconds. All writing happens in one thread of its own: whoever sends something never waits
for a file, and what cannot be landed waits until there is no room for more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import structlog
from prometheus_client.core import Metric

from pleroma.control import Controller, SchemaEntry
from pleroma.errors import LakeError, SetupError
from pleroma.service.collecting.landing_queue import LandingQueue, ReportedCounters, SampledEvents
from pleroma.service.collecting.recent_events import RecentEvents
from pleroma.service.http.metrics import counter, gauge

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake

_LANDING_CHECK_SECONDS = 0.25
"""Seconds between two looks at what is to be landed."""
_CHANGE_CHECK_SECONDS = 0.1
"""Seconds between two glances at whether anything has changed: as exact are the times of snapshots."""
_MIN_SNAPSHOT_SECONDS = 1.0
"""Seconds from a snapshot of the subscriptions to the next, or four times what the last took, if that is more."""
_HOUR_SECONDS = 3600.0
_NEXT_COMPACTION_SECONDS = 10.0
_INSTANT = timedelta(microseconds=1)
_LAST_LANDING_SECONDS = 20.0

log = structlog.get_logger("pleroma.service")


@dataclass(frozen=True, slots=True)
class CollectingSettings:
    """Where to, which part of the events, how long it is kept, and how it is put into files."""

    lake: str
    sample: float = 0.01
    keep_days: float = 30.0
    land_seconds: float = 5.0
    """After this time at most, what has come is landed."""
    part: int = 50_000
    """Events of one file."""
    room: int = 200_000
    """Events that may wait to be landed; reports too."""

    def __post_init__(self) -> None:
        if not 0 <= self.sample <= 1:
            raise SetupError("is a rate from 0 to 1", field="sample", value=self.sample)
        for name in ("keep_days", "land_seconds", "part", "room"):
            if not getattr(self, name) > 0:
                raise SetupError("must be more than 0", field=name, value=getattr(self, name))


class Collection:
    """As `async with`, it lands what has come and what has changed; at the end, whatever is left."""

    def __init__(self, controller: Controller, settings: CollectingSettings, lake: Lake) -> None:
        self.lake = lake
        self.waiting = LandingQueue(settings.room)
        self.recent = RecentEvents()
        self.failures = 0
        """How often the lake could not be written."""
        self._controller = controller
        self._settings = settings
        self._rates: dict[str, float] = {}
        self._epochs: dict[str, int] = {}
        self._snapshots: dict[str, tuple[str, ...]] = {}
        self._newest: dict[str, datetime] = {}
        """Since when the last snapshot of each schema is valid."""
        self._position = -1
        self._unchanged = datetime.now(UTC)
        """When the state was last seen as the snapshots have it."""
        self._snapshot_due = self._expiry_due = self._folding_due = 0.0
        self._landing_due: float | None = None
        self._failing = False
        self._thread = ThreadPoolExecutor(1, "lake")
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, controller: Controller, settings: CollectingSettings) -> Self:
        """Refuses a lake that cannot be written, or that is of another controller."""
        try:
            from pleroma.pipeline.lake.lake import Lake
        except ModuleNotFoundError as error:
            reason = f"a lake needs {error.name}, which is not installed; please run scripts/setup experiments"
            raise SetupError(reason, field="lake") from None
        collection = cls(controller, settings, await asyncio.to_thread(Lake.at, settings.lake))
        try:
            await asyncio.to_thread(collection.lake.storage.check)
            for entry in controller.state.schemas.values():
                collection._epochs[entry.name] = entry.epoch - 1  # nobody knows when earlier ones came into force
                await asyncio.to_thread(collection._land_plan, entry, datetime.now(UTC))
        except BaseException:
            collection._thread.shutdown()
            raise
        return collection

    # -- sampling ------------------------------------------------------------------------------------------------

    def rate(self, schema: str) -> float:
        """The part of a schema's events that publishers should send."""
        return self._rates.get(schema, self._settings.sample)

    async def choose(self, schema: str, rate: float) -> None:
        """Another rate for a schema, from now on; also after a restart. Publishers hear of it as of a new plan."""
        await self._in_thread(self.lake.land_sampling, schema, rate)
        self._rates[schema] = rate
        epoch = self._controller.state.schemas[schema].epoch
        self._controller.feed.tell(
            {"type": "plan", "position": self._controller.position, "schema": schema, "epoch": epoch}
        )

    def sampled(self, drawn: SampledEvents) -> int:
        """Events from a publisher: how many of them there was room for."""
        self._land_soon()
        self.recent.add(drawn.events)
        return self.waiting.add_events(drawn)

    def reported(self, principal: str, counted: Mapping[str, Mapping[str, int]]) -> None:
        """What a subscriber has counted since its last report."""
        from pleroma.pipeline.lake.lake_layout import ReportRow

        now, registered = datetime.now(UTC), self._controller.state.registrations
        rows = [
            ReportedCounters(registered[each].schema, now, ReportRow(each, principal, **counters))
            for each, counters in counted.items()
            if each in registered
        ]
        self._land_soon()
        self.waiting.add_reports(rows)

    def metrics(self) -> Iterator[Metric]:
        waiting = self.waiting
        events = {"landed": waiting.events.landed, "dropped": waiting.events.dropped}
        yield counter("pleroma_samples", "Sampled events, by what became of them", events.items(), "fate")
        reports = {"landed": waiting.reports.landed, "dropped": waiting.reports.dropped}
        yield counter("pleroma_landed_reports", "Reports, by what became of them", reports.items(), "fate")
        yield gauge("pleroma_samples_waiting", "Sampled events that are not landed yet", [("", waiting.count)])
        yield counter("pleroma_lake_failures", "How often the lake could not be written", [("", self.failures)])

    # -- landing -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(work) for work in (self._run(), self._watch())]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_LANDING_SECONDS):
                await asyncio.gather(*self._tasks)  # not cancelled: what is being landed would be lost
                await self.land(everything=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            failures = self.failures
            await self.land()
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    _LANDING_CHECK_SECONDS if self.failures == failures else self._settings.land_seconds
                ):
                    await self._stopping.wait()

    async def land(self, everything: bool = False) -> None:
        """Land what is due, or everything that has come or changed."""
        for entry in list(self._controller.state.schemas.values()):
            if self._epochs.get(entry.name) != entry.epoch:
                await self._done(self._land_plan, entry, datetime.now(UTC))
        if not self._noticed() and (everything or time.monotonic() >= self._snapshot_due):
            await self._land_subscriptions()
        late = self._landing_due is not None and time.monotonic() >= self._landing_due
        if everything or late or self.waiting.count >= self._settings.part:
            self._landing_due = None
            await self._land_waiting()
        if time.monotonic() >= self._expiry_due:
            self._expiry_due = time.monotonic() + _HOUR_SECONDS
            await self._done(self.lake.expire, datetime.now(UTC) - timedelta(days=self._settings.keep_days))
        if time.monotonic() >= self._folding_due:
            self._folding_due = time.monotonic() + _HOUR_SECONDS
            await self._done(self._fold)

    def _fold(self) -> None:
        """Small parts of hours that are over; where there are many, some now and some soon. In the thread."""
        from pleroma.pipeline.lake.compaction import MAX_FOLDED_PARTS

        if self.lake.fold(datetime.now(UTC) - timedelta(seconds=_HOUR_SECONDS), MAX_FOLDED_PARTS) >= MAX_FOLDED_PARTS:
            self._folding_due = time.monotonic() + _NEXT_COMPACTION_SECONDS

    def _land_plan(self, entry: SchemaEntry, since: datetime) -> None:
        """The schema, all plans since the one that was landed last, and the rate that was chosen. In the thread."""
        self.lake.land_schema(entry.schema)
        if entry.name not in self._rates and (rate := self.lake.sampling(entry.name)) is not None:
            self._rates[entry.name] = rate
        landed = self._epochs.get(entry.name, 0)
        for plan in [plan for plan in entry.plans if plan.epoch > landed]:
            self.lake.land_plan(plan, self._controller.state.settings.max_members, since)
            self._epochs[entry.name] = plan.epoch

    async def _land_subscriptions(self) -> None:
        begin, failures, since = time.monotonic(), self.failures, self._unchanged
        state = self._controller.state
        found: dict[str, list[tuple[str, str, str, str]]] = {name: [] for name in state.schemas}
        for each in state.registrations.values():
            if each.kind == "subscription":
                found[each.schema].append((each.id, each.principal, each.host, each.boxes))
        self._position, self._unchanged = self._controller.position, datetime.now(UTC) + _INSTANT
        for name, rows in found.items():
            ids = tuple(row[0] for row in rows)
            if self._snapshots.get(name) != ids and await self._done(self._land_snapshot, name, since, rows):
                self._snapshots[name] = ids
        if self.failures != failures:
            self._position, self._unchanged = -1, since  # once more
        self._snapshot_due = time.monotonic() + max(_MIN_SNAPSHOT_SECONDS, 4 * (time.monotonic() - begin))

    def _land_snapshot(self, name: str, since: datetime, rows: list[tuple[str, str, str, str]]) -> None:
        """Later than any there is, whatever the clock says: the last is the one that is valid. In the thread."""
        if name not in self._newest:
            self._newest[name] = max((each.since for each in self.lake.snapshots(name)), default=since - _INSTANT)
        since = max(since, self._newest[name] + _INSTANT)
        self.lake.land_subscriptions(name, since, rows)
        self._newest[name] = since

    def _noticed(self) -> bool:
        """Whether the snapshots have what stands now; if so, they were valid until now."""
        if self._position != self._controller.position:
            return False
        self._unchanged = datetime.now(UTC)
        return True

    async def _watch(self) -> None:
        """Notice when something changes, also while files are written: a snapshot is valid from that moment on."""
        while not self._stopping.is_set():
            self._noticed()
            await asyncio.sleep(_CHANGE_CHECK_SECONDS)

    async def _land_waiting(self) -> None:
        from pleroma.pipeline.lake.lake_layout import MAX_PART_ROWS

        waiting, lake, most = self.waiting, self.lake, min(self._settings.part, MAX_PART_ROWS)
        for drawn in waiting.take_events(most):
            if await self._done(lake.land_events, *drawn):
                waiting.landed_events(drawn)
            else:
                self._land_soon()
                waiting.give_back_events(drawn)
        for reported in waiting.take_reports(most):
            rows = [each.row for each in reported]
            if await self._done(lake.land_reports, reported[0].schema, [each.at for each in reported], rows):
                waiting.landed_reports(reported)
            else:
                self._land_soon()
                waiting.give_back_reports(reported)

    def _land_soon(self) -> None:
        if self._landing_due is None:
            self._landing_due = time.monotonic() + self._settings.land_seconds

    async def _done(self, work: Callable[..., Any], *given: Any) -> bool:
        """Whether it could be written. That it cannot is said once."""
        try:
            await self._in_thread(work, *given)
        except Exception as error:  # whatever it is, the rest is landed
            self.failures += 1
            if not self._failing:
                reason = str(error) if isinstance(error, LakeError) else repr(error)
                log.error("the lake cannot be written", lake=self._settings.lake, reason=reason)
            self._failing = True
            return False
        if self._failing:
            log.info("the lake can be written again", lake=self._settings.lake)
        self._failing = False
        return True

    async def _in_thread(self, work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)
