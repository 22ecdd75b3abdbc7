"""The driver's side of the streaming job: publishes closed windows, decides, and hands a better plan over, each once.

Whatever moment the process dies at, the next process finds in the lake how far it came. A published window never
changes. A plan is written to the journal before it is handed over, and it is handed over as the successor of a certain
epoch, so handing it over twice has its effect once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import ControllerAway, DamagedFile, PlanChanging, PlanMoved, PleromaError
from pleroma.index import Index, SelectiveIndex, index_from_json
from pleroma.pipeline.lake.lake import Lake, between
from pleroma.pipeline.lake.moments import FIRST_MOMENT, ONE_MICROSECOND
from pleroma.pipeline.lake.registration_history import RegistrationText
from pleroma.pipeline.lake.table_files import Condition
from pleroma.pipeline.lake_situation import situation_of
from pleroma.pipeline.passes.collected_events import events_here
from pleroma.pipeline.watch.journal import Journal
from pleroma.pipeline.watch.window_counts import LakeHistory
from pleroma.replanning.decisions import COMPLETED_OUTCOMES, Decision, Outcome, WatchSettings, decide, reference
from pleroma.replanning.drift import alike, drift
from pleroma.replanning.imagined_traffic import imagined_events
from pleroma.replanning.plan_in_force import PlanHolder
from pleroma.replanning.proposals import floor_for, is_better, propose
from pleroma.replanning.reported_counts import PACKET_COUNTERS, ReportedCounts, reported_counts
from pleroma.replanning.situation import NetworkSituation
from pleroma.replanning.windows import MetricCounts, TrafficWindow, empty_between, merged
from pleroma.selection.traffic_summary import TrafficSummary, summarise_traffic

MAX_REMEMBERED = 1_000
"""Windows and decisions that are kept in memory, each."""

OnEntry = Callable[[TrafficWindow | Decision], None]
"""Is called with every window that is published, and with every decision."""


class GatherTraffic(Protocol):
    """One pass over the landed events of `[start, end)`."""

    def __call__(self, start: datetime, end: datetime, subscriptions: Sequence[Filter]) -> TrafficSummary: ...


class Replanner:
    """Decides at closed windows whether to tune, and hands a better plan to the holder of the plan in force.

    With `dry` it decides and tunes, and hands nothing over.
    """

    def __init__(
        self,
        lake: Lake,
        schema: Schema,
        settings: WatchSettings,
        holder: PlanHolder,
        gather: GatherTraffic,
        on_entry: OnEntry,
        dry: bool = False,
    ) -> None:
        self._lake = lake
        self._schema = schema
        self._settings = settings
        self._holder = holder
        self._gather = gather
        self._on_entry = on_entry
        self._dry = dry
        self._journal = Journal(lake, schema.name)
        self._windows = self._journal.windows(MAX_REMEMBERED)
        self._decisions = self._journal.decisions(MAX_REMEMBERED)
        self._begun = self._journal.begun()
        self._made_from: dict[int | None, TrafficWindow | None] = {}
        self._history = LakeHistory(lake, schema.name)
        self._known_then: tuple[datetime | None, frozenset[RegistrationText]] = None, frozenset()
        """When a plan was last searched for, and the subscriptions of that moment."""

    def close_windows(self, windows: Mapping[datetime, MetricCounts]) -> None:
        """Take windows that have closed, by their start. A window may be given again after a failure.

        All windows are published. Only at the last one is it decided what to do: a job that is behind does not act on
        traffic that is long over.
        """
        if not windows:
            return
        for start in sorted(windows):
            window, is_new = self._published(start, windows[start])
        pending = self._pending(start)
        if pending is not None and (self._dry or not self._hand_over(pending, window)):
            return  # a plan still waits to be handed over; a dry run leaves it to the job that decided on it
        if any((each.window, each.end) == (window.start, window.end) for each in self._decisions):
            return
        if window not in self._windows:  # long over
            return
        past = [*(each for each in self._windows if each.start < start), window]
        decisions = [each for each in self._decisions if each.window < start]
        newcomers = self._newcomers(window, decisions)
        decision = decide(past, decisions, self._settings, self._begun, newcomers)
        if decision.reason is not None:
            self._tune(decision, past)
        elif is_new:
            self._on_entry(decision)

    def _published(self, start: datetime, counts: MetricCounts) -> tuple[TrafficWindow, bool]:
        """The window in the journal, and whether it was not there before."""
        span = start, start + self._settings.length
        known = next((each for each in reversed(self._windows) if (each.start, each.end) == span), None)
        if known is not None:
            return known, False
        window = TrafficWindow.of(self._schema, start, self._settings.length, counts)
        past = [each for each in self._windows if each.start < start]
        window = replace(
            window,
            empty_before=empty_between(past[-1] if past else None, start, self._settings.length),
            reported=self._reported(window),
            drift=drift(self._reference(window.epoch, past), window),
        )
        is_new = self._journal.publish(window)
        if not is_new:  # published long ago, or by another replanner of the same lake
            window = self._journal.window(*span) or window
        self._windows = sorted([*self._windows, window], key=lambda each: each.start)[-MAX_REMEMBERED:]
        self._begun = self._begun or start
        if is_new:
            self._on_entry(window)
        return window, is_new

    def _reference(self, epoch: int | None, past: Sequence[TrafficWindow]) -> TrafficWindow | None:
        """The traffic that a plan was made from, kept while the plan is in force: its windows may be forgotten."""
        if self._made_from.get(epoch) is None:
            self._made_from = {epoch: reference(past, self._decisions, epoch, self._settings)}
        return self._made_from[epoch]

    def _reported(self, window: TrafficWindow) -> ReportedCounts | None:
        """What subscribers reported in the time of a window, as far as it has landed."""
        table = self._lake.table("reports")
        conditions = (Condition("schema", "==", window.schema), *between("at", window.start, window.end))
        rows = table.rows(conditions, PACKET_COUNTERS, self._lake.noting(table))
        counted = zip(*(rows[name].to_pylist() for name in PACKET_COUNTERS), strict=True)
        return sum((reported_counts(*each) for each in counted), ReportedCounts()) if len(rows) else None

    def _pending(self, start: datetime) -> Decision | None:
        """The decision before a window whose plan still waits to be handed over, as the journal has it by now."""
        earlier = [each for each in self._decisions if each.window <= start]
        if not earlier or earlier[-1].outcome != "handing":
            return None
        known = self._journal.decision(earlier[-1].window, earlier[-1].end) or earlier[-1]
        self._remember(known)
        return known if known.outcome == "handing" else None

    def _tune(self, decision: Decision, past: Sequence[TrafficWindow]) -> None:
        """Look for a better plan, record what came of it, and hand the plan over if there is one."""
        begun = time.perf_counter()

        def finish(outcome: Outcome, **more: Any) -> None:
            seconds = round(time.perf_counter() - begun, 3)
            made = replace(decision, outcome=outcome, seconds=seconds, **more)
            if not self._journal.record(made):  # another replanner of the same lake was faster
                return self._remember(self._journal.decision(decision.window, decision.end) or made)
            self._say(made)
            if outcome == "handing":
                self._hand_over(made, past[-1])
            return None

        settings = self._settings
        known = self._journal.decision(decision.window, decision.end)
        if known is not None:  # it was faster before anything was looked for
            return self._remember(known)
        try:
            in_force = self._holder.current()
            if in_force.epoch != decision.epoch:
                return finish("moved", detail=f"plan {in_force.epoch} is in force, and not the one of these events")
            learned = alike(past, settings.look_back, settings.drift)
            situation = situation_of(self._lake, decision.schema, decision.end)
            found = propose(in_force, self._traffic(learned, situation), situation, settings)
        except ControllerAway as error:
            return finish("away", detail=str(error))
        except PleromaError as error:
            return finish("failed", detail=str(error))
        decision = replace(
            decision,
            technique=found.technique,
            before=found.before,
            after=found.after,
            rules=found.rules,
            rules_by_switch=dict(found.rules_by_switch) or None,
            members=found.members,
            learned=merged(learned),
        )
        seen = 0 if decision.learned is None else decision.learned.events
        if not is_better(found.before, found.after, settings, floor_for(in_force, seen, settings)):
            return finish("not_better")
        if self._dry:
            return finish("dry")
        return finish("handing", index=found.index.to_json())

    def _traffic(self, learned: Sequence[TrafficWindow], situation: NetworkSituation) -> TrafficSummary:
        """The traffic of some windows; where these have next to no events, imagined ones beside them."""
        whole = merged(learned)
        if whole is not None and whole.events >= self._settings.least:
            return self._gather(whole.start, whole.end, situation.filters)
        few = [] if whole is None else events_here(self._lake, self._schema.name, whole.start, whole.end)
        seed = self._settings.seed
        parts = [*(each.events for each in few), imagined_events(situation, seed=seed)]
        together, statistics = EventBatch.joined(self._schema, parts), self._settings.compare
        return summarise_traffic(together, situation.filters, seed=seed, statistics=statistics)

    def _newcomers(self, window: TrafficWindow, decisions: Sequence[Decision]) -> float:
        """The share of subscriptions that have come or gone since the last search, or since the plan came.

        The plan that a schema begins with knows of no subscription.
        """
        searched = (each.end for each in reversed(decisions) if each.outcome in COMPLETED_OUTCOMES)
        then = next(searched, None) or self._plan_came(window.epoch)
        if then is None:
            return 0.0
        if then != self._known_then[0]:
            known = self._lake.subscription_history(self._schema.name, then, then + ONE_MICROSECOND)
            self._known_then = then, known.standing(then)
        now = self._history.subscriptions(window.start, window.end).standing(window.end - ONE_MICROSECOND)
        return len(now ^ self._known_then[1]) / max(len(now | self._known_then[1]), 1)

    def _plan_came(self, epoch: int | None) -> datetime | None:
        """When the plan of an epoch came into force, if the lake knows it; of the first plan, before everything."""
        if epoch == 1:
            return FIRST_MOMENT
        with suppress(DamagedFile):
            plan = None if epoch is None else self._history.plan(epoch)
            return None if plan is None else plan.since
        return None

    def _hand_over(self, decision: Decision, now: TrafficWindow) -> bool:
        """Hand over the plan of a decision, which may be that of a process that died. False: try again later."""
        if decision.index is None or decision.epoch is None:
            return True
        index = index_from_json(self._schema, decision.index)
        begun = time.perf_counter()

        def finish(outcome: Outcome, **more: Any) -> None:
            seconds = round((decision.seconds or 0.0) + time.perf_counter() - begun, 3)
            made = replace(decision, outcome=outcome, index=None, seconds=seconds, **more)
            self._journal.amend(made)
            self._say(made)

        try:
            finish("adopted", new_epoch=self._holder.put(index, decision.members, decision.epoch, decision.predicted))
        except PlanMoved as error:
            self._finish_moved(index, decision.members, finish, str(error))
        except (ControllerAway, PlanChanging) as error:
            if now.end - decision.end > timedelta(seconds=self._settings.period):
                finish("away", detail=str(error))
            else:  # it is tried again when the next window closes
                self._on_entry(replace(decision, detail=str(error)))
                return False
        except PleromaError as error:
            finish("failed", detail=str(error))
        return True

    def _finish_moved(self, index: Index, members: int | None, finish: Callable[..., None], why: str) -> None:
        """Another epoch is in force: maybe of this very plan, if the answer that it was adopted got lost."""
        try:
            in_force = self._holder.current()
        except PleromaError:
            return finish("moved", detail=why)
        ours = {_text(index), _text(index.opened())} if isinstance(index, SelectiveIndex) else {_text(index)}
        if _text(in_force.index) in ours and members in (None, in_force.members):
            return finish("adopted", new_epoch=in_force.epoch)
        return finish("moved", detail=why)

    def _say(self, decision: Decision) -> None:
        """Remember a decision that was written, and tell of it when its outcome is known."""
        self._remember(decision)
        if decision.outcome != "handing":
            self._on_entry(decision)

    def _remember(self, decision: Decision) -> None:
        others = [each for each in self._decisions if (each.window, each.end) != (decision.window, decision.end)]
        self._decisions = sorted([*others, decision], key=lambda each: (each.window, each.end))[-MAX_REMEMBERED:]


def _text(index: Index) -> str:
    return str(index.to_json())
