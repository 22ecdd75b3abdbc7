"""`pleroma demo`: the main job, live in the terminal."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.output import JsonFlag, err, out, show_json, show_table
from pleroma.errors import RoutingError

if TYPE_CHECKING:
    from rich.table import Table

    from pleroma.experiments.demonstration import Half, Look


class Network(StrEnum):
    EMBEDDED = "embedded"
    OVS = "ovs"


def demo(
    seconds: Annotated[float, typer.Option(min=2, help="How long to publish; tuning comes on top.")] = 60.0,
    subscriptions: Annotated[int, typer.Option(min=1, help="How many to make up.")] = 300,
    rate: Annotated[float, typer.Option(min=1, help="Quotes a second.")] = 200.0,
    network: Annotated[
        Network, typer.Option(help="embedded: simulated switches; ovs: Open vSwitch and network namespaces, as root.")
    ] = Network.EMBEDDED,
    json: JsonFlag = False,
) -> None:
    """Watch the whole system: real stock quotes on a fat tree of ten switches, and a better plan halfway.

    Starts a controller with a live network, subscribers and a publisher as separate processes on this machine, and
    leaves nothing running.
    """
    from rich.live import Live

    from pleroma.experiments.demonstration import Demonstration
    from pleroma.experiments.stage import embedded, open_vswitch

    stage = open_vswitch if network is Network.OVS else embedded

    with Live(console=err, refresh_per_second=5, transient=True) as live:
        said: set[str] = set()

        def show(look: Look) -> None:
            if err.is_terminal:
                live.update(_screen(look))
            elif look.phase not in said:
                said.add(look.phase)
                err.print(f"{look.seconds:5.1f} s  {look.phase}")
            if look.url and "url" not in said:
                said.add("url")
                err.print(f"API documentation while it runs: {look.url}/docs")

        halves = asyncio.run(Demonstration(subscriptions, rate, seconds, show, stage).run())
    missed, too_many = sum(half.missed for half in halves), sum(half.too_many for half in halves)
    if json:
        show_json({"halves": [half.to_json() for half in halves], "missed": missed, "too_many": too_many})
    else:
        _summary(halves)
    if missed or too_many:
        raise RoutingError(f"{missed} wanted events did not arrive and {too_many} came that should not have")


def _screen(look: Look) -> Table:
    from rich.table import Table

    counts = look.counts
    p50, p99 = (f"{late / 1000:,.1f} ms" if late is not None else "-" for late in counts.late_us)
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("", f"[bold]{look.phase}[/bold]  ({look.seconds:.0f} s)"),
        ("events published", f"{look.published:,}"),
        ("events delivered", f"{counts.delivered:,}"),
        ("waste so far", f"{counts.waste:.1%}"),
        ("rules on ten switches", f"{look.rules:,}"),
        ("publish to application", f"median {p50}, 99% within {p99}"),
        ("plan", look.plan),
    ):
        table.add_row(name, value)
    return table


def _summary(halves: list[Half]) -> None:
    rows = []
    for half in halves:
        counts = half.counts
        late = [f"{each / 1000:,.1f}" if each is not None else "" for each in counts.late_us]
        rows.append(
            (
                half.plan,
                half.published,
                counts.delivered,
                half.missed,
                f"{counts.waste:.1%}",
                half.rules,
                half.fullest,
                *late,
            )
        )
    columns = ("plan", "published", "delivered", "missed", "waste", "rules", "fullest switch", "p50 ms", "p99 ms")
    show_table("before and after", columns, rows)
    first, second = (half.counts.waste for half in halves)
    out.print(f"waste at the subscribers went from {first:.1%} to {second:.1%}")
    if not any(half.missed or half.too_many for half in halves):
        out.print("every wanted event arrived, and arrived once")
