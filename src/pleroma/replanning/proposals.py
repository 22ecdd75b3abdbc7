"""Proposals of a better plan, judged on the network as it is by events that the plan was not made from.

A plan has to be better by a margin, because every change of plans costs something. Where the tree in force has aged in
a few places only, it is grown anew there, if that wins most of what a new tree would: such a change moves little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pleroma.arrays.types import Ints
from pleroma.content.batch import EventBatch
from pleroma.control.state.tree_choice import DealtTree
from pleroma.evaluation.judge import judge
from pleroma.evaluation.sample import Sample
from pleroma.index import Index, TreeIndex, Waste
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import GrowthStyle, learn
from pleroma.learning.local_growth import LocalGrowth, grown_where_better
from pleroma.learning.newcomer_growth import grown_for_newcomers
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.forecast import forecast
from pleroma.replanning.imagined_subscriptions import imagined_subscriptions
from pleroma.replanning.plan_in_force import PlanInForce, opened
from pleroma.replanning.situation import NetworkSituation
from pleroma.replanning.tree_balance import next_version
from pleroma.routing import SwitchId
from pleroma.selection.advice import Advice, AdviceQuestion, advise_from, tree_budget
from pleroma.selection.traffic_summary import TrafficSummary

PART_WINS_SHARE = 0.8
"""A tree is grown anew in parts if that wins so much of what a new tree would."""
IN_PART = "in part"
IMAGINED_FLOOR = 0.1
"""By how much a tree that follows another must lower the share of wasted deliveries, if events are imagined."""
RULES_FOR_KNOWN_SHARE = 0.9
"""While subscriptions come, a tree is grown for those that are there with so much of the rules."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The best plan found, and what it and the plan in force do with the same held-out events."""

    technique: str
    index: Index
    members: int
    """The limit of dz per registration that the plan was judged with."""
    before: Waste
    """The waste of the plan in force: at the hosts, or at subscriptions where the network is not known."""
    after: Waste
    rules: int
    """Of the fullest switch."""
    rules_by_switch: Mapping[SwitchId, int]
    """Empty where the network is not known."""
    part: LocalGrowth | None = None
    """Where the tree in force is grown anew, if not everywhere."""
    style: GrowthStyle | None = None
    """How a learned tree was grown."""
    trees: tuple[DealtTree, ...] | None = None
    """On which its events should travel, if trees are balanced."""


def propose(
    in_force: PlanInForce, gathered: TrafficSummary, situation: NetworkSituation, settings: WatchSettings
) -> Proposal:
    """The tree learned for gathered traffic in a situation; in a comparison, the best plan of any technique."""
    question = _question(in_force, situation, settings)
    best = advise_from(gathered, question)[0]
    part = _grown_in_part(in_force, best, gathered, question)
    judging = gathered.judging if part is None else gathered.judging[1::2]  # the others have chosen the part
    before = outlook(situation, in_force.index, in_force.members, judging)
    anew = next_version(situation, best.index, best.members, gathered.training)
    after = outlook(anew, best.index, best.members, judging)
    whole = Proposal(best.technique, best.index, best.members, before.waste, after.waste, after.rules, after.by_switch)
    whole = replace(whole, trees=_balanced(anew))
    if part is None:
        return whole
    there = outlook(situation, part.index, in_force.members, judging)
    if before.waste.wasted - there.waste.wasted < PART_WINS_SHARE * (before.waste.wasted - after.waste.wasted):
        return whole
    technique, members = f"{best.technique} {IN_PART}", in_force.members
    return Proposal(technique, part.index, members, before.waste, there.waste, there.rules, there.by_switch, part)


def propose_for_more(
    in_force: PlanInForce,
    gathered: TrafficSummary,
    situation: NetworkSituation,
    settings: WatchSettings,
    *,
    style: GrowthStyle | None,
    are_more_expected: bool,
) -> Proposal:
    """A tree for a network to which subscriptions come: it is grown on for those that may come next.

    While more are expected, some rules are left for that. `style` is how to grow the tree, if that is known. Half of
    the events tell whether a tree from the other half is better; the tree that is proposed is then learned from all,
    since events are few when a schema is new.
    """
    question = _question(in_force, situation, settings, style)
    budget = tree_budget(question)
    if are_more_expected:
        question = replace(question, rules=max(int(RULES_FOR_KNOWN_SHARE * budget.meant), 1))
    best = advise_from(gathered, question)[0]
    look_ahead = _quick_outlook(question, situation, gathered.judging)
    anew = next_version(situation, best.index, best.members, gathered.training)
    before = look_ahead(situation, in_force.index, in_force.members)
    after = look_ahead(anew, best.index, best.members)
    whole = Proposal(best.technique, best.index, best.members, before.waste, after.waste, after.rules, after.by_switch)
    if best.style is None:
        return replace(whole, trees=_balanced(anew))
    index = _learned_from_all(gathered, question, budget, best.style)
    events = EventBatch.joined(situation.schema, [gathered.training, gathered.judging])
    anew = next_version(situation, index, best.members, events)
    needed = look_ahead(anew, index, best.members)
    whole = replace(whole, index=index, style=best.style, trees=_balanced(anew))
    return replace(whole, rules=needed.rules, rules_by_switch=needed.by_switch)


