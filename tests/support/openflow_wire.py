"""Random rules, and their bytes as os-ken writes them: the oracle for our own encoder and decoder."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from pleroma.routing import Change
from pleroma.switches.openflow.rule import (
    CONTROLLER_PORT,
    ETH_TYPE_IPV4,
    ETH_TYPE_IPV6,
    ETH_TYPE_LLDP,
    IP_PROTO_UDP,
    MAX_PORT,
    Match,
    Rule,
    Send,
)

PROTOCOLS = {4: ProtocolDesc(4), 5: ProtocolDesc(5)}
versions = st.sampled_from([4, 5])
xids = st.integers(1, 0xFFFFFFFF)
ports = st.one_of(st.integers(1, 9), st.integers(1, MAX_PORT), st.just(CONTROLLER_PORT))
networks_v4 = st.builds(
    lambda ip, length: IPv4Network((ip, length), strict=False), st.integers(0, 2**32 - 1), st.integers(0, 32)
)
networks_v6 = st.builds(
    lambda ip, length: IPv6Network((ip, length), strict=False), st.integers(0, 2**128 - 1), st.integers(0, 128)
)
addresses = st.one_of(
    st.builds(IPv4Address, st.integers(0, 2**32 - 1)), st.builds(IPv6Address, st.integers(0, 2**128 - 1))
)
macs = st.binary(min_size=6, max_size=6).map(lambda mac: mac.hex(":"))


@st.composite
def matches(draw: DrawFn) -> Match:
    destination = draw(st.one_of(st.none(), networks_v4, networks_v6))
    eth_type = (
        draw(st.sampled_from([None, ETH_TYPE_IPV4, ETH_TYPE_IPV6, ETH_TYPE_LLDP])) if destination is None else None
    )
    protocol = (
        draw(st.sampled_from([None, IP_PROTO_UDP, 6]))
        if destination is not None or eth_type in (ETH_TYPE_IPV4, ETH_TYPE_IPV6)
        else None
    )
    return Match(draw(st.one_of(st.none(), ports)), eth_type, protocol, destination)


@st.composite
def rules(draw: DrawFn) -> Rule:
    fields = draw(st.sampled_from(["none", "destination", "ethernet"]))
    sends = []
    for port in draw(st.lists(ports, max_size=6)):
        how = draw(st.sampled_from(["none", fields, "both"]))
        destination = draw(addresses) if how in ("destination", "both") else None
        sends.append(Send(port, destination, draw(macs) if how in ("ethernet", "both") else None))
    rewrites = any(send.rewrites for send in sends)
    return Rule(
        table=draw(st.integers(0, 254)),
        priority=draw(st.integers(0, 0xFFFF)),
        match=draw(matches()),
        sends=tuple(sends),
        goto=None if rewrites else draw(st.one_of(st.none(), st.integers(0, 254))),
        cookie=draw(st.integers(0, 2**64 - 1)),
    )


def os_ken_match(version: int, match: Match) -> Any:
    fields: dict[str, Any] = {}
    if match.in_port is not None:
        fields["in_port"] = match.in_port
    if match.eth_type is not None:
        fields["eth_type"] = match.eth_type
    if match.ip_proto is not None:
        fields["ip_proto"] = match.ip_proto
    if match.destination is not None:
        name = f"ipv{match.destination.version}_dst"
        whole = match.destination.prefixlen == match.destination.max_prefixlen
        address, mask = str(match.destination.network_address), str(match.destination.netmask)
        fields[name] = address if whole else (address, mask)
    return PROTOCOLS[version].ofproto_parser.OFPMatch(**fields)


def os_ken_instructions(version: int, rule: Rule) -> list[Any]:
    of, parser = PROTOCOLS[version].ofproto, PROTOCOLS[version].ofproto_parser
    done: list[Any] = []
    in_force: dict[str, str] = {}
    for send in rule.sends:
        wanted = {}
        if send.destination is not None:
            wanted[f"ipv{send.destination.version}_dst"] = str(send.destination)
        if send.ethernet is not None:
            wanted["eth_dst"] = send.ethernet
        for name, value in wanted.items():
            if name.startswith("ip"):
                changed = in_force.get("ip") != value
                in_force["ip"] = value
            else:
                changed = in_force.get(name) != value
                in_force[name] = value
            if changed:
                done.append(parser.OFPActionSetField(**{name: value}))
        done.append(parser.OFPActionOutput(send.port, 0xFFFF if send.port == CONTROLLER_PORT else 0))
    instructions: list[Any] = []
    if done:
        instructions.append(parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, done))
    if rule.goto is not None:
        instructions.append(parser.OFPInstructionGotoTable(rule.goto))
    return instructions


def os_ken_flow_mod(version: int, change: Change, rule: Rule) -> Any:
    protocol = PROTOCOLS[version]
    of = protocol.ofproto
    command = {
        Change.ADD: of.OFPFC_ADD,
        Change.MODIFY: of.OFPFC_MODIFY_STRICT,
        Change.DELETE: of.OFPFC_DELETE_STRICT,
    }[change]
    return protocol.ofproto_parser.OFPFlowMod(
        protocol,
        cookie=rule.cookie,
        table_id=rule.table,
        command=command,
        priority=rule.priority,
        buffer_id=of.OFP_NO_BUFFER,
        out_port=of.OFPP_ANY,
        out_group=of.OFPG_ANY,
        match=os_ken_match(version, rule.match),
        instructions=[] if change is Change.DELETE else os_ken_instructions(version, rule),
    )


def serialised(message: Any, xid: int) -> bytes:
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def stats_entry(version: int, rule: Rule, packets: int = 0, octets: int = 0, *, idle: int = 0, flags: int = 0) -> bytes:
    """An entry of flow statistics; os-ken reads these and writes none, so the fixed part is put together here."""
    rest = bytearray()
    os_ken_match(version, rule.match).serialize(rest, 0)
    for instruction in os_ken_instructions(version, rule):
        instruction.serialize(rest, len(rest))
    head = struct.pack(
        "!HBxIIHHHHHxxQQQ",
        48 + len(rest),
        rule.table,
        5,
        6,
        rule.priority,
        idle,
        0,
        flags,
        0,
        rule.cookie,
        packets,
        octets,
    )
    return head + bytes(rest)
