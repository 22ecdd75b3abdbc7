"""`pleroma broker`: the same service where no switch can be programmed, with events carried in software."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.commands.up import CollectingOptions, EventTags, TagsOption, address, show_ready
from pleroma.cli.options import JsonFlag, StateFolder, grouped
from pleroma.cli.output import out, show_json
from pleroma.cli.remote import STATE_FOLDER
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.service import Running


@grouped
def broker(
    *,
    listen: Annotated[
        str, typer.Option(help="HOST:PORT, for events and requests by UDP and for the API by HTTP; port 0: a free one.")
    ] = "127.0.0.1:8470",
    folder: StateFolder = STATE_FOLDER,
    upstream: Annotated[
        str | None, typer.Option(metavar="URL", help="Join the broker at udp://HOST:PORT, or any controller's URL.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="PLEROMA_UPSTREAM_TOKEN", help="The token with which to join it.")
    ] = None,
    principal: Annotated[str | None, typer.Option(help="Whose token that is.")] = None,
    collecting: CollectingOptions,
    event_tags: TagsOption = EventTags.ON,
    json: JsonFlag = False,
) -> None:
    """Carry events in software, until Ctrl-C: a broker for networks without programmable switches.

    Programs connect to udp://HOST:PORT or to http://HOST:PORT with the same calls as everywhere. With --upstream,
    brokers form a tree that is as one.
    """
    from pleroma.broker.upstream import BrokerAbove
    from pleroma.client.inband.udp_address import UdpAddress
    from pleroma.service import BrokerSettings, Deployment, serve
    from pleroma.service.planes.broker_plane import BROKER_TOPOLOGY

    host, port = address(listen)
    above = None
    if upstream is None and (token or principal):
        raise SetupError("--token and --principal are for --upstream", field="--upstream")
    if upstream is not None:
        if upstream.startswith("udp:"):
            UdpAddress.parse(upstream)
            if not principal:
                raise SetupError("udp:// takes the name of a principal", field="--principal")
        if not token:
            raise SetupError("no token: give --token, or set PLEROMA_UPSTREAM_TOKEN", field="--token")
        above = BrokerAbove(upstream, token, principal)

    def announce(running: Running) -> None:
        udp = running.url.replace("http://", "udp://", 1)
        if json:
            show_json({"url": running.url, "udp": udp, "token_file": str(running.token_file)})
            return
        out.print(f"broker; listening on {udp} and {running.url}")
        if above is not None:
            joined = running.service.plane.condition()["above"]
            state = "joined" if joined["connected"] else "not reached yet, trying"
            out.print(f"broker above: {above.url} ({state})")
        show_ready(running)

    deployment = Deployment(
        host,
        port,
        plane=BrokerSettings(above),
        collecting=collecting.settings(),
        event_tags=event_tags is EventTags.ON,
    )
    serve(folder, BROKER_TOPOLOGY, deployment, announce=announce)
