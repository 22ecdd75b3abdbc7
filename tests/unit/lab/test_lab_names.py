import re

from hypothesis import given
from hypothesis import strategies as st

from pleroma.lab.lab_names import LabNames, prefix
from pleroma.routing import Host, Topology, build

NAMES = st.one_of(
    st.sampled_from(["lo", "all", "default", "net", "s1", "s2", "s1_", "host1", "h1", "R1-p1", ".", "..", "-x", "a/b"]),
    st.text(min_size=1, max_size=60),
)


@given(st.lists(NAMES, min_size=2, max_size=12, unique=True))
def test_any_names_become_short_plain_ones_of_their_own(names):
    switches, hosts = names[: len(names) // 2], names[len(names) // 2 :]
    # all hosts at one switch, the last on the highest port number there is
    ports = [*range(1, len(hosts)), 65279]
    topology = Topology(
        tuple(switches),
        tuple(Host(h, switches[0], port, f"fd00::{port:x}") for h, port in zip(hosts, ports, strict=True)),
        (),
    )
    made = LabNames.of("lab", topology)
    interfaces = [*made.bridges.values(), *(made.port(switches[0], port) for port in ports)]
    assert len(set(interfaces)) == len(interfaces)
    for name in interfaces:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,14}", name)
        assert name not in {"lo", "all", "default", "ovs-netdev"}
    namespaces = [made.net, *made.hosts.values()]
    assert len(set(namespaces)) == len(namespaces)
    for name in namespaces:
        assert name.startswith(prefix("lab"))
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", name)


def test_plain_names_are_kept():
    made = LabNames.of("x", build("testbed"))
    assert made.bridges["R10"] == "R10"
    assert made.port("R10", 4) == "R10-p4"
    assert made.hosts["h8"] == "pl-x-h8"
    assert made.net == "pl-x-net"
