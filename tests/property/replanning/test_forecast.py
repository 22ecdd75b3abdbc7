"""A forecast is what a network does: its rules are those of a router that is asked one request at a time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.control.state.tree_choice import TREE_CHOICES, SchemaTrees, dealt_under, policy_of
from pleroma.errors import TopologyError
from pleroma.evaluation.placement import NOWHERE_PORT, Placement, ports_towards
from pleroma.evaluation.sample import Sample
from pleroma.index import Dz, GridIndex
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.replanning.forecast import forecast, registrations_of
from pleroma.replanning.situation import NetworkSituation, PlacedFilter, limits_that_count
from pleroma.routing import Advertise, Router, Subscribe, build

SPACE = Schema("space", tuple(Integer(name, False, 0, 63) for name in "xy"))
NETWORKS = ("line:3", "ring:4", "fat-tree:4")


def box(low_x, low_y, wide, tall):
    return Filter.parse(
        SPACE, f"x >= {low_x} and x <= {min(low_x + wide, 63)} and y >= {low_y} and y <= {min(low_y + tall, 63)}"
    )


boxes = st.builds(box, st.integers(0, 63), st.integers(0, 63), st.integers(0, 30), st.integers(0, 30))


@st.composite
def situations(draw):
    network = build(draw(st.sampled_from(NETWORKS)))
    if draw(st.integers(0, 3)) == 0:  # what was discovered may be in several parts
        network = network.without(links=draw(st.lists(st.sampled_from(network.links), unique=True)))
    hosts = st.sampled_from([host.name for host in network.hosts])
    if draw(st.booleans()):
        network = replace(network, limits={switch: draw(st.integers(2, 12)) for switch in network.switches})
    wanted = draw(st.lists(st.builds(PlacedFilter, hosts, boxes), min_size=1, max_size=8))
    promised = draw(st.none() | st.lists(st.builds(PlacedFilter, hosts, boxes), min_size=1, max_size=3))
    return NetworkSituation(SPACE, tuple(wanted), network, None if promised is None else tuple(promised))


def points(seed, count=30):
    drawn = np.random.default_rng(seed).integers(0, 64, (count, 2))
    return EventBatch.from_columns(SPACE, {"x": drawn[:, 0], "y": drawn[:, 1]})


@given(situations(), st.integers(0, 99), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_rules_and_packets_are_those_of_a_router_asked_one_request_at_a_time(situation, seed, members):
    index, network = GridIndex.regular(SPACE, 8), situation.topology
    found = forecast(situation, index, members, points(seed))
    router = Router(network, max_length=8)
    promised = situation.advertisements or [PlacedFilter(host.name, Filter.everything(SPACE)) for host in network.hosts]
    for number, each in enumerate(promised):
        router.apply(Advertise(f"a{number}", each.host, index.cover(each.filter, max_members=members)))
    for number, each in enumerate(situation.subscriptions):
        region = index.cover(each.filter, max_members=members)
        if region:
            router.apply(Subscribe(f"s{number}", each.host, region))
    assert found.rules == {switch: len(table) for switch, table in router.tables.items()}
    assert found.fullest == max(found.rules.values())
    assert found.wanted_rules == {switch: report.wanted for switch, report in router.coarsened.items()}
    assert found.at_hosts.wanted <= found.at_hosts.deliveries


@given(situations(), st.data(), st.integers(1, 6), st.sampled_from(TREE_CHOICES))
@settings(max_examples=30, deadline=None)
def test_rules_are_those_on_the_trees_in_force_whatever_has_failed_before(situation, data, members, choice):
    """A controller's router has other dz beside those of the schema, and its trees were repaired."""
    index, network = GridIndex.regular(SPACE, 8), situation.topology.with_limit(None)
    prefix = Dz.parse(data.draw(st.sampled_from(["", "0", "101"])))
    router = Router(network, policy=policy_of(choice))
    router.open_prefix(prefix)
    situation = replace(situation, advertisements=situation.advertisements or situation.subscriptions[:1])
    router.load(registrations_of(situation, network, index, members, prefix))
    for _ in range(2):
        present = network.without(links=data.draw(st.lists(st.sampled_from(network.links), unique=True, max_size=4)))
        router.change_topology(present)
    trees = SchemaTrees(choice, dealt_under(router.families, prefix))
    there = replace(situation, topology=present, trees=trees)
    assert forecast(there, index, members, points(1)).rules == {s: len(t) for s, t in router.tables.items()}
    most = max(router.families, key=lambda family: family.region.inside(prefix).atoms)
    again = ports_towards(present, situation.sources, most.tree)
    assert [each.tolist() for each in there.placement.spread] == [each.tolist() for each in again.values()]


