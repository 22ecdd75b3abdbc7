"""Waste at the hosts and rules of the fullest switch, where many subscriptions share hosts and many hosts a port.

Subscribers behind the same port need no separate rules: the table of a switch has the distinct dz of what each of its
ports demands, without those that longer ones fill. This says what a network would do, without building its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.arrays.types import Ints
from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.evaluation.batch_covers import covers_of
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.outcome import Outcome, checked
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.shared_dz import SharedDz
from pleroma.index import Index
from pleroma.index.codes import Codes

Spread = Sequence[Ints]
"""For each switch, the port behind which each host is."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Subscription i is at host `homes[i]`; `limits` has the rules of each switch of the spread, where it has some."""

    homes: Ints
    spread: Spread
    limits: tuple[int | None, ...] = ()

    def judge(
        self, index: Index, subscriptions: Sequence[Filter], events: EventBatch, max_members: int | None = None
    ) -> Outcome:
        return judge_on(index, subscriptions, self.homes, self.spread, events, max_members, self.limits)


class NetworkJudge:
    """Many indexes by the same events, subscription i at host `place.homes[i]`.

    Every host may publish, and what it publishes comes from somewhere else.
    """

    def __init__(self, subscriptions: Sequence[Filter], events: EventBatch, place: Placement) -> None:
        self.subscriptions = subscriptions
        self.place = place
        self.sample = Sample.of(events, subscriptions)
        self.wanted = GridEvaluator(self.sample.grouped(place.homes), 1).wanted

    def outcome(self, index: Index, max_members: int | None = None) -> Outcome:
        covers = covers_of(index, self.subscriptions, self.sample, max_members)
        shared = SharedDz.of(covers.rows, self.place.homes[covers.owner])
        return outcome_on(shared, index.encode(self.sample.points), self.wanted, self.place)


def judge_on(
    index: Index,
    subscriptions: Sequence[Filter],
    homes: Ints,
    spread: Spread,
    events: EventBatch,
    max_members: int | None = None,
    limits: Sequence[int | None] = (),
) -> Outcome:
    """One index, subscription i at host `homes[i]`."""
    return NetworkJudge(subscriptions, events, Placement(homes, spread, tuple(limits))).outcome(index, max_members)


def outcome_on(shared: SharedDz, codes: Codes, wanted: int, place: Placement) -> Outcome:
    """Of demands and codes that are known, with the deliveries that are wanted."""
    rules = [shared.rules(ports) for ports in place.spread]
    beyond = [n - limit for n, limit in zip(rules, place.limits, strict=False) if limit is not None]
    return Outcome(checked(shared.deliveries(codes), wanted), max(rules), max(0, *beyond, 0))
