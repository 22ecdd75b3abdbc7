"""A service on the switches of a lab, and Python programs at its hosts that reach it through these."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pleroma.control import CreateSchema
from pleroma.index.address import IPV6, AddressRange
from pleroma.lab import Lab
from pleroma.routing import Topology
from pleroma.service import CollectingSettings, Deployment, Running, running
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from support.network.weather_requests import WEATHER
from support.network.world import STEADY, free_port
from support.waiting import LIMIT_SECONDS


class Program:
    """A Python program at a host of a lab."""

    def __init__(self, lab: Lab, host: str, code: str, *words: str) -> None:
        self._process = lab.popen(
            host, [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    async def line(self) -> str:
        """The next line that it prints; nothing at its end."""
        assert self._process.stdout is not None
        return await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), LIMIT_SECONDS)

    async def told(self, data: object) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(data) + "\n")
        self._process.stdin.flush()
        return json.loads(await self.line())

    async def rest(self) -> list[Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        out = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.read), LIMIT_SECONDS)
        assert await asyncio.to_thread(self._process.wait, LIMIT_SECONDS) == 0, out
        return [json.loads(line) for line in out.splitlines()]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Place:
    """A service on the switches of a lab, and programs at its hosts."""

    def __init__(self, lab: Lab, service: Running) -> None:
        self.lab, self.service = lab, service
        self.programs: list[Program] = []

    def start(self, host: str, code: str, url: str = "inband://", called: str = "any", *words: str) -> Program:
        assert self.service.token is not None
        program = Program(self.lab, host, code, url, self.service.token, called, *words)
        self.programs.append(program)
        return program


@asynccontextmanager
async def place(
    folder: Path,
    topology: Topology,
    addresses: AddressRange = IPV6,
    *,
    discovers: bool = False,
    collecting: CollectingSettings | None = None,
) -> AsyncIterator[Place]:
    port = free_port()
    settings = OpenFlowSettings(("127.0.0.1", port), addresses=addresses, discovers=discovers, timeouts=STEADY)
    lab = await asyncio.to_thread(Lab.up, topology, controller=f"tcp:127.0.0.1:{port}")
    try:
        deployment = Deployment(port=0, plane=settings, collecting=collecting)
        async with running(folder, topology, deployment) as service:
            await service.service.controller.submit(CreateSchema(WEATHER))
            made = Place(lab, service)
            try:
                yield made
            finally:
                for program in made.programs:
                    program.close()
    finally:
        await asyncio.to_thread(lab.close)
