"""A network of OpenFlow switches, as the controller sees it: operations in, confirmations out.

Switches connect to the controller. Each switch has an agent that keeps its rules right. An operation is confirmed when
every switch that it concerns has confirmed its part or counts as gone. When switches, links or ports come or go, the
watcher is told, and routes on those that are there.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

import structlog

from pleroma.background import in_background
from pleroma.errors import PleromaError, SwitchError, SwitchFenced, SwitchGone, SwitchRefused
from pleroma.index.address import IPV6, AddressRange
from pleroma.index.dz import Dz
from pleroma.routing import Host, Port, SwitchId, SwitchOp
from pleroma.routing.presence import Place, Presence
from pleroma.switches.openflow.agent import Agent, SwitchTimeouts
from pleroma.switches.openflow.asked_counts import AskedCounts
from pleroma.switches.openflow.beacons import Beacons
from pleroma.switches.openflow.connection import Connection, ConnectionEvents
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.fence import Fence
from pleroma.switches.openflow.found_rules import FoundRules, meet_known, packets_by_cell
from pleroma.switches.openflow.listener import OPENFLOW_PORT, SwitchListener
from pleroma.switches.openflow.messages import PacketIn, PortInfo
from pleroma.switches.openflow.replies import PortTraffic
from pleroma.switches.openflow.rule import MAX_PORT, Key, Rule
from pleroma.switches.openflow.strangers import Strangers
from pleroma.switches.openflow.switch_certificates import SwitchCertificates
from pleroma.switches.openflow.tables import ADMISSION, COOKIE, COOKIE_MASK, FORWARDING, RuleLayout
from pleroma.switches.switch_status import SwitchStatus
from pleroma.switches.tracing.meeting import SwitchStanding

LISTEN_ADDRESS = ("127.0.0.1", OPENFLOW_PORT)
MAX_LAID_OUT_AT_ONCE = 500
"""Operations that are turned into rules before the event loop looks at something else."""
QUIET_SECONDS = 0.02
"""Seconds in which several changes of the network are told as one: a switch that dies takes many ports with it."""

log = structlog.get_logger("pleroma.openflow")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A packet that a switch passed up: where it came in, and the whole frame."""

    switch: SwitchId
    port: Port
    frame: bytes


class NetworkWatcher(Protocol):
    """Who is told what happens in a network of switches."""

    async def rewire(self) -> None:
        """Switches, links, ports or the room in a table have changed: route on what is there now."""

    def packet_arrived(self, arrival: Arrival) -> None:
        """A switch passed up a packet that is no beacon. This may not wait."""


