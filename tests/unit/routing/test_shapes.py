"""Networks by name."""

import networkx
import pytest

from pleroma.errors import TopologyError, UnknownName
from pleroma.routing import shapes
from pleroma.routing.shapes import SHAPES, build, fat_tree, line, random_graph, ring, single, star
from pleroma.routing.topology import Host, Link
from pleroma.routing.topology_files import save


def wires(topology):
    return {f"{x.a}.{x.a_port}-{x.b}.{x.b_port}" for x in topology.links}


def sizes(topology):
    return len(topology.switches), len(topology.hosts), len(topology.links)


def graph(topology):
    made = networkx.Graph((x.a, x.b) for x in topology.links)
    made.add_nodes_from(topology.switches)
    return made


def test_a_line_has_its_host_on_port_1_and_its_neighbours_after():
    topology = line(3)
    assert topology.switches == ("R1", "R2", "R3")
    assert topology.hosts == tuple(Host(f"h{i}", f"R{i}", 1, f"fd00::{i}") for i in (1, 2, 3))
    assert topology.links == (Link("R1", 2, "R2", 2), Link("R2", 3, "R3", 2))


def test_hosts_are_numbered_switch_by_switch():
    assert [(h.name, h.switch, h.port) for h in line(2, hosts_per_switch=2).hosts] == [
        ("h1", "R1", 1),
        ("h2", "R1", 2),
        ("h3", "R2", 1),
        ("h4", "R2", 2),
    ]


def test_a_line_may_have_no_hosts_and_no_links():
    assert sizes(line(1, hosts_per_switch=0)) == (1, 0, 0)


def test_a_ring_closes():
    assert wires(ring(4)) == {"R1.2-R2.2", "R2.3-R3.2", "R3.3-R4.2", "R4.3-R1.3"}


def test_a_star_has_hosts_on_the_leaves_only():
    topology = star(3, hosts_per_switch=2)
    assert wires(topology) == {"R1.1-R2.3", "R1.2-R3.3", "R1.3-R4.3"}
    assert [h.switch for h in topology.hosts] == ["R2", "R2", "R3", "R3", "R4", "R4"]


