"""A lab: a topology made of Open vSwitch bridges, veth cables and a network namespace for each host.

The switches of a lab are in one namespace, each host is in its own, and nothing is in the machine's namespace: labs do
not meet, and no interface stays behind. A proxy (see `controller_proxy`) connects the switches to a controller outside.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pleroma.errors import SetupError, UnknownName
from pleroma.lab import namespaces, needs, registry, veth_links
from pleroma.lab.daemons import Daemons, Tls
from pleroma.lab.lab_names import LabNames, check_lab, random_lab
from pleroma.lab.registry import LabRecord, OwnerProcess
from pleroma.routing import Host, Link, SwitchId, Topology
from pleroma.routing.topology_files import from_json, to_json

PROTOCOLS = ("OpenFlow14", "OpenFlow13")
_NETWORK_FILE = "network.json"
"""In the folder of a lab: what another process needs to break and mend it."""


class Lab:
    """Made by `Lab.up`, or found by `Lab.find`; exists until `close`.

    The next `Lab.up` removes the labs of processes that were killed.
    """

    def __init__(
        self, record: LabRecord, topology: Topology, names: LabNames, protocols: Sequence[str], limited_table: int
    ) -> None:
        self.name = record.name
        self.folder: Path = record.folder
        self.topology = topology
        self.names = names
        self._protocols = tuple(protocols)
        self._limited_table = limited_table
        self._daemons = Daemons(record.name, record.folder, names.net)
        self._controllers: list[str] = []
        self._bridges_up = list(topology.switches)

    @classmethod
    def up(
        cls,
        topology: Topology,
        *,
        name: str | None = None,
        controller: str | Sequence[str] | None = "tcp:127.0.0.1:6653",
        protocols: Sequence[str] = PROTOCOLS,
        tls: Tls | None = None,
        limited_table: int = 1,
        owned: bool = True,
    ) -> Self:
        """Make a lab; after an error nothing of it is left.

        A controller is "tcp:HOST:PORT" or "ssl:HOST:PORT" as seen by this machine; ssl needs `tls`. The topology's
        limits hold in `limited_table`. A lab that is not `owned` stays when this process ends.
        """
        needs.check()
        if tls is None and any(target.startswith("ssl:") for target in _targets(controller)):
            raise SetupError("ssl takes the switches' key and certificate, and the authority's", field="controller")
        registry.remove_stale()
        name = random_lab() if name is None else check_lab(name)
        names = LabNames.of(name, topology)
        record = LabRecord(name, OwnerProcess.this() if owned else None, names.hosts, names.bridges)
        lab = cls(record, topology, names, protocols, limited_table)
        registry.claim(record)
        try:
            lab._lay_cables()
            lab._start(controller, tls)
            lab._note()
        except BaseException:
            lab.close()
            raise
        return lab

    @classmethod
    def find(cls, record: LabRecord) -> Self:
        """A lab that is up, whoever made it."""
        needs.check()
        try:
            kept = json.loads((record.folder / _NETWORK_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            reason = f"the lab {record.name} is not complete, or of an earlier version: take it down"
            raise SetupError(reason, field="lab", value=record.name) from None
        topology = from_json(kept["topology"], whole=False)
        names = LabNames.of(record.name, topology)
        lab = cls(record, topology, names, kept["protocols"], kept["limited_table"])
        lab._controllers = kept["controllers"]
        there = lab.vsctl("list-br").split()
        lab._bridges_up = [switch for switch in topology.switches if names.bridges[switch] in there]
        return lab

    @staticmethod
    def down(name: str) -> bool:
        """Remove all parts of a lab, whoever made it, also of one that is incomplete; False if there are none."""
        needs.check()
        return registry.remove(name)

    def close(self) -> None:
        registry.remove(self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def namespace(self, host: str) -> str:
        return self.names.hosts[self.topology.find_host(host).name]

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """Move this thread to the host meanwhile: sockets that it makes are at the host, and stay there.

        So are the processes and the threads that it starts, for as long as they live.
        """
        with namespaces.inside(self.namespace(host)):
            yield

    def run(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """As `subprocess.run`, at the host."""
        with self.inside(host):
            return subprocess.run(argv, **options)

    def popen(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """As `subprocess.Popen`, at the host; `close` kills what still runs."""
        with self.inside(host):
            return subprocess.Popen(argv, **options)

    def cut(self, line: Link | Host) -> None:
        """Cut a cable; both ends see their link go down."""
        namespaces.ip([f"link set dev {self._switch_end(line)} down"], self.names.net)

    def mend(self, line: Link | Host) -> None:
        namespaces.ip([f"link set dev {self._switch_end(line)} up"], self.names.net)

    def cable(self, one: str, other: str | None = None) -> Link | Host:
        """The cable between two switches, or between a switch and a host, which also stands for its cable alone."""
        for host in self.topology.hosts:
            if (host.name == one and other in (None, host.switch)) or (host.name == other and host.switch == one):
                return host
        for link in self.topology.links:
            if {one, other} == {link.a, link.b}:
                return link
        if other is None and one in self.topology.switches:
            raise SetupError("a cable has two ends: name another switch, or a host of it", field=one)
        known = [*self.topology.host, *self.topology.switches]
        for name in (one, other):
            if name is not None and name not in known:
                raise UnknownName("host or switch", name, known)
        raise SetupError(f"there is no cable between {one} and {other}", field="lab", value=(one, other))

    def drop_bridge(self, switch: str) -> None:
        """Remove a switch with its rules; its cables lead nowhere then."""
        if SwitchId(switch) not in self._bridges_up:
            self.bridge(switch)
            raise SetupError(f"{switch} is stopped already", field="lab", value=switch)
        self._daemons.vsctl("--", "del-br", self.bridge(switch))
        self._bridges_up.remove(SwitchId(switch))

    def restore_bridge(self, switch: str) -> None:
        """Make the switch again, empty, with the same ports, datapath number and controllers."""
        if self.bridge(switch) and SwitchId(switch) in self._bridges_up:
            raise SetupError(f"{switch} is not stopped", field="lab", value=switch)
        self._daemons.vsctl(*self._bridge(SwitchId(switch)))
        self._bridges_up.append(SwitchId(switch))
        self._check_ports([SwitchId(switch)])

    def kill_switches(self) -> None:
        """Kill all switches, as a loss of power does."""
        self._daemons.kill_switches()

    def start_switches(self) -> None:
        """Start the switches after `kill_switches`: they are empty, with the same ports."""
        self._daemons.start_switches()
        self._check_ports(self._bridges_up)

    def bridge(self, switch: str) -> str:
        if switch not in self.names.bridges:
            raise UnknownName("switch", switch, self.names.bridges)
        return self.names.bridges[switch]

    def set_controller(self, controller: str | Sequence[str] | None) -> None:
        """Give all switches these controllers instead of the present ones."""
        self._controllers = self._daemons.join(_targets(controller))
        bridges = [self.names.bridges[switch] for switch in self._bridges_up]
        self._daemons.vsctl(*(word for name in bridges for word in veth_links.controllers_of(name, self._controllers)))
        self._note()

    def ofctl(self, switch: str, command: str, *words: str, protocol: str | None = None) -> str:
        """What `ovs-ofctl COMMAND SWITCH WORDS...` prints."""
        return self._daemons.ofctl(self.bridge(switch), command, *words, protocol=protocol or self._protocols[0])

    def flows(self, switch: str) -> list[str]:
        """The rules of a switch, as `ovs-ofctl` writes them."""
        return [line.strip() for line in self.ofctl(switch, "dump-flows").splitlines() if "actions=" in line]

    def vsctl(self, *words: str) -> str:
        return self._daemons.vsctl(*words)

    def _note(self) -> None:
        kept = {
            "topology": to_json(self.topology),
            "protocols": self._protocols,
            "limited_table": self._limited_table,
            "controllers": self._controllers,
        }
        (self.folder / _NETWORK_FILE).write_text(json.dumps(kept), encoding="utf-8")

    def _check_ports(self, switches: Iterable[SwitchId]) -> None:
        ports = ((switch, port) for switch in switches for port in self.topology.ports[switch])
        self._daemons.check_ports({self.names.port(switch, port): port for switch, port in ports})

    def _switch_end(self, line: Link | Host) -> str:
        port = line.ends[0] if isinstance(line, Link) else (line.switch, line.port)
        return self.names.port(*port)

    def _lay_cables(self) -> None:
        namespaces.add([self.names.net, *self.names.hosts.values()], self.name)
        with namespaces.inside(self.names.net):
            namespaces.set_here(veth_links.SWITCH_SETTINGS)
        for host in self.topology.hosts:
            with self.inside(host.name):
                namespaces.set_here(veth_links.HOST_SETTINGS)
        namespaces.ip(veth_links.cables(self.topology, self.names), self.names.net)
        for host in self.topology.hosts:
            with self.inside(host.name):
                namespaces.checksum_by_software(veth_links.HOST_INTERFACE)
                namespaces.ip(veth_links.host_settings(host))

    def _start(self, controller: str | Sequence[str] | None, tls: Tls | None) -> None:
        self._daemons.start_database()
        self._controllers = self._daemons.join(_targets(controller))
        words = [word for switch in self.topology.switches for word in self._bridge(switch)]
        if tls is not None:
            words += ["--", "set-ssl", *(str(Path(each).resolve()) for each in tls)]
        self._daemons.vsctl("--no-wait", *words)
        self.start_switches()

    def _bridge(self, switch: SwitchId) -> list[str]:
        return veth_links.bridge(
            self.topology,
            self.names,
            switch,
            controllers=self._controllers,
            protocols=self._protocols,
            limited_table=self._limited_table,
        )


def _targets(controller: str | Sequence[str] | None) -> Sequence[str]:
    if controller is None:
        return ()
    return (controller,) if isinstance(controller, str) else controller
