"""Waste at the hosts and rules of the fullest switch, where many subscriptions share hosts and many hosts a port.

Subscribers behind the same port need no separate rules: the table of a switch has the distinct dz of what each of its
ports demands, without those that longer ones fill. This says what a network would do, without building its tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.evaluation.batch_covers import BatchCovers
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.index_covers import covers_of
from pleroma.evaluation.judge import Outcome, checked
from pleroma.evaluation.placement import Placement
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.shared_dz import SharedDz
from pleroma.index import Index, Waste
from pleroma.index.codes import Codes


class NetworkJudge:
    """Judges any number of indexes by the same events, with subscriptions placed at hosts of a network.

    An event counts at every host that asks for it, as if none of these hosts had published it.
    """

    def __init__(self, subscriptions: Sequence[Filter], events: EventBatch, place: Placement) -> None:
        self.subscriptions = subscriptions
        self.place = place
        self.sample = Sample.of(events, subscriptions)
        self.wanted = GridEvaluator(self.sample.grouped(place.homes), 1).wanted

    def outcome(self, index: Index, max_members: int | None = None) -> Outcome:
        return self.outcome_of(index, covers_of(index, self.subscriptions, self.sample, max_members))

    def outcome_of(self, index: Index, covers: BatchCovers) -> Outcome:
        """The outcome where the subscriptions have these covers by the index."""
        return outcome_on(self._shared(covers), index.encode(self.sample.points), self.wanted, self.place)

    def waste(self, index: Index, covers: BatchCovers) -> Waste:
        """The waste at the hosts alone, without counting rules."""
        return checked(self._shared(covers).deliveries(index.encode(self.sample.points)), self.wanted)

    def _shared(self, covers: BatchCovers) -> SharedDz:
        return SharedDz.of(covers.rows, self.place.homes[covers.owner])


def outcome_on(shared: SharedDz, codes: Codes, wanted: int, place: Placement) -> Outcome:
    """The outcome of what hosts ask for (`shared`) and events as codes, of whose deliveries so many are wanted."""
    rules = [shared.rules(ports) for ports in place.spread]
    beyond = [n - limit for n, limit in zip(rules, place.limits, strict=False) if limit is not None]
    return Outcome(checked(shared.deliveries(codes), wanted), max(rules), max(0, *beyond, 0))
