"""`pleroma replay`: a workload through a running system, every delivery accounted for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import JsonFlag, WorkloadFolder
from pleroma.cli.output import progress, show_json, show_table
from pleroma.cli.remote import DEFAULT_URL, TokenOption, UrlOption, find_token, remote_api
from pleroma.errors import RoutingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pleroma.workloads import Workload


def replay(
    workload: WorkloadFolder,
    rate: Annotated[float, typer.Option(min=0.1, help="Events a second.")] = 500.0,
    events: Annotated[int | None, typer.Option(min=1, help="Only the first so many events.")] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Subscribe with a workload's subscriptions, publish its events, and compare what came with what was wanted.

    There is a subscriber at every host; the subscriptions are dealt out to them. Needs an administrator's token if the
    controller does not have the workload's schema yet.
    """
    from pleroma.workloads import Workload

    data = Workload.load(workload)
    secret = find_token(token)
    with remote_api(url, secret) as remote:
        hosts = [each["name"] for each in remote.get("/v1/hosts")]
    count = len(data.events) if events is None else min(events, len(data.events))
    with progress("publishing", count) as advance:
        figures = asyncio.run(_replay(url, secret, data, count, rate, hosts, advance))
    if json:
        show_json(figures)
    else:
        columns = ("published", "wanted", "delivered", "missed", "too many", "packets wasted", "waste at hosts")
        late = [f"{figures[name]:,.0f}" if figures[name] is not None else "" for name in ("p50_us", "p99_us")]
        row = [figures[name] for name in ("published", "wanted", "delivered", "missed", "too_many", "wasted")]
        show_table("replay", (*columns, "p50 us", "p99 us"), [(*row, f"{figures['waste_at_hosts']:.1%}", *late)])
    if figures["missed"] or figures["too_many"]:
        lost = f"{figures['missed']} events missed, {figures['too_many']} too many"
        raise RoutingError(f"{lost}; {figures['overrun']} were dropped by sockets that were read too slowly")


async def _replay(
    url: str,
    token: str,
    data: Workload,
    count: int,
    rate: float,
    hosts: list[str],
    advance: Callable[[float], None],
) -> dict[str, Any]:
    from pleroma.client import connect
    from pleroma.experiments.demonstration.replay import DeliveryCounts, difference, expected, send, subscribers

    seen: list[DeliveryCounts] = []
    name = data.schema.name
    async with connect(url, token, hosts[0]) as client:
        await client.create_schema(data.schema)
        crowd = subscribers(url, token, name, data.subscriptions, hosts, seen.append)
        async with crowd as members, await client.advertise(name) as publisher:
            done = 0

            def moved(sent: int) -> None:
                nonlocal done
                advance(sent - done)
                done = sent

            await send(publisher, data.events[:count], rate, moved)
            counts = await members.when_quiet()
    wanted = expected(data.subscriptions, data.events[:count])
    missed, too_many = difference(wanted, counts.by_subscription)
    busy = [each.late_us for each in seen if each.late_us[0] is not None]
    return {
        "published": count,
        "wanted": sum(wanted),
        "delivered": counts.delivered,
        "missed": missed,
        "too_many": too_many,
        "wasted": counts.wasted,
        "waste_at_hosts": counts.waste_at_hosts,
        "duplicates": counts.duplicates,
        "dropped": counts.dropped,
        "overrun": counts.overrun,
        "p50_us": busy[len(busy) // 2][0] if busy else None,
        "p99_us": max((late for _, late in busy if late is not None), default=None),
    }
