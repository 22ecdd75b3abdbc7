"""The controller of a demonstration: a process of its own, on simulated switches or on Open vSwitch."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from pleroma.client import Client, connect
from pleroma.content import Filter
from pleroma.errors import SetupError
from pleroma.experiments.demonstration.replay import DeliveryCounts, Subscribers, subscribers
from pleroma.lab import Lab, namespaces
from pleroma.routing import build
from pleroma.service.http.admin_token import ADMIN_NAME

CONTROLLER_START_SECONDS = 30.0
"""How long a controller may take until it says its address."""
API_ANSWER_SECONDS = 120.0
"""How long an answer of the API may take, on a busy machine."""
LAND_SECONDS = 0.1
"""How often events are written to the lake. Every event is written."""


@dataclass(frozen=True, slots=True)
class RunningController:
    """How to reach a controller and its network.

    `url` is for this machine, `client_url` for programs at the hosts, which may have namespaces of their own.
    """

    url: str
    token: str
    client_url: str
    principal: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    lake: str | None = None
    """The lake that events are written to, if they are."""

    def connect(self, host: str) -> Client:
        """A client at a host; to be opened inside `at_host`."""
        return connect(self.client_url, self.token, host, principal=self.principal)

    @asynccontextmanager
    async def entered(self, host: str) -> AsyncIterator[tuple[httpx.AsyncClient, Client]]:
        """The controller's API, and a client at a host."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            httpx.AsyncClient(base_url=self.url, headers=headers, timeout=API_ANSWER_SECONDS) as api,
            AsyncExitStack() as stack,
        ):
            with at_host(self.namespaces.get(host)):
                client = await stack.enter_async_context(self.connect(host))
            yield api, client

    def crowd(
        self, schema: str, filters: Sequence[Filter], hosts: Sequence[str], on_change: Callable[[DeliveryCounts], None]
    ) -> AbstractAsyncContextManager[Subscribers]:
        """A process with subscribers at some of the hosts."""
        return subscribers(
            self.client_url,
            self.token,
            schema,
            filters,
            hosts,
            on_change,
            principal=self.principal,
            namespaces=self.namespaces,
        )


def at_host(namespace: str | None) -> AbstractContextManager[None]:
    """Code in this context runs in a namespace; in the one it is in already, if none is given."""
    return nullcontext() if namespace is None else namespaces.inside(namespace)


@asynccontextmanager
async def embedded(
    topology: str,
    members: int | None = None,
    collecting: bool = False,
    *,
    replan: bool = False,
    event_tags: bool = True,
) -> AsyncIterator[RunningController]:
    """On simulated switches. Unless it may `replan`, it has the plan that it is given, or the watcher's."""
    more = ("--replan", "auto" if replan else "off", "--event-tags", "on" if event_tags else "off")
    async with _controller(topology, members, collecting, *more) as found:
        url, token, lake = found
        yield RunningController(url, token, url, lake=lake)


@asynccontextmanager
async def open_vswitch(
    topology: str, members: int | None = None, collecting: bool = False
) -> AsyncIterator[RunningController]:
    """A controller of real switches with real hosts, whose programs have no network but the switches."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = "{}:{}".format(*free.getsockname())
    network = build(topology)
    with await asyncio.to_thread(Lab.up, network, controller=f"tcp:{listen}") as lab:
        openflow = ("--network", "openflow", "--listen", listen, "--replan", "off")
        async with _controller(topology, members, collecting, *openflow) as (url, token, lake):
            names = {str(host.name): lab.namespace(host.name) for host in network.hosts}
            yield RunningController(url, token, "inband://", ADMIN_NAME, names, lake)


@asynccontextmanager
async def _controller(
    topology: str, members: int | None, collecting: bool, *more: str
) -> AsyncIterator[tuple[str, str, str | None]]:
    """The address, token and lake of a controller, all of whose files are in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="pleroma-", ignore_cleanup_errors=True) as folder:
        lake = str(Path(folder) / "lake") if collecting else None
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pleroma.cli",
            "up",
            "--folder",
            folder,
            "--port",
            "0",
            "--topology",
            topology,
            "--json",
            "--log-level",
            "warning",
            *(() if members is None else ("--members", str(members))),
            *(() if lake is None else ("--lake", lake, "--sample", "1", "--land", str(LAND_SECONDS))),
            *more,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None  # noqa: S101
        try:
            async with asyncio.timeout(CONTROLLER_START_SECONDS):
                line = await process.stdout.readline()
            if not line:
                raise SetupError("the controller did not start; see above")
            told = json.loads(line)
            yield told["url"], Path(told["token_file"]).read_text(encoding="ascii").strip(), lake
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
