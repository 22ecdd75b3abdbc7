"""What is left untried cannot have been the best: the search against one that tries everything."""

from itertools import product

import pytest

from pleroma.experiments.frontier import frontier_stage
from pleroma.experiments.frontier.frontier import WORKLOADS
from pleroma.experiments.frontier.frontier_search import EXHAUSTIVE, MEMBERS, SETS, Found, Place, Search
from pleroma.experiments.frontier.frontier_stage import Stage
from pleroma.selection.dimension_selection import EVALUATING, Evidence, select
from pleroma.selection.splits import SPLITS
from pleroma.selection.traffic_statistics import TrafficStatistics

NETWORKS = ("star", "fat-tree:4")
BITS = (10, 70)
BUDGETS = (60, 250, 900)
SELECTIONS = ("ges", "sms")
LENGTHS = (8, 20, 70)


def candidates(stage, name):
    statistics = TrafficStatistics.of(stage.sample)
    for bits in LENGTHS:
        split, regular = (SPLITS[each](stage.sample, bits) for each in (name, "regular"))
        for selection in SELECTIONS:
            evidence = Evidence(statistics, split if selection in EVALUATING else regular, 0)
            sets = {select(selection, evidence, n) for n in range(1, len(stage.workload.schema) + 1)}
            for dims in sorted(sets, key=lambda dims: split.waste(dims).deliveries)[:SETS]:
                index = split.index(dims)
                for members in MEMBERS:
                    if members is not None or bits <= EXHAUSTIVE:
                        outcomes = stage.outcomes(index, members, stage.aside)
                        yield f"{selection} + {name}", index, members, outcomes
                        if max(each.rules for each in outcomes.values()) <= min(BUDGETS):
                            break


def tried_in_full(stage, name):
    """By place and technique: of all that keeps to the rules, what delivers least, and the last of those."""
    every = list(candidates(stage, name))
    found = {}
    for place in map(Place._make, product(NETWORKS, BITS, BUDGETS)):
        best = {}
        for technique, index, members, outcomes in every:
            outcome = outcomes[place.network]
            fits = index.bits <= place.bits and outcome.rules <= place.rules
            if fits and (technique not in best or outcome.waste.deliveries <= best[technique][0]):
                best[technique] = outcome.waste.deliveries, index, members
        found[place] = {
            technique: Found(
                deliveries,
                stage.outcomes(index, members, stage.unseen)[place.network],
                stage.outcomes(index, members, stage.drifted)[place.network].waste,
            )
            for technique, (deliveries, index, members) in best.items()
        }
    return found


@pytest.fixture(autouse=True)
def in_shares(monkeypatch):
    monkeypatch.setattr(frontier_stage, "MANY", 1)


@pytest.mark.parametrize(("workload", "split"), [("zipfian", "regular"), ("stock", "adaptive"), ("stock", "selective")])
def test_the_search_finds_what_trying_everything_finds(workload, split):
    stage = Stage.of(WORKLOADS[workload], 70, NETWORKS, 900)
    found = Search(stage, NETWORKS, BITS, BUDGETS, SELECTIONS, LENGTHS).found(split)
    every = tried_in_full(stage, split)
    assert found.keys() == every.keys()
    for place, techniques in found.items():
        assert techniques.pop("no bits").unseen.rules == 1
        assert techniques == every[place], place


def test_a_part_of_a_table_says_when_the_whole_is_too_large():
    stage = Stage.of(WORKLOADS["uniform"], 70, NETWORKS, 900)
    index = SPLITS["regular"](stage.sample, 20).index((0, 1, 2))
    full = stage.outcomes(index, 16, stage.aside)
    for rules in (1, 100, 400, full["star"].rules - 1, full["star"].rules, 10_000):
        within, few = stage.within(index, 16, dict.fromkeys(NETWORKS, rules), 1)
        assert within == {name: each for name, each in full.items() if each.rules <= rules}
        assert not few
    assert stage.within(index, 16, {"star": 10_000}, 10_000) == ({"star": full["star"]}, True)
