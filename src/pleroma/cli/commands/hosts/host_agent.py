"""`pleroma agent`: several programs of this machine on the network, behind its one event port."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.options import JsonFlag, LogOptions, grouped
from pleroma.cli.output import out, show_json
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.host_agent import AgentSettings


@grouped
def agent(
    *,
    url: Annotated[
        str, typer.Option(envvar="PLEROMA_URL", help="The controller: http://HOST:PORT, or inband:// by the switches.")
    ] = "inband://",
    socket: Annotated[
        Path | None,
        typer.Option(
            envvar="PLEROMA_AGENT",
            help="Where programs find the agent; /run/pleroma/agent.sock for root, else below $XDG_RUNTIME_DIR.",
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Whose members may use it; the agent's own group, if none.")] = None,
    host: Annotated[str, typer.Option(help="The name to have as a host, where the network learns hosts.")] = "",
    logs: LogOptions,
    json: JsonFlag = False,
) -> None:
    """Serve the programs of this machine, until Ctrl-C: on OpenFlow only one program can have the event port.

    Programs find the agent by themselves: `pleroma.connect()` without an address. Each needs a token of its own, and
    gets what that token may read; the agent has no token.
    """
    import uvloop

    from pleroma.host_agent import AgentSettings
    from pleroma.service.logs import configure

    settings = AgentSettings(url, str((socket or default_socket(os.environ)).absolute()), host, group)

    def announce() -> None:
        if json:
            show_json({"socket": settings.socket, "url": settings.url})
        else:
            out.print(f"programs find the agent at {settings.socket}; the controller is asked at {settings.url}")
            out.print("ready; stop with Ctrl-C")
        out.file.flush()

    configure(logs.settings())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, announce))


def default_socket(environment: Mapping[str, str]) -> Path:
    """Where a program looks that names no address: for the machine if this is root or a service, else for the user."""
    from pleroma.client.agent_address import SYSTEM_AGENT_SOCKET

    if os.geteuid() == 0 or environment.get("RUNTIME_DIRECTORY") == str(SYSTEM_AGENT_SOCKET.parent):
        return SYSTEM_AGENT_SOCKET
    if not (of_user := environment.get("XDG_RUNTIME_DIR")):
        raise SetupError("say where: this user has no $XDG_RUNTIME_DIR", field="--socket")
    return Path(of_user) / "pleroma" / SYSTEM_AGENT_SOCKET.name


async def _serve(settings: AgentSettings, announce: Callable[[], None]) -> None:
    from pleroma.host_agent import HostAgent

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with HostAgent(settings):
        announce()
        await stopped.wait()
