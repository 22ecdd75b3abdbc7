"""The tables of real switches, read from Open vSwitch without asking the controller."""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_network

from pleroma.index import Dz
from pleroma.index.address import AddressRange
from pleroma.lab import Lab
from pleroma.routing import Flow, FlowTable, Output, Port, SwitchId
from support.waiting import LIMIT_SECONDS

OUR_COOKIE = 0x504C524D


@dataclass(frozen=True)
class DumpedFlow:
    """A rule as `ovs-ofctl dump-flows` writes it."""

    table: int
    priority: int
    cookie: int
    packets: int
    in_port: int | None
    destination: str | None
    actions: str

    @classmethod
    def parse(cls, text: str) -> "DumpedFlow":
        def number(name: str) -> int | None:
            found = re.search(rf"\b{name}=(0x[0-9a-f]+|\d+)", text)
            return int(found[1], 0) if found else None

        said = re.search(r"(?:ipv6_dst|nw_dst)=([^ ,]+)", text)
        priority = number("priority")
        return cls(
            number("table") or 0,
            32768 if priority is None else priority,
            number("cookie") or 0,
            number("n_packets") or 0,
            number("in_port"),
            said[1] if said else None,
            text.split("actions=")[1],
        )

    def dz(self, addresses: AddressRange) -> Dz:
        assert self.destination is not None, self
        return addresses.dz(ip_network(self.destination))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """A field that was set stays so for the outputs after it."""
        address: str | None = None
        made: list[Output] = []
        for action in self.actions.split(","):
            if found := re.fullmatch(r"set_field:(.+)->(?:ipv6_dst|ip_dst)|mod_nw_dst:(.+)", action):
                address = found[1] or found[2]
            elif found := re.fullmatch(r"output:(\d+)", action):
                made.append(Output(Port(int(found[1])), address))
            else:
                assert "->eth_dst" in action or "mod_dl_dst" in action, action
        return tuple(sorted(made, key=lambda output: output.port))


class RealTables:
    def __init__(self, lab: Lab, addresses: AddressRange) -> None:
        self.lab = lab
        self.addresses = addresses

    def lines(self, switch: SwitchId, table: int | None = None) -> list[DumpedFlow]:
        found = [DumpedFlow.parse(text) for text in self.lab.flows(switch)]
        return [line for line in found if table in (None, line.table) and line.cookie >> 32 == OUR_COOKIE]

    @property
    def tables(self) -> dict[SwitchId, FlowTable]:
        return {s: self.table(s) for s in self.lab.topology.switches}

    def table(self, switch: SwitchId) -> FlowTable:
        flows = []
        for line in self.lines(switch, 1):
            flow = Flow(line.dz(self.addresses), line.outputs)
            assert line.priority == 100 + flow.priority, line
            flows.append(flow)
        assert len({flow.dz for flow in flows}) == len(flows)
        return FlowTable(flows)

    def count(self) -> None:
        """Have Open vSwitch add what its fast path forwarded to the counters of the rules."""
        subprocess.run(
            ["ovs-appctl", "-t", self.lab.folder / "switches.ctl", "revalidator/wait"],
            check=True,
            timeout=LIMIT_SECONDS,
        )

    @property
    def hits(self) -> dict[tuple[SwitchId, Dz], int]:
        """How many packets each rule has forwarded."""
        self.count()
        return {
            (s, line.dz(self.addresses)): line.packets for s in self.lab.topology.switches for line in self.lines(s, 1)
        }

    def admitted(self, switches: Iterable[SwitchId] | None = None) -> dict[tuple[SwitchId, Port], set[Dz]]:
        """The cells that are let in at the ports of hosts."""
        found: dict[tuple[SwitchId, Port], set[Dz]] = {}
        for switch in switches or self.lab.topology.switches:
            ports = {host.port for host in self.lab.topology.hosts_of[switch]}
            for line in self.lines(switch, 0):
                if line.in_port is not None and line.in_port in ports:
                    assert line.actions == "goto_table:1"
                    found.setdefault((switch, Port(line.in_port)), set()).add(line.dz(self.addresses))
        return found

    def dropped(self, switch: SwitchId) -> int:
        """The packets that hosts were not allowed to send."""
        self.count()
        return sum(line.packets for line in self.lines(switch, 0) if line.actions == "drop")
