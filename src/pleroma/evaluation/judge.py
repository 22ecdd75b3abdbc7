"""What a plan is worth: waste and flow entries, the two numbers that every tuner and every experiment reports.

Deliveries are counted without looking at event and subscription pairs: codes are sorted once, and each dz of a cover
holds the events of one stretch of them. On a star, where every subscriber has a port of its own, a switch has one rule
for each distinct dz of all covers that longer ones do not fill: no dz of a cover is in another of the same subscriber.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.evaluation.batch_covers import BatchCovers
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.index_covers import covers_of
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of, rules_of
from pleroma.index import Index, TreeIndex, Waste
from pleroma.index.dz_rows import events_in, ordered, unfilled


@dataclass(frozen=True, slots=True)
class Outcome:
    waste: Waste
    rules: int
    """The rules of the fullest switch."""
    beyond: int = 0
    """By how many rules the worst switch exceeds its own limit; 0 where none does."""


class Judge:
    """Judges any number of indexes by the same events, with a port of its own for each subscription (a star).

    What is wanted does not depend on the index, and is counted once.
    """

    def __init__(self, subscriptions: Sequence[Filter], events: EventBatch) -> None:
        self.subscriptions = subscriptions
        self.sample = Sample.of(events, subscriptions)
        self.wanted = GridEvaluator(self.sample, 1).wanted

    def outcome(self, index: Index, max_members: int | None = None) -> Outcome:
        if isinstance(index, TreeIndex) and max_members is None:
            return judge_tree(index, self.sample, self.wanted)
        return self.outcome_of(index, covers_of(index, self.subscriptions, self.sample, max_members))

    def outcome_of(self, index: Index, covers: BatchCovers) -> Outcome:
        """The outcome where the subscriptions have these covers by the index."""
        return Outcome(self.waste(index, covers), unfilled(ordered(covers.rows)))

    def waste(self, index: Index, covers: BatchCovers) -> Waste:
        made = int(events_in(index.encode(self.sample.points), covers.rows).sum())
        return checked(made, self.wanted)


def judge(index: Index, subscriptions: Sequence[Filter], events: EventBatch, max_members: int | None = None) -> Outcome:
    """The outcome of one index on a star."""
    return Judge(subscriptions, events).outcome(index, max_members)


def judge_tree(index: TreeIndex, sample: Sample, wanted: int | None = None) -> Outcome:
    """The outcome of a tree on a star, with covers as fine as the tree; each owner of the sample has a port."""
    known = GridEvaluator(sample, 1).wanted if wanted is None else wanted
    return Outcome(Waste(deliveries_of(index, sample), known), rules_of(index, sample))


def checked(deliveries: int, wanted: int) -> Waste:
    if deliveries < wanted:
        raise AssertionError(f"{wanted} deliveries are wanted and only {deliveries} made")
    return Waste(deliveries, wanted)
