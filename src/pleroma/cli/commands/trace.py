"""`pleroma trace`: why an event reaches a host, or does not."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pleroma.cli.commands.publish import SchemaArgument
from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table
from pleroma.cli.remote import DEFAULT_URL, TokenOption, UrlOption, remote_api


def trace(
    schema: SchemaArgument,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="A JSON object with a value for each attribute.")],
    host: Annotated[str | None, typer.Option(help="Say whether and why it reaches this host.")] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help="Where it enters; the host of an advertisement that covers it, unless told."),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Follow an event: at each switch the rule that matched and those that nearly did, at the edge what failed."""
    with remote_api(url, token) as remote:
        given = {"schema": schema, "event": event, "host": source, "to": host}
        answer = remote.get("/v1/trace", **{name: value for name, value in given.items() if value is not None})
    if host is not None:
        answer["subscriptions"] = [each for each in answer["subscriptions"] if each["host"] == host]
    if json:
        show_json(answer)
        return
    out.print(f"enters at {answer['host']} as {', '.join(answer['dz']) or 'nothing: it is not sent'}", markup=False)
    for way in answer["ways"]:
        rows = []
        for step in way["steps"]:
            rule = step["rule"]["dz"] if step["rule"] else "none: dropped"
            onward, near = ", ".join(map(_onward, step["outputs"])), ", ".join(map(_why_near, step["near"]))
            rows.append((step["switch"], step["in_port"], rule, onward, near))
        show_table(f"the way of {way['dz']}", ("switch", "in", "rule", "to ports", "nearly matched"), rows)
    reached = answer["reached"]
    out.print(f"reaches {', '.join(reached) or 'nobody'}", markup=False)
    if host is not None and host not in reached:
        out.print(f"does not reach {host}: {_why(answer['subscriptions'])}", markup=False)
    rows = []
    for each in answer["subscriptions"]:
        verdict = "matches" if each["matches"] else "dropped at the edge" if each["reached"] else "does not match"
        rows.append((each["host"], each["id"], each["filter"], verdict, ", ".join(map(str, each["failed"]))))
    if rows:
        show_table("at the edge", ("host", "subscription", "filter", "verdict", "failed on"), rows)


def _why_near(rule: dict[str, Any]) -> str:
    return f"{rule['dz']} (shares {rule['shared']} bits)"


def _onward(output: dict[str, Any]) -> str:
    return f"{output['port']} to {output['to'] or 'nowhere'}"


def _why(subscriptions: list[dict[str, Any]]) -> str:
    if not subscriptions:
        return "nothing is subscribed there"
    if any(each["matches"] for each in subscriptions):
        return "a subscription there matches it, but no advertisement covers it on the way"
    return "no subscription there matches it"