def test_a_single_switch_has_host_i_on_port_i():
    topology = single(20)
    assert topology.switches == ("R1",)
    assert [(h.name, h.port) for h in topology.hosts] == [(f"h{i}", i) for i in range(1, 21)]
    assert topology.hosts[9].address == "fd00::a"


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_fat_tree_has_the_counts_and_the_ports_of_its_definition(k):
    topology = fat_tree(k)
    assert sizes(topology) == ((k // 2) ** 2 + k * k, k**3 // 4, k**3 // 2)
    assert all(ports == tuple(range(1, k + 1)) for ports in topology.ports.values())
    assert all(len(topology.hosts_of[s]) in (0, k // 2) for s in topology.switches)


@pytest.mark.parametrize("k", [4, 6])
def test_a_fat_tree_gives_hosts_of_different_pods_a_path_over_each_core_switch(k):
    topology = fat_tree(k)
    first, last = topology.hosts[0].switch, topology.hosts[-1].switch
    paths = list(networkx.all_shortest_paths(graph(topology), first, last))
    assert {len(path) for path in paths} == {5}
    assert {path[2] for path in paths} == {f"R{i}" for i in range(1, (k // 2) ** 2 + 1)}


def test_a_fat_tree_gives_hosts_of_one_pod_a_path_over_each_of_its_aggregation_switches():
    topology = fat_tree(4)
    paths = networkx.all_shortest_paths(graph(topology), "R13", "R14")
    assert {path[1] for path in paths} == {"R5", "R6"}
    assert [h.name for h in topology.hosts_of["R13"]] == ["h1", "h2"]


def test_a_fat_tree_gives_the_first_aggregation_switches_the_first_core_switches():
    topology = fat_tree(4)
    assert [other for _, other, _, _ in topology.neighbours["R5"]] == ["R13", "R14", "R1", "R2"]
    assert [other for _, other, _, _ in topology.neighbours["R6"]] == ["R13", "R14", "R3", "R4"]
    assert [other for _, other, _, _ in topology.neighbours["R4"]] == ["R6", "R8", "R10", "R12"]


def test_the_testbed_has_ten_switches_of_four_ports_and_eight_hosts():
    topology = shapes.testbed()
    assert sizes(topology) == (10, 8, 16)
    assert all(ports == (1, 2, 3, 4) for ports in topology.ports.values())
    assert {s: len(hosts) for s, hosts in topology.hosts_of.items() if hosts} == {"R7": 2, "R8": 2, "R9": 2, "R10": 2}
    assert {other for _, other, _, _ in topology.neighbours["R1"]} == {"R3", "R4", "R5", "R6"}
    assert {other for _, other, _, _ in topology.neighbours["R2"]} == {"R3", "R4", "R5", "R6"}
    assert {other for _, other, _, _ in topology.neighbours["R3"]} == {"R7", "R8", "R1", "R2"}


@pytest.mark.parametrize("failed", [f"R{i}" for i in range(1, 7)])
def test_the_testbed_survives_the_loss_of_any_switch_above_the_edge(failed):
    assert networkx.is_connected(graph(shapes.testbed().without(switches=[failed])))


@pytest.mark.parametrize(("switches", "hosts", "degree"), [(1, 5, 3), (2, 0, 3), (5, 9, 64), (40, 100, 3), (40, 7, 1)])
def test_a_random_graph_is_connected_and_has_the_degree_asked_for_as_far_as_possible(switches, hosts, degree):
    topology = random_graph(switches, hosts, seed=3, degree=degree)
    most = switches * (switches - 1) // 2
    assert sizes(topology) == (switches, hosts, min(most, max(switches - 1, switches * degree // 2)))
    assert networkx.is_connected(graph(topology))
    assert graph(topology).number_of_edges() == len(topology.links), "no two links join the same switches"
    assert all(0.0001 <= x.latency <= 0.005 for x in topology.links)


def test_a_random_graph_depends_on_its_seed_alone():
    assert random_graph(30, 60, seed=7) == random_graph(30, 60, seed=7)
    assert random_graph(30, 60, seed=7) != random_graph(30, 60, seed=8)
    assert len({x.latency for x in random_graph(30, 60, seed=7).links}) > 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("line:5", line(5)),
        ("ring:6", ring(6)),
        ("star:4", star(4)),
        ("single:8", single(8)),
        ("fat-tree:4", fat_tree(4)),
        ("testbed", shapes.testbed()),
        ("random:20x64", random_graph(20, 64, 0)),
        ("random:20x64@7", random_graph(20, 64, 7)),
    ],
)
def test_a_name_gives_its_network(text, expected):
    assert build(text) == expected


def test_what_the_registry_shows_can_be_typed_and_is_what_it_says():
    shown = {name: (shape.usage, *sizes(build(shape.usage))[:2]) for name, shape in SHAPES.items()}
    assert shown == {
        "line": ("line:5", 5, 5),
        "ring": ("ring:6", 6, 6),
        "star": ("star:4", 5, 4),
        "single": ("single:8", 1, 8),
        "fat-tree": ("fat-tree:4", 20, 16),
        "testbed": ("testbed", 10, 8),
        "random": ("random:20x64@7", 20, 64),
    }
    assert not any("\n" in shape.summary for shape in SHAPES.values())


def test_a_path_gives_the_network_in_the_file(tmp_path):
    save(shapes.testbed(), tmp_path / "net.json")
    assert build(str(tmp_path / "net.json")) == shapes.testbed()


def test_a_file_without_hosts_gets_one_on_every_switch(tmp_path):
    save(ring(4, hosts_per_switch=0), tmp_path / "net.json")
    assert [(h.name, h.switch) for h in build(str(tmp_path / "net.json")).hosts] == [
        ("h1", "R1"),
        ("h2", "R2"),
        ("h3", "R3"),
        ("h4", "R4"),
    ]


@pytest.mark.parametrize(
    ("text", "suggestion"), [("fattree:4", "fat-tree"), ("fat_tree:4", "fat-tree"), ("lin:4", "line")]
)
def test_an_unknown_name_gets_a_suggestion(text, suggestion):
    with pytest.raises(UnknownName) as caught:
        build(text)
    assert caught.value.suggestion == suggestion


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("line", "topology: 'line' is not written like line:5"),
        ("line:", "topology: 'line:' is not written like line:5"),
        ("line:-3", "topology: 'line:-3' is not written like line:5"),
        ("line:٣", "topology: 'line:٣' is not written like line:5"),
        ("ring:6x2", "topology: 'ring:6x2' is not written like ring:6"),
        ("testbed:3", "topology: 'testbed:3' is not written like testbed"),
        ("testbed:", "topology: 'testbed:' is not written like testbed"),
        ("random:20", "topology: 'random:20' is not written like random:20x64@7"),
        ("random:20x64@", "topology: 'random:20x64@' is not written like random:20x64@7"),
        ("line:0", "switches: must be a whole number from 1 to 10,000, not 0"),
        ("line:10001", "switches: must be a whole number from 1 to 10,000, not 10001"),
        ("ring:2", "switches: must be a whole number from 3 to 10,000, not 2"),
        ("star:0", "switches around the centre: must be a whole number from 1 to 9,999, not 0"),
        ("single:65280", "hosts: must be a whole number from 1 to 65,279, not 65280"),
        ("fat-tree:5", "k: must be even, not 5"),
        ("fat-tree:74", "k: must be a whole number from 2 to 72, not 74"),
        ("random:10001x5", "switches: must be a whole number from 1 to 10,000, not 10001"),
        ("random:5x100001", "hosts: must be a whole number from 0 to 100,000, not 100001"),
        ("nowhere/net.json", "nowhere/net.json: cannot read the topology: No such file or directory"),
        ("nowhere/net.xml", "nowhere/net.xml: a topology file ends in .json or .graphml"),
    ],
)
def test_a_bad_name_gets_one_clear_line(text, reason):
    with pytest.raises(TopologyError) as caught:
        build(text)
    assert str(caught.value) == reason


def test_a_number_of_any_length_is_refused_on_one_short_line():
    with pytest.raises(TopologyError) as caught:
        build("line:" + "9" * 10000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "call",
    [
        lambda: line(2.0),
        lambda: line(True),
        lambda: line(10, hosts_per_switch=-1),
        lambda: line(10000, hosts_per_switch=60000),
        lambda: ring(3, hosts_per_switch="2"),
        lambda: random_graph(5, 5, degree=0),
        lambda: random_graph(10000, 5, degree=65),
    ],
)
def test_impossible_sizes_are_refused_before_anything_is_built(call):
    with pytest.raises(TopologyError, match="must be a whole number from"):
        call()
