"""A service as a process: until it is told to stop by a signal."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import uvicorn
import uvloop

from pleroma.routing import Topology
from pleroma.service import logs
from pleroma.service.deployment import Deployment
from pleroma.service.http.connections.descriptors import raise_descriptor_limit
from pleroma.service.running_service import Running
from pleroma.service.shared_service import SharedService
from pleroma.service.whole_service import running

THREAD_TURN_SECONDS = 0.001
"""After so long a thread lets another have its turn, so that the event loop waits less while threads work."""


def serve(
    folder: Path,
    topology: Topology,
    deployment: Deployment | None = None,
    *,
    announce: Callable[[Running], None] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. `announce` is called once when it answers; by default it prints where and how."""
    deployment = deployment or Deployment()
    logs.configure(deployment.logs)
    sys.setswitchinterval(THREAD_TURN_SECONDS)
    raise_descriptor_limit()
    announce = announce or _announce
    before = os.umask(0o077)  # whatever is written from here on, others cannot read it
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if deployment.log is None:
                runner.run(_serve(running(folder, topology, deployment), announce))
            else:
                runner.run(_share(folder, topology, deployment, announce))
    finally:
        os.umask(before)


async def _serve(started: AbstractAsyncContextManager[Running], announce: Callable[[Running], None]) -> None:
    async with started as service:
        _spare_the_collector()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, service.server)
        announce(service)
        await service.stopped()


async def _share(folder: Path, topology: Topology, deployment: Deployment, announce: Callable[[Running], None]) -> None:
    service = SharedService(folder, topology, deployment, announce)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, service.stop.set)
    await service.run()


def _spare_the_collector() -> None:
    """Exempt all present objects from garbage collection: searching them costs requests a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


def _announce(service: Running) -> None:
    print(f"listening on {service.url}  (try {service.url}/docs)")
    if service.token is not None:
        print(f"token of the administrator: in {service.token_file}")
    print("ready", flush=True)
