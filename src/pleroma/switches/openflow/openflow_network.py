"""A network of OpenFlow switches, as the controller sees one: operations in, confirmations out.

Switches connect to us. Each has an agent that keeps it right; an operation is confirmed when every switch that it
concerns has confirmed its part, or counts as gone. Which switches and ports are there is told to whoever watches, who
then routes on what is left.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import structlog

from pleroma.errors import SwitchRefused
from pleroma.index.address import IPV6, AddressRange
from pleroma.routing import Host, Port, SwitchId, SwitchOp, Topology
from pleroma.routing.presence import Place, Presence
from pleroma.switches.openflow.agent import Agent, SwitchTimeouts
from pleroma.switches.openflow.beacons import Beacons
from pleroma.switches.openflow.connection import Connection
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.listener import OPENFLOW_PORT, SwitchListener
from pleroma.switches.openflow.messages import PacketIn, PortInfo
from pleroma.switches.openflow.rule import MAX_PORT
from pleroma.switches.openflow.tables import Pipeline

LISTEN_ADDRESS = ("127.0.0.1", OPENFLOW_PORT)
QUIET_SECONDS = 0.02
"""Seconds in which several changes of a network count as one: a switch that dies takes many ports with it."""

log = structlog.get_logger("pleroma.openflow")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A packet that a switch passed up: where it came in, and the whole frame."""

    switch: SwitchId
    port: Port
    frame: bytes


