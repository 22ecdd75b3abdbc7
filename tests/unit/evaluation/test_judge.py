from dataclasses import replace

import numpy as np
import pytest

from pleroma.evaluation.judge import judge
from pleroma.index import EVERYTHING, GridIndex, evaluate
from pleroma.routing import Advertise, Router, Subscribe, build
from pleroma.workloads import EXPRESSIVE, generate

SMALL = replace(EXPRESSIVE, dimensions=3, subscriptions=25, events=120, width=0.2, placement="inside", seed=5)


@pytest.fixture(scope="module")
def workload():
    return generate(SMALL)


@pytest.mark.parametrize("bits", [0, 7, 12, 30])
@pytest.mark.parametrize("members", [1, 6, 32])
def test_waste_is_what_the_reference_evaluator_counts(workload, bits, members):
    index = GridIndex.regular(workload.schema, bits)
    outcome = judge(index, workload.subscriptions, workload.events, members)
    slow = evaluate(index, workload.subscriptions, list(workload.events), max_members=members)
    assert outcome.waste == slow


def test_codes_longer_than_a_word_are_counted_the_same_way():
    wide = generate(replace(SMALL, dimensions=8, subscriptions=10, events=60))
    index = GridIndex.regular(wide.schema, 90)
    assert index.bits == 90
    outcome = judge(index, wide.subscriptions, wide.events, 20)
    assert outcome.waste == evaluate(index, wide.subscriptions, list(wide.events), max_members=20)


def test_flow_entries_are_the_rules_of_a_star(workload):
    index = GridIndex.regular(workload.schema, 12)
    outcome = judge(index, workload.subscriptions, workload.events, 8)
    network = build(f"single:{len(workload.subscriptions) + 1}")
    router = Router(network)
    names = [host.name for host in network.hosts]
    router.apply(Advertise("a", names[-1], EVERYTHING))
    for i, wanted in enumerate(workload.subscriptions):
        router.apply(Subscribe(f"s{i}", names[i], index.cover(wanted, max_members=8)))
    assert outcome.rules == len(router.tables["R1"])


def test_fewer_members_cost_waste_and_save_rules(workload):
    index = GridIndex.regular(workload.schema, 15)
    outcomes = [judge(index, workload.subscriptions, workload.events, n) for n in (1, 4, 16, 64)]
    rates = [each.waste.rate for each in outcomes]
    assert rates == sorted(rates, reverse=True)
    assert np.all(np.diff([each.rules for each in outcomes]) > 0)
