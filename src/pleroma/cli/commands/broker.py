"""`pleroma broker`: the same service where no switch can be programmed, with events carried in software."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.commands.up import (
    CollectingOptions,
    EventTags,
    ShowFirstToken,
    TagsOption,
    address,
    show_ready,
    token_fields,
)
from pleroma.cli.https_option import HttpsOption, certificate_files, show_what_is_in_clear
from pleroma.cli.options import JsonFlag, LogOptions, StateFolder, grouped
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
    https: HttpsOption = None,
    upstream: Annotated[
        str | None, typer.Option(metavar="URL", help="Join the broker at udp://HOST:PORT, or any controller's URL.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="PLEROMA_UPSTREAM_TOKEN", help="The token with which to join it.")
    ] = None,
    principal: Annotated[str | None, typer.Option(help="Whose token that is.")] = None,
    collecting: CollectingOptions,
    event_tags: TagsOption = EventTags.ON,
    show_token: ShowFirstToken = False,
    logs: LogOptions,
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
        udp = f"udp://{running.url.partition('://')[2]}"
        show_what_is_in_clear(host, https, host)
        if json:
            show_json({"url": running.url, "udp": udp, **token_fields(running, show=show_token)})
            return
        out.print(f"broker; listening on {udp} and {running.url}")
        if above is not None:
            joined = running.service.plane.condition()["above"]
            state = "joined" if joined["connected"] else "not reached yet, trying"
            out.print(f"broker above: {above.url} ({state})")
        show_ready(running, show_token=show_token)

    deployment = Deployment(
        host,
        port,
        https=certificate_files(https),
        plane=BrokerSettings(above),
        collecting=collecting.settings(),
        event_tags=event_tags is EventTags.ON,
        logs=logs.settings(),
    )
    serve(folder, BROKER_TOPOLOGY, deployment, announce=announce)
