"""Advice on an index: a tree is learned for a workload and judged by events that it has not seen.

The papers' techniques are tried beside it where a comparison is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.judge import Judge
from pleroma.evaluation.network_judge import NetworkJudge
from pleroma.evaluation.placement import Spread
from pleroma.evaluation.tree_counts import deliveries_of
from pleroma.evaluation.tree_covers import TreeCovers
from pleroma.index import TreeIndex, Waste
from pleroma.learning.fitting import DEFAULT_RULES, Budget
from pleroma.learning.learner import LEARNING_STEPS, LearnedTree, learn
from pleroma.selection.advice_question import Advice, AdviceQuestion, dimensions_by_use, exceeds_room, rank
from pleroma.selection.member_choice import chosen_members
from pleroma.selection.technique_trials import TechniqueTrials, timed
from pleroma.selection.traffic_summary import TrafficSummary, summarise_traffic

__all__ = [
    "LEARNED",
    "LEARNED_FROM_ALL",
    "Advice",
    "AdviceQuestion",
    "advise",
    "advise_from",
    "random_halves",
    "tree_budget",
]

LEARNED = "learned"
"""The technique of a tree grown for the training events: `learning.learner`."""
LEARNED_FROM_ALL = "learned from all events"
"""The technique of a tree grown for more events than fit into one process: `learning.level_growth`."""


def advise(events: EventBatch, question: AdviceQuestion) -> list[Advice]:
    """A learned tree and, in a comparison, the papers' techniques, best first. Half of the events train, half judge."""
    summary = summarise_traffic(events, question.subscriptions, seed=question.seed, statistics=question.compare)
    return advise_from(summary, question)


def advise_from(
    summary: TrafficSummary,
    question: AdviceQuestion,
    *,
    grow_from_all: Callable[[Budget], TreeIndex] | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> list[Advice]:
    """The same advice from the summary of a pass over the events.

    `grow_from_all` makes another tree, from more events than the summary has. `advance` is told of every technique that
    was tried, and of the steps of learning a tree.
    """
    training, unseen = question.judge(summary.training), question.judge(summary.judging)
    found = []
    if question.compare:
        if summary.statistics is None:
            raise TuningError("a comparison needs the statistics of dimensions", field="compare")
        for each in TechniqueTrials(question, summary.statistics, training, unseen).tried():
            found.append(each)
            advance(1)
    budget = tree_budget(question, found)
    trees = _TreeTrials(question, training, unseen)
    step = 1 / (1 + LEARNING_STEPS)
    found.append(trees.tried(LEARNED, lambda limit: trees.learn(limit, lambda n: advance(n * step)), budget))
    advance(step)
    if grow_from_all is not None:
        found.append(trees.tried(LEARNED_FROM_ALL, grow_from_all, budget))
        advance(1)
    rules = question.rules
    return sorted(
        found, key=lambda each: (exceeds_room(each.outcome, rules), each.outcome.waste.rate, each.outcome.rules)
    )


def tree_budget(question: AdviceQuestion, others: Sequence[Advice] = ()) -> Budget:
    """The rules that the question allows, or as many as the best of the other techniques takes."""
    own = () if question.placement is None else question.placement.limits
    if question.rules is not None:
        return Budget(question.rules, own=tuple(each and min(each, question.rules) for each in own))
    best = min(others, key=lambda each: rank(each.outcome, None), default=None)
    return Budget(DEFAULT_RULES if best is None else max(best.outcome.rules, 1), own=own)


class _TreeTrials:
    """Trees for one question, which choose by the events of one judge and are judged by those of another."""

    def __init__(self, question: AdviceQuestion, training: Judge | NetworkJudge, unseen: Judge | NetworkJudge) -> None:
        self._question = question
        self._training, self._unseen = training, unseen
        self._learned: LearnedTree | None = None

    def learn(self, budget: Budget, advance: Callable[[float], None]) -> TreeIndex:
        """A tree learned from the training events."""
        question, sample = self._question, self._training.sample
        spread: Spread = ()
        if question.placement is not None:
            sample, spread = sample.grouped(question.placement.homes), question.placement.spread
        smoothing, patient = question.style or (None, None)
        self._learned = learn(
            sample,
            question.bits,
            budget,
            spread=spread,
            smoothing=smoothing,
            patient=patient,
            seed=question.seed,
            advance=advance,
        )
        return self._learned.index

    def tried(self, name: str, grow: Callable[[Budget], TreeIndex], budget: Budget) -> Advice:
        """What a tree does that is grown within a budget."""
        index, growing = timed(lambda: grow(budget))
        covers = TreeCovers.of(index, self._unseen.sample)
        members, choosing = timed(lambda: self._members(index, covers))
        outcome = self._unseen.outcome_of(index, covers.within(members))
        sample = self._unseen.sample
        unlimited = Waste(deliveries_of(index, sample), GridEvaluator(sample, 1).wanted)
        style = self._learned.style if self._learned is not None and self._learned.index is index else None
        seconds = growing + choosing
        return Advice(name, dimensions_by_use(index), index, outcome, members, unlimited, {}, seconds, style)

    def _members(self, index: TreeIndex, covers: TreeCovers) -> int:
        if self._question.max_members is not None:
            return self._question.max_members
        return chosen_members(
            covers,
            lambda limited: self._training.waste(index, limited),
            lambda limited: not exceeds_room(self._training.outcome_of(index, limited), self._question.rules),
        )


def random_halves(events: EventBatch, seed: int) -> tuple[EventBatch, EventBatch]:
    """Events to learn from and events to judge by, drawn at random."""
    shuffled = np.random.default_rng(seed).permutation(len(events))
    return events[np.sort(shuffled[::2])], events[np.sort(shuffled[1::2])]
