"""Trees of random networks, whole and parted, against networkx and brute force."""

import itertools
import random
from dataclasses import replace

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.routing.topology import Host, Link, Topology
from pleroma.routing.tree import Tree, components, low_latency_tree, repair, rooted_tree


@st.composite
def networks(draw):
    """Connected, with parallel links, ports in disorder, and names whose order is not that of the list."""
    size, extra, crowd = draw(st.integers(1, 9)), draw(st.integers(0, 8)), draw(st.integers(0, 7))
    chance = random.Random(draw(st.integers(0, 2**32)))
    names = chance.sample([f"R{i}" for i in range(1, size + 1)], size)
    ends = [(names[chance.randrange(i)], names[i]) for i in range(1, size)]
    ends += [chance.sample(names, 2) for _ in range(extra if size > 1 else 0)]
    ports = {name: iter(chance.sample(range(1, 40), 39)) for name in names}

    def latency():
        return chance.choice([0.0, 0.001, 0.001, 0.002, 0.003, chance.uniform(0, 0.01)])

    return Topology(
        tuple(names),
        tuple(
            Host(f"h{i}", home, next(ports[home]), f"fd00::{i}", latency())
            for i, home in enumerate(chance.choices(names, k=crowd), 1)
        ),
        tuple(Link(a, next(ports[a]), b, next(ports[b]), latency()) for a, b in ends),
    )


def without_some(topology, chance):
    """The same network after failures, which may part it."""
    switches = chance.sample(topology.switches, min(chance.choice([0, 0, 0, 1, 2]), len(topology.switches) - 1))
    links = chance.sample(topology.links, chance.randint(0, min(5, len(topology.links))))
    return topology.without(links, switches)


chances = st.integers(0, 2**32).map(random.Random)


@st.composite
def parted(draw):
    return without_some(draw(networks()), draw(chances))


@st.composite
def changes(draw):
    """A network and what it becomes: after failures, after they are mended, or after others."""
    whole, chance = draw(networks()), draw(chances)
    before = chance.choice([whole, without_some(whole, chance)])
    return before, chance.choice([whole, without_some(whole, chance), without_some(before, chance)])


def graph(topology, links=None):
    made = networkx.MultiGraph()
    made.add_nodes_from(topology.switches)
    for link in topology.links if links is None else links:
        made.add_edge(link.a, link.b, weight=link.latency)
    return made


def assert_spans(tree, topology):
    used, whole = graph(topology, tree.links), graph(topology)
    assert set(tree.links) <= set(topology.links)
    assert networkx.is_forest(used)
    assert set(map(frozenset, networkx.connected_components(used))) == set(
        map(frozenset, networkx.connected_components(whole))
    )
    assert len(tree.links) == len(topology.switches) - networkx.number_connected_components(whole)


def mean_over_pairs(tree):
    """Slow and obvious, from networkx's paths alone."""
    used = graph(tree.topology, tree.links)
    distance = dict(networkx.all_pairs_dijkstra_path_length(used))
    apart = [
        a.latency + distance[a.switch][b.switch] + b.latency
        for a, b in itertools.combinations(tree.topology.hosts, 2)
        if b.switch in distance[a.switch]
    ]
    return sum(apart) / len(apart) if apart else 0.0


@given(parted())
def test_components_are_those_of_networkx(topology):
    found = components(topology)
    assert sorted(map(sorted, found)) == sorted(map(sorted, networkx.connected_components(graph(topology))))


@given(parted())
def test_a_low_latency_tree_spans_each_part_without_a_cycle(topology):
    assert_spans(low_latency_tree(topology), topology)


@given(networks())
def test_no_root_gives_a_lower_mean_latency(topology):
    best = min(mean_over_pairs(rooted_tree(topology, switch)) for switch in topology.switches)
    assert mean_over_pairs(low_latency_tree(topology)) == pytest.approx(best, abs=1e-12)


@given(parted(), st.data())
def test_a_rooted_tree_spans_and_has_the_shortest_paths_from_its_root(topology, data):
    root = data.draw(st.sampled_from(topology.switches))
    tree = rooted_tree(topology, root)
    assert_spans(tree, topology)
    along = networkx.single_source_dijkstra_path_length(graph(topology, tree.links), root)
    shortest = networkx.single_source_dijkstra_path_length(graph(topology), root)
    assert along == pytest.approx(shortest, abs=1e-12)


