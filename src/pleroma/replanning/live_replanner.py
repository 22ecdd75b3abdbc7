"""Re-planning one schema from what a running controller knows: its registrations, and samples of recent events.

The controller sends news: what has changed since the last look. Each look closes a window, and decides by the same code
as the watcher of a lake whether to search for a better plan. Before there is any traffic, events are imagined.
Nothing here does any I/O; it runs in a process of its own, because a search takes seconds.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.content.filter_json import from_json
from pleroma.control.state.tree_choice import UNKNOWN_TREES, SchemaTrees
from pleroma.errors import PleromaError, TuningError
from pleroma.index import DzSet, Index
from pleroma.learning.learner import GrowthStyle
from pleroma.replanning.decisions import Decision, Outcome, WatchSettings, decide, reference
from pleroma.replanning.drift import alike, drift
from pleroma.replanning.imagined_traffic import imagined_events
from pleroma.replanning.plan_in_force import PlanInForce, opened
from pleroma.replanning.proposals import Outlook, Proposal, floor_for, is_better, outlook, propose, propose_for_more
from pleroma.replanning.situation import NetworkSituation, PlacedFilter
from pleroma.replanning.traffic_counts import delivery_counts, value_counts
from pleroma.replanning.tree_balance import TreeBalance, TreeMoves, judged_balance
from pleroma.replanning.windows import MetricKey, TrafficWindow, merged
from pleroma.routing import HostId, Topology
from pleroma.selection.traffic_summary import summarise_traffic

MAX_LEARNED_EVENTS = 20_000
"""Recent events that are kept to learn from."""
MAX_KEPT_WINDOWS = 200
MAX_LIKE_EVENTS_RATIO = 4
"""A tree is grown as the one before, unless so many times the events are known by now."""


class RegistrationNews(NamedTuple):
    """Registrations of one kind that have come, with host and filter as JSON text, and those that have gone, by id."""

    come: Mapping[str, tuple[str, str]] = {}
    gone: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SchemaNews:
    """What a controller has to tell of a schema since the last look; None stands for "as before"."""

    now: datetime
    subscriptions: RegistrationNews = field(default_factory=RegistrationNews)
    advertisements: RegistrationNews = field(default_factory=RegistrationNews)
    plan: PlanInForce | None = None
    topology: Topology | None = None
    """With the limits that count for the schema, and without the links that are down."""
    trees: SchemaTrees | None = None
    """On which the events travel."""
    events: tuple[EventBatch, ...] = ()
    is_calm: bool = False
    """Whether subscriptions came until a moment ago, and none since."""
    handed: tuple[Outcome, int | None] | None = None
    """What became of the plan or the trees that were proposed last, and the epoch if they are in force now."""


class Look(NamedTuple):
    """What a look found: the traffic since the last one, what was decided, and a plan that should follow."""

    window: TrafficWindow
    decision: Decision
    proposal: Proposal | None
    balance: TreeBalance | None = None
    """What other trees would do for the plan in force, if that was judged: not if there is a proposal."""


class PlanForecast(NamedTuple):
    """What a plan would do with recent events, and what the plan in force does with the same."""

    planned: Outlook
    in_force: Outlook
    events: int
    """Recent events that this is about; 0 if there are none, and events were imagined."""
    subscriptions: int


class LiveReplanner:
    """Looks at one schema. The first news tell everything."""

    def __init__(self, schema: Schema, settings: WatchSettings, news: SchemaNews) -> None:
        if news.plan is None or news.topology is None:
            raise ValueError("the first news tell the plan and the network")
        self._schema = schema
        self._settings = settings
        self._plan, self._topology, self._trees = news.plan, news.topology, news.trees or UNKNOWN_TREES
        self._moves = TreeMoves()
        self._begun = self._looked = news.now
        self._subscriptions: dict[str, PlacedFilter] = {}
        self._advertisements: dict[str, PlacedFilter] = {}
        self._covers: dict[str, DzSet] = {}
        """Of subscriptions, under the plan in force."""
        self._known_then: frozenset[str] = frozenset()
        """The subscriptions that the plan in force was made for, or that nothing better was found for."""
        self._planned_for: frozenset[str] = frozenset()
        """The subscriptions that the last search knew."""
        self._style: GrowthStyle | None = None
        """How the last tree was grown for which all styles were compared."""
        self._styled_events = 0
        """The events that it was grown from, without those that were imagined."""
        self._windows: deque[TrafficWindow] = deque(maxlen=MAX_KEPT_WINDOWS)
        self._decisions: list[Decision] = []
        self._events: deque[tuple[datetime, EventBatch]] = deque()
        """By the start of its window, the events that were sampled in it."""

    def look(self, news: SchemaNews) -> Look:
        """Take in what is new, close a window, and decide; search for a plan if that was decided."""
        if news.now < self._looked:
            self._set_back(self._looked - news.now)
        self._take(news)
        window = self._closed(news)
        now = self._known_then ^ self._subscriptions.keys()
        share = len(now) / max(len(self._known_then | self._subscriptions.keys()), 1)
        decision = decide(list(self._windows), self._decisions, self._settings, self._begun, share, news.is_calm)
        decision = replace(decision, epoch=self._plan.epoch)
        if decision.reason is not None and not self._situation().subscriptions:
            decision = replace(decision, reason=None, detail="no host that subscribes is there")
        if decision.reason is None:
            return Look(window, decision, None, self._balance(news.now))
        begun = time.monotonic()
        decision, proposal = self._searched(decision, news.is_calm)
        decision = replace(decision, seconds=time.monotonic() - begun)
        self._decisions = [*self._decisions, decision][-MAX_KEPT_WINDOWS:]
        if decision.outcome == "not_better":
            self._known_then = frozenset(self._subscriptions)
        self._planned_for = frozenset(self._subscriptions)
        if decision.outcome != "handing":
            return Look(window, decision, None, self._balance(news.now))
        return Look(window, decision, proposal)

    def forecast(self, news: SchemaNews, index: Index, members: int, sampled: EventBatch | None) -> PlanForecast:
        """What an index would do now. No window is closed: the news tell of no events.

        `sampled` are recent events, for where no look has brought any.
        """
        self._take(news)
        situation = self._situation()
        known = [each for _, each in self._events] or ([] if sampled is None else [sampled])
        recent = EventBatch.joined(self._schema, known)
        events = recent if len(recent) else imagined_events(situation, seed=self._settings.seed)
        if not situation.subscriptions or not len(events):
            raise TuningError("nobody subscribes to anything that is published", field="schema")
        planned = outlook(situation, index, members, events)
        in_force = outlook(situation, self._plan.index, self._plan.members, events)
        return PlanForecast(planned, in_force, len(recent), len(situation.subscriptions))

    def _set_back(self, by: timedelta) -> None:
        """Follow a clock that was set back: no pause and no period has to wait until it has caught up."""
        self._begun, self._looked = self._begun - by, self._looked - by
        self._windows = deque(
            (replace(each, start=each.start - by, end=each.end - by) for each in self._windows), MAX_KEPT_WINDOWS
        )
        self._decisions = [replace(each, window=each.window - by, end=each.end - by) for each in self._decisions]
        self._events = deque((start - by, events) for start, events in self._events)
        self._moves.set_back(by)

    def _situation(self) -> NetworkSituation:
        promised = self._advertisements.values() or None
        wanted = self._subscriptions.values()
        return NetworkSituation.placed(self._schema, wanted, self._topology, promised, self._trees)

    def _take(self, news: SchemaNews) -> None:
        if news.handed is not None and self._moves.is_handing:
            self._moves.handed(*news.handed)
        elif news.handed is not None and self._decisions and self._decisions[-1].outcome == "handing":
            outcome, epoch = news.handed
            self._decisions[-1] = replace(self._decisions[-1], outcome=outcome, new_epoch=epoch)
            if outcome == "adopted":
                self._known_then = self._planned_for
        is_foreign = news.plan is not None and self._is_foreign(news.plan)
        if news.plan is not None:
            self._plan, self._covers = news.plan, {}
        if news.topology is not None:
            self._topology = news.topology
        if news.trees is not None:
            self._trees = news.trees
        for held, changes in (
            (self._subscriptions, news.subscriptions),
            (self._advertisements, news.advertisements),
        ):
            for each in changes.gone:
                held.pop(each, None)
                self._covers.pop(each, None)
            for each, (host, boxes) in changes.come.items():
                held[each] = PlacedFilter(HostId(host), from_json(self._schema, json.loads(boxes)))
        if is_foreign:
            self._leave_alone(news.now)

    def _is_foreign(self, plan: PlanInForce) -> bool:
        """Whether somebody else has put a plan into force; one that is being handed over counts as our own."""
        last = self._decisions[-1] if self._decisions else None
        is_own = last is not None and (last.outcome == "handing" or last.new_epoch == plan.epoch)
        is_move = self._moves.is_handing or self._moves.own_epoch == plan.epoch
        return plan.epoch != self._plan.epoch and not is_own and not is_move

    def _leave_alone(self, now: datetime) -> None:
        """Respect the plan of somebody else, however much it wastes, until the traffic or the subscriptions change.

        It counts as a search that has found this plan.
        """
        epoch = self._plan.epoch
        learned = merged(alike(list(self._windows), self._settings.look_back, self._settings.drift))
        detail = f"somebody else has put plan {epoch} into force"
        found = Decision(self._schema.name, now, now, epoch, None, detail, "adopted", epoch, learned=learned)
        self._decisions = [*self._decisions, found][-MAX_KEPT_WINDOWS:]
        self._known_then = self._planned_for = frozenset(self._subscriptions)

    def _closed(self, news: SchemaNews) -> TrafficWindow:
        """The window since the last look: what the plan in force makes of the events, by the subscriptions of now."""
        start, self._looked = self._looked, news.now
        events = EventBatch.joined(self._schema, news.events)
        counts: dict[MetricKey, int] = {}
        if len(events):
            counts = value_counts(events) | {MetricKey("epoch", self._plan.epoch): len(events)}
            self._keep(start, events)
            if self._subscriptions:
                covers = [self._cover(each) for each in self._subscriptions]
                placed = list(self._subscriptions.values())
                counts |= delivery_counts(opened(self._plan.index), placed, covers, events)
        window = TrafficWindow.of(self._schema, start, max(news.now - start, self._settings.length / 1000), counts)
        made_from = reference(list(self._windows), self._decisions, window.epoch, self._settings)
        window = replace(window, drift=drift(made_from, window))
        self._windows.append(window)
        return window

    def _cover(self, id: str) -> DzSet:
        known = self._covers.get(id)
        if known is None:
            wanted = self._subscriptions[id].filter
            known = self._covers[id] = opened(self._plan.index).cover(wanted, max_members=self._plan.members)
        return known

    def _keep(self, start: datetime, events: EventBatch) -> None:
        self._events.append((start, events[-MAX_LEARNED_EVENTS:]))
        while sum(len(each) for _, each in self._events) - len(self._events[0][1]) >= MAX_LEARNED_EVENTS:
            self._events.popleft()

    def _alike(self) -> tuple[list[TrafficWindow], EventBatch]:
        """The last windows whose traffic is alike, and their events."""
        learned = alike(list(self._windows), self._settings.look_back, self._settings.drift)
        begun = learned[0].start if learned else self._looked
        return learned, EventBatch.joined(self._schema, [each for start, each in self._events if start >= begun])

    def _balance(self, now: datetime) -> TreeBalance | None:
        """What other trees would do with recent events, if trees are balanced and it is time to judge that."""
        if self._trees.choice != "balanced" or not self._moves.is_due(now, self._settings):
            return None
        _, events = self._alike()
        if len(events) < 2 * self._settings.least:  # half of them judge
            return None
        begun = time.process_time()
        covers = [(self._subscriptions[each].host, self._cover(each)) for each in self._subscriptions]
        found = judged_balance(self._situation(), self._plan, covers, events, self._settings)
        self._moves.judged(found, now, time.process_time() - begun)
        return found

    def _searched(self, decision: Decision, is_calm: bool) -> tuple[Decision, Proposal | None]:
        """The decision with what the search found, and the plan that it proposes."""
        settings = self._settings
        learned, events = self._alike()
        situation, seen = self._situation(), len(events)
        if seen < settings.least:
            events = EventBatch.joined(self._schema, [events, imagined_events(situation, seed=settings.seed)])
        try:
            gathered = summarise_traffic(
                events,
                situation.filters,
                draw=MAX_LEARNED_EVENTS,
                seed=settings.seed,
                statistics=settings.compare,
            )
            if decision.reason == "subscriptions":
                is_like = self._style is not None and seen < MAX_LIKE_EVENTS_RATIO * self._styled_events
                found = propose_for_more(
                    self._plan,
                    gathered,
                    situation,
                    settings,
                    style=self._style if is_like else None,
                    are_more_expected=not is_calm,
                )
                if not is_like:
                    self._style, self._styled_events = found.style, seen
            else:
                found = propose(self._plan, gathered, situation, settings)
        except PleromaError as error:
            return replace(decision, outcome="failed", detail=str(error)), None
        decision = replace(
            decision,
            technique=found.technique,
            before=found.before,
            after=found.after,
            rules=found.rules,
            rules_by_switch=dict(found.rules_by_switch),
            learned=merged(learned),
        )
        is_worth_it = is_better(found.before, found.after, settings, floor_for(self._plan, seen, settings))
        outcome: Outcome = "handing" if is_worth_it else "not_better"
        return replace(decision, outcome=outcome), found
