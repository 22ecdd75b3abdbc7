"""Collecting for the pipeline: what the controller knows and what clients send it goes into a lake.

Schemas, plans, registrations and the network are landed when they have changed; events and reports are landed together
after a few seconds. All writing happens in one thread of its own: whoever sends something never waits for a file, and
what cannot be landed waits until there is no room for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Self

import structlog
from prometheus_client.core import Metric

from pleroma.control import Controller, SchemaEntry
from pleroma.control.accepted_batches import AcceptedBatches
from pleroma.errors import LakeError, SetupError
from pleroma.pipeline.lake.landed import (
    REGISTRATION_TABLES,
    REPORT_COUNTERS,
    BatchId,
    ReportedCounters,
    ReportRow,
    SampledEvents,
)
from pleroma.service.collecting.collecting_settings import CollectingSettings
from pleroma.service.collecting.lake_upkeep import LakeUpkeep
from pleroma.service.collecting.lake_writer import LakeWriter
from pleroma.service.collecting.landing_queue import LandingQueue, T, TableQueue
from pleroma.service.collecting.network_landing import KnownNetwork, NetworkLanding
from pleroma.service.collecting.registration_landing import RegistrationLanding
from pleroma.service.collecting.sender_allowance import SenderAllowance
from pleroma.service.collecting.settled_clock import SettledClock
from pleroma.service.metric_families import counter, gauge

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake

log = structlog.get_logger("pleroma.service")

_LANDING_CHECK_SECONDS = 0.25
"""How often to look whether anything is to be landed."""
_LAST_LANDING_SECONDS = 20.0
"""How long a stop waits for what is left to be landed."""


class Collection:
    """As `async with`, it lands what has come and what has changed; at the end, whatever is left."""

    def __init__(self, controller: Controller, settings: CollectingSettings, lake: Lake, network: KnownNetwork) -> None:
        self.lake = lake
        self.waiting = LandingQueue(settings.max_waiting)
        self.writer = LakeWriter(lake.url)
        self.clock = SettledClock()
        self.upkeep = LakeUpkeep(lake.url, settings.keep_days, self.clock)
        self._controller = controller
        self._settings = settings
        self._registrations = RegistrationLanding(controller, lake, self.writer, self.clock.now)
        self._network = NetworkLanding(network, controller, lake, self.writer, self.clock.now)
        self._accepted = AcceptedBatches()
        self._allowance = SenderAllowance()
        self._rates: dict[str, float] = {}
        """The rates that were chosen, by schema."""
        self._epochs: dict[str, int] = {}
        """The last plan of each schema that was landed."""
        self._noticed: dict[tuple[str, int], datetime] = {}
        """When a plan was first seen in force, by schema and epoch: it may be landed much later."""
        controller.state.principals.on_removed(self._forget)
        self._fault: str | None = None
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, controller: Controller, settings: CollectingSettings, network: KnownNetwork) -> Self:
        """Refuses a lake that cannot be written, or that is of another controller."""
        lake = await asyncio.to_thread(_lake_at, settings.lake)
        collection = await asyncio.to_thread(cls, controller, settings, lake, network)  # nothing registers yet
        try:
            await asyncio.to_thread(lake.check)
            for entry in controller.state.schemas.values():
                collection._epochs[entry.name] = entry.epoch - 1  # nobody knows when earlier ones came into force
                await asyncio.to_thread(collection._land_plan, entry)
                await asyncio.to_thread(_check_position, lake, entry.name, controller.position)
        except BaseException:
            collection.close()
            raise
        return collection

    @property
    def failure(self) -> str | None:
        """Why nothing is landed, or the lake is not maintained, in one line, while that is so."""
        return self._fault or self.writer.failure or self.upkeep.writer.failure

    def rate(self, schema: str) -> float:
        """The part of a schema's events that publishers should send as samples."""
        return self._rates.get(schema, self._settings.sample)

    async def choose_rate(self, schema: str, rate: float) -> None:
        """Another rate for a schema, from now on and after a restart. Publishers learn of it like of a new plan."""
        if self.writer.failure is not None:
            raise LakeError(self.writer.failure, field="lake")
        entry = self._controller.state.schemas[schema]
        await self.writer.write(self._land_rate, entry, rate)
        self._rates[schema] = rate
        self._controller.feed.tell(
            {"type": "plan", "position": self._controller.position, "schema": schema, "epoch": entry.epoch}
        )

    def add_samples(self, sampled: SampledEvents) -> int:
        """Take events from a publisher: how many of them there was room for. A batch that is known is passed over."""
        if not len(sampled.events):
            return 0  # nothing bounds how many such batches would wait
        batch, schema = sampled.batch, sampled.events.schema.name
        if batch is not None and self._accepted.has(batch.principal, (schema, batch.sender), batch.number):
            self.waiting.event_counts.repeated += len(sampled.events)
            return len(sampled.events)
        taken = self.waiting.add_events(sampled._replace(batch=self._allowance.within(batch)))
        if taken and batch is not None:
            self._accepted.add(batch.principal, (schema, batch.sender), batch.number)
        return taken

    def add_report(
        self, principal: str, counted: Mapping[str, Mapping[str, int]], batch: tuple[str, int] | None = None
    ) -> None:
        """Take the counters of a principal's subscriptions since its last report; `batch` as the client gave it."""
        now, registered = self.clock.now(), self._controller.state.registrations
        rows: dict[tuple[str, int], list[ReportRow]] = {}
        for each, counters in counted.items():
            if each in registered:
                entry = registered[each].entry
                landed = {name: counters.get(name, 0) for name in REPORT_COUNTERS}
                rows.setdefault((entry.name, entry.number), []).append(ReportRow(each, principal, **landed))
        for (schema, number), reported in rows.items():
            # the reports of all schemas are one table, which takes one batch of a sender under one number
            part = None if batch is None else BatchId(f"{number}/{principal}/{batch[0]}", batch[1])
            self.waiting.add_reports(ReportedCounters(schema, now, tuple(reported), self._allowance.within(part)))

    def _forget(self, principal: str) -> None:
        self._accepted.forget(principal)
        self._allowance.forget(principal)

    def metrics(self) -> Iterator[Metric]:
        waiting = self.waiting
        events, reports = asdict(waiting.event_counts), asdict(waiting.report_counts)
        yield counter("pleroma_samples", "Sampled events, by what became of them", events.items(), "fate")
        yield counter("pleroma_landed_reports", "Reports, by what became of them", reports.items(), "fate")
        yield gauge("pleroma_samples_waiting", "Sampled events that are not landed yet", [("", waiting.count)])
        failures = self.writer.failures + self.upkeep.writer.failures
        yield counter("pleroma_lake_failures", "How often the lake could not be written", [("", failures)])

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_LANDING_SECONDS):
                    if self._running is not None:
                        await self._running  # not cancelled: what is being landed would be lost
                    await self.land(everything=True)
        except Exception:  # whatever it is, the controller stops in order
            log.exception("collecting has failed")
        finally:
            self.close()

    def close(self) -> None:
        """Begin nothing more."""
        self.upkeep.close()
        self.writer.close()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            failures, is_quiet = self.writer.failures, False
            try:
                is_quiet = not await self.land()
                self._fault = None
            except Exception as error:  # whatever it is, the next round may succeed
                if self._fault is None:
                    log.exception("collecting has failed")
                self._fault = repr(error)
            has_failed = self._fault is not None or self.writer.failures != failures
            if is_quiet and not has_failed:
                self.upkeep.begin_if_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.land_seconds if has_failed else _LANDING_CHECK_SECONDS):
                    await self._stopping.wait()

    async def land(self, everything: bool = False) -> bool:
        """Land what is due, or everything that has come or changed: whether events or reports were to be landed."""
        await self._controller.settled()
        for entry in list(self._controller.state.schemas.values()):  # before its registrations, which need its schema
            if self._epochs.get(entry.name) != entry.epoch:
                self._noticed.setdefault((entry.name, entry.epoch), self.clock.now())
                await self.writer.try_write(f"plans of {entry.name}", self._land_plan, entry)
        await self._registrations.land(at_once=everything)
        were_due = await self._land_waiting(everything)
        await self._network.land(at_once=everything)  # last: a network that cannot be asked is an error
        return were_due

    def _land_plan(self, entry: SchemaEntry) -> None:
        """Write a schema and all plans since the last that was landed; read its chosen rate. Runs in the thread."""
        self.lake.land_schema(entry.schema)
        if entry.name not in self._rates and (rate := self.lake.sampling(entry.name)) is not None:
            self._rates[entry.name] = rate
        landed = self._epochs.get(entry.name, 0)
        for plan in [plan for plan in entry.plans if plan.epoch > landed]:
            since = self._noticed.get((entry.name, plan.epoch)) or self.clock.now()
            self.lake.land_plan(plan, since)
            self._epochs[entry.name] = plan.epoch

    def _land_rate(self, entry: SchemaEntry, rate: float) -> None:
        """Runs in the thread."""
        self.lake.land_schema(entry.schema)  # it may have been made a moment ago
        self.lake.land_sampling(entry.name, rate)

    async def _land_waiting(self, everything: bool) -> bool:
        were_due = [
            await self._land_oldest(f"events/{name}", queue, self.lake.land_samples, everything)
            for name, queue in list(self.waiting.events.items())
        ]
        return any(
            [*were_due, await self._land_oldest("reports", self.waiting.reports, self.lake.land_reports, everything)]
        )

    async def _land_oldest(
        self, what: str, queue: TableQueue[T], land: Callable[[Sequence[T]], int], everything: bool
    ) -> bool:
        """Land what waits for a table in few commits, unless a commit fails: whether anything was to be landed."""
        max_rows, was_due = self._settings.events_per_file, False
        while (everything and queue.rows) or queue.is_due(self._settings.land_seconds, max_rows):
            was_due = True
            oldest = queue.oldest(max_rows)
            written = await self.writer.try_write(what, land, oldest)
            if written is None:
                break  # what came later waits too
            self.upkeep.landed(queue.landed(oldest, written.result))
        return was_due


def _lake_at(place: str) -> Lake:
    """Loads what a lake needs: other threads go on meanwhile."""
    try:
        from pleroma.pipeline.lake.lake import Lake
    except ModuleNotFoundError as error:
        reason = f"a lake needs {error.name}, which is not installed; please run scripts/setup experiments"
        raise SetupError(reason, field="lake") from None
    return Lake.at(place)


def _check_position(lake: Lake, schema: str, position: int) -> None:
    for kind in REGISTRATION_TABLES:
        landed = lake.registrations(kind).position(schema)
        if landed > position:
            reason = f"the lake has {kind} of {schema!r} at position {landed} of a log, and this log ends at {position}"
            raise LakeError(f"{reason}: it is the lake of another log", field="lake", value=lake.url)