def _balanced(situation: NetworkSituation) -> tuple[DealtTree, ...] | None:
    """The trees, if they were dealt out by traffic."""
    return situation.trees.dealt if situation.trees.choice == "balanced" else None


def _learned_from_all(
    gathered: TrafficSummary, question: AdviceQuestion, budget: Budget, style: GrowthStyle
) -> TreeIndex:
    """A tree for the question, and with what is left of the budget for subscriptions that may come."""
    schema, wanted, seed = gathered.training.schema, question.subscriptions, question.seed
    events = EventBatch.joined(schema, [gathered.training, gathered.judging])
    known, spread = Sample.of(events, wanted), list[Ints]()
    if question.placement is not None:
        known, spread = known.grouped(question.placement.homes), list(question.placement.spread)
    smoothing, patient = style
    limits = tree_budget(question)
    index = learn(known, question.bits, limits, spread=spread, smoothing=smoothing, patient=patient, seed=seed).index
    expected = imagined_subscriptions(wanted, events, seed=seed)
    if not expected:
        return index
    coming = Sample.of(events, expected)
    return grown_for_newcomers(index, known, coming, budget, spread=spread, max_leaves=budget.meant, seed=seed)


def _quick_outlook(
    question: AdviceQuestion, situation: NetworkSituation, events: EventBatch
) -> Callable[[NetworkSituation, Index, int], Outlook]:
    """What plans would do. Where no table has a limit, regions alone tell it, and no tables need be computed."""
    if situation.topology is None or situation.topology.limits:
        return lambda where, index, members: outlook(where, index, members, events)
    judge = question.judge(events)

    def judged(_: NetworkSituation, index: Index, members: int) -> Outlook:
        found = judge.outcome(opened(index), members)
        return Outlook(found.waste, found.rules, {})

    return judged


def _question(
    in_force: PlanInForce, situation: NetworkSituation, settings: WatchSettings, style: GrowthStyle | None = None
) -> AdviceQuestion:
    return AdviceQuestion(
        situation.filters,
        settings.bits or max(in_force.index.bits, 1),  # of attributes of one value, a grid has no bits
        rules=settings.rules,
        compare=settings.compare,
        selections=settings.selections,
        splits=settings.splits,
        seed=settings.seed,
        style=style,
        placement=situation.placement,
    )


def _grown_in_part(
    in_force: PlanInForce, best: Advice, gathered: TrafficSummary, question: AdviceQuestion
) -> LocalGrowth | None:
    """The tree in force with few parts grown anew, so that most events keep their dz; None if that wins too little."""
    if not isinstance(in_force.index, TreeIndex) or not isinstance(best.index, TreeIndex):
        return None
    if in_force.index.bits != best.index.bits:
        return None
    training = Sample.of(gathered.training, question.subscriptions)
    choosing = Sample.of(gathered.judging[::2], question.subscriptions)
    place = question.placement
    if place is None:
        return grown_where_better(in_force.index, best.index, training, choosing, tree_budget(question))
    training, choosing = training.grouped(place.homes), choosing.grouped(place.homes)
    return grown_where_better(
        in_force.index, best.index, training, choosing, tree_budget(question), spread=place.spread, seed=question.seed
    )


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan would do: waste at the hosts and rules of every switch, or those of a star."""

    waste: Waste
    rules: int
    by_switch: Mapping[SwitchId, int]


def outlook(situation: NetworkSituation, index: Index, members: int, events: EventBatch) -> Outlook:
    """What an index would do with some events in a situation."""
    if situation.topology is None:
        on_star = judge(index, situation.filters, events, members)
        return Outlook(on_star.waste, on_star.rules, {})
    there = forecast(situation, index, members, events)
    return Outlook(there.at_hosts, there.fullest, there.rules)


def is_better(before: Waste, after: Waste, settings: WatchSettings, floor: float = 0.0) -> bool:
    """Whether a plan saves at least the margin of wasted deliveries, and lowers their share by at least a floor.

    That is the larger one of the settings' floor and of another.
    """
    saved = before.wasted - after.wasted
    lowered = before.rate - after.rate
    return saved > 0 and saved >= settings.margin * before.wasted and lowered >= max(settings.floor, floor)


def floor_for(in_force: PlanInForce, events: int, settings: WatchSettings) -> float:
    """The floor for a plan that follows another: next to no events say next to nothing against a learned tree."""
    is_imagined = events < settings.least and isinstance(in_force.index, TreeIndex)
    return IMAGINED_FLOOR if is_imagined else 0.0