class OpenFlowNetwork:
    """Open it with `async with`; it listens from then on, and takes switches in once `install` has said what for."""

    def __init__(
        self,
        discovered: DiscoveredTopology,
        *,
        addresses: AddressRange = IPV6,
        listen: tuple[str, int] = LISTEN_ADDRESS,
        tls: ssl.SSLContext | None = None,
        timeouts: SwitchTimeouts | None = None,
        domain: str = "pleroma",
    ) -> None:
        self.discovered = discovered
        self.pipeline = Pipeline(addresses, discovers=discovered.discovers)
        self.agents: dict[SwitchId, Agent] = {}
        self.strangers: dict[int, str] = {}
        """Switches that connected and are none of ours, by datapath number, and from where."""
        self.limits: dict[SwitchId, int] = {}
        """What switches turned out to have room for."""
        self.watch: Callable[[], None] = lambda: None
        """Called when what is there to route on has changed."""
        self.arrived: Callable[[Arrival], None] = lambda _: None
        """Called with every packet that a switch passed up and that is no beacon."""
        self._timeouts = timeouts or SwitchTimeouts()
        self._connections: dict[SwitchId, Connection] = {}
        self._down: set[Place] = set()
        self._expiries: dict[SwitchId, asyncio.TimerHandle] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._installed = asyncio.Event()
        self._beacons = Beacons(discovered, self._send_beacon, self._tell, secrets.token_bytes(32), domain)
        dead = self._timeouts.dead
        self._listener = SwitchListener(*listen, tls=tls, greet=self._greet, idle=dead / 3, dead=dead)

    # -- opening and closing -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._listener.__aenter__()
        for name in self.discovered.topology.switches:
            self._agent(name)
        self._beacons.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.watch = lambda: None
        self._beacons.stop()
        for timer in (*self._expiries.values(), *([self._telling] if self._telling else [])):
            timer.cancel()
        for agent in self.agents.values():
            agent.close()
        await self._listener.__aexit__(kind, error, traceback)

    @property
    def address(self) -> tuple[str, int]:
        """Where switches are to connect."""
        return self._listener.address

    # -- rules ---------------------------------------------------------------------------------------------------

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """On return all are in force on every switch that is there. After an error the same may be asked again.

        The first time there is no error: a switch that refuses something is no reason not to start. Whoever watches
        hears of it, and `status` says it.
        """
        self.pipeline.know(self.discovered.topology.hosts)
        by_switch: dict[SwitchId, list[SwitchOp]] = {}
        for op in ops:
            by_switch.setdefault(op.switch, []).append(op)
        concerned = [self._agent(name) for name in by_switch]
        for agent in concerned:
            agent.want(map(self.pipeline.change, by_switch[agent.name]))
        first = not self._installed.is_set()
        self._installed.set()
        waited = self.agents.values() if first else concerned
        for outcome in await asyncio.gather(*(agent.settled() for agent in waited), return_exceptions=True):
            if isinstance(outcome, BaseException) and not (first and isinstance(outcome, SwitchRefused)):
                raise outcome

    def _agent(self, name: SwitchId) -> Agent:
        agent = self.agents.get(name)
        if agent is None:
            agent = self.agents[name] = Agent(name, self._timeouts, self._told)
            agent.stand(self.pipeline.standing(self.discovered.topology, name))
            self._expect(name)
        return agent

    # -- what is there -------------------------------------------------------------------------------------------

    @property
    def presence(self) -> Presence:
        absent = {name for name, agent in self.agents.items() if agent.gone}
        return Presence(absent, self._down | self._beacons.unheard)

    def available(self, hosts: Iterable[Host]) -> Topology:
        """What there is to route on, with these hosts."""
        known = self.discovered.with_hosts(hosts, self.limits)
        self.pipeline.know(known.hosts)
        return self.presence.of(known)

    def status(self) -> dict[SwitchId, dict[str, Any]]:
        """What is known of each switch."""
        return {
            name: {
                "state": "gone" if agent.gone else agent.state,
                "peer": self._connections[name].peer if name in self._connections else None,
                "entries": len(agent.wanted),
                "refused": sorted({str(error) for error in agent.refused.values()}),
                **agent.counts,
            }
            for name, agent in self.agents.items()
        }

    def _tell(self) -> None:
        """Something changed: say so when it has come to rest."""
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._tell_now)

    def _tell_now(self) -> None:
        self._telling = None
        for name in self.discovered.topology.switches:
            self._agent(name).stand(self.pipeline.standing(self.discovered.topology, name))
        self.watch()

    # -- switches coming and going -------------------------------------------------------------------------------

    async def _greet(self, connection: Connection) -> None:
        await self._installed.wait()  # before that, we would take away what an earlier controller put there
        name = self.discovered.switch(connection.datapath)
        if name is None:
            self.strangers[connection.datapath] = connection.peer
            log.warning("a switch that the topology does not have", datapath=connection.datapath, peer=connection.peer)
            connection.close()
            return
        connection.on_closed = lambda reason: self._lost(name, connection, reason)
        connection.on_port_status = lambda port, reason: self._port(name, port, port.up and reason != "delete")
        connection.on_packet_in = lambda packet: self._packet(name, packet)
        self._connections[name] = connection
        self._down = {place for place in self._down if place[0] != name}
        up = {number for number, port in connection.ports.items() if port.up}
        for number in {*connection.ports, *self.discovered.topology.ports[name]} - up:
            self._down.add((name, Port(number)))
        log.info("switch connected", switch=name, peer=connection.peer)
        self._agent(name).connected(connection)

    def _lost(self, name: SwitchId, connection: Connection, reason: str) -> None:
        if self._connections.get(name) is connection:
            del self._connections[name]
            log.warning("switch lost", switch=name, reason=reason)
        self.agents[name].disconnected(connection)

    def _told(self, agent: Agent) -> None:
        """An agent is in another state, or its switch has no room."""
        name = agent.name
        if agent.is_full and agent.room is not None and self.limits.get(name) != agent.room:
            self.limits[name] = agent.room
            log.warning("the switch has no room for more rules", switch=name, rules=agent.room)
            self._tell()
        if agent.state == "ready":
            if name in self._expiries:
                self._expiries.pop(name).cancel()
            if agent.gone:
                agent.gone = False
            self._tell()
        elif agent.state == "away":
            self._expect(name)

    def _expect(self, name: SwitchId) -> None:
        """It should be there, and has so long to come."""
        if name not in self._expiries:
            loop = asyncio.get_running_loop()
            self._expiries[name] = loop.call_later(self._timeouts.grace, self._expire, name)

    def _expire(self, name: SwitchId) -> None:
        self._expiries.pop(name, None)
        log.warning("switch gone", switch=name)
        self.agents[name].give_up()
        self._tell()

    def _port(self, name: SwitchId, port: PortInfo, up: bool) -> None:
        place = name, Port(port.number)
        if port.number > MAX_PORT or (place not in self._down) == up:
            return
        if up:
            self._down.discard(place)
        else:
            self._down.add(place)
        self._tell()

    # -- packets that come up and go down ------------------------------------------------------------------------

    def _packet(self, name: SwitchId, packet: PacketIn) -> None:
        place = name, Port(packet.in_port)
        if not self._beacons.hear(place, packet.data):
            self.arrived(Arrival(name, place[1], packet.data))

    def send(self, switch: SwitchId, port: Port, frame: bytes) -> bool:
        """Put a packet out at a port; False if the switch is not there."""
        connection = self._connections.get(switch)
        if connection is None:
            return False
        connection.packet_out(port, frame)
        return True

    def _send_beacon(self, make: Callable[[int, int], bytes]) -> None:
        """One at every port of every switch that is there."""
        for name, connection in self._connections.items():
            for number, port in connection.ports.items():
                if port.up and number <= MAX_PORT:
                    connection.packet_out(number, make(self.discovered.topology.datapath[name], number))
