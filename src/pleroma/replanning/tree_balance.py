"""Balanced trees of a schema, from recent events: those that another index would get, and whether to move to others.

Trees are dealt out by half of the events, and judged by the other half, like plans: what the busiest cable between
switches carries. A move costs a plan change, so the busiest cable has to be clearly relieved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pleroma.content.batch import EventBatch
from pleroma.control.state.tree_choice import DealtTree, dealt
from pleroma.errors import TopologyError
from pleroma.index import ROOT, DzSet, Index
from pleroma.replanning.decisions import Outcome, WatchSettings, pause_after
from pleroma.replanning.forecast import forecast, origins
from pleroma.replanning.plan_in_force import PlanInForce, opened
from pleroma.replanning.situation import NetworkSituation
from pleroma.routing import Family, HostId, Subscribe, SwitchId, Topology
from pleroma.routing.balancing import (
    BalancedTrees,
    Sent,
    cells_by_traffic,
    deal,
    most_cells,
    predict,
    sent_to_subscribers,
)

MAX_DEALT_EVENTS = 4_000
"""The most recent events by which trees are dealt out and judged."""
CLEARLY_BUSIER = 1.2
"""How many times as much the busiest cable has to carry as it would after a move."""
PAUSE_PER_EFFORT = 20
"""Judging trees takes at most about this part of the time."""
MAX_KEPT_MOVES = 200


@dataclass(frozen=True, slots=True)
class TreeBalance:
    """Events on the busiest cable between switches, per event sent: on the trees in force, and on others.

    A cable counts by both directions, and more if it is slower than the fastest one.
    """

    trees: tuple[DealtTree, ...]
    """The others."""
    before: float
    after: float
    events: int
    """By which both are judged."""
    outcome: Outcome
    """Whether to move to the others, or what came of that."""
    rules_by_switch: dict[SwitchId, int] = field(default_factory=dict)
    """On the other trees; empty where no table has a limit."""


def next_version(situation: NetworkSituation, index: Index, members: int, events: EventBatch) -> NetworkSituation:
    """The situation with the trees that the events of a version with another index get."""
    match situation.trees.choice:
        case "single":
            return situation
        case "forest":
            return situation.on_trees(())
        case "balanced":
            if situation.topology is None:
                return situation
            whole = opened(index)
            covers = [(each.host, whole.cover(each.filter, max_members=members)) for each in situation.subscriptions]
            return situation.on_trees(_dealt_for(situation.topology, traffic(situation, index, covers, events)))


def traffic(
    situation: NetworkSituation, index: Index, covers: Iterable[tuple[HostId, DzSet]], events: EventBatch
) -> list[Sent]:
    """The most recent of the events with senders and receivers: hosts of which a cover by the index has the event."""
    network = situation.topology
    if network is None:
        raise TopologyError("the network is not known", field="topology")
    events = events[-MAX_DEALT_EVENTS:]
    origin, sent = origins(situation, network, events, 0)
    codes = opened(index).encode(events.points()[sent])
    senders = [network.hosts[number].name for number in codes.of_event(origin).tolist()]
    sending = list(zip(codes.dz_of(range(len(codes))), senders, strict=True))
    return sent_to_subscribers(sending, (Subscribe(str(n), *each) for n, each in enumerate(covers)))


def _dealt_for(topology: Topology, sent: Sequence[Sent], current: Sequence[Family] = ()) -> tuple[DealtTree, ...]:
    """Trees for this traffic; without any that is received, as the policy would have them."""
    if not any(each.receivers for each in sent):
        return tuple(dealt(BalancedTrees().opened((), topology, ROOT)))
    cells = cells_by_traffic(ROOT, sent, most_cells(topology, (), BalancedTrees().limit))
    return tuple(dealt(deal(topology, sent, cells, current=current).families))


def judged_balance(
    situation: NetworkSituation,
    plan: PlanInForce,
    covers: Sequence[tuple[HostId, DzSet]],
    events: EventBatch,
    settings: WatchSettings,
) -> TreeBalance | None:
    """What other trees would do for the plan in force, whose covers are given; None if no event crosses a cable."""
    network, families = situation.topology, situation.families
    if network is None or families is None:
        return None
    sent = traffic(situation, plan.index, covers, events)
    judging = sent[1::2]
    before = predict(network, judging, families).busiest
    if not before:
        return None
    trees = _dealt_for(network, sent[::2], families)
    after = predict(network, judging, [each.family(network) for each in trees]).busiest
    count = len(judging)
    found = TreeBalance(trees, before / count, after / count, count, "not_better")
    if before < CLEARLY_BUSIER * after:
        return found
    if not network.limits:
        return replace(found, outcome="handing")
    now = forecast(situation, plan.index, plan.members, events)
    then = forecast(situation.on_trees(trees), plan.index, plan.members, events)
    is_worth_it = then.at_hosts.rate <= now.at_hosts.rate + settings.floor
    return replace(found, outcome="handing" if is_worth_it else "not_better", rules_by_switch=dict(then.rules))


class TreeMoves:
    """When trees may be judged again, by what came of earlier moves: pauses grow like those between plans."""

    def __init__(self) -> None:
        self.own_epoch: int | None = None
        """The epoch of the last move that came into force."""
        self._moves: list[tuple[datetime, Outcome]] = []
        self._next: datetime | None = None

    @property
    def is_handing(self) -> bool:
        """Whether a move was proposed, and it is not known what came of it."""
        return bool(self._moves) and self._moves[-1][1] == "handing"

    def is_due(self, now: datetime, settings: WatchSettings) -> bool:
        is_late = not self._moves or now >= self._moves[-1][0] + pause_after(self._moves, now, settings)
        return is_late and (self._next is None or now >= self._next)

    def judged(self, found: TreeBalance | None, now: datetime, seconds: float) -> None:
        """Note what was found in so many seconds."""
        self._next = now + timedelta(seconds=PAUSE_PER_EFFORT * seconds)
        if found is not None and found.outcome == "handing":
            self._moves = [*self._moves, (now, found.outcome)][-MAX_KEPT_MOVES:]

    def handed(self, outcome: Outcome, epoch: int | None) -> None:
        """Note what came of the move that was proposed last."""
        self._moves[-1] = self._moves[-1][0], outcome
        if epoch is not None:
            self.own_epoch = epoch

    def set_back(self, by: timedelta) -> None:
        """Follow a clock that was set back."""
        self._moves = [(then - by, outcome) for then, outcome in self._moves]
        self._next = None if self._next is None else self._next - by
