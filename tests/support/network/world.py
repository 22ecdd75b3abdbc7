"""A controller on real switches beside a simulated network that gets the same requests.

The controller runs in a thread of its own, so that a test can be written down line by line: ask, send, look.
"""

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from pleroma.content import Event
from pleroma.control import Command, ControlSettings, ControlState, Done, Register, Withdraw
from pleroma.errors import NotInstalled
from pleroma.index.address import IPV6, AddressRange
from pleroma.lab import Lab
from pleroma.routing import FlowTable, HostId, SwitchId, Topology
from pleroma.routing.router import Router
from pleroma.service.planes.openflow_plane import OpenFlowSettings, over_openflow
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.switches.switch_status import SwitchStatus
from pleroma.wire import Codec, EventPacket
from support import routing_oracle
from support.network.host_sockets import HostSockets, Stream
from support.network.mirror import Mirror
from support.network.real_tables import RealTables
from support.network.switch_ports import deepen_buffers
from support.network.weather_requests import BEGINNING, WEATHER
from support.waiting import LIMIT_SECONDS, wait_until

T = TypeVar("T")
Arrivals = Counter[tuple[HostId, int]]
"""How often an event came to a host, by host and sequence number."""
Begun = tuple[Future[list[Any]], tuple[Command, ...]]
"""Requests under way, and what they were."""

STEADY = SwitchTimeouts(answer=20, audit=60, grace=60)
"""Nothing is expected to fail, and a slow machine is no failure."""
HASTY = SwitchTimeouts(answer=3, audit=0.5, grace=1.5, dead=3)
"""Something will fail, and is to be noticed soon."""


