"""Trees on networks whose best tree can be seen with the naked eye."""

import math
import time
from dataclasses import replace

import pytest

from pleroma.errors import TopologyError, UnknownName
from pleroma.routing.shapes import build, fat_tree, line, random_graph, ring, single, star
from pleroma.routing.topology import Host, Link, Topology
from pleroma.routing.tree import ALL_ROOTS, Hop, Tree, components, low_latency_tree, repair, rooted_tree


def pairs(tree):
    """The links of a tree, each as its two switches."""
    return {frozenset((x.a, x.b)) for x in tree.links}


def network(*links, hosts=""):
    """Links as "R1 R2 0.5" and the switches that have a host."""
    switches = sorted({name for each in links for name in each.split()[:2]})
    used = dict.fromkeys(switches, 0)

    def port(switch):
        used[switch] += 1
        return used[switch]

    attached = tuple(Host(f"h{i}", s, port(s), f"fd00::{i}", latency=0.25) for i, s in enumerate(hosts.split(), 1))
    cables = tuple(Link(a, port(a), b, port(b), float(latency)) for a, b, latency in map(str.split, links))
    return Topology(tuple(switches), attached, cables)


# -- choosing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["line:7", "star:5", "single:4"])
def test_a_network_without_cycles_is_its_own_tree(name):
    topology = build(name)
    assert set(low_latency_tree(topology).links) == set(topology.links)


def test_a_ring_is_cut_opposite_its_root():
    assert pairs(rooted_tree(ring(5), "R1")) == pairs(Tree(ring(5), ring(5).links[:2] + ring(5).links[3:]))


def test_a_slow_link_is_avoided_though_the_way_around_has_more_hops():
    topology = network("A B 1", "B C 1", "A C 3", hosts="A C")
    assert pairs(low_latency_tree(topology)) == {frozenset("AB"), frozenset("BC")}


def test_of_equally_fast_ways_that_with_fewer_hops_is_taken():
    topology = network("Z B 1", "B C 1", "Z C 2")
    assert pairs(rooted_tree(topology, "Z")) == {frozenset("ZB"), frozenset("ZC")}


def test_of_equal_ways_that_over_the_lesser_name_and_port_is_taken():
    diamond = network("A C 1", "A B 1", "C D 1", "B D 1", "B D 1")
    assert set(rooted_tree(diamond, "A").links) == {diamond.links[0], diamond.links[1], diamond.links[3]}


def test_the_root_is_where_the_hosts_are_near():
    """From C all paths are direct. From anywhere else at the rim, some cross the rim and make detours for others."""
    rim = ["A B 1.5", "B D 1.5", "D E 1.5", "A E 1.5"]
    topology = network(*rim, "A C 1", "B C 1", "D C 1", "E C 1", hosts="A B D E")
    assert pairs(low_latency_tree(topology)) == {frozenset(f"{s}C") for s in "ABDE"}


def test_only_hosts_count_in_choosing_the_root():
    """Most switches are nearest to Z, but both hosts are at the ends of X - Y."""
    topology = network("X Y 2", "X Z 1.5", "Y Z 1.5", "Z P 1", "Z Q 1", "Z R 1", hosts="X Y")
    assert frozenset("XY") in pairs(low_latency_tree(topology))


def test_the_tree_of_a_fat_tree_joins_any_two_pods_over_one_core_switch():
    topology = fat_tree(4)
    tree = low_latency_tree(topology)
    assert len(tree.path("h1", "h16")) == 5
    assert len(tree.path("h1", "h3")) == 3
    assert len(tree.path("h1", "h2")) == 1


def test_the_testbed_is_crossed_in_five_hops():
    tree = low_latency_tree(build("testbed"))
    assert tree.path("h1", "h8") == [Hop("R7", 3), Hop("R3", 3), Hop("R1", 3), Hop("R5", 2), Hop("R10", 2)]


def test_each_part_of_a_parted_network_gets_a_tree():
    topology = ring(6)
    parted = topology.without(links=[topology.links[0], topology.links[3]])
    assert components(parted) == [{"R1", "R6", "R5"}, {"R2", "R3", "R4"}]
    for tree in (low_latency_tree(parted), rooted_tree(parted, "R5")):
        assert set(tree.links) == set(parted.links)


