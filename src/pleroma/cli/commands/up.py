"""`pleroma up`: the controller and its API, on simulated switches or on OpenFlow switches, until stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.https_option import HttpsOption, certificate_files, show_what_is_in_clear
from pleroma.cli.options import Addresses, JsonFlag, LogOptions, StateFolder, grouped
from pleroma.cli.output import err, out, show_json
from pleroma.cli.remote import STATE_FOLDER
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.index import AddressRange
    from pleroma.service import CollectingSettings, OpenFlowSettings, Running


class SwitchKind(StrEnum):
    EMBEDDED = "embedded"
    OPENFLOW = "openflow"


class Replan(StrEnum):
    AUTO = "auto"
    OFF = "off"


class EventTags(StrEnum):
    ON = "on"
    OFF = "off"


class Trees(StrEnum):
    SINGLE = "single"
    FOREST = "forest"
    BALANCED = "balanced"


TagsOption = Annotated[
    EventTags,
    typer.Option(help="on: events carry tags, and receivers drop forged ones; off: anybody who can send can forge."),
]


ShowFirstToken = Annotated[
    bool, typer.Option("--show-token", help="At the first start, print the administrator's token, too.")
]


@dataclass(frozen=True, slots=True)
class CollectingOptions:
    """What is collected for the pipeline."""

    lake: Annotated[
        str | None,
        typer.Option(help="Collect for the pipeline in this folder, or at s3://… with credentials in the environment."),
    ] = None
    sample: Annotated[
        float, typer.Option(min=0, max=1, help="The part of all events that publishers send to the lake.")
    ] = 0.01
    keep: Annotated[float, typer.Option(min=0.01, help="Days that events and reports stay in the lake.")] = 30.0

    def settings(self, land_seconds: float = 5.0) -> CollectingSettings | None:
        from pleroma.service import CollectingSettings

        return None if self.lake is None else CollectingSettings(self.lake, self.sample, self.keep, land_seconds)


@dataclass(frozen=True, slots=True)
class SwitchOptions:
    """Which switches there are; all but the kind is for OpenFlow."""

    network: Annotated[
        SwitchKind, typer.Option(help="embedded: simulated switches here; openflow: switches that connect to us.")
    ] = SwitchKind.EMBEDDED
    listen: Annotated[str, typer.Option(help="Where OpenFlow switches connect.")] = "127.0.0.1:6653"
    discover: Annotated[
        bool, typer.Option("--discover", help="Take any switch that connects, and find their links by LLDP.")
    ] = False
    addresses: Annotated[Addresses, typer.Option(help="What events travel under on OpenFlow switches.")] = Addresses.V6
    tls: Annotated[
        tuple[Path, Path, Path] | None,
        typer.Option(metavar="CERT KEY CA", help="Speak TLS with switches that have a certificate of this CA."),
    ] = None
    domain: Annotated[str, typer.Option(help="What a neighbouring controller calls this network.")] = "pleroma"

    @property
    def address_range(self) -> AddressRange:
        from pleroma.index import IPV4, IPV6

        return IPV4 if self.addresses is Addresses.V4 else IPV6

    def openflow(self) -> OpenFlowSettings | None:
        """None for embedded switches."""
        from pleroma.service import OpenFlowSettings
        from pleroma.switches.openflow.listener import tls_context

        if self.network is SwitchKind.OPENFLOW:
            context = None if self.tls is None else tls_context(*self.tls)
            return OpenFlowSettings(address(self.listen), context, self.discover, self.address_range, self.domain)
        if self.discover or self.tls or self.addresses is Addresses.V4:
            raise SetupError("--discover, --tls and --addresses are for --network openflow", field="network")
        return None


@grouped
def up(
    *,
    topology: Annotated[
        str, typer.Option(help="testbed, line:5, ring:6, star:4, fat-tree:4, ..., or a .json/.graphml file.")
    ] = "testbed",
    folder: StateFolder = STATE_FOLDER,
    host: Annotated[str, typer.Option(help="Listen here; only this machine can reach the default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 8470,
    https: HttpsOption = None,
    members: Annotated[
        int | None,
        typer.Option(help="At most so many dz for a registration, by the first plan of a schema; 8 if not given."),
    ] = None,
    switches: SwitchOptions,
    collecting: CollectingOptions,
    land: Annotated[
        float, typer.Option(min=0.1, help="Seconds after which events are in the lake; few wait longer.")
    ] = 5.0,
    replan: Annotated[
        Replan,
        typer.Option(help="auto: look for better plans from recent samples, unless a watcher does; off: never."),
    ] = Replan.AUTO,
    trees: Annotated[
        Trees | None,
        typer.Option(
            help="single: all events on one tree; forest: a tree for each publisher's events; balanced: several trees, "
            "so that no cable is busier than it has to be. If not given, as before; single at first."
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            help="A log that several processes share: etcd://HOST:PORT,HOST:PORT,.../NAME. If not given, in the folder."
        ),
    ] = None,
    roles: Annotated[
        str,
        typer.Option(help="With --log, what this process does: gate,configurator,owner,monitor, or some of these."),
    ] = "gate,configurator,owner,monitor",
    event_tags: TagsOption = EventTags.ON,
    show_token: ShowFirstToken = False,
    logs: LogOptions,
    json: JsonFlag = False,
) -> None:
    """Start everything and serve until Ctrl-C.

    The first start makes an administrator's token and keeps it in the folder, where only you can read it. The
    documentation of the API is at /docs.
    """
    from pleroma.control import ControlSettings
    from pleroma.control.state.tree_choice import check_choice
    from pleroma.routing import build, with_ipv4
    from pleroma.service import Deployment, serve
    from pleroma.service.replanning.replanning_settings import ReplanningSettings
    from pleroma.service.roles.process_role import read_roles

    network = with_ipv4(build(topology)) if switches.addresses is Addresses.V4 else build(topology)
    control = ControlSettings.within(switches.address_range.bits)
    if members is not None:
        control = replace(control, max_members=members)
    openflow = switches.openflow()

    def announce(running: Running) -> None:
        show_what_is_in_clear(host, https, None if openflow is None else openflow.listen[0])
        if json:
            show_json({"url": running.url, **token_fields(running, show=show_token)})
            return
        counts = f"{len(network.switches)} switches, {len(network.hosts)} hosts"
        out.print(f"{'any switches' if switches.discover else counts}; listening on {running.url}")
        if openflow is not None:
            out.print(f"OpenFlow switches connect to {switches.listen}{' by TLS' if switches.tls else ''}")
            if switches.tls is None and not ip_address(openflow.listen[0]).is_loopback:
                err.print("without --tls, whoever reaches that port can pretend to be a switch")
        if collecting.lake is not None:
            sample = f"{100 * collecting.sample:g} %"
            out.print(f"{sample} of all events, reports and subscriptions go to {collecting.lake}")
        show_ready(running, show_token=show_token)

    deployment = Deployment(
        host,
        port,
        https=certificate_files(https),
        control=control,
        plane=openflow,
        collecting=collecting.settings(land),
        replanning=ReplanningSettings() if replan is Replan.AUTO else None,
        event_tags=event_tags is EventTags.ON,
        logs=logs.settings(),
        trees=None if trees is None else check_choice(trees.value),
        log=log,
        roles=read_roles(roles),
    )
    serve(folder, network, deployment, announce=announce)


def token_fields(running: Running, *, show: bool) -> dict[str, str]:
    """Where the administrator's token is; and the token itself if it was made just now and that is asked for."""
    shown = {"token": running.token} if show and running.token is not None else {}
    return ({} if running.token_file is None else {"token_file": str(running.token_file)}) | shown


def show_ready(running: Running, *, show_token: bool) -> None:
    """What every service says last when it has started."""
    out.print(f"API documentation: {running.url}/docs")
    if running.token is not None:
        out.print(f"administrator's token: in {running.token_file}, for you alone to read", soft_wrap=True)
        if show_token:
            out.print(running.token, markup=False, soft_wrap=True)
    out.print("ready; stop with Ctrl-C")
    out.file.flush()


def address(text: str) -> tuple[str, int]:
    """HOST:PORT, with brackets around an IPv6 address."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise SetupError(f"{text!r} is not HOST:PORT", field="listen", value=text)
    try:
        return str(ip_address(host.strip("[]"))), int(port)
    except ValueError:
        raise SetupError(f"{host!r} is not an address", field="listen", value=text) from None
