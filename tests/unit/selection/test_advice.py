from dataclasses import replace

import numpy as np
import pytest

from pleroma.errors import TuningError
from pleroma.evaluation.judge import Judge, judge
from pleroma.evaluation.placement import placement_of
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_covers import TreeCovers
from pleroma.learning.fitting import DEFAULT_RULES
from pleroma.routing import build
from pleroma.selection.advice import AdviceQuestion, advise, advise_from
from pleroma.selection.advice_question import DEFAULT_SELECTIONS, DEFAULT_SPLITS
from pleroma.selection.member_choice import MEMBER_LIMITS, chosen_members
from pleroma.selection.traffic_summary import summarise_traffic
from pleroma.workloads import THESIS, generate


@pytest.fixture(scope="module")
def workload():
    """Two dimensions tell subscriptions apart, two hardly do."""
    settings = replace(THESIS, dimensions=4, subscriptions=40, events=600, variance="random", selective=2, seed=3)
    return generate(settings)


@pytest.fixture(scope="module")
def advice(workload):
    return advise(workload.events, AdviceQuestion(workload.subscriptions, 10, max_members=16, compare=True))


def test_every_selection_is_tried_with_every_split_and_without(advice):
    expected = {s for split in DEFAULT_SPLITS for s in (split, *(f"{each} + {split}" for each in DEFAULT_SELECTIONS))}
    assert {each.technique for each in advice} == expected | {"learned"}


def test_the_best_comes_first_and_beats_spending_bits_evenly(advice):
    rates = [each.outcome.waste.rate for each in advice]
    assert rates == sorted(rates)
    even = next(each for each in advice if each.technique == "regular")
    assert advice[0].outcome.waste.rate < even.outcome.waste.rate


def test_selection_gives_the_bits_to_the_dimensions_that_tell_subscriptions_apart(workload, advice):
    reach = workload.description["drawn"]["reach"]
    wide = {f"d{d}" for d in range(4) if reach[d] > 0.5}
    greedy = next(each for each in advice if each.technique == "ges + regular")
    assert set(greedy.bits) == wide


def test_the_bits_alone_never_waste_more_than_with_a_limit_on_members(advice):
    for each in advice:
        assert each.unlimited.deliveries <= each.outcome.waste.deliveries
        assert each.unlimited.wanted == each.outcome.waste.wanted


def test_half_of_the_events_judge(workload, advice):
    wanted = sum(int(workload.events.matches(f).sum()) for f in workload.subscriptions)
    assert 0.4 * wanted < advice[0].outcome.waste.wanted < 0.6 * wanted


def test_nothing_to_learn_from_is_said_in_one_line(workload):
    with pytest.raises(TuningError, match="two events"):
        advise(workload.events[:1], AdviceQuestion(workload.subscriptions, 10))
    with pytest.raises(TuningError, match="no subscriptions"):
        advise(workload.events, AdviceQuestion([], 10))
    with pytest.raises(TuningError, match="1 to 112 bits"):
        advise(workload.events, AdviceQuestion(workload.subscriptions, 0))


@pytest.fixture(scope="module")
def crowd():
    """Subscriptions that crowd in hotspots: covers as fine as a tree have many members."""
    return generate(replace(THESIS, distribution="zipfian", subscriptions=120, events=3_000, seed=4))


def test_the_tree_comes_alone_and_needs_no_statistics_of_dimensions(workload):
    summary = summarise_traffic(workload.events, workload.subscriptions)
    assert summary.statistics is None
    (tree,) = advise_from(summary, AdviceQuestion(workload.subscriptions, 10))
    assert tree.technique == "learned"
    with pytest.raises(TuningError, match="statistics"):
        advise_from(summary, AdviceQuestion(workload.subscriptions, 10, compare=True))


