"""Sweeps over combinations."""

import pytest

from pleroma.errors import SetupError, UnknownName
from pleroma.experiments.comparison import Comparison, best
from pleroma.experiments.scenarios import one_by_one

SMALL = Comparison(("uniform", "zipfian"), (20,), (6, 9), ("ges",), ("regular",), events=400, seeds=2)


@pytest.fixture(scope="module")
def found():
    return SMALL.run(lambda _: None)


def test_every_combination_is_compared_and_the_best_comes_first(found):
    scenarios = [each.scenario for each in found]
    assert set(scenarios) == {(w, 20, b) for w in ("uniform", "zipfian") for b in (6, 9)}
    assert {each.technique for each in found} == {"regular", "ges + regular", "learned"}
    assert len(found) == 12
    for scenario in set(scenarios):
        wastes = [each.waste for each in found if each.scenario == scenario]
        assert wastes == sorted(wastes)
    assert [each.scenario for each in best(found, 1)] == list(dict.fromkeys(scenarios))


def test_the_order_in_which_scenarios_are_gone_through_does_not_matter(found):
    def backwards(task, scenarios, advance):
        return one_by_one(task, scenarios[::-1], advance)[::-1]

    assert SMALL.run(lambda _: None, backwards) == found


@pytest.mark.parametrize(
    "wrong",
    [{"workloads": ("odd",)}, {"selections": ("best",)}, {"splits": ("even",)}],
    ids=lambda each: next(iter(each)),
)
def test_unknown_names_are_refused(wrong):
    with pytest.raises(UnknownName):
        Comparison(**wrong)


@pytest.mark.parametrize("wrong", [{"bits": (0,)}, {"bits": (113,)}, {"subscriptions": (0,)}, {"workloads": ()}])
def test_impossible_sizes_are_refused_by_name(wrong):
    with pytest.raises(SetupError) as refused:
        Comparison(**wrong)
    assert refused.value.field in wrong
