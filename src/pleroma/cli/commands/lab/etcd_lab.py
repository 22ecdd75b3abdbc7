"""`pleroma lab etcd up|status|kill|start|stop`: a real etcd on this machine, to use and to break."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table

if TYPE_CHECKING:
    from pleroma.lab.etcd_cluster import EtcdCluster

app = typer.Typer(help="A real etcd on this machine, for logs that several processes share.", no_args_is_help=True)

EtcdFolder = Annotated[
    Path | None, typer.Option("--folder", help="Where the cluster is; ~/.local/state/pleroma/etcd if left out.")
]
MemberName = Annotated[str, typer.Argument(metavar="MEMBER", help="m1, m2, m3, ...")]


@app.command()
def up(
    members: Annotated[int, typer.Option(help="How many members; of three, one may fail.")] = 3,
    folder: EtcdFolder = None,
    json: JsonFlag = False,
) -> None:
    """Bring up a cluster, or the one that was stopped. It stays until `pleroma lab etcd stop`."""
    from pleroma.lab.etcd_cluster import EtcdCluster

    place = _folder(folder)
    if place.exists():
        cluster = EtcdCluster.find(place)
        cluster.start(*cluster.members)
    else:
        cluster = EtcdCluster.up(place, members=members, owned=False)
    if json:
        show_json(_told(cluster))
        return
    out.print(f"{len(cluster.members)} members of etcd in {cluster.folder}", markup=False)
    out.print(f"a log in it: {cluster.url()}", markup=False, soft_wrap=True)
    where = f" --folder {folder}" if folder is not None else ""
    out.print(f"the end:     pleroma lab etcd stop{where}", markup=False, soft_wrap=True)


@app.command()
def status(folder: EtcdFolder = None, json: JsonFlag = False) -> None:
    """The members, which of them are up, and which is the leader."""
    cluster = _found(folder)
    if json:
        show_json(_told(cluster))
        return
    leader = cluster.leader
    rows = [
        (
            m.name,
            m.endpoint,
            m.process.process if m.is_up and m.process else "down",
            "leader" if m.name == leader else "",
        )
        for m in cluster.members.values()
    ]
    show_table("", ("member", "address", "process", ""), rows)


@app.command()
def kill(member: MemberName, folder: EtcdFolder = None) -> None:
    """Kill a member, as a loss of power does. Start it again with `pleroma lab etcd start`."""
    _found(folder).kill(member)
    out.print(f"killed: {member}", markup=False)


@app.command()
def start(member: MemberName, folder: EtcdFolder = None) -> None:
    """Start a member that was killed: it has what it had, and catches up."""
    _found(folder).start(member)
    out.print(f"started: {member}", markup=False)


@app.command()
def stop(
    folder: EtcdFolder = None,
    remove: Annotated[bool, typer.Option("--remove", help="Delete what it has, too.")] = False,
) -> None:
    """End all members. What they have stays for the next `pleroma lab etcd up`, unless it is to be removed."""
    cluster = _found(folder)
    if remove:
        cluster.remove()
    else:
        cluster.stop()
    out.print(f"{'removed' if remove else 'stopped'}: the etcd in {cluster.folder}", markup=False)


def _found(folder: Path | None) -> EtcdCluster:
    from pleroma.lab.etcd_cluster import EtcdCluster

    return EtcdCluster.find(_folder(folder))


def _folder(folder: Path | None) -> Path:
    import os

    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return (folder or state / "pleroma" / "etcd").absolute()


def _told(cluster: EtcdCluster) -> dict[str, object]:
    leader = cluster.leader
    return {
        "log": cluster.url(),
        "folder": str(cluster.folder),
        "leader": leader,
        "members": {
            m.name: {"endpoint": m.endpoint, "process": m.process.process if m.is_up and m.process else None}
            for m in cluster.members.values()
        },
    }
