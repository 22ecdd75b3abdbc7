"""`pleroma lab cut|mend|stop|start|flows|ofctl`: break a lab and mend it, and look at its switches from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.commands.lab.standing_lab import LabName, one_lab
from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table

if TYPE_CHECKING:
    from pleroma.lab import Lab

OneEnd = Annotated[str, typer.Argument(metavar="A", help="A switch, or a host (whose only cable it is).")]
OtherEnd = Annotated[str | None, typer.Argument(metavar="[B]", help="The switch at the other end.")]
SwitchName = Annotated[str, typer.Argument(metavar="SWITCH", help="As the topology names it.")]
SwitchOrAll = Annotated[
    str | None, typer.Argument(metavar="[SWITCH]", help="As the topology names it; all if left out.")
]


def cut(a: OneEnd, b: OtherEnd = None, name: LabName = None) -> None:
    """Cut a cable, between two switches or to a host: both ends see their port go down."""
    lab = _lab(name)
    line = lab.cable(a, b)
    lab.cut(line)
    out.print(f"cut: {_cable(a, b)}; mend it with pleroma lab mend {a} {b or ''}".rstrip(), markup=False)


def mend(a: OneEnd, b: OtherEnd = None, name: LabName = None) -> None:
    """Mend a cable that was cut."""
    lab = _lab(name)
    lab.mend(lab.cable(a, b))
    out.print(f"mended: {_cable(a, b)}", markup=False)


def stop(switch: SwitchOrAll = None, name: LabName = None) -> None:
    """Stop a switch, as if it lost its power: its rules are gone, its neighbours' ports stay up. Or all switches."""
    lab = _lab(name)
    if switch is None:
        lab.kill_switches()
    else:
        lab.drop_bridge(switch)
    out.print(f"stopped: {switch or 'all switches'}")


def start(switch: SwitchOrAll = None, name: LabName = None) -> None:
    """Start a switch that was stopped, or all: it comes back empty, with the same ports, number and controller."""
    lab = _lab(name)
    if switch is None:
        lab.start_switches()
    else:
        lab.restore_bridge(switch)
    out.print(f"started: {switch or 'all switches'}")


def flows(switch: SwitchName, name: LabName = None, json: JsonFlag = False) -> None:
    """The rules that a switch has, whoever wrote them: table, priority, packets and bytes so far, match, actions."""
    from pleroma.lab.switch_flows import read_flow

    found = [read_flow(line) for line in _lab(name).flows(switch)]
    found.sort(key=lambda flow: (flow.table, -flow.priority, flow.match))
    if json:
        show_json({"switch": switch, "flows": [flow._asdict() for flow in found]})
        return
    columns = ("table", "priority", "packets", "bytes", "match", "actions")
    show_table(f"rules of {switch}", columns, [tuple(getattr(flow, each) for each in columns) for flow in found])


def ofctl(
    switch: SwitchName,
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="As dump-flows, dump-ports, show, add-flow, ...")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT]...", help="What follows the switch.")] = None,
    name: LabName = None,
) -> None:
    """What `ovs-ofctl COMMAND SWITCH ARGUMENT...` prints; options of ours go before the switch."""
    typer.echo(_lab(name).ofctl(switch, command, *(words or [])), nl=False)


def _lab(name: str | None) -> Lab:
    from pleroma.lab import Lab
    from pleroma.lab.needs import check

    check()
    return Lab.find(one_lab(name))


def _cable(a: str, b: str | None) -> str:
    return f"the cable of {a}" if b is None else f"{a} - {b}"