def test_a_large_network_gets_a_tree_almost_as_good_as_if_every_root_had_been_tried():
    topology = random_graph(ALL_ROOTS + 20, 40, seed=1)
    every = sorted(rooted_tree(topology, switch).mean_latency for switch in topology.switches)
    assert low_latency_tree(topology).mean_latency < every[len(every) // 50]


def test_a_large_network_without_hosts_gets_a_tree():
    assert len(low_latency_tree(line(ALL_ROOTS + 1, hosts_per_switch=0)).links) == ALL_ROOTS


# -- following -------------------------------------------------------------------------------------------------------


def test_a_path_leaves_through_the_port_of_the_receiver():
    tree = low_latency_tree(line(3))
    assert tree.path("h1", "h3") == [Hop("R1", 2), Hop("R2", 3), Hop("R3", 1)]
    assert tree.path("h3", "h1") == [Hop("R3", 2), Hop("R2", 2), Hop("R1", 1)]


def test_hosts_on_one_switch_are_one_hop_apart():
    tree = low_latency_tree(single(3))
    assert tree.path("h1", "h3") == [Hop("R1", 3)]
    assert tree.latency("h1", "h3") == pytest.approx(0.0002)


def test_a_path_to_oneself_is_empty():
    tree = low_latency_tree(line(3))
    assert tree.path("h2", "h2") == []
    assert tree.latency("h2", "h2") == 0


def test_latency_counts_links_and_the_lines_of_both_hosts():
    tree = low_latency_tree(network("A B 1", "B C 2", "C D 4", hosts="A D B"))
    assert tree.latency("h1", "h2") == 7.5
    assert tree.latency("h2", "h3") == 6.5
    assert tree.mean_latency == (7.5 + 6.5 + 1.5) / 3


def test_hosts_of_different_parts_have_no_path():
    topology = line(3)
    tree = low_latency_tree(topology.without(links=topology.links[:1]))
    assert tree.next_port("R1", "h2") is None
    assert tree.path("h1", "h2") == []
    assert tree.latency("h1", "h2") == math.inf
    assert tree.toward["h2"] == {"R2": 1, "R3": 2}
    assert tree.mean_latency == tree.latency("h2", "h3"), "a mean over those that can reach each other"


def test_without_pairs_of_hosts_the_mean_latency_is_zero():
    assert low_latency_tree(single(1)).mean_latency == 0


def test_every_switch_has_a_port_toward_every_host():
    tree = low_latency_tree(star(2))
    assert tree.toward == {"h1": {"R1": 1, "R2": 1, "R3": 2}, "h2": {"R1": 2, "R2": 2, "R3": 1}}


def test_neighbours_are_those_along_the_tree():
    tree = rooted_tree(ring(3), "R1")
    assert {s: [(port, other) for port, other, _, _ in each] for s, each in tree.neighbours.items()} == {
        "R1": [(2, "R2"), (3, "R3")],
        "R2": [(2, "R1")],
        "R3": [(3, "R1")],
    }


def test_the_ports_of_128_switches_toward_256_hosts_are_known_within_100_ms():
    topology = random_graph(128, 256, seed=1)

    def seconds():
        tree = rooted_tree(topology, "R1")
        start = time.perf_counter()
        assert sum(len(ports) for ports in tree.toward.values()) == 128 * 256
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 0.1


# -- repairing -------------------------------------------------------------------------------------------------------


def test_a_cut_ring_is_closed_where_it_was_open():
    topology = ring(6)
    tree = low_latency_tree(topology)
    for cut in tree.links:
        left = topology.without(links=[cut])
        assert set(repair(tree, left).links) == set(left.links)


def test_what_is_cut_is_joined_where_the_hosts_are_near():
    """A - B is the faster link, but both its ends are far from the hosts."""
    topology = network("X A 5", "Y B 5", "A B 1", "X Y 2", "X M 1", "M Y 0.5", hosts="X X Y Y")
    tree = low_latency_tree(topology)
    assert pairs(tree) == {frozenset(each) for each in ("XA", "YB", "XM", "MY")}
    repaired = repair(tree, topology.without(switches=["M"]))
    assert pairs(repaired) == {frozenset(each) for each in ("XA", "YB", "XY")}


def test_a_switch_without_hosts_joins_by_its_fastest_link():
    topology = network("A B 1", "A C 3", "B C 2", hosts="A B")
    tree = low_latency_tree(topology.without(switches=["C"]))
    assert pairs(repair(tree, topology)) == {frozenset("AB"), frozenset("BC")}


def test_a_network_that_did_not_change_keeps_its_tree():
    topology = fat_tree(4)
    for tree in (low_latency_tree(topology), rooted_tree(topology, "R20")):
        assert repair(tree, topology) == tree


def test_a_link_that_comes_back_is_left_out_if_nothing_needs_it():
    topology = ring(6)
    tree = low_latency_tree(topology)
    after = repair(tree, topology.without(links=[tree.links[2]]))
    assert repair(after, topology).links == after.links


def test_a_link_that_comes_back_is_used_if_it_reconnects():
    topology = line(4)
    parted = repair(low_latency_tree(topology), topology.without(links=[topology.links[1]]))
    assert len(parted.links) == 2
    assert repair(parted, topology) == low_latency_tree(topology)


def test_a_link_whose_latency_has_changed_stays():
    topology = ring(4)
    tree = low_latency_tree(topology)
    slow = replace(topology, links=tuple(replace(x, latency=9.0) if x in tree.links else x for x in topology.links))
    assert pairs(repair(tree, slow)) == pairs(tree)
    assert {x.latency for x in repair(tree, slow).links} == {9.0}


def test_a_link_that_is_plugged_in_elsewhere_is_another_link():
    before = network("A B 1", "B C 1", "C A 5", hosts="A C")
    tree = low_latency_tree(before)
    after = replace(before, links=(replace(before.links[0], a_port=7, latency=9.0), *before.links[1:]))
    assert pairs(repair(tree, after)) == {frozenset("BC"), frozenset("AC")}


def test_a_new_host_is_on_the_repaired_tree():
    topology = line(2)
    new = replace(topology, hosts=(*topology.hosts, Host("new", "R2", 9, "fd00::99")))
    repaired = repair(low_latency_tree(topology), new)
    assert repaired.path("h1", "new") == [Hop("R1", 2), Hop("R2", 9)]


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_a_cycle_is_refused():
    with pytest.raises(TopologyError, match="the link closes a cycle") as caught:
        Tree(ring(3), ring(3).links)
    assert caught.value.field.startswith("link R")
    with pytest.raises(TopologyError, match="the link closes a cycle"):
        Tree(line(2), line(2).links * 2)


def test_a_link_the_network_does_not_have_is_refused():
    with pytest.raises(TopologyError) as caught:
        Tree(line(3), (*line(3).links[:1], Link("R1", 3, "R3", 3)))
    assert str(caught.value) == "link R1-R3: the network has no such link"


def test_a_tree_that_leaves_apart_what_the_network_joins_is_refused():
    with pytest.raises(TopologyError) as caught:
        Tree(line(3), line(3).links[:1])
    assert str(caught.value) == "link R2-R3: the network joins what the tree leaves apart"


def test_unknown_names_come_with_the_known_ones():
    tree = low_latency_tree(line(3))
    for call in (
        lambda: tree.next_port("R1", "h4"),
        lambda: tree.next_port("R4", "h1"),
        lambda: tree.path("h1", "h4"),
        lambda: tree.latency("h4", "h1"),
        lambda: rooted_tree(line(3), "r9"),
    ):
        with pytest.raises(UnknownName, match=r"unknown (host|switch) '(h4|R4|r9)'; known: (h1, h2, h3|R1, R2, R3)$"):
            call()


def test_trees_are_values():
    topology = ring(5)
    tree = low_latency_tree(topology)
    again = Tree(ring(5), tree.links[::-1])
    assert again == tree
    assert hash(again) == hash(tree)
    assert tree != rooted_tree(topology, "R3")