@given(situations(), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_with_cells_of_single_points_and_all_the_room_nothing_is_wasted(situation, seed):
    index = GridIndex.regular(SPACE, 12)
    roomy = replace(situation, topology=situation.topology.with_limit(None))
    found = forecast(roomy, index, 4096, points(seed))
    assert found.at_hosts.wasted == 0


@given(situations())
@settings(max_examples=40, deadline=None)
def test_a_port_is_used_towards_a_host_exactly_if_somebody_publishes_on_the_other_side(situation):
    network, sources = situation.topology, situation.sources
    tree = Router(network).families[0].tree
    for switch, ports in ports_towards(network, sources).items():
        for host, port in zip(network.hosts, ports.tolist(), strict=True):
            towards = tree.toward[host.name].get(switch)
            elsewhere = any(
                tree.toward[each.name][switch] != towards
                for each in network.hosts
                if switch in tree.toward[each.name] and (sources is None or each.name in sources)
            )
            assert port == (towards if towards is not None and elsewhere else NOWHERE_PORT)


@given(situations(), st.integers(0, 99), st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_a_tree_learned_for_a_placement_needs_the_rules_that_were_counted(situation, seed, rules):
    """Advertisements of everything: learning does not know that less than everything is published."""
    sources = situation.advertisements and tuple(
        PlacedFilter(each.host, Filter.everything(SPACE)) for each in situation.advertisements
    )
    situation = replace(situation, topology=situation.topology.with_limit(None), advertisements=sources)
    place = situation.placement
    sample = Sample.of(points(seed), situation.filters).grouped(place.homes)
    tree = learn(sample, 12, Budget(rules=rules), spread=place.spread)
    found = forecast(situation, tree.index, 4096, points(seed + 1))
    assert found.fullest == tree.rules <= rules


def test_a_host_sends_what_any_of_its_advertisements_promises():
    wanted = (PlacedFilter("h3", Filter.everything(SPACE)),)
    halves = tuple(PlacedFilter("h1", Filter.parse(SPACE, text)) for text in ("x < 32", "x >= 32"))
    found = forecast(
        NetworkSituation(SPACE, wanted, build("line:3"), halves), GridIndex.regular(SPACE, 8), 8, points(1)
    )
    assert found.at_hosts.wanted == 30


def test_in_a_network_of_two_parts_nobody_misses_what_is_sent_in_the_other():
    line = build("line:3")
    wanted = tuple(PlacedFilter(host.name, Filter.everything(SPACE)) for host in line.hosts)
    apart = line.without(links=line.links[1:])
    found = forecast(NetworkSituation(SPACE, wanted, apart, (wanted[0],)), GridIndex.regular(SPACE, 8), 8, points(1))
    assert (found.at_hosts.deliveries, found.at_hosts.wanted) == (30, 30)  # h2 gets all of them, and h3 none
    assert found.rules == {"R1": 1, "R2": 1, "R3": 0}


def test_a_switch_has_for_a_schema_what_its_limit_and_its_room_leave():
    network = replace(build("line:3"), limits={"R1": 100, "R2": 100})
    left = limits_that_count(network, {"R2": 60, "R3": 40}, {"R1": 10, "R2": 70, "R3": 1})
    assert left.limits == {"R1": 90, "R2": 1, "R3": 39}
    assert limits_that_count(build("line:3"), {}).limits == {}


def test_what_is_at_hosts_that_are_away_is_left_out():
    network = build("line:2")
    wanted = [PlacedFilter("h1", box(0, 0, 5, 5)), PlacedFilter("gone", box(0, 0, 9, 9))]
    made = NetworkSituation.placed(SPACE, wanted, network, wanted)
    assert made.subscriptions == made.advertisements == tuple(wanted[:1])
    assert made.placement.homes.tolist() == [0]
    assert NetworkSituation.placed(SPACE, wanted, None, None).placement is None


def test_homes_are_numbers_of_hosts_and_limits_those_of_the_switches_on_the_tree():
    network = replace(build("line:3"), limits={"R2": 7})
    place = Placement.of(network, ["h3", "h1", "h3"])
    assert place.homes.tolist() == [2, 0, 2]
    assert place.limits == (None, 7, None)


def test_without_a_network_there_is_no_forecast():
    situation = NetworkSituation(SPACE, (PlacedFilter("h1", Filter.everything(SPACE)),), None, None)
    with pytest.raises(TopologyError, match="not known"):
        forecast(situation, GridIndex.regular(SPACE, 4), 4, points(0))
