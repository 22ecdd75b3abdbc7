"""The driver's side of watching: windows come in as they close, and are published, judged, and acted upon, each once.

Whatever moment the process dies at, the one that follows finds in the lake how far it came. A window that is published
stays as it is; a plan is written down before it is handed over, and then handed over as the one to follow a certain
epoch, so that doing it again is doing it once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import pyarrow.compute as pc

from pleroma.content import Filter, Schema
from pleroma.errors import ControllerAway, LakeError, PlanChanging, PlanMoved, PleromaError
from pleroma.index import Index, SelectiveIndex, index_from_json
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_layout import microseconds, moment_of
from pleroma.pipeline.watch.decisions import Decision, Outcome, WatchSettings, decide, reference
from pleroma.pipeline.watch.drift import alike, drift
from pleroma.pipeline.watch.journal import Journal
from pleroma.pipeline.watch.plan_holder import PlanHolder, is_better, proposal
from pleroma.pipeline.watch.windows import MetricCounts, Reported, TrafficWindow, empty_between, merged
from pleroma.selection.traffic_summary import TrafficSummary

MAX_REMEMBERED = 1_000
"""Windows and decisions that are remembered."""

OnEntry = Callable[[TrafficWindow | Decision], None]


class GatherTraffic(Protocol):
    """One pass over the landed events of `[start, end)`."""

    def __call__(self, start: datetime, end: datetime, subscriptions: Sequence[Filter]) -> TrafficSummary: ...


class Replanner:
    """`dry` decides and tunes, and hands nothing over."""

    def __init__(
        self,
        lake: Lake,
        schema: Schema,
        settings: WatchSettings,
        handover: PlanHolder,
        gathering: GatherTraffic,
        told: OnEntry,
        dry: bool = False,
    ) -> None:
        self._lake = lake
        self._schema = schema
        self._settings = settings
        self._handover = handover
        self._gathering = gathering
        self._told = told
        self._dry = dry
        self._journal = Journal(lake.storage, schema.name)
        self._windows = self._journal.windows(MAX_REMEMBERED)
        self._decisions = self._journal.decisions(MAX_REMEMBERED)
        self._begun = self._journal.begun()
        self._made_from: dict[int | None, TrafficWindow | None] = {}

    def closed(self, windows: Mapping[datetime, MetricCounts]) -> None:
        """Some windows have closed. They close in the order of time, and may be said to have closed again.

        All are published, and what to do is decided at the last: who is behind does not act on what is long over.
        """
        if not windows:
            return
        for start in sorted(windows):
            window, is_new = self._published(start, windows[start])
        earlier = [each for each in self._decisions if each.window <= start]
        if earlier and earlier[-1].outcome == "handing" and (self._dry or not self._hand(earlier[-1], window)):
            return  # who hands nothing over leaves it to whoever was about to
        if any(each.window == start for each in self._decisions):
            return
        past = [each for each in self._windows if each.start <= start]
        if not past:
            return
        decisions = [each for each in self._decisions if each.window < start]
        decision = decide(past, decisions, self._settings, self._begun)
        if decision.reason is not None:
            self._tune(decision, past)
        elif is_new:
            self._told(decision)

    # -- windows -------------------------------------------------------------------------------------------------------

    def _published(self, start: datetime, cells: MetricCounts) -> tuple[TrafficWindow, bool]:
        known = next((each for each in reversed(self._windows) if each.start == start), None)
        if known is not None:
            return known, False
        window = TrafficWindow.of(self._schema, start, self._settings.length, cells)
        past = [each for each in self._windows if each.start < start]
        window = replace(
            window,
            empty_before=empty_between(past[-1] if past else None, start, self._settings.length),
            reported=self._reported(window),
            drift=drift(self._reference(window.epoch, past), window),
        )
        is_new = self._journal.publish(window)
        if not is_new:  # long ago, or by another watcher of the same lake
            window = self._journal.window(start)
        self._windows = sorted([*self._windows, window], key=lambda each: each.start)[-MAX_REMEMBERED:]
        self._begun = self._begun or start
        if is_new:
            self._told(window)
        return window, is_new

    def _reference(self, epoch: int | None, past: Sequence[TrafficWindow]) -> TrafficWindow | None:
        """The same for as long as a plan is in force, also when its first window is not remembered any more."""
        if self._made_from.get(epoch) is None:
            self._made_from = {epoch: reference(past, self._decisions, epoch, self._settings)}
        return self._made_from[epoch]

    def _reported(self, window: TrafficWindow) -> Reported | None:
        """What reports of its time say. One is landed after it was made, so older parts need not be opened."""
        delivered = wasted = rows = 0
        for file in self._lake.files("reports", window.schema, window.start, window.end):
            if moment_of(file.key) * 1000 < microseconds(window.start):
                continue
            try:
                table = self._lake.table("reports", window.schema, file)
            except LakeError:
                continue
            inside = pc.and_(pc.greater_equal(table["at"], window.start), pc.less(table["at"], window.end))
            table = table.filter(inside)
            rows += table.num_rows
            delivered += pc.sum(table["delivered"]).as_py() or 0
            wasted += pc.sum(table["wasted"]).as_py() or 0
        return Reported(delivered, wasted) if rows else None

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _tune(self, decision: Decision, past: Sequence[TrafficWindow]) -> None:
        begun = time.perf_counter()

        def over(outcome: Outcome, **more: Any) -> None:
            seconds = round(time.perf_counter() - begun, 3)
            self._record(replace(decision, outcome=outcome, seconds=seconds, **more))

        settings = self._settings
        known = self._journal.decision(decision.window)
        if known is not None:  # of another watcher of the same lake
            self._decisions.append(known)
            return None
        try:
            in_force = self._handover.current()
            if in_force.epoch != decision.epoch:
                return over("moved", detail=f"plan {in_force.epoch} is in force, and not the one of these events")
            learned = alike(past, settings.look_back, settings.drift)
            subscriptions = [row.filter for row in self._lake.subscriptions(decision.schema, decision.end).rows]
            gathered = self._gathering(learned[0].start, learned[-1].end, subscriptions)
            found = proposal(in_force, gathered, subscriptions, settings)
        except ControllerAway as error:
            return over("away", detail=str(error))
        except PleromaError as error:
            return over("failed", detail=str(error))
        decision = replace(
            decision,
            technique=found.technique,
            before=found.before,
            after=found.after,
            rules=found.rules,
            learned=merged(learned),
        )
        if not is_better(found.before, found.after, settings):
            return over("not_better")
        if self._dry:
            return over("dry")
        over("handing", index=found.index.to_json())
        self._hand(self._decisions[-1], past[-1])
        return None

    def _hand(self, decision: Decision, now: TrafficWindow) -> bool:
        """Hand over what was decided on, now or when a process that died was about to: whether that is over."""
        if decision.index is None or decision.epoch is None:
            return True
        index = index_from_json(self._schema, decision.index)
        begun = time.perf_counter()

        def over(outcome: Outcome, **more: Any) -> None:
            seconds = round((decision.seconds or 0.0) + time.perf_counter() - begun, 3)
            self._record(replace(decision, outcome=outcome, index=None, seconds=seconds, **more))

        try:
            over("adopted", new_epoch=self._handover.put(index, decision.epoch))
        except PlanMoved as error:
            self._moved(index, over, str(error))
        except (ControllerAway, PlanChanging) as error:
            if now.end - decision.end > timedelta(seconds=self._settings.period):
                over("away", detail=str(error))
            else:  # it is tried again when the next window closes
                self._told(replace(decision, detail=str(error)))
                return False
        except PleromaError as error:
            over("failed", detail=str(error))
        return True

    def _moved(self, index: Index, over: Callable[..., None], why: str) -> None:
        """Another plan is in force; it may be this one, of which we did not hear that it was adopted."""
        try:
            in_force = self._handover.current()
        except PleromaError:
            return over("moved", detail=why)
        ours = {_text(index), _text(index.opened())} if isinstance(index, SelectiveIndex) else {_text(index)}
        if _text(in_force.index) in ours:
            return over("adopted", new_epoch=in_force.epoch)
        return over("moved", detail=why)

    def _record(self, decision: Decision) -> None:
        self._journal.record(decision)
        others = [each for each in self._decisions if each.window != decision.window]
        self._decisions = sorted([*others, decision], key=lambda each: each.window)[-MAX_REMEMBERED:]
        if decision.outcome != "handing":
            self._told(decision)


def _text(index: Index) -> str:
    return str(index.to_json())
