"""A service in this process whose OpenFlow switches are scripts: real bytes, and no Open vSwitch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pleroma.control import CreatePrincipal
from pleroma.routing import SwitchId, Topology, build
from pleroma.service import OpenFlowSettings, create_app
from pleroma.service.http.context import Service
from pleroma.service.http.tokens import digest
from pleroma.service.planes.openflow_plane import OpenFlowPlane, over_openflow
from pleroma.switches.openflow.agent import SwitchTimeouts
from support.openflow_switch import ScriptedSwitch
from support.service.in_process import ADMIN, UNLIMITED, Api

HASTY_GRACE_SECONDS = 0.1
"""A switch that is away counts as gone so soon."""


class ScriptedNetwork:
    """Requests of the administrator, and the switches, none of which is connected at first."""

    def __init__(self, api: Api, plane: OpenFlowPlane, topology: Topology) -> None:
        self.api = api
        self.plane = plane
        self._topology = topology
        self.switches: dict[SwitchId, ScriptedSwitch] = {}

    @property
    def service(self) -> Service:
        service: Service = self.api.app.state.service
        return service

    async def connect(self, *names: str) -> None:
        for name in map(SwitchId, names):
            switch = self.switches[name] = ScriptedSwitch(datapath=self._topology.datapath[name])
            switch.ports = [(port, f"eth{port}", 0, 0) for port in self._topology.ports[name]]
            await switch.connect(self.plane.network.address)

    async def disconnect(self, *names: str) -> None:
        for name in map(SwitchId, names):
            await self.switches.pop(name).disconnect()

    def set_port(self, name: str, port: int, *, up: bool) -> None:
        self.switches[SwitchId(name)].port_status(2, port, f"eth{port}", 0, int(not up))


@asynccontextmanager
async def scripted_network(folder: Path, topology: str = "line:2") -> AsyncIterator[ScriptedNetwork]:
    shape = build(topology)
    settings = OpenFlowSettings(("127.0.0.1", 0), timeouts=SwitchTimeouts(grace=HASTY_GRACE_SECONDS))
    async with over_openflow(folder, shape, None, settings) as (controller, plane):
        await controller.submit(CreatePrincipal("admin", "admin", digest(ADMIN)))
        made = ScriptedNetwork(Api(create_app(controller, plane, UNLIMITED)), plane, shape)
        try:
            async with made.api.client, made.service.network_watch:
                yield made
        finally:
            await made.disconnect(*made.switches)
