"""`pleroma lab up|exec|down|list|spark`: real switches on this machine, or a Spark cluster, for as long as you want."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.options import Addresses, JsonFlag
from pleroma.cli.output import out, show_json, show_table
from pleroma.errors import SetupError, UnknownName

if TYPE_CHECKING:
    from pleroma.lab import LabRecord

LabName = Annotated[str | None, typer.Option(help="Which lab; may be left out when there is one.")]


def up(
    topology: Annotated[str, typer.Argument(help="testbed, line:5, ring:6, ..., or a .json/.graphml file.")],
    name: Annotated[str | None, typer.Option(help="What to call the lab; made up if not given.")] = None,
    controller: Annotated[
        list[str] | None,
        typer.Option(
            help="Where the switches find their controller, or none; once for each of several. tcp:127.0.0.1:6653 "
            "if left out."
        ),
    ] = None,
    addresses: Annotated[
        Addresses, typer.Option(help="What addresses hosts have, and events travel under.")
    ] = Addresses.V6,
    key: Annotated[str | None, typer.Option(help="With ssl: the file with the switches' key.")] = None,
    certificate: Annotated[str | None, typer.Option(help="With ssl: their certificate.")] = None,
    authority: Annotated[str | None, typer.Option(help="With ssl: who signs the controller's certificate.")] = None,
    json: JsonFlag = False,
) -> None:
    """Bring up a lab. It stays until `pleroma lab down`."""
    from pathlib import Path

    from pleroma.lab.needs import check

    check()
    from pleroma.lab import Lab, Tls
    from pleroma.routing import build, with_ipv4

    files = [Path(each) for each in (key, certificate, authority) if each is not None]
    if len(files) not in (0, 3):
        raise SetupError("--key, --certificate and --authority go together", field="lab")
    controllers = controller or ["tcp:127.0.0.1:6653"]
    wired = build(topology)
    lab = Lab.up(
        with_ipv4(wired) if addresses is Addresses.V4 else wired,
        name=name,
        controller=[] if controllers == ["none"] else controllers,
        tls=Tls(*files) if files else None,
        owned=False,
    )
    network = lab.topology
    if json:
        hosts = {
            h.name: {"namespace": lab.namespace(h.name), "address": h.address, "ethernet": h.ethernet}
            for h in network.hosts
        }
        switches = {s: {"bridge": lab.bridge(s), "datapath": network.datapath[s]} for s in network.switches}
        show_json({"name": lab.name, "folder": str(lab.folder), "switches": switches, "hosts": hosts})
        return
    counts = f"{len(network.switches)} switches, {len(network.hosts)} hosts"
    out.print(f"lab {lab.name}: {counts}, controller {', '.join(controllers)}", soft_wrap=True)
    if network.hosts:
        out.print(f"at a host: pleroma lab exec --name {lab.name} {network.hosts[0].name} ip address", markup=False)
    out.print(f"the end:   pleroma lab down --name {lab.name}", markup=False)


def execute(
    host: Annotated[str, typer.Argument(help="A host of the topology.")],
    command: Annotated[list[str], typer.Argument(metavar="CMD...", help="What to run there, with its arguments.")],
    name: LabName = None,
) -> None:
    """Run a command at a host; its exit code is ours."""
    from pleroma.lab import enter

    if command[0] == "--" and len(command) > 1:
        del command[0]
    enter(one_lab(name).namespace(host))
    try:
        os.execvp(command[0], command)  # noqa: S606 (that is what it is for)
    except OSError as error:
        raise SetupError(f"cannot run it: {error.strerror}", field=command[0]) from None


def down(
    name: LabName = None,
    everything: Annotated[bool, typer.Option("--all", help="All labs of this machine.")] = False,
) -> None:
    """Remove a lab and all that runs in it."""
    from pleroma.lab import records, remove
    from pleroma.lab.needs import check

    check()
    if everything and name is not None:
        raise SetupError("--all and --name do not go together", field="lab")
    known = [record.name for record in records()]
    for each in known if everything else [name or one_lab(name).name]:
        if remove(each):
            out.print(f"lab {each} is gone")
        elif not everything:
            raise UnknownName("lab", each, known)


def spark(
    workers: Annotated[int, typer.Option(help="How many workers.")] = 2,
    cores: Annotated[int, typer.Option(help="Cores that each of them offers.")] = 1,
    memory: Annotated[str, typer.Option(help="Memory that each of them offers, like 512m or 2g.")] = "1g",
    json: JsonFlag = False,
) -> None:
    """A Spark cluster on this machine, until Ctrl-C: a standalone master and its workers, on loopback only."""
    import signal
    import time

    from pleroma.lab.spark_cluster import SparkCluster

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with SparkCluster.up(workers=workers, cores=cores, memory=memory) as cluster:
            if json:
                show_json({"url": cluster.url, "page": cluster.page, "folder": str(cluster.folder)})
            else:
                out.print(f"{workers} workers at {cluster.url}, seen at {cluster.page}; logs in {cluster.folder}")
                out.print(f"use it:  pleroma pipeline tune ... --master {cluster.url}", markup=False)
                out.print("ready; stop with Ctrl-C")
            out.file.flush()
            while True:
                cluster.check()
                time.sleep(0.5)
    except KeyboardInterrupt:
        return


def list_labs(json: JsonFlag = False) -> None:
    """The labs of this machine, and which of them were left behind."""
    from pleroma.lab import records

    found = records()
    if json:
        show_json(
            {
                "labs": [
                    {
                        "name": record.name,
                        "folder": str(record.folder),
                        "owner": record.owner.process if record.owner else None,
                        "stale": record.stale,
                        "switches": list(record.bridges),
                        "hosts": list(record.hosts),
                    }
                    for record in found
                ]
            }
        )
        return
    if not found:
        out.print("no labs")
        return
    rows = [(r.name, len(r.bridges), len(r.hosts), _held_by(r)) for r in found]
    show_table("", ("lab", "switches", "hosts", "until"), rows)


def _held_by(record: LabRecord) -> str:
    if record.owner is None:
        return f"pleroma lab down --name {record.name}"
    return "left behind: its process is dead" if record.stale else f"process {record.owner.process} ends"


def one_lab(name: str | None) -> LabRecord:
    """The lab of this name, or the only one."""
    from pleroma.lab import records

    found = {record.name: record for record in records()}
    if name is None:
        if len(found) == 1:
            return next(iter(found.values()))
        reason = f"which one? There are {', '.join(found)}" if found else "there is none; see pleroma lab up"
        raise SetupError(reason, field="lab")
    if name not in found:
        raise UnknownName("lab", name, found)
    return found[name]
