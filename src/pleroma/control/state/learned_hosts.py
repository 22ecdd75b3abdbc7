"""Hosts that are learned while the controller runs, and their places: a port of a switch, and an address.

Each place belongs to one host and each host has one place, for as long as it is known. So a host that takes over the
cable or the address of another does not receive what the other subscribed to.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import replace

from pleroma.control.state.command import LearnHost
from pleroma.control.state.rights import check_name
from pleroma.errors import AlreadyThere, ControlError, NotAllowed, NotThere, TopologyError
from pleroma.routing import Host, HostId, Port, SwitchId, Topology
from pleroma.wire.api_terms import ANY_HOST


def host_of(command: LearnHost) -> Host:
    """The host that a command describes, with its address in canonical form."""
    check_name(command.name)
    if command.name == ANY_HOST:
        raise ControlError("no host can be called so: it stands for any of them", field="name", value=command.name)
    check_name(command.switch)
    if not isinstance(command.address, str) or not isinstance(command.mac, str):
        raise ControlError("addresses are texts", field="address", value=command.address)
    try:
        address = str(ipaddress.ip_address(command.address))
    except ValueError:
        raise ControlError("is not an address", field="address", value=command.address) from None
    mac = command.mac.lower()
    return Host(HostId(command.name), SwitchId(command.switch), Port(command.port), address, mac=mac)


def with_host(topology: Topology, host: Host) -> Topology:
    """The topology with the host; the same topology if it has the host already.

    The host is refused if its name, port or address belongs to another.
    """
    known = topology.host.get(host.name)
    if known is not None:
        if _place(known) != _place(host) or not _same(known.address, host.address):
            reason = f"there is a host of this name at {known.switch} {known.port}, with the address {known.address}"
            raise AlreadyThere(reason, field="name", value=host.name)
        if host.ethernet != known.ethernet:  # which the rules of switches have in them
            reason = f"the host's card is known as {known.ethernet}: forget the host first"
            raise AlreadyThere(reason, field="mac", value=host.ethernet)
        return topology
    for other in topology.hosts:
        if _place(other) == _place(host):
            reason = f"port {host.port} of {host.switch} belongs to {other.name}"
            raise AlreadyThere(reason, field="port", value=host.port)
        if _same(other.address, host.address):
            raise AlreadyThere(f"the address belongs to {other.name}", field="address", value=host.address)
    switches = topology.switches
    if host.switch not in switches:  # it was discovered, and hosts are what makes it worth remembering
        switches = (*switches, host.switch)
    try:
        return replace(topology, switches=switches, hosts=(*topology.hosts, host))
    except TopologyError as error:
        raise ControlError(error.reason, field=error.field, value=error.value) from None


def without_host(topology: Topology, learned: Mapping[HostId, Host], name: str) -> Topology:
    """The topology without a host that was learned."""
    if name not in topology.host:
        raise NotThere("there is no host of this name", field="host", value=name)
    if name not in learned:
        reason = "the host is part of the network as it was described"
        raise NotAllowed(reason, field="host", value=name, allowed="hosts that were learned")
    return replace(topology, hosts=tuple(host for host in topology.hosts if host.name != name))


def _place(host: Host) -> tuple[SwitchId, Port]:
    return host.switch, host.port


def _same(one: str, other: str) -> bool:
    return ipaddress.ip_address(one) == ipaddress.ip_address(other)
