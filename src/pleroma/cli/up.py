"""`pleroma up`: the controller, its API and a live network of simulated switches, until stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.output import JsonFlag, out, show_json
from pleroma.cli.remote import FOLDER

if TYPE_CHECKING:
    from pleroma.service import Running


def up(
    topology: Annotated[
        str, typer.Option(help="testbed, line:5, ring:6, star:4, fat-tree:4, ..., or a .json/.graphml file.")
    ] = "testbed",
    folder: Annotated[
        Path, typer.Option(help="Where the log is kept; what was accepted is there after a restart.")
    ] = FOLDER,
    host: Annotated[str, typer.Option(help="Listen here; only this machine can reach the default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 8470,
    members: Annotated[
        int, typer.Option(min=1, max=4096, help="At most so many dz for a registration; stays with the folder.")
    ] = 8,
    json: JsonFlag = False,
) -> None:
    """Start everything and serve until Ctrl-C.

    The first start makes an administrator's token, prints it once and keeps it where only you can read it. The
    documentation of the API is at /docs.
    """
    from pleroma.control import ControlSettings
    from pleroma.routing import build
    from pleroma.service import serve

    network = build(topology)

    def announce(running: Running) -> None:
        if json:
            show_json({"url": running.url, "token_file": str(running.token_file)})
            return
        out.print(f"{len(network.switches)} switches, {len(network.hosts)} hosts; listening on {running.url}")
        out.print(f"API documentation: {running.url}/docs")
        if running.token is not None:
            out.print(f"administrator's token, shown this once and kept in {running.token_file}:\n{running.token}")
        out.print("ready; stop with Ctrl-C")
        out.file.flush()

    serve(folder, network, host, port, control=ControlSettings(max_members=members), announce=announce)
