"""Collecting for the pipeline: what the controller knows and what clients send it goes into a lake.

Schemas, plans and subscriptions are looked at now and then and landed when they have changed; events and reports are
landed together after a few seconds. All writing happens in one thread of its own: whoever sends something never waits
for a file, and what cannot be landed waits until there is no room for more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

from prometheus_client.core import Metric

from pleroma.control import Controller, SchemaEntry
from pleroma.errors import SetupError
from pleroma.service.collecting.collecting_settings import CollectingSettings
from pleroma.service.collecting.lake_writer import LakeWriter
from pleroma.service.collecting.landing_queue import LandingQueue, ReportedCounters, SampledEvents
from pleroma.service.collecting.recent_events import RecentEvents
from pleroma.service.collecting.subscription_snapshots import CHANGE_CHECK_SECONDS, SubscriptionSnapshots
from pleroma.service.metric_families import counter, gauge

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake

_LANDING_CHECK_SECONDS = 0.25
"""How often to look whether anything is to be landed."""
_HOUR_SECONDS = 3600.0
_NEXT_COMPACTION_SECONDS = 10.0
"""From a compaction to the next while there are more small parts than one compaction takes."""
_LAST_LANDING_SECONDS = 20.0
"""How long a stop waits for what is left to be landed."""


class Collection:
    """As `async with`, it lands what has come and what has changed; at the end, whatever is left."""

    def __init__(self, controller: Controller, settings: CollectingSettings, lake: Lake) -> None:
        self.lake = lake
        self.waiting = LandingQueue(settings.max_waiting)
        self.recent = RecentEvents()
        self.writer = LakeWriter(settings.lake)
        self._controller = controller
        self._settings = settings
        self._snapshots = SubscriptionSnapshots(controller, lake, self.writer)
        self._rates: dict[str, float] = {}
        """The rates that were chosen, by schema."""
        self._epochs: dict[str, int] = {}
        """The last plan of each schema that was landed."""
        self._expiry_due = self._compaction_due = 0.0
        self._landing_due: float | None = None
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
            collection.writer.close()
            raise
        return collection

    def rate(self, schema: str) -> float:
        """The part of a schema's events that publishers should send as samples."""
        return self._rates.get(schema, self._settings.sample)

    async def choose_rate(self, schema: str, rate: float) -> None:
        """Another rate for a schema, from now on and after a restart. Publishers learn of it like of a new plan."""
        await self.writer.write(self.lake.land_sampling, schema, rate)
        self._rates[schema] = rate
        epoch = self._controller.state.schemas[schema].epoch
        self._controller.feed.tell(
            {"type": "plan", "position": self._controller.position, "schema": schema, "epoch": epoch}
        )

    def add_samples(self, sampled: SampledEvents) -> int:
        """Take events from a publisher: how many of them there was room for."""
        self._land_soon()
        self.recent.add(sampled.events)
        return self.waiting.add_events(sampled)

    def add_report(self, principal: str, counted: Mapping[str, Mapping[str, int]]) -> None:
        """Take the counters of a principal's subscriptions since its last report."""
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
        failures = self.writer.failures
        yield counter("pleroma_lake_failures", "How often the lake could not be written", [("", failures)])

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(work) for work in (self._run(), self._notice_changes())]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_LANDING_SECONDS):
                await asyncio.gather(*self._tasks)  # not cancelled: what is being landed would be lost
                await self.land(everything=True)
        self.writer.close()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            failures = self.writer.failures
            await self.land()
            has_failed = self.writer.failures != failures
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.land_seconds if has_failed else _LANDING_CHECK_SECONDS):
                    await self._stopping.wait()

    async def _notice_changes(self) -> None:
        while not self._stopping.is_set():
            self._snapshots.notice_changes()
            await asyncio.sleep(CHANGE_CHECK_SECONDS)

    async def land(self, everything: bool = False) -> None:
        """Land what is due, or everything that has come or changed."""
        for entry in list(self._controller.state.schemas.values()):
            if self._epochs.get(entry.name) != entry.epoch:
                await self.writer.try_write(self._land_plan, entry, datetime.now(UTC))
        await self._snapshots.land(at_once=everything)
        is_late = self._landing_due is not None and time.monotonic() >= self._landing_due
        if everything or is_late or self.waiting.count >= self._settings.events_per_file:
            self._landing_due = None
            await self._land_waiting()
        if time.monotonic() >= self._expiry_due:
            self._expiry_due = time.monotonic() + _HOUR_SECONDS
            oldest = datetime.now(UTC) - timedelta(days=self._settings.keep_days)
            await self.writer.try_write(self.lake.expire, oldest)
        if time.monotonic() >= self._compaction_due:
            self._compaction_due = time.monotonic() + _HOUR_SECONDS
            await self.writer.try_write(self._compact)

    def _compact(self) -> None:
        """Merge small parts of hours that are over; if there are many, some now and some soon. Runs in the thread."""
        from pleroma.pipeline.lake.compaction import MAX_FOLDED_PARTS

        if self.lake.fold(datetime.now(UTC) - timedelta(seconds=_HOUR_SECONDS), MAX_FOLDED_PARTS) >= MAX_FOLDED_PARTS:
            self._compaction_due = time.monotonic() + _NEXT_COMPACTION_SECONDS

    def _land_plan(self, entry: SchemaEntry, since: datetime) -> None:
        """Write a schema and all plans since the last that was landed; read its chosen rate. Runs in the thread."""
        self.lake.land_schema(entry.schema)
        if entry.name not in self._rates and (rate := self.lake.sampling(entry.name)) is not None:
            self._rates[entry.name] = rate
        landed = self._epochs.get(entry.name, 0)
        for plan in [plan for plan in entry.plans if plan.epoch > landed]:
            self.lake.land_plan(plan, self._controller.state.settings.max_members, since)
            self._epochs[entry.name] = plan.epoch

    async def _land_waiting(self) -> None:
        from pleroma.pipeline.lake.lake_layout import MAX_PART_ROWS

        waiting, lake, max_rows = self.waiting, self.lake, min(self._settings.events_per_file, MAX_PART_ROWS)
        for sampled in waiting.take_events(max_rows):
            if await self.writer.try_write(lake.land_events, *sampled):
                waiting.landed_events(sampled)
            else:
                self._land_soon()
                waiting.give_back_events(sampled)
        for reported in waiting.take_reports(max_rows):
            times, rows = [each.at for each in reported], [each.row for each in reported]
            if await self.writer.try_write(lake.land_reports, reported[0].schema, times, rows):
                waiting.landed_reports(reported)
            else:
                self._land_soon()
                waiting.give_back_reports(reported)

    def _land_soon(self) -> None:
        if self._landing_due is None:
            self._landing_due = time.monotonic() + self._settings.land_seconds