class OpenFlowNetwork:
    """Open it with `async with`. It listens from then on, and greets switches after the first `install`.

    A controller needs an open network before it can watch one; so the watcher comes by `watched_by`.
    """

    def __init__(
        self,
        discovered: DiscoveredTopology,
        *,
        addresses: AddressRange = IPV6,
        listen: tuple[str, int] = LISTEN_ADDRESS,
        tls: ssl.SSLContext | None = None,
        timeouts: SwitchTimeouts | None = None,
        domain: str = "pleroma",
        certificates: SwitchCertificates | None = None,
        generation: int | None = None,
        on_fenced: Callable[[SwitchFenced], None] = lambda _: None,
    ) -> None:
        """`certificates` tells, with TLS, which certificate belongs to which switch number.

        With a `generation` each switch is claimed: it obeys no controller of an earlier one. `on_fenced` is called
        once, when a switch obeys a controller of a later one; from then on this network leaves all switches alone.
        """
        self.discovered = discovered
        self.rule_layout = RuleLayout(addresses, discovers=discovered.discovers)
        self.rule_layout.hosts = lambda: discovered.topology.hosts
        self.agents: dict[SwitchId, Agent] = {}
        self._strangers = Strangers()
        self.strangers: Mapping[int, str] = self._strangers.by_datapath
        """The last switches that were turned away, by datapath number: the peer's address, and why if it is known."""
        self._fence = Fence(generation, on_fenced, self._strangers)
        self._certificates = certificates
        self.limits: dict[SwitchId, int] = {}
        """How many rules a switch has room for, where it was found to have less than the topology says."""
        self._watcher: NetworkWatcher | None = None
        self._timeouts = timeouts or SwitchTimeouts()
        self._connections: dict[SwitchId, Connection] = {}
        self.admitted = AskedCounts(lambda place: self._connections.get(place[0]), _admitted_at)
        """Events that were let in at a place, by the rules of the admission table."""
        self.sent_by_port = AskedCounts(self._connections.get, lambda connection, _: connection.sent_by_port())
        """By switch: what each of its ports has sent."""
        self._names: dict[Connection, SwitchId] = {}
        self._down: set[Place] = set()
        self._expiries: dict[SwitchId, asyncio.TimerHandle] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._told: set[asyncio.Task[None]] = set()
        self._was_absent: frozenset[SwitchId] = frozenset()
        """The switches that were away when the watcher was last told."""
        self._installed = asyncio.Event()
        self._beacons = Beacons(
            discovered,
            self._send_beacon,
            lambda switch: switch in self._connections,
            self._tell,
            secrets.token_bytes(32),
            domain,
            self._has_host,
        )
        dead = self._timeouts.dead
        events = ConnectionEvents(self._packet, self._port, self._refused, self._lost, self._fenced)
        self._listener = SwitchListener(listen, tls, self._greet, events, idle=dead / 3, dead=dead)

    @contextmanager
    def watched_by(self, watcher: NetworkWatcher) -> Iterator[None]:
        """Tell this watcher what happens, instead of nobody."""
        self._watcher = watcher
        try:
            yield
        finally:
            self._watcher = None

    def resume(self, presence: Presence, rooms: Mapping[SwitchId, int], hosts: Callable[[], tuple[Host, ...]]) -> None:
        """Begin with what an earlier run knew of the network. `hosts` tells the hosts that rules may send to."""
        self.rule_layout.hosts = hosts
        self.limits.update(rooms)
        self._down = set(presence.down)
        self._beacons.resume(presence.down)
        self._was_absent = frozenset(presence.absent)
        for name in self.discovered.topology.switches:
            agent = self._agent(name)
            if name in presence.absent:
                self._expiries.pop(name).cancel()
                agent.give_up()

    async def __aenter__(self) -> Self:
        await self._listener.__aenter__()
        for name in self.discovered.topology.switches:
            self._agent(name)
        self._beacons.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._beacons.stop()
        self._names.clear()  # a connection that ends from here on is no loss: this is who ends it
        for timer in (*self._expiries.values(), *([self._telling] if self._telling else [])):
            timer.cancel()
        for task in self._told:
            task.cancel()
        for agent in self.agents.values():
            agent.close()
        await self._listener.__aexit__(kind, error, traceback)

    @property
    def is_fenced(self) -> bool:
        """Whether a later controller has taken over."""
        return self._fence.error is not None

    @property
    def address(self) -> tuple[str, int]:
        """Where switches are to connect."""
        return self._listener.address

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """On return the operations are in force on every switch that is there. After an error they may come again.

        The first call raises no error: a switch that refuses a rule is no reason not to start. The watcher is told, and
        `status` says what was refused.
        """
        self._fence.check()
        by_switch: dict[SwitchId, list[SwitchOp]] = {}
        for op in ops:
            by_switch.setdefault(op.switch, []).append(op)
        concerned = [self._agent(name) for name in by_switch]
        for agent in concerned:
            agent.want(await self._laid_out(by_switch[agent.name]))
        first = not self._installed.is_set()
        self._installed.set()
        waited = self.agents.values() if first else concerned
        for outcome in await asyncio.gather(*(agent.confirmed() for agent in waited), return_exceptions=True):
            if isinstance(outcome, BaseException) and not (first and isinstance(outcome, SwitchRefused)):
                raise outcome

    async def _laid_out(self, ops: Sequence[SwitchOp]) -> Iterable[tuple[Key, Rule | None]]:
        """The rules that operations are about; of very many, in another thread."""
        if len(ops) <= MAX_LAID_OUT_AT_ONCE:
            return map(self.rule_layout.change, ops)
        return await in_background(lambda: [self.rule_layout.change(op) for op in ops])

    def _agent(self, name: SwitchId) -> Agent:
        agent = self.agents.get(name)
        if agent is None:
            agent = self.agents[name] = Agent(name, self._timeouts, self._agent_changed)
            agent.set_base_rules(self.rule_layout.base_rules(self.discovered.topology, name))
            self._expect(name)
        return agent

    @property
    def ignored_beacons(self) -> Mapping[str, int]:
        """How many beacons were passed over, by reason."""
        return self._beacons.counts

    @property
    def is_cut_off(self) -> bool:
        """Whether no switch is connected: then it is the controller that is away."""
        return not self._connections

    @property
    def presence(self) -> Presence:
        absent = {name for name, agent in self.agents.items() if agent.gone}
        return Presence(absent, self._down | self._beacons.unheard)

    def status(self) -> dict[SwitchId, SwitchStatus]:
        """The state of each switch, with what its agent counted."""
        return {
            name: SwitchStatus(
                agent.standing,
                self._connections[name].peer if name in self._connections else None,
                len(agent.wanted),
                agent.refusal_reasons,
                replace(agent.counts),
            )
            for name, agent in self.agents.items()
        }

    def sent(self) -> dict[Place, PortTraffic]:
        """What each end of each link has sent, as its switch last said."""
        places = [place for link in self.discovered.topology.links for place in link.ends]
        known = {switch: self.sent_by_port.at(switch) or {} for switch, _ in places}
        return {place: known[place[0]][place[1]] for place in places if place[1] in known[place[0]]}

    def standing(self, switch: SwitchId, in_port: Port, event: Dz) -> SwitchStanding:
        """The state of a switch, and what an event meets there by the rules that the switch has confirmed."""
        agent = self.agents.get(switch)
        if agent is None:
            return SwitchStanding("gone", None)
        met = None if agent.known is None else meet_known(agent.known, self.rule_layout, in_port, event)
        return SwitchStanding(agent.standing, met, agent.refusal_reasons)

    async def read_rules(self, switch: SwitchId, seconds: float) -> FoundRules | None:
        """The rules that a switch has, whoever wrote them; None if it does not answer in so many seconds."""
        connection = self._connections.get(switch)
        if connection is None:
            return None
        try:
            entries = await connection.entries(seconds)
        except SwitchError:
            return None
        return await asyncio.to_thread(FoundRules.indexed, entries, self.rule_layout)

    async def count_packets(self, switch: SwitchId, seconds: float) -> Mapping[Dz, int] | None:
        """How many packets have followed each rule of a switch for a cell; None if it does not answer in time."""
        connection = self._connections.get(switch)
        if connection is None:
            return None
        try:
            found = await connection.flows(COOKIE, COOKIE_MASK, FORWARDING, seconds)
        except SwitchError:
            return None
        return await asyncio.to_thread(packets_by_cell, found, self.rule_layout)

    def _tell(self) -> None:
        """Tell the watcher that the network has changed, once for all changes of `QUIET_SECONDS`."""
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._tell_now)

    def _tell_now(self) -> None:
        self._telling = None
        for name in self.discovered.topology.switches:
            self._agent(name).set_base_rules(self.rule_layout.base_rules(self.discovered.topology, name))
        if self._watcher is not None and not self.is_cut_off:
            task = asyncio.get_running_loop().create_task(self._rewire(self._watcher), name="rewire")
            self._told.add(task)
            task.add_done_callback(self._told.discard)

    async def _rewire(self, watcher: NetworkWatcher) -> None:
        self._was_absent = frozenset(self.presence.absent)
        await watcher.rewire()

    async def _greet(self, connection: Connection) -> None:
        await self._installed.wait()  # before that, the agent would delete the rules of an earlier controller
        self._fence.check()
        if connection.closed is not None:  # meanwhile; nobody would hear of it again
            return
        name = self.discovered.switch(connection.datapath)
        if name is None:
            raise self._strangers.turned_away(connection, "the topology does not have it")
        await self._check_certificate(connection)
        async with self._fence.one_claim_at(name):
            await self._check_place(name, connection)
            await self._fence.claim(connection, self._timeouts.answer)
            self._take_in(name, connection)
        agent = self._agent(name)
        if agent.gone and self._watcher is not None:
            agent.gone = False
            self.limits.pop(name, None)  # it may have another room now
            await self._rewire(self._watcher)  # else the agent would begin by deleting all rules
            if connection not in self._names:  # it was lost meanwhile
                self._expect(name)
                return
        agent.connected(connection)

    def _take_in(self, name: SwitchId, connection: Connection) -> None:
        if not self._connections:
            self._expect_all_again()
        self._connections[name] = connection
        self._names[connection] = name
        self._down = {place for place in self._down if place[0] != name}
        up = {number for number, port in connection.ports.items() if port.up}
        known = {number for number in connection.ports if number <= MAX_PORT} | {*self.discovered.topology.ports[name]}
        self._down.update((name, Port(number)) for number in known - up)
        log.info("switch connected", switch=name, peer=connection.peer)

    async def _check_certificate(self, connection: Connection) -> None:
        shown = connection.channel.certificate
        if self._certificates is None or shown is None:
            return
        try:
            await asyncio.to_thread(self._certificates.check, connection.datapath, shown)
        except PleromaError as error:
            raise self._strangers.turned_away(connection, error.reason) from None

    async def _check_place(self, name: SwitchId, connection: Connection) -> None:
        """Make sure that no other connection of the switch is alive: one that answers stays, and the new one goes."""
        while (current := self._connections.get(name)) is not None and current.closed is None:
            if await current.shows_life(self._timeouts.dead / 2):
                raise self._strangers.turned_away(connection, f"{name} is connected already, from {current.peer}")
            current.close(f"silent, and {name} has connected from {connection.peer}")
            self._lost(current, "it was silent when it connected anew")
        if connection.closed is not None:
            raise SwitchGone(connection.closed, field="switch", value=name)

    def _has_host(self, place: Place) -> bool:
        return any((host.switch, host.port) == place for host in self.rule_layout.hosts())

    def _expect_all_again(self) -> None:
        """The controller was cut off from all switches: give those the grace period that were there before."""
        for name, agent in self.agents.items():
            if agent.gone and name not in self._was_absent:
                agent.gone = False
                self._expect(name)

    def _lost(self, connection: Connection, reason: str) -> None:
        name = self._names.pop(connection, None)
        if name is None:  # never greeted
            return
        if self._connections.get(name) is connection:
            del self._connections[name]
            log.warning("switch lost", switch=name, reason=reason)
        self.agents[name].disconnected(connection)

    def _fenced(self, _: Connection, error: SwitchFenced) -> None:
        if self._fence.close(error):
            for agent in self.agents.values():
                agent.fence(error)
            for other in self._connections.values():
                other.close("a later controller has taken over")

    def _refused(self, connection: Connection, error: SwitchRefused) -> None:
        log.warning("a switch refused what nobody waits for", switch=self._names.get(connection), reason=str(error))

    def _agent_changed(self, agent: Agent) -> None:
        """An agent is in another state, or its switch has no room for a rule."""
        name = agent.name
        if agent.is_full and agent.room is not None and self.limits.get(name) != agent.room:
            self.limits[name] = agent.room
            log.info("the switch has no room for more rules", switch=name, rules=agent.room)
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
        """Give an absent switch the grace period to connect, before it counts as gone."""
        if name not in self._expiries:
            loop = asyncio.get_running_loop()
            self._expiries[name] = loop.call_later(self._timeouts.grace, self._expire, name)

    def _expire(self, name: SwitchId) -> None:
        self._expiries.pop(name, None)
        self.agents[name].give_up()
        self._tell()

    def _port(self, connection: Connection, port: PortInfo, reason: str) -> None:
        name = self._names.get(connection)
        if name is None or port.number > MAX_PORT:
            return
        place, up = (name, Port(port.number)), port.up and reason != "delete"
        if (place not in self._down) == up:
            return
        if up:
            self._down.discard(place)
        else:
            self._down.add(place)
        self._tell()

    def _packet(self, connection: Connection, packet: PacketIn) -> None:
        name = self._names.get(connection)
        if name is None:
            return
        place = name, Port(packet.in_port)
        if not self._beacons.hear(place, packet.data) and self._watcher is not None:
            self._watcher.packet_arrived(Arrival(name, place[1], packet.data))

    def send(self, switch: SwitchId, port: Port, frame: bytes) -> bool:
        """Send a packet out at a port of a switch; False if the switch is not connected."""
        connection = self._connections.get(switch)
        if connection is None:
            return False
        connection.packet_out(port, frame)
        return True

    def _send_beacon(self, make: Callable[[int, int], bytes]) -> None:
        """Send a beacon out at every port of every connected switch."""
        for name, connection in self._connections.items():
            for number, port in connection.ports.items():
                if port.up and number <= MAX_PORT:
                    connection.packet_out(number, make(self.discovered.topology.datapath[name], number))


async def _admitted_at(connection: Connection, place: Place) -> int:
    return await connection.packets_at(place[1], COOKIE, COOKIE_MASK, ADMISSION)
