from dataclasses import replace

import numpy as np
import pytest

from pleroma.errors import WorkloadError
from pleroma.index import GridIndex, evaluate
from pleroma.routing import PublisherForest, build
from pleroma.switches.simulated.simulation import simulate
from pleroma.workloads import EXPRESSIVE, generate

SMALL = replace(EXPRESSIVE, dimensions=3, subscriptions=30, events=300, width=0.2, placement="inside", seed=2)


@pytest.fixture(scope="module")
def workload():
    return generate(SMALL)


@pytest.fixture(scope="module")
def index(workload):
    return GridIndex.regular(workload.schema, 12)


@pytest.mark.parametrize("shape", ["testbed", "line:5", "ring:6", "random:9x14"])
@pytest.mark.parametrize("dealing", [{}, {"policy": PublisherForest(limit=4)}, {"balanced": 4}])
@pytest.mark.parametrize("rules", [None, 8])
def test_nothing_is_missed_and_nothing_comes_twice(workload, index, shape, dealing, rules):
    result = simulate(build(shape).with_limit(rules), workload, index, **dealing)
    assert result.missed == 0
    assert not result.forwarding.duplicates.any()
    assert not result.forwarding.misaddressed.any()
    assert result.waste.wanted > 0
    assert rules is None or max(result.rules) <= rules


def test_a_switch_with_a_port_for_each_subscription_wastes_what_the_reference_evaluator_says(workload, index):
    """Every subscriber on a port of its own, the publisher on another: then a delivery is one event and one filter."""
    hosts = len(workload.subscriptions) + 1
    network = build(f"single:{hosts}")
    result = simulate(network, workload, index, publishers=1, seed=3)
    homes = np.random.default_rng(3)
    publisher = int(np.sort(homes.permutation(hosts)[:1])[0])
    placed = homes.integers(0, hosts, len(workload.subscriptions)).tolist()
    by_host = {}
    for home, wanted in zip(placed, workload.subscriptions, strict=True):
        by_host[home] = by_host[home] | wanted if home in by_host else wanted
    by_host.pop(publisher, None)
    expected = evaluate(index, list(by_host.values()), list(workload.events))
    assert result.waste.wanted == expected.wanted
    # one cover for a host's union is at most as tight as a cover for each of its filters
    assert result.waste.deliveries == pytest.approx(expected.deliveries, rel=0.05)


def test_a_limit_costs_waste_and_says_so(workload, index):
    free = simulate(build("testbed"), workload, index)
    tight = simulate(build("testbed").with_limit(5), workload, index)
    assert tight.waste.rate > free.waste.rate
    assert set(tight.router.coarsened) == {s for s, n in zip(free.router.tables, free.rules, strict=True) if n > 5}
    assert all(c.installed <= 5 < c.wanted for c in tight.router.coarsened.values())


def test_the_same_seed_gives_the_same_run(workload, index):
    first, second = (simulate(build("testbed"), workload, index, seed=9) for _ in range(2))
    assert first.waste == second.waste
    assert first.rules == second.rules


@pytest.mark.parametrize("publishers", [0, 9, -1])
def test_there_must_be_publishers_and_hosts_for_them(workload, index, publishers):
    with pytest.raises(WorkloadError, match="publishers on 8 hosts"):
        simulate(build("testbed"), workload, index, publishers=publishers)
