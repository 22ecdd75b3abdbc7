"""The tables of an OpenFlow switch: how the operations of a network become rules in them.

| table | priority | matches | does |
|---|---|---|---|
| 0 admission | 65000 | LLDP | to the controller (where the network is discovered) |
| 0 | 60000 | UDP to the control address | to the controller |
| 0 | 50000 | an event that came over a link | on to table 1 |
| 0 | 100 + length | an event at a host's port, in a cell its host has advertised | on to table 1 |
| 0 | 10 | any other packet to an event address | dropped, and counted |
| 1 forwarding | 1000 + length | a detour, while the index changes | out at its ports |
| 1 | 100 + length | an event in a cell | out at its ports, rewritten to the host where one is there |

All of these rules carry the cookie of this controller. Rules with another cookie belong to somebody else, and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network

from pleroma.index.address import AddressRange, Network
from pleroma.index.dz import Dz
from pleroma.routing import (
    AdmitOp,
    Change,
    DetourOp,
    Flow,
    FlowOp,
    Host,
    Output,
    Port,
    SwitchId,
    SwitchOp,
    Topology,
)
from pleroma.switches.openflow.rule import (
    CONTROLLER_PORT,
    ETH_TYPE_LLDP,
    IP_PROTO_UDP,
    Key,
    Match,
    Rule,
    Send,
)
from pleroma.switches.tracing.meeting import RuleKind
from pleroma.wire.ports import CONTROL_ADDRESSES

ADMISSION, FORWARDING = 0, 1
COOKIE = 0x504C524D_00000000
COOKIE_MASK = 0xFFFFFFFF_00000000
_DISCOVERY, _CONTROL, _LINK, _STRANGER = 65000, 60000, 50000, 10
CELL_PRIORITY, _DETOUR = 100, 1000
PLACED_KINDS: tuple[RuleKind, ...] = ("link", "cell", "rule", "detour")
"""The kinds of rules that are for events, of which each has its place in the tables."""
_BASE: Mapping[RuleKind, int] = {"rule": CELL_PRIORITY, "detour": _DETOUR}
"""By the kind of a rule that forwards: what is added to the length of its dz to make its priority."""


class RuleLayout:
    """Makes rules of operations, for one range of event addresses."""

    def __init__(self, addresses: AddressRange, *, discovers: bool = False) -> None:
        self.addresses = addresses
        self.hosts: Callable[[], tuple[Host, ...]] = tuple
        """The hosts that rules may send to: packets that are rewritten to a host need its Ethernet address."""
        self._discovers = discovers
        self._seen: tuple[Host, ...] = ()
        self._ethernet: dict[str, str] = {}

    def base_rules(self, topology: Topology, switch: SwitchId) -> dict[Key, Rule]:
        """The rules that a switch always has: for events from links, for the controller, and to drop all others."""
        links = [port for port, _, _, _ in topology.neighbours[switch]]
        return {rule.key: rule for rule in self._base_rules(links)}

    def _base_rules(self, links: Iterable[Port]) -> Iterator[Rule]:
        control = CONTROL_ADDRESSES[self.addresses.base.version]
        to_controller = (Send(CONTROLLER_PORT),)
        if self._discovers:
            yield _rule(ADMISSION, _DISCOVERY, Match(eth_type=ETH_TYPE_LLDP), to_controller)
        yield _rule(ADMISSION, _CONTROL, Match(None, None, IP_PROTO_UDP, ip_network(control)), to_controller)
        for port in links:
            yield self.linking(port)
        yield _rule(ADMISSION, _STRANGER, Match(destination=self.addresses.base))

    def linking(self, port: Port) -> Rule:
        match = Match(port, None, IP_PROTO_UDP, self.addresses.base)
        return _rule(ADMISSION, _LINK, match, goto=FORWARDING)

    def change(self, op: SwitchOp) -> tuple[Key, Rule | None]:
        """The key of the rule that an operation is about, and the rule that is wanted there (None: none)."""
        match op:
            case AdmitOp():
                rule = self.admitting(op.port, op.dz)
            case FlowOp():
                rule = self.forwarding(_left_of(op))
            case DetourOp():
                rule = self.forwarding(_left_of(op), _DETOUR)
        return rule.key, None if op.change is Change.DELETE else rule

    def admitting(self, port: Port, dz: Dz) -> Rule:
        match = Match(port, None, IP_PROTO_UDP, self.addresses.prefix(dz))
        return _rule(ADMISSION, CELL_PRIORITY + dz.length, match, goto=FORWARDING)

    def forwarding(self, flow: Flow, base: int = CELL_PRIORITY) -> Rule:
        match = Match(None, None, IP_PROTO_UDP, self.addresses.prefix(flow.dz))
        return _rule(FORWARDING, base + flow.priority, match, map(self._send, flow.outputs))

    def _send(self, output: Output) -> Send:
        if output.rewrite is None:
            return Send(output.port)
        return Send(output.port, ip_address(output.rewrite), self._ethernets[output.rewrite])

    @property
    def _ethernets(self) -> Mapping[str, str]:
        """The Ethernet address of every host, by its network address."""
        hosts = self.hosts()
        if hosts is not self._seen:
            self._seen, self._ethernet = hosts, {host.address: host.ethernet for host in hosts}
        return self._ethernet

    def key(self, kind: RuleKind, port: Port, dz: Dz | None) -> Key:
        """Where a rule of this kind stands on a switch; `port` is of account for those that admit."""
        if kind == "link" or dz is None:
            return self.linking(port).key
        if kind == "cell":
            return self.admitting(port, dz).key
        return self.forwarding(Flow(dz, ()), _BASE[kind]).key

    def place(self, rule: Rule) -> tuple[RuleKind, Dz | None] | None:
        """The kind and the dz of the rule that is to stand at this key; None if none of these kinds stands there."""
        match = rule.match
        if match.destination is None or not _within(match.destination, self.addresses.base):
            return None
        port, dz = Port(match.in_port or 0), self.addresses.dz(match.destination)
        for kind in PLACED_KINDS:
            if self.key(kind, port, dz) == rule.key:
                return kind, None if kind == "link" else dz
        return None

    def writes(self, kind: RuleKind, flow: Flow, rule: Rule) -> bool:
        """Whether a rule is the one that is written for a flow, to the last field."""
        known = all(output.rewrite is None or output.rewrite in self._ethernets for output in flow.outputs)
        return known and self.forwarding(flow, _BASE[kind]) == rule

    def flow(self, rule: Rule) -> Flow | None:
        """The flow that a rule of the forwarding table carries out; None for a detour or another kind of rule."""
        if rule.table != FORWARDING or rule.match.destination is None or rule.match.in_port is not None:
            return None
        dz = self.addresses.dz(rule.match.destination)
        if rule.priority != CELL_PRIORITY + dz.length:
            return None
        outputs = (Output(Port(s.port), str(s.destination) if s.destination else None) for s in rule.sends)
        return Flow(dz, tuple(sorted(outputs, key=lambda output: output.port)))


def _left_of(op: FlowOp | DetourOp) -> Flow:
    """The flow after an operation. The hosts that a deleted one sent to may be forgotten already."""
    return Flow(op.flow.dz, ()) if op.change is Change.DELETE else op.flow


def _within(network: Network, base: Network) -> bool:
    return network.prefixlen >= base.prefixlen and network.network_address in base


def _rule(table: int, priority: int, match: Match, sends: Iterable[Send] = (), goto: int | None = None) -> Rule:
    return Rule(table, priority, match, tuple(sends), goto, COOKIE)


def is_detour(key: Key) -> bool:
    """Whether the rule at this key is a detour, which stands above all rules for cells."""
    table, priority, _ = key
    return table == FORWARDING and priority >= _DETOUR
