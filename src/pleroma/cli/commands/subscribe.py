"""`pleroma subscribe`: events on standard output, one JSON object a line."""

from __future__ import annotations

import asyncio
import json as codec
import shlex
from dataclasses import asdict
from typing import Annotated

import typer

from pleroma.cli.commands.publish import SchemaArgument
from pleroma.cli.options import JsonFlag
from pleroma.cli.output import err, show_json
from pleroma.cli.remote import DEFAULT_URL, HostOption, PrincipalOption, TokenOption, UrlOption, find_token


def subscribe(
    schema: SchemaArgument,
    wanted: Annotated[str, typer.Argument(metavar="FILTER", help="Which events, such as: price >= 50 and volume < 30")],
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds.")] = None,
    host: HostOption = "any",
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    principal: PrincipalOption = None,
    json: JsonFlag = False,
) -> None:
    """Print the events that match, exactly those, until Ctrl-C.

    With --json the last line has counters: events delivered, wasted by the network, repeated and dropped.
    """
    counters = asyncio.run(_subscribe(url, find_token(token), principal, schema, wanted, count, seconds, host))
    if json:
        show_json(counters)


async def _subscribe(
    url: str,
    token: str,
    principal: str | None,
    schema: str,
    wanted: str,
    count: int | None,
    seconds: float | None,
    host: str,
) -> dict[str, int]:
    from pleroma.client import connect

    async with (
        connect(url, token, host, principal=principal) as client,
        await client.subscribe(schema, wanted) as subscription,
    ):
        err.print(f"subscribed at {client.host} as {subscription.id}", markup=False)
        if subscription.share is not None and subscription.share.is_poor:
            why = f"pleroma explain {shlex.quote(wanted)} --schema {shlex.quote(schema)} --url {url}"
            err.print(f"warning: {subscription.share}; see {why}", markup=False, soft_wrap=True)
        try:
            async with asyncio.timeout(seconds):
                async for event in subscription:
                    print(codec.dumps(event.to_json(), ensure_ascii=False), flush=True)
                    if count is not None and subscription.info.delivered - subscription.waiting >= count:
                        break
        except TimeoutError:
            pass
        return asdict(subscription.info)
