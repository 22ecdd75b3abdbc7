from dataclasses import replace

import pytest

from pleroma.errors import TuningError
from pleroma.selection.advice import DEFAULT_SELECTIONS, DEFAULT_SPLITS, AdviceQuestion, advise
from pleroma.workloads import THESIS, generate


@pytest.fixture(scope="module")
def workload():
    """Two dimensions tell subscriptions apart, two hardly do."""
    settings = replace(THESIS, dimensions=4, subscriptions=40, events=600, variance="random", selective=2, seed=3)
    return generate(settings)


@pytest.fixture(scope="module")
def advice(workload):
    return advise(workload.events, AdviceQuestion(workload.subscriptions, 10, max_members=16))


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
