"""`pleroma publish`, `advertise` and `withdraw`: the sending side, from a shell."""

from __future__ import annotations

import asyncio
import json as codec
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json
from pleroma.cli.remote import (
    DEFAULT_URL,
    HostOption,
    PrincipalOption,
    TokenOption,
    UrlOption,
    find_token,
    remote_api,
    segment,
)
from pleroma.errors import ContentError

SchemaArgument = Annotated[str, typer.Argument(metavar="SCHEMA", help="The name of a schema that the controller has.")]


def publish(
    schema: SchemaArgument,
    events: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EVENT]...", help="Events as JSON objects; without any, one a line from standard input."
        ),
    ] = None,
    within: Annotated[str, typer.Option("--filter", help="What to advertise; everything, unless told.")] = "true",
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most this many events a second.")] = None,
    host: HostOption = "any",
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    principal: PrincipalOption = None,
    json: JsonFlag = False,
) -> None:
    """Advertise, publish events, and withdraw the advertisement."""
    lines = iter(events) if events else (line for line in sys.stdin if line.strip())
    sent, place = asyncio.run(_publish(url, find_token(token), principal, schema, within, _parsed(lines), rate, host))
    if json:
        show_json({"schema": schema, "host": place, "published": sent})
    else:
        out.print(f"published {sent:,} events at {place}")


async def _publish(
    url: str,
    token: str,
    principal: str | None,
    schema: str,
    within: str,
    events: Iterator[Any],
    rate: float | None,
    host: str,
) -> tuple[int, str]:
    from pleroma.client import connect

    async with (
        connect(url, token, host, principal=principal) as client,
        await client.advertise(schema, within) as publisher,
    ):
        sent = 0
        for event in events:
            publisher.publish(event)
            sent += 1
            await asyncio.sleep(0.0 if rate is None else 1.0 / rate)
        return sent, client.host or ""


def _parsed(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            event = codec.loads(line)
        except ValueError as error:
            raise ContentError(f"event {number} is not JSON: {error}", value=line.strip()) from None
        if not isinstance(event, dict):
            raise ContentError(f"event {number} is not a JSON object", value=line.strip())
        yield event


def advertise(
    schema: SchemaArgument,
    within: Annotated[str, typer.Argument(metavar="FILTER", help="What will be published.")],
    host: Annotated[str, typer.Option(help="The host that will publish.")],
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Register an advertisement that stands until it is withdrawn."""
    with remote_api(url, token) as remote:
        answer = remote.ask("POST", "/v1/advertisements", {"schema": schema, "filter": within, "host": host})
    if json:
        show_json(answer)
    else:
        out.print(f"{answer['id']}: {answer['host']} may publish {answer['filter']}", markup=False)


def withdraw(
    identity: Annotated[str, typer.Argument(metavar="ID", help="As `pleroma advertise` or `pleroma status` names it.")],
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Withdraw an advertisement (a...) or a subscription (s...)."""
    kind = "advertisements" if identity.startswith("a") else "subscriptions"
    with remote_api(url, token) as remote:
        remote.ask("DELETE", f"/v1/{kind}/{segment(identity)}")
    if json:
        show_json({"withdrawn": identity})
    else:
        out.print(f"{identity} is withdrawn", markup=False)