def test_without_a_limit_a_tree_alone_is_grown_for_the_default_number_of_rules(crowd):
    question = AdviceQuestion(crowd.subscriptions, 23)
    (tree,) = advise(crowd.events, question)
    (same,) = advise(crowd.events, replace(question, rules=DEFAULT_RULES))
    assert tree.index == same.index
    assert 0.8 * DEFAULT_RULES < judge(tree.index, crowd.subscriptions, crowd.events).rules <= DEFAULT_RULES


def test_in_a_comparison_the_tree_takes_no_more_rules_than_the_best_of_the_others(crowd):
    question = AdviceQuestion(crowd.subscriptions, 12, compare=True, selections=("evs",), splits=("regular",))
    *others, tree = sorted(advise(crowd.events, question), key=lambda each: each.technique == "learned")
    best = min(others, key=lambda each: each.outcome.waste.rate)
    assert tree.outcome.rules <= best.outcome.rules < DEFAULT_RULES


@pytest.mark.parametrize("network", [None, "fat-tree:4"])
def test_a_tree_gets_the_fewest_members_that_hardly_waste_more_than_any_number(crowd, network):
    placement = None if network is None else placement_of(build(network), len(crowd.subscriptions))
    question = AdviceQuestion(crowd.subscriptions, 23, placement=placement)
    summary = summarise_traffic(crowd.events, crowd.subscriptions)
    (tree,) = advise_from(summary, question)
    training, unseen = question.judge(summary.training), question.judge(summary.judging)
    wasted = [training.outcome(tree.index, limit).waste.wasted for limit in (*MEMBER_LIMITS, None)]
    near = np.array(wasted) <= 1.02 * wasted[-1]
    assert tree.members == MEMBER_LIMITS[int(np.argmax(near))]
    assert tree.members > MEMBER_LIMITS[0]
    assert tree.outcome == unseen.outcome(tree.index, tree.members)


def test_a_limit_on_members_that_is_asked_for_is_kept(crowd):
    (tree,) = advise(crowd.events, AdviceQuestion(crowd.subscriptions, 23, max_members=7))
    assert tree.members == 7


def test_progress_adds_up_to_the_number_of_techniques(crowd):
    steps = []
    summary = summarise_traffic(crowd.events, crowd.subscriptions, statistics=True)
    advise_from(summary, AdviceQuestion(crowd.subscriptions, 12), advance=steps.append)
    assert len(steps) > 1
    assert sum(steps) == pytest.approx(1)
    steps.clear()
    few = {"selections": ("evs",), "splits": ("regular",)}
    advise_from(summary, AdviceQuestion(crowd.subscriptions, 12, compare=True, **few), advance=steps.append)
    assert sum(steps) == pytest.approx(3)


def test_a_limit_on_members_that_would_need_more_rules_than_the_tables_have_is_passed_over(crowd):
    (tree,) = advise(crowd.events, AdviceQuestion(crowd.subscriptions, 23, rules=400))
    sample = Sample.of(crowd.events, crowd.subscriptions)
    covers = TreeCovers.of(tree.index, sample)
    judging = Judge(crowd.subscriptions, crowd.events)
    least = chosen_members(covers, lambda each: judging.waste(tree.index, each), lambda _: True)
    refused = len(covers.within(least).rows)
    chosen = chosen_members(
        covers, lambda each: judging.waste(tree.index, each), lambda each: len(each.rows) != refused
    )
    assert MEMBER_LIMITS.index(chosen) == MEMBER_LIMITS.index(least) + 1


def test_a_switch_keeps_to_its_own_limit_and_to_that_of_all(crowd):
    network = build("line:2")
    small = replace(network, limits={network.switches[0]: 150, network.switches[1]: 900})
    placement = placement_of(small, len(crowd.subscriptions))
    (tree,) = advise(crowd.events, AdviceQuestion(crowd.subscriptions, 23, rules=300, placement=placement))
    assert tree.outcome.beyond == 0
    assert tree.outcome.rules <= 300
