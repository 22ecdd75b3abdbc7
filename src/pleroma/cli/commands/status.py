"""`pleroma status` and `pleroma flows`: what a controller holds, and the rules of one switch."""

from __future__ import annotations

from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.commands.network import show_trees
from pleroma.cli.commands.schemas.schema_commands import show_schemas
from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table
from pleroma.cli.remote import DEFAULT_URL, TokenOption, UrlOption, remote_api, segment
from pleroma.errors import RequestRefused

if TYPE_CHECKING:
    from pleroma.client.blocking_api import BlockingApi

SHOWN_ROWS = 20
"""Switches, advertisements and subscriptions that are shown, each."""
NOTABLE_STALL_SECONDS = 0.05
_LISTED = {"links": ("cut", "cut"), "hosts": ("not reached", "unreachable")}
"""By part of a reason: what is said of its names, and where `/v1/network` has them."""
_LOSSES = {
    "unsent": "could not be sent",
    "overrun": "came faster than programs read",
    "dropped": "came faster than programs took them",
    "missed": "never came",
}
"""By counter: what became of events that clients know to be lost."""


def status(url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """Whether all is well, what is cut or away, schemas, registrations, rules, and what clients have counted."""
    with remote_api(url, token) as remote:
        health = remote.get("/health")
        totals = remote.get("/v1/statistics")
        schemas = list(remote.items("/v1/schemas"))
        switches = list(remote.items("/v1/switches"))
        network = _network(remote)
        standing = {
            kind: list(islice(remote.items(f"/v1/{kind}"), SHOWN_ROWS)) for kind in ("advertisements", "subscriptions")
        }
    if json:
        shown = {"health": health, "statistics": totals, "schemas": schemas, "switches": switches}
        show_json(shown | ({} if network is None else {"network": network}))
        return
    counts = (totals["advertisements"], totals["subscriptions"], totals["rules"])
    out.print("{status}; version {version}, log position {position}".format(**health))
    for each in health["reasons"]:
        reason = _in_full(each, network) or each["reason"]
        out.print(f"{each['status']}: {each['part']}: {reason}", markup=False, soft_wrap=True)
    out.print("{:,} advertisements, {:,} subscriptions, {:,} rules".format(*counts))
    if totals["loop_stall_seconds"] > NOTABLE_STALL_SECONDS:
        out.print(
            f"answered nobody for {totals['loop_stall_seconds']:.2f} s at a time in the last minute (see its log)"
        )
    show_trees(totals["trees"])
    show_schemas(schemas)
    _show_traffic(totals)
    show_forged(totals.get("forged") or {"entered": (), "reported": ()})
    first = sorted(switches, key=lambda each: (each["state"] == "ready", -each["waiting"], -each["rules"]))[:SHOWN_ROWS]
    limits = ["" if each["limit"] is None else each["limit"] for each in first]
    rows = [
        (each["name"], each["state"], each["rules"], limit, _behind(each))
        for each, limit in zip(first, limits, strict=True)
    ]
    show_table("switches", ("switch", "state", "rules", "limit", "behind"), rows)
    for kind, found in standing.items():
        if found:
            more = "" if totals[kind] <= SHOWN_ROWS else f", the first {SHOWN_ROWS}"
            names = ("id", "schema", "host", "principal", "filter")
            show_table(f"{kind}{more}", names, [tuple(each[name] for name in names) for each in found])


def _network(remote: BlockingApi) -> dict[str, Any] | None:
    """What there is of the network now; None for those who may not see it, and see the reasons in `/health` only."""
    try:
        found: dict[str, Any] = remote.get("/v1/network")
    except RequestRefused as refused:
        if refused.status != HTTPStatus.FORBIDDEN:
            raise
        return None
    return found


def _in_full(reason: dict[str, Any], network: dict[str, Any] | None) -> str | None:
    """A reason about links or hosts with all their names, of which `/health` has the first ones only."""
    if network is None or reason["part"] not in _LISTED:
        return None
    what, field = _LISTED[reason["part"]]
    return f"{what}: {', '.join(network[field])}"


def _behind(switch: dict[str, Any]) -> str:
    """What a switch has not confirmed yet, and why, if that is known."""
    if not switch["unconfirmed"]:
        return ""
    why = f": {switch['failure']}" if switch["failure"] else ""
    return f"{switch['unconfirmed']:,} changes since {switch['waiting']:.1f} s{why}"


def _show_traffic(totals: dict[str, Any]) -> None:
    reported = totals["reported"]
    counters = ("published", "delivered", "wanted", "wasted", "duplicates", "dropped", "forged")
    row = (*(reported[name] for name in counters), _waste(reported))
    packets = ("packets wanted", "packets wasted", "duplicates", "dropped", "forged", "waste at hosts")
    names = ("published", "delivered", *packets)
    show_table("events since the start, as clients report them", names, [row])
    show_losses(reported)
    rows = [_rates("everything, last minute", totals["last_minute"])]
    for name, each in totals["by_schema"].items():
        rows.append(_rates(f"{name}, last minute", each["last_minute"]))
        rows.append(_rates(f"{name}, since plan {each['epoch']}", each["since_plan"]))
    show_table("rates", ("", "seconds", "published/s", "delivered/s", "waste at hosts"), rows)


def show_losses(reported: dict[str, Any]) -> None:
    """Say what clients know to be lost, and nothing where nothing is."""
    lost = [f"{reported[name]:,} {name} ({became})" for name, became in _LOSSES.items() if reported[name]]
    if lost:
        out.print(f"lost at clients: {', '.join(lost)}", soft_wrap=True)


def show_forged(forged: dict[str, Any]) -> None:
    entered = [(f"from {each['principal']} at {each['host']}", each["events"], "dropped") for each in forged["entered"]]
    reported = [
        (f"of {each['schema']}, at subscribers", each["events"], "may enter at " + ", ".join(each["may_enter_at"]))
        for each in forged["reported"]
    ]
    if entered or reported:
        show_table("forged events", ("", "events", ""), [*entered, *reported])


def _rates(what: str, rates: dict[str, Any]) -> tuple[str, ...]:
    per_s = (f"{rates[name]:,.1f}" for name in ("published_per_s", "delivered_per_s"))
    return what, f"{rates['seconds']:,.0f}", *per_s, _waste(rates)


def _waste(figures: dict[str, Any]) -> str:
    return "" if figures["waste_at_hosts"] is None else f"{figures['waste_at_hosts']:.1%}"


def flows(
    switch: Annotated[str, typer.Argument(metavar="SWITCH", help="As `pleroma status` names it.")],
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many rules.")] = 100,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """The flow table of one switch, from the left of the event space to the right."""
    with remote_api(url, token) as remote:
        found = list(islice(remote.items(f"/v1/switches/{segment(switch)}/flows", counts=True), limit))
    if json:
        show_json({"switch": switch, "flows": found})
        return
    columns = ["dz", "prefix", "priority", "packets", "outputs"]
    if all(each["packets"] is None for each in found):  # simulated switches do not count them
        columns.remove("packets")
    rows = [[_outputs(each[name]) if name == "outputs" else each[name] for name in columns] for each in found]
    show_table(f"rules of {switch}", ["destination" if name == "prefix" else name for name in columns], rows)


def _outputs(outputs: list[dict[str, Any]]) -> str:
    return ", ".join(f"{each['port']}" + (f" to {each['rewrite']}" if each["rewrite"] else "") for each in outputs)
