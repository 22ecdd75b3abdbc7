"""A topology as commands: the cables for `ip`, the bridges for `ovs-vsctl`.

Nothing here touches the machine. All cables end in the namespace of the switches; the other end of a host's cable is
the host's eth0.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from pleroma.lab.lab_names import LabNames
from pleroma.routing import Host, SwitchId, Topology

HOST_INTERFACE = "eth0"
MULTICAST = ("225.128.0.0/9", "ff0e::/16")

SWITCH_SETTINGS = (("ipv6/conf/all/disable_ipv6", 1), ("ipv6/conf/default/disable_ipv6", 1))
"""A switch sends no packets of its own."""

HOST_SETTINGS = (
    *((f"ipv6/conf/{scope}/{name}", 0) for scope in ("all", "default") for name in ("accept_ra", "autoconf")),
    *((f"ipv6/conf/{scope}/disable_ipv6", 0) for scope in ("all", "default")),
    ("ipv6/conf/default/addr_gen_mode", 1),  # no address but the one it is given
    ("ipv6/conf/default/dad_transmits", 0),
    *((f"ipv4/conf/{scope}/rp_filter", 0) for scope in ("all", "default")),  # events come from anywhere
)


def cables(topology: Topology, names: LabNames) -> Iterator[str]:
    """For `ip -batch`, in the namespace of the switches."""
    for link in topology.links:
        (a, a_port), (b, b_port) = link.ends
        yield f"link add name {names.port(a, a_port)} type veth peer name {names.port(b, b_port)}"
    for host in topology.hosts:
        near = names.port(host.switch, host.port)
        far = f"name {HOST_INTERFACE} address {host.ethernet} netns {names.hosts[host.name]}"
        yield f"link add name {near} type veth peer {far}"
    yield "link set group default up"


def host_settings(host: Host) -> Iterator[str]:
    """For `ip -batch`, in the namespace of the host."""
    yield "link set dev lo up"
    yield f"link set dev {HOST_INTERFACE} up"
    if ipaddress.ip_address(host.address).version == 6:
        yield f"address add {host.address}/64 dev {HOST_INTERFACE} nodad"
    else:
        yield f"address add {host.address}/8 broadcast + dev {HOST_INTERFACE}"
    for network in MULTICAST:
        yield f"route add {network} dev {HOST_INTERFACE}" + (" table local" if ":" in network else "")


def bridge(
    topology: Topology,
    names: LabNames,
    switch: SwitchId,
    *,
    controllers: Sequence[str],
    protocols: Sequence[str],
    limited_table: int,
) -> list[str]:
    """For `ovs-vsctl`: the bridge with all its ports, its controllers and its limit."""
    name = names.bridges[switch]
    words = ["--", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "fail_mode=secure"]
    words += [f"protocols={','.join(protocols)}", "other-config:disable-in-band=true"]
    words += [f"other-config:datapath-id={topology.datapath[switch]:016x}"]
    for number in topology.ports[switch]:
        port = names.port(switch, number)
        words += ["--", "add-port", name, port, "--", "set", "interface", port, f"ofport_request={number}"]
    if switch in topology.limits:
        size = topology.limits[switch]
        words += ["--", "--id=@limit", "create", "flow_table", f"flow_limit={size}", "overflow_policy=refuse"]
        words += ["--", "set", "bridge", name, f"flow_tables:{limited_table}=@limit"]
        words = [word.replace("@limit", f"@limit-{name}") for word in words]
    return words + controllers_of(name, controllers)


def controllers_of(name: str, controllers: Sequence[str]) -> list[str]:
    """For `ovs-vsctl`: the controllers of a bridge. A lost controller is tried again within a second."""
    words, made = [], []
    for number, target in enumerate(controllers):
        made.append(f"@to-{name}-{number}")
        words += ["--", f"--id={made[-1]}", "create", "controller", f'target="{target}"']
        words += ["connection_mode=out-of-band", "max_backoff=1000", "inactivity_probe=5000"]
    return [*words, "--", "set", "bridge", name, f"controller=[{','.join(made)}]"]
