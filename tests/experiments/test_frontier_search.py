"""What is left untried cannot have been the best: the search against one that tries everything."""

from itertools import product

import pytest

from pleroma.experiments.frontier import trials
from pleroma.experiments.frontier.frontier import WORKLOADS
from pleroma.experiments.frontier.search import (
    MAX_UNLIMITED_LENGTH,
    SETS_PER_SELECTION,
    TRIED_MEMBERS,
    BudgetSetting,
    FrontierSearch,
    JudgedIndex,
)
from pleroma.experiments.frontier.trials import FrontierTrials
from pleroma.selection.dimension_selection import EVALUATING, select
from pleroma.selection.evidence import Evidence
from pleroma.selection.splits import SPLITS
from pleroma.selection.traffic_statistics import TrafficStatistics

NETWORKS = ("star", "fat-tree:4")
BITS = (10, 70)
BUDGETS = (60, 250, 900)
SELECTIONS = ("ges", "sms")
LENGTHS = (8, 20, 70)


def candidates(trials, name):
    statistics = TrafficStatistics.of(trials.sample)
    for bits in LENGTHS:
        split, regular = (SPLITS[each](trials.sample, bits) for each in (name, "regular"))
        for selection in SELECTIONS:
            evidence = Evidence(statistics, split if selection in EVALUATING else regular, 0)
            sets = {select(selection, evidence, n) for n in range(1, len(trials.workload.schema) + 1)}
            for dims in sorted(sets, key=lambda dims: split.waste(dims).deliveries)[:SETS_PER_SELECTION]:
                index = split.index(dims)
                for members in TRIED_MEMBERS:
                    if members is not None or bits <= MAX_UNLIMITED_LENGTH:
                        outcomes = trials.outcomes(index, members, trials.aside)
                        yield f"{selection} + {name}", index, members, outcomes
                        if max(each.rules for each in outcomes.values()) <= min(BUDGETS):
                            break


def tried_in_full(trials, name):
    """By setting and technique: of all that keeps to the rules, what delivers least, and the last of those."""
    every = list(candidates(trials, name))
    found = {}
    for setting in map(BudgetSetting._make, product(NETWORKS, BITS, BUDGETS)):
        best = {}
        for technique, index, members, outcomes in every:
            outcome = outcomes[setting.network]
            fits = index.bits <= setting.bits and outcome.rules <= setting.rules
            if fits and (technique not in best or outcome.waste.deliveries <= best[technique][0]):
                best[technique] = outcome.waste.deliveries, index, members
        found[setting] = {
            technique: JudgedIndex(
                deliveries,
                trials.outcomes(index, members, trials.unseen)[setting.network],
                trials.outcomes(index, members, trials.drifted)[setting.network].waste,
            )
            for technique, (deliveries, index, members) in best.items()
        }
    return found


@pytest.fixture(autouse=True)
def in_shares(monkeypatch):
    monkeypatch.setattr(trials, "MIN_SUBSCRIPTIONS_IN_SHARES", 1)


@pytest.mark.parametrize(("workload", "split"), [("zipfian", "regular"), ("stock", "adaptive"), ("stock", "selective")])
def test_the_search_finds_what_trying_everything_finds(workload, split):
    trials = FrontierTrials.of(WORKLOADS[workload], 70, NETWORKS, 900)
    found = FrontierSearch(trials, NETWORKS, BITS, BUDGETS, SELECTIONS, LENGTHS).found(split)
    every = tried_in_full(trials, split)
    assert found.keys() == every.keys()
    for setting, techniques in found.items():
        assert techniques.pop("no bits").unseen.rules == 1
        assert techniques == every[setting], setting


def test_a_part_of_a_table_says_when_the_whole_is_too_large():
    trials = FrontierTrials.of(WORKLOADS["uniform"], 70, NETWORKS, 900)
    index = SPLITS["regular"](trials.sample, 20).index((0, 1, 2))
    full = trials.outcomes(index, 16, trials.aside)
    for rules in (1, 100, 400, full["star"].rules - 1, full["star"].rules, 10_000):
        within, few = trials.within(index, 16, dict.fromkeys(NETWORKS, rules), 1)
        assert within == {name: each for name, each in full.items() if each.rules <= rules}
        assert not few
    assert trials.within(index, 16, {"star": 10_000}, 10_000) == ({"star": full["star"]}, True)
