"""Networks in JSON and GraphML files."""

import json
from dataclasses import replace

import pytest

from pleroma.errors import PleromaError, TopologyError, UnknownName
from pleroma.routing.shapes import build, line
from pleroma.routing.topology import Host, Link, Topology
from pleroma.routing.topology_files import from_json, load, save, to_json, with_ipv4

GRAPHML = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d1" />
  <key attr.name="type" attr.type="string" for="node" id="d2" />
  <key attr.name="address" attr.type="string" for="node" id="d3" />
  <key attr.name="Latitude" attr.type="double" for="node" id="d4" />
  <key attr.name="latency" attr.type="double" for="edge" id="d5" />
  <key attr.name="delay" attr.type="string" for="edge" id="d6" />
  <key attr.name="capacity" attr.type="double" for="edge" id="d7" />
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d8" />
  <graph edgedefault="{direction}">{graph}</graph>
</graphml>
"""


def node(name, **data):
    return f'<node id="{name}">{_data(data)}</node>'


def edge(a, b, **data):
    return f'<edge source="{a}" target="{b}">{_data(data)}</edge>'


def _data(data):
    keys = {"label": 1, "type": 2, "address": 3, "Latitude": 4, "latency": 5, "delay": 6, "capacity": 7, "raw": 8}
    return "".join(f'<data key="d{keys[name]}">{value}</data>' for name, value in data.items())


@pytest.fixture
def graphml(tmp_path):
    def read(*parts, direction="undirected", **options):
        path = tmp_path / "net.graphml"
        path.write_text(GRAPHML.format(direction=direction, graph="".join(parts)), encoding="utf-8")
        return load(path, **options)

    return read


@pytest.fixture
def written(tmp_path):
    def write(data, name="net.json"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        return path

    return write


# -- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["line:1", "ring:5", "testbed", "fat-tree:4", "random:12x30@4", "single:40"])
def test_a_saved_network_loads_as_it_was(name, tmp_path):
    topology = build(name).with_limit(77)
    save(topology, tmp_path / "net.json")
    assert load(tmp_path / "net.json") == topology


def test_what_differs_from_the_defaults_survives_too(tmp_path):
    topology = Topology(
        ("Zürich", "two words"),
        (Host("h", "Zürich", 700, "10.0.0.7", latency=0.1 + 0.2, capacity=3.0, mac="52:54:00:12:34:56"),),
        (Link("two words", 9, "Zürich", 1, latency=0.0, capacity=1e11),),
        {"Zürich": 1},
        {"Zürich": 0x5254},
    )
    save(topology, tmp_path / "net.json")
    assert load(tmp_path / "net.json") == topology
    assert load(tmp_path / "net.json").datapath == {"Zürich": 0x5254, "two words": 2}


def test_ports_and_addresses_left_out_are_the_first_free_ones():
    topology = from_json(
        {
            "switches": ["R1", "R2"],
            "hosts": [
                {"name": "a", "switch": "R1"},
                {"name": "b", "switch": "R1", "port": 1, "address": "fd00:0::1"},
                {"name": "c", "switch": "R2", "port": 5},
                {"name": "d", "switch": "R1"},
            ],
            "links": [{"a": "R1", "b": "R2"}, {"a": "R2", "b": "R1", "b_port": 3}],
        }
    )
    assert [(h.name, h.switch, h.port, h.address) for h in topology.hosts] == [
        ("a", "R1", 2, "fd00::2"),
        ("b", "R1", 1, "fd00:0::1"),
        ("c", "R2", 5, "fd00::3"),
        ("d", "R1", 4, "fd00::4"),
    ]
    assert topology.links == (Link("R1", 5, "R2", 1), Link("R2", 2, "R1", 3))


def test_switches_without_hosts_get_as_many_as_asked_for():
    data = {
        "switches": ["R1", "R2", "R3"],
        "hosts": [{"name": "h2", "switch": "R2", "address": "fd00::1"}],
        "links": [{"a": "R1", "a_port": 1, "b": "R2"}, {"a": "R2", "b": "R3"}],
    }
    hosts = from_json(data, hosts_per_switch=2).hosts
    assert [(h.name, h.switch, h.port, h.address) for h in hosts] == [
        ("h2", "R2", 1, "fd00::1"),
        ("h1", "R1", 2, "fd00::2"),
        ("h3", "R1", 3, "fd00::3"),
        ("h4", "R3", 1, "fd00::4"),
        ("h5", "R3", 2, "fd00::5"),
    ]


def test_addresses_go_on_beyond_one_group_of_digits():
    topology = from_json({"switches": ["R1", "R2"], "links": [{"a": "R1", "b": "R2"}]}, hosts_per_switch=32_800)
    assert topology.hosts[65_534].address == "fd00::ffff"
    assert topology.hosts[65_535].address == "fd00::1:0"


HOST = {"name": "h1", "switch": "R1"}
LINK = {"a": "R1", "b": "R2"}
TWO = {"switches": ["R1", "R2"], "hosts": [HOST], "links": [LINK]}


def test_hosts_get_the_first_free_ipv4_addresses_and_keep_those_that_they_have():
    network = build("star:3")
    first, second, *others = network.hosts
    given = replace(network, hosts=(first, replace(second, address="10.0.0.1"), *others), datapaths={"R1": 7})
    found = with_ipv4(given)
    assert [host.address for host in found.hosts] == ["10.0.0.2", "10.0.0.1", "10.0.0.3"]
    assert (found.links, found.datapaths) == (given.links, given.datapaths)
    assert with_ipv4(found) == found


def test_the_example_the_mistakes_are_made_in_is_good():
    assert len(from_json(TWO).links) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ([], "topology: is an object with switches, hosts, links, limits, datapaths, not []"),
        ({}, "switches: must be a whole number from 1 to 10,000, not 0"),
        (TWO | {"switchs": []}, "topology: unknown field 'switchs'; did you mean 'switches'?"),
        (TWO | {"switches": "R1"}, "switches: is a list, not 'R1'"),
        (TWO | {"switches": ["R1", 2]}, "switches[1]: must be a text, not 2"),
        (TWO | {"switches": ["R1", ""]}, "switches[1]: must be a text, not ''"),
        (
            TWO | {"hosts": [HOST, 5]},
            "hosts[1]: is an object with name, switch, port, address, latency, capacity, mac, not 5",
        ),
        (TWO | {"hosts": [{"name": "h1"}]}, "hosts[0].switch: must be a text, not None"),
        (TWO | {"hosts": [HOST | {"prot": 1}]}, "hosts[0]: unknown field 'prot'; did you mean 'port'?"),
        (TWO | {"hosts": [HOST | {"port": 0}]}, "hosts[0].port: must be a whole number from 1 to 65,279, not 0"),
        (TWO | {"hosts": [HOST | {"port": "1"}]}, "hosts[0].port: must be a whole number from 1 to 65,279, not '1'"),
        (TWO | {"hosts": [HOST | {"port": None}]}, "hosts[0].port: must be a whole number from 1 to 65,279, not None"),
        (TWO | {"hosts": [HOST | {"address": 5}]}, "hosts[0].address: must be a text, not 5"),
        (TWO | {"hosts": [HOST | {"address": "here"}]}, "h1: 'here' is not an address"),
        (TWO | {"hosts": [HOST | {"switch": "R3"}]}, "h1: unknown switch 'R3'; known: R1, R2"),
        (
            TWO | {"links": [LINK | {"a_port": 1.0}]},
            "links[0].a_port: must be a whole number from 1 to 65,279, not 1.0",
        ),
        (TWO | {"links": [LINK | {"latency": "1 ms"}]}, "links[0]: latency '1 ms' is not a number"),
        (TWO | {"links": [LINK | {"latency": "1"}]}, "links[0]: latency '1' is not a number"),
        (TWO | {"links": [LINK | {"latency": True}]}, "links[0]: latency True is not a number"),
        (TWO | {"links": [LINK | {"latency": -1}]}, "link R1-R2: latency -1.0 is not a time"),
        (TWO | {"links": [LINK | {"capacity": None}]}, "links[0]: capacity None is not a number"),
        (
            TWO | {"links": [LINK | {"delay": 1}]},
            "links[0]: unknown field 'delay'; known: a, a_port, b, b_port, latency, capacity",
        ),
        (TWO | {"limits": [5]}, "limits: is an object of switch to rules, not [5]"),
        (TWO | {"limits": {"R1": 0.5}}, "R1: a table has room for at least one rule, not 0.5"),
    ],
)
def test_a_mistake_is_named_with_its_place(data, reason, written):
    with pytest.raises(PleromaError) as caught:
        load(written(data))
    assert str(caught.value) == reason


def test_a_number_too_large_for_a_latency_is_refused():
    with pytest.raises(TopologyError, match="is not a number"):
        from_json(TWO | {"links": [LINK | {"latency": 10**400}]})


def test_too_many_switches_or_hosts_are_refused_before_they_are_wired():
    with pytest.raises(TopologyError, match="switches: must be a whole number from 1 to 10,000, not 10001"):
        from_json({"switches": [f"R{i}" for i in range(10_001)]})
    with pytest.raises(TopologyError, match="hosts: must be a whole number from 0 to 100,000, not 100001"):
        from_json(TWO, hosts_per_switch=100_000)
    with pytest.raises(TopologyError, match="hosts per switch: must be a whole number"):
        from_json(TWO, hosts_per_switch=-1)


@pytest.mark.parametrize(
    ("switches", "hosts", "links", "reason"),
    [
        (["R1", "R2", "R3"], [], ["R1-R2"], "R3: cannot be reached from R1"),
        (["R1", "R2", "R3"], [], ["R2-R3"], "R1: cannot be reached from R2"),
        (["R1", "R2", "R3", "R4"], ["R1", "R4", "R3"], ["R1-R2"], "h2: cannot be reached from R1"),
        (["R1", "R2", "R3"], ["R3", "R1"], ["R2-R3"], "h2: cannot be reached from R2"),
    ],
)
def test_the_first_host_or_else_switch_that_cannot_be_reached_is_named(switches, hosts, links, reason):
    data = {
        "switches": switches,
        "hosts": [{"name": f"h{i}", "switch": at} for i, at in enumerate(hosts, 1)],
        "links": [dict(zip("ab", each.split("-"), strict=True)) for each in links],
    }
    with pytest.raises(TopologyError) as caught:
        from_json(data)
    assert str(caught.value) == reason


def test_unreadable_files_are_named(written, tmp_path):
    for path, reason in [
        (tmp_path / "none.json", "cannot read the topology: No such file or directory"),
        (written(b"{", "half.json"), "is not valid JSON: Expecting property name"),
        (written(b"\xff\xfe\xff", "bytes.json"), "is not valid JSON"),
        (written(b"[" * 100_000, "deep.json"), "is not valid JSON"),
        (written(b"9" * 10_000, "long.json"), "is not valid JSON"),
        (written(b"{}", "net.yaml"), "a topology file ends in .json or .graphml"),
        (written(b"", "empty.graphml"), "is not valid GraphML"),
        (written(b"<html></html>", "html.graphml"), "is not valid GraphML"),
        (written(b"<graphml", "broken.graphml"), "is not valid GraphML"),
    ]:
        with pytest.raises(TopologyError) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: {reason}")
        assert "\n" not in str(caught.value)
    with pytest.raises(TopologyError, match="cannot read the topology"):
        load("a\0b.json")


def test_a_network_is_saved_as_json_where_there_is_a_folder(tmp_path):
    with pytest.raises(TopologyError, match=r"is saved as \.json"):
        save(line(2), tmp_path / "net.graphml")
    with pytest.raises(TopologyError, match="cannot write the topology: No such file or directory"):
        save(line(2), tmp_path / "nowhere" / "net.json")


def test_a_parted_network_can_be_written_down_but_not_loaded(tmp_path):
    topology = line(2)
    save(topology.without(links=topology.links), tmp_path / "net.json")
    with pytest.raises(TopologyError, match="h2: cannot be reached from R1"):
        load(tmp_path / "net.json")


def test_json_holds_every_field():
    assert to_json(replace(line(2, 0), limits={"R2": 9})) == {
        "switches": ["R1", "R2"],
        "hosts": [],
        "links": [{"a": "R1", "a_port": 1, "b": "R2", "b_port": 1, "latency": 0.0001, "capacity": 1e9}],
        "limits": {"R2": 9},
    }


# -- GraphML ---------------------------------------------------------------------------------------------------------


def test_a_topology_zoo_file_gives_switches_by_label_and_links_by_speed(graphml):
    topology = graphml(
        node(0, label="New York", Latitude=40.7),
        node(1, label="Chicago"),
        node(2),
        edge(0, 1, raw="10000000000.0"),
        edge(1, 2, raw="2500000000.0", capacity="7.0", latency="0.004"),
        edge(0, 2, delay="0.02"),
        hosts_per_switch=1,
    )
    assert topology.switches == ("New York", "Chicago", "2")
    assert [(h.name, h.switch, h.port) for h in topology.hosts] == [
        ("h1", "New York", 1),
        ("h2", "Chicago", 1),
        ("h3", "2", 1),
    ]
    assert set(topology.links) == {
        Link("New York", 2, "Chicago", 2, capacity=1e10),
        Link("New York", 3, "2", 2, latency=0.02),
        Link("Chicago", 3, "2", 3, latency=0.004, capacity=7.0),
    }


def test_nodes_of_type_host_are_hosts(graphml):
    topology = graphml(
        node("s", type="Backbone"),
        node("x", type="host", address="10.0.0.1"),
        node("y", type="host"),
        edge("x", "s", latency="0.5"),
        edge("s", "y", capacity="5.0"),
        hosts_per_switch=3,
    )
    assert topology.switches == ("s",)
    assert topology.hosts == (
        Host("x", "s", 1, "10.0.0.1", latency=0.5),
        Host("y", "s", 2, "fd00::1", capacity=5.0),
    )


def test_nodes_with_the_same_label_are_told_apart(graphml):
    nodes = [node(0, label="Rome"), node(1, label="Rome"), node(2, label="Oslo"), node("Oslo")]
    topology = graphml(*nodes, edge(0, 1), edge(1, 2), edge(2, "Oslo"))
    assert topology.switches == ("Rome-0", "Rome-1", "Oslo-2", "Oslo-Oslo")


def test_labels_that_cannot_be_told_apart_give_way_to_ids(graphml):
    nodes = [node(0, label="a"), node(1, label="a"), node(2, label="a-1")]
    assert graphml(*nodes, edge(0, 1), edge(1, 2)).switches == ("0", "1", "2")


def test_parallel_edges_are_parallel_links(graphml):
    topology = graphml(node(0), node(1), edge(0, 1), edge(0, 1))
    assert topology.links == (Link("0", 1, "1", 1), Link("0", 2, "1", 2))


def test_the_two_directions_of_a_cable_are_one_link(graphml):
    topology = graphml(node(0), node(1), node(2), edge(1, 0), edge(0, 1), edge(1, 2), direction="directed")
    assert sorted((x.a, x.b) for x in topology.links) == [("0", "1"), ("1", "2")]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([node(0), node(1)], "1: cannot be reached from 0"),
        ([node(0), node(1), edge(0, 1), edge(1, 1)], "link 1-1: a link joins two different switches"),
        ([node(0), node(1), edge(0, 1, delay="soon")], "link 0-1: delay 'soon' is not a number"),
        ([node(0), node(1), edge(0, 1, raw="0")], "link 0-1: capacity 0.0 is not positive"),
        ([node(0), node(1, type="host")], "1: a host has one link, not 0"),
        ([node(0), node(1, type="host"), edge(0, 1), edge(1, 0)], "1: a host has one link, not 2"),
        (
            [node(0), node("x", type="host"), node("y", type="host"), edge("x", "y")],
            "x: a host is linked to a switch, not to the host y",
        ),
        ([], "switches: must be a whole number from 1 to 10,000, not 0"),
        ([node(0), node(1, type="host", address="?"), edge(0, 1)], "1: '?' is not an address"),
    ],
)
def test_a_graph_that_is_no_network_is_refused(parts, reason, graphml):
    with pytest.raises(TopologyError) as caught:
        graphml(*parts)
    assert str(caught.value) == reason


def test_an_unknown_switch_in_a_file_gets_a_suggestion():
    with pytest.raises(UnknownName) as caught:
        from_json(TWO | {"links": [{"a": "R1", "b": "r2"}]})
    assert caught.value.suggestion == "R2"
