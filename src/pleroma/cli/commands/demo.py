"""`pleroma demo`: the main job, live in the terminal."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.options import JsonFlag, grouped
from pleroma.cli.output import err, out, show_json, show_table
from pleroma.cli.plot_files import PlotFiles, PlotFormats, plots_told, say_written
from pleroma.errors import RoutingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from rich.table import Table

    from pleroma.experiments.demonstration.demonstration import DemoView, Half
    from pleroma.experiments.demonstration.running_controller import RunningController

    Place = Callable[..., AbstractAsyncContextManager[RunningController]]


class DemoNetwork(StrEnum):
    EMBEDDED = "embedded"
    OVS = "ovs"


@grouped
def demo(
    *,
    seconds: Annotated[float, typer.Option(min=2, help="How long to publish, at least.")] = 60.0,
    subscriptions: Annotated[int, typer.Option(min=1, help="How many to make up.")] = 300,
    rate: Annotated[float, typer.Option(min=1, help="Quotes a second.")] = 150.0,
    network: Annotated[
        DemoNetwork,
        typer.Option(help="embedded: simulated switches; ovs: Open vSwitch and network namespaces, as root."),
    ] = DemoNetwork.EMBEDDED,
    spark: Annotated[
        bool, typer.Option(help="Let the pipeline find and adopt the better plan; otherwise one comes halfway.")
    ] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the waste at hosts over time: a file.")] = None,
    formats: PlotFormats,
    json: JsonFlag = False,
) -> None:
    """Watch the whole system: real stock quotes on a fat tree of ten switches, and plans that follow the traffic.

    Midway trading moves to other stocks. Waste rises, the pipeline, on Spark in local mode, notices and hands the
    controller a better plan, and waste falls, while publishing goes on. Everything is a process of its own on this
    machine, and nothing is left running.
    """
    from pleroma.experiments.demonstration.running_controller import embedded, open_vswitch
    from pleroma.pipeline.spark_needs import missing

    files = formats.at_file(plot)
    stage = open_vswitch if network is DemoNetwork.OVS else embedded
    reason = missing() if spark else None
    if reason is not None:
        err.print(f"[bold yellow]NO CLOSED LOOP[/bold yellow]: {reason}. A better plan comes halfway instead.")
    if spark and reason is None:
        _closed_loop(subscriptions, rate, seconds, stage, files, json)
    else:
        if files is not None:
            err.print("[yellow]no picture[/yellow]: it would be of the loop")
        _halves(subscriptions, rate, seconds, stage, json)


def _closed_loop(
    subscriptions: int, rate: float, seconds: float, stage: Place, files: PlotFiles | None, json: bool
) -> None:
    from rich.live import Live

    from pleroma.cli.demo_display import screen, summary
    from pleroma.experiments.demonstration.closed_loop import ClosedLoop

    with Live(console=err, refresh_per_second=5, transient=True) as live:
        loop = asyncio.run(ClosedLoop(subscriptions, rate, seconds, screen(live), stage).run())
    drawn = []
    if files is not None and loop.curve:
        from pleroma.cli.pictures.loop_picture import draw_loop

        drawn = files.write(draw_loop(loop))
    if json:
        show_json(loop.to_json() | plots_told(drawn))
    else:
        summary(loop)
        say_written(drawn)
    _check(loop.missed, loop.too_many)


def _halves(subscriptions: int, rate: float, seconds: float, stage: Place, json: bool) -> None:
    from rich.live import Live

    from pleroma.experiments.demonstration.demonstration import Demonstration

    with Live(console=err, refresh_per_second=5, transient=True) as live:
        said: set[str] = set()

        def show(look: DemoView) -> None:
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
    _check(missed, too_many)


def _check(missed: int, too_many: int) -> None:
    if missed or too_many:
        raise RoutingError(f"{missed} wanted events did not arrive and {too_many} came that should not have")


def _screen(look: DemoView) -> Table:
    from rich.table import Table

    counts = look.counts
    p50, p99 = (f"{late / 1000:,.1f} ms" if late is not None else "-" for late in counts.late_us)
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("", f"[bold]{look.phase}[/bold]  ({look.seconds:.0f} s)"),
        ("events published", f"{look.published:,}"),
        ("events delivered", f"{counts.delivered:,}"),
        ("waste at hosts so far", f"{counts.waste_at_hosts:.1%}"),
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
                f"{counts.waste_at_hosts:.1%}",
                half.rules,
                half.fullest,
                *late,
            )
        )
    columns = ("plan", "published", "delivered", "missed", "waste at hosts", "rules", "fullest", "p50 ms", "p99 ms")
    show_table("before and after", columns, rows)
    first, second = (half.counts.waste_at_hosts for half in halves)
    out.print(f"waste at hosts went from {first:.1%} to {second:.1%}")
    if not any(half.missed or half.too_many for half in halves):
        out.print("every wanted event arrived, and arrived once")