def free_port() -> int:
    """Below those that the system gives away by itself, so that it is still free a moment later, or a minute."""
    while True:
        port = Random().randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class World:
    """`submit` and what hosts do go to both networks, the real one and the simulated one."""

    def __init__(
        self, topology: Topology, folder: Path, port: int, settings: OpenFlowSettings, control: ControlSettings
    ) -> None:
        self.topology = topology
        self.mirror = Mirror(topology, control)
        self._folder = folder
        self._settings = replace(settings, listen=("127.0.0.1", port))
        self._control = control
        self._sequence = 0
        self._codec = Codec(WEATHER, 0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="controller")
        self._thread.start()
        self._stop = asyncio.Event()
        self._serving: Future[None] | None = None
        self._hosts: HostSockets | None = None
        self._changed = False
        self._ready = threading.Event()

    def move_in(self, lab: Lab) -> None:
        self.lab = lab
        self.switches = RealTables(lab, self._settings.addresses)
        self.hosts = self._hosts = HostSockets(lab, self._settings.addresses)
        deepen_buffers(lab)

    # the controller

    def listen(self) -> None:
        """Begin to start the controller, which waits for its switches."""
        self._ready.clear()
        self._stop = asyncio.Event()
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)

    def start(self) -> None:
        """Returns when the controller has told the switches all it knows."""
        if self._serving is None:
            self.listen()
        serving = self._serving
        assert serving is not None
        wait_until(lambda: self._ready.is_set() or serving.done(), "the controller starts")
        if serving.done():
            serving.result()

    async def _serve(self) -> None:
        async with over_openflow(self._folder, self.topology, self._control, self._settings) as there:
            self.controller, self.plane = there
            self.network = self.plane.network
            self._ready.set()
            await self._stop.wait()

    @property
    def is_stopped(self) -> bool:
        return self._serving is None

    def stop(self) -> None:
        if self._serving is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._serving.result(LIMIT_SECONDS)
            self._serving = None

    def close(self) -> None:
        try:
            self.stop()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            if self._hosts is not None:
                self._hosts.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_SECONDS)

    # requests

    def begin(self, *commands: Command) -> Begun:
        """All at once, in this order."""

        async def all_of_them() -> list[Done | BaseException]:
            return await asyncio.gather(*map(self.controller.submit, commands), return_exceptions=True)

        return asyncio.run_coroutine_threadsafe(all_of_them(), self._loop), commands

    def finish(self, begun: Begun, patient: bool = False) -> list[dict[str, Any]]:
        """What was answered; a network that is behind is an answer too, for the `patient`."""
        self._changed = True
        waiting, commands = begun
        done = waiting.result(LIMIT_SECONDS)
        simulated = [self.mirror.apply(each, position) for each, position in self._positions(commands)]
        for each, value in zip(done, simulated, strict=True):
            if isinstance(each, Exception) and not (patient and isinstance(each, NotInstalled)):
                raise each
            assert isinstance(each, NotInstalled) or each.value == value
        return simulated

    def _positions(self, commands: Iterable[Command]) -> Iterator[tuple[Command, int | None]]:
        """Where the log has a registration, by its id: what happens to the network is in the log as well."""
        known = self.mirror.state.registrations
        new = iter(sorted(int(each[1:]) for each in self.controller.state.registrations if each not in known))
        for each in commands:
            yield each, next(new, None) if isinstance(each, Register) else None

    def submit(self, *commands: Command, patient: bool = False) -> list[dict[str, Any]]:
        return self.finish(self.begin(*commands), patient)

    def withdraw(self, *ids: str, patient: bool = False) -> list[dict[str, Any]]:
        return self.submit(*(Withdraw(each, "root") for each in ids), patient=patient)

    def follow(self, state: ControlState) -> None:
        """Have the simulated network know what a controller knows."""
        for command in BEGINNING:
            self.mirror.apply(command)
        for each in state.registrations.values():
            self.mirror.apply(Register(each.kind, each.principal, each.host, each.schema, json.loads(each.boxes)))

    # events

    def publish(self, *events: tuple[HostId, Event]) -> tuple[Arrivals, Arrivals, set[tuple[HostId, int]]]:
        """(host, event) each. Returns what came, what comes by the rules, and what must come: (host, sequence) each.

        Open vSwitch confirms rules before its fast path follows them: after a change that is waited for.
        """
        if self._changed:
            self._changed = False
            self.switches.count()
        expected: Counter[tuple[HostId, bytes]] = Counter()
        must: set[tuple[HostId, int]] = set()
        for host, event in events:
            self._sequence += 1
            payload = self._codec.encode(EventPacket(1, 0, 7, self._sequence, time.time_ns(), event))
            expected.update((there, payload) for there in self.mirror.receivers(host, event))
            must.update((there, self._sequence) for there in self.mirror.wanting(host, event))
            self.hosts.send(host, self.mirror.dz(event), payload)
        found = self.hosts.gather(expected)
        return self._numbered(found), self._numbered(expected), must

    def _numbered(self, packets: Counter[tuple[HostId, bytes]]) -> Arrivals:
        return Counter({(host, self._codec.decode(data).sequence): n for (host, data), n in packets.items()})

    def check(self, *events: tuple[HostId, Event]) -> Arrivals:
        """Every event exactly once, to all who want it and to nobody whom the rules do not name."""
        found, expected, must = self.publish(*events)
        assert found == expected
        assert must <= set(found), "an event is missing"
        assert all(count == 1 for count in found.values())
        return found

    def stream(self, host: HostId, event: Event) -> Stream:
        """Sends the cell of one event from a host, all the time."""
        return Stream(lambda payload: self.hosts.send(host, self.mirror.dz(event), payload))

    # the state of things

    @property
    def status(self) -> dict[SwitchId, SwitchStatus]:
        return self.network.status()

    def until_right(self, there: Topology | None = None) -> None:
        """All switches that stand have exactly the rules for what is `there`, which is everything if not said."""
        there = there or self.topology
        standing = [s for s in self.topology.switches if s in there.switches]
        admitted = {place: cells for place, cells in self.mirror.admitted.items() if place[0] in standing}

        def is_right() -> bool:
            router, tables = self.run(self._wanted())
            now = router.topology
            return (
                all(self.status[s].state == "ready" for s in standing)
                and (set(now.links), set(now.hosts)) == (set(there.links), set(there.hosts))
                and all(self.switches.table(s) == tables[s] for s in standing)
                and self.switches.admitted(standing) == admitted
            )

        def wrong() -> object:
            router, tables = self.run(self._wanted())
            real = {s: self.switches.table(s) for s in standing}
            different = {s: (real[s], tables[s]) for s in standing if real[s] != tables[s]}
            return self.network.presence, router.topology, self.status, different

        wait_until(is_right, wrong)
        self._changed = True
        router, tables = self.run(self._wanted())
        if not router.topology.limits:
            assert tables == routing_oracle.tables_of_families(
                router.topology, router.families, router.registrations.values()
            )
        self.mirror.adopt(tables)

    async def _wanted(self) -> tuple[Router, dict[SwitchId, FlowTable]]:
        router = self.controller.state.router
        return router, {s: table.copy() for s, table in router.tables.items()}


@contextmanager
def world(
    topology: Topology,
    folder: Path,
    *,
    real: Topology | None = None,
    addresses: AddressRange = IPV6,
    timeouts: SwitchTimeouts = STEADY,
    discovers: bool = False,
    begin: Iterable[Command] = BEGINNING,
    control: ControlSettings | None = None,
) -> Iterator[World]:
    """`real` is the network as it is, where it is not as the controller is told."""
    port = free_port()
    settings = OpenFlowSettings(addresses=addresses, timeouts=timeouts, discovers=discovers)
    made = World(topology, folder, port, settings, control or ControlSettings.within(addresses.bits))
    try:
        made.listen()
        with Lab.up(real or topology, controller=f"tcp:127.0.0.1:{port}") as lab:
            made.move_in(lab)
            made.start()
            made.submit(*begin)
            yield made
    finally:
        made.close()
