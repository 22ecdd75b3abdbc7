"""`pleroma check`: whether a controller could start from its folder, and going on with what is left if it could not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import err, out, show_json, show_table
from pleroma.errors import SetupError


def check(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a controller or a broker.")],
    topology: Annotated[
        str, typer.Option(help="The network that the controller was started with, to replay what was accepted.")
    ] = "testbed",
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Set damaged files aside and go on with what is left, though entries are lost."),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Look through the state of a controller without starting one: permissions, lock, log, snapshots, replay.

    Nothing is changed without --repair. The exit code is 1 if there is a fault.
    """
    from pleroma.control.log.log_repair import repair as repaired
    from pleroma.control.logged_state import LOG_FILE_NAME
    from pleroma.control.state_check import check_state
    from pleroma.routing import build, with_ipv4
    from pleroma.service.planes.broker_plane import BROKER_TOPOLOGY
    from pleroma.switches.openflow.discovered_topology import EMPTY_TOPOLOGY

    if not (folder / LOG_FILE_NAME).exists():
        raise SetupError(f"there is no {LOG_FILE_NAME} in it", field=str(folder))
    said: dict[str, Any] = {}
    if repair:
        done = repaired(folder / LOG_FILE_NAME)
        said = {"repair": asdict(done) | {"lost": done.lost}}
        if not json:
            out.print(f"the log goes on from entry {done.position}; {done.lost} acknowledged entries are lost")
            out.print(f"the damaged files are in {done.aside}", soft_wrap=True)
    network = build(topology)
    findings = check_state(folder, (network, with_ipv4(network), BROKER_TOPOLOGY, EMPTY_TOPOLOGY))
    faults = [each for each in findings if each.is_fault]
    if json:
        show_json(
            {"folder": str(folder), "faults": len(faults), "findings": [asdict(each) for each in findings]} | said
        )
    else:
        rows = [(each.part, "fault" if each.is_fault else "ok", each.text) for each in findings]
        show_table("", ("part", "", "found"), rows)
        for each in faults:
            err.print(f"{each.part}: {each.text}", soft_wrap=True, markup=False)
    if faults:
        raise typer.Exit(1)
