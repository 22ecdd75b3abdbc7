"""`pleroma trace`: why an event reaches a host, or does not."""

from __future__ import annotations

from collections.abc import Iterator
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
    live: Annotated[
        bool, typer.Option("--live", help="Read the rules from the switches on the way, and mark differences.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Follow an event: whether it is admitted, the rule or detour at each switch, and at the edge what failed."""
    with remote_api(url, token) as remote:
        given = {"schema": schema, "event": event, "host": source, "to": host, "live": "true" if live else None}
        answer = remote.get("/v1/trace", **{name: value for name, value in given.items() if value is not None})
    if host is not None:
        answer["subscriptions"] = [each for each in answer["subscriptions"] if each["host"] == host]
    if json:
        show_json(answer)
        return
    _show_ways(answer)
    if answer["ways"]:
        out.print(f"reaches {', '.join(answer['reached']) or 'nobody'}", markup=False)
    rows = []
    for each in answer["subscriptions"]:
        verdict = "matches" if each["matches"] else "dropped at the edge" if each["reached"] else "does not match"
        rows.append((each["host"], each["id"], each["filter"], verdict, ", ".join(map(str, each["failed"]))))
    if rows:
        show_table("at the edge", ("host", "subscription", "filter", "verdict", "failed on"), rows)
    for each in answer["verdicts"]:
        about = [each["host"]] if each["host"] is not None else []
        if len(answer["plans"]) > 1:
            about.append(f"by plan {' and '.join(map(str, each['epochs']))}")
        out.print(f"{', '.join(about)}{': ' if about else ''}{each['text']}", markup=False, soft_wrap=True)


def _show_ways(answer: dict[str, Any]) -> None:
    """The way by each plan, switch by switch."""
    for plan in answer["plans"]:
        named = f"plan {plan['epoch']} ({_PLANS[plan['plan']]})"
        if not plan["dz"]:
            out.print(f"{named} does not send it", markup=False)
        for way in answer["ways"]:
            if way["epoch"] == plan["epoch"]:
                out.print(f"{named}: {_entrance(way)}", markup=False)
                rows = [_row(step) for step in way["steps"]]
                columns = ("switch", "in", "follows", "to ports", "nearly matched", "remarks")
                show_table(f"the way of {way['dz']}", columns, rows)
    if answer["ways"]:
        read = "the rules are those read from the switches"
        out.print(read if answer["live"] else "the rules are those wanted; --live reads them from the switches")


def _entrance(way: dict[str, Any]) -> str:
    admission, tree = way["admission"], way["tree"]
    on_tree = "" if tree is None else f", on tree {tree['number']} of {tree['of']}"
    if admission["admitted"]:
        return f"enters at {way['host']}, admitted by {admission['cell']}{on_tree}"
    near = f"; nearest are {', '.join(admission['near'])}" if admission["near"] else ""
    return f"not admitted at {way['host']}{near}{on_tree}"


def _row(step: dict[str, Any]) -> tuple[Any, ...]:
    onward, near = ", ".join(map(_onward, step["outputs"])), ", ".join(map(_why_near, step["near"]))
    return step["switch"], step["in_port"], _followed(step), onward, near, "; ".join(_remarks(step))


def _followed(step: dict[str, Any]) -> str:
    if step["rule"] is None:
        return "nothing"
    return f"{_KINDS.get(step['follows'], step['follows'])} {step['rule']['dz'] or ''}".strip()


def _remarks(step: dict[str, Any]) -> Iterator[str]:
    if step["dropped"] is not None:
        yield _DROPS[step["dropped"]]
    if step["coarser"]:
        needless = ", ".join(map(str, step["needless_ports"]))
        yield f"coarser for want of room{f', needless: port {needless}' if needless else ''}"
    if step["standing"] != "confirmed":
        yield step["refusal"] or _STANDINGS[step["standing"]]
    for difference in step["differences"]:
        yield difference["text"]


def _why_near(rule: dict[str, Any]) -> str:
    return f"{rule['dz']} (shares {rule['shared']} bits)"


def _onward(output: dict[str, Any]) -> str:
    said = f"{output['port']} to {output['to'] or 'nowhere'}"
    if output["to"] is not None and not output["carries"]:
        return f"{said} (down)"
    return said if output["taken"] or output["to"] is None else f"{said} (not taken: another address)"


_PLANS = {"in_force": "in force", "next": "the next", "last": "the last"}
_KINDS = {"foreign": "a rule of somebody else"}
_DROPS = {
    "not_admitted": "not admitted",
    "nobody_behind": "nobody behind wants it",
    "only_back": "wanted only where it came from",
    "rule_missing": "dropped: its rule is missing",
    "foreign_rule": "dropped by a rule of somebody else",
    "rewritten": "dropped: it is addressed to a host",
}
_STANDINGS = {
    "behind": "not confirmed yet",
    "refused": "refused",
    "reading": "its rules are being read",
    "away": "not connected: it has the rules that it had",
    "gone": "gone",
}