@given(parted())
def test_following_next_port_leads_to_the_host(topology):
    tree = low_latency_tree(topology)
    across = {end: other for link in tree.links for end, other in (link.ends, link.ends[::-1])}
    whole = graph(topology)
    for host, switch in itertools.product(topology.hosts, topology.switches):
        port = tree.next_port(switch, host.name)
        assert (port is not None) == networkx.has_path(whole, switch, host.switch)
        assert port == tree.toward[host.name].get(switch)
        if port is not None:
            at, steps = (switch, port), 0
            while at != (host.switch, host.port):
                at = across[at][0]
                at, steps = (at, tree.next_port(at, host.name)), steps + 1
                assert steps < len(topology.switches)


@given(parted())
def test_paths_and_latencies_are_those_of_networkx_along_the_tree(topology):
    tree = low_latency_tree(topology)
    used = graph(topology, tree.links)
    for a, b in itertools.permutations(topology.hosts, 2):
        path = tree.path(a.name, b.name)
        if not networkx.has_path(used, a.switch, b.switch):
            assert path == []
            assert tree.latency(a.name, b.name) == float("inf")
            continue
        assert [hop.switch for hop in path] == networkx.shortest_path(used, a.switch, b.switch)
        assert [hop.port for hop in path] == [tree.next_port(hop.switch, b.name) for hop in path]
        distance = networkx.dijkstra_path_length(used, a.switch, b.switch)
        assert tree.latency(a.name, b.name) == pytest.approx(a.latency + distance + b.latency, abs=1e-12)


@given(parted())
def test_the_mean_latency_is_that_over_all_pairs(topology):
    tree = low_latency_tree(topology)
    assert tree.mean_latency == pytest.approx(mean_over_pairs(tree), abs=1e-12)


@given(changes())
def test_a_repair_spans_and_keeps_every_link_that_is_left(change):
    before, after = change
    tree = low_latency_tree(before)
    repaired = repair(tree, after)
    assert_spans(repaired, after)
    assert set(tree.links) & set(after.links) <= set(repaired.links)


@given(changes())
def test_a_repair_adds_only_links_that_join_what_had_come_apart(change):
    before, after = change
    tree = low_latency_tree(before)
    kept = set(tree.links) & set(after.links)
    added = set(repair(tree, after).links) - kept
    apart = networkx.number_connected_components(graph(after, kept))
    assert len(added) == apart - networkx.number_connected_components(graph(after))


@given(changes())
def test_a_network_that_did_not_change_keeps_its_tree(change):
    before, after = change
    tree = repair(low_latency_tree(before), after)
    assert repair(tree, after) == tree


@given(networks(), st.data())
def test_no_other_link_would_repair_a_cut_with_a_lower_mean_latency(topology, data):
    tree = low_latency_tree(topology)
    if not tree.links:
        return
    cut = data.draw(st.sampled_from(tree.links))
    left = topology.without(links=[cut])
    kept = [link for link in tree.links if link != cut]
    whole = [(*kept, link) for link in left.links if networkx.is_connected(graph(left, [*kept, link]))]
    if whole:
        best = min(mean_over_pairs(Tree(left, links)) for links in whole)
        assert mean_over_pairs(repair(tree, left)) == pytest.approx(best, abs=1e-12)


@given(changes(), chances)
def test_trees_do_not_depend_on_the_order_in_which_a_network_is_listed(change, chance):
    def links(before, after):
        tree = low_latency_tree(before)
        rooted = rooted_tree(before, min(before.switches))
        return [{frozenset(x.ends) for x in each.links} for each in (tree, rooted, repair(tree, after))]

    assert links(*(_shuffled(topology, chance) for topology in change)) == links(*change)


def _shuffled(topology: Topology, chance: random.Random) -> Topology:
    def mixed(items):
        return tuple(chance.sample(items, len(items)))

    turned = [Link(x.b, x.b_port, x.a, x.a_port, x.latency) if chance.random() < 0.5 else x for x in topology.links]
    return replace(topology, switches=mixed(topology.switches), hosts=mixed(topology.hosts), links=mixed(turned))
