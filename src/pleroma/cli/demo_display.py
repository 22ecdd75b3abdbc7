"""The closed loop in the terminal: phases, waste at hosts as a curve, what the watcher decided, and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pleroma.cli.output import err, out, show_table

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from pleroma.experiments.demonstration.loop_story import LoopStory, LoopView

BARS = "▁▂▃▄▅▆▇█"
CURVE_POINTS = 60
"""Points of the curve of waste that are shown."""
SHOWN_DECISIONS = 4
"""Of the newest decisions."""


def screen(live: Live) -> Callable[[LoopView], None]:
    """A function that shows views of the loop: as a live table in a terminal, otherwise a line for all that is new."""
    told: set[str] = set()

    def show(look: LoopView) -> None:
        if look.url and "url" not in told:
            told.add("url")
            err.print(f"API documentation while it runs: {look.url}/docs")
        if err.is_terminal:
            live.update(_table(look))
            return
        for line in (look.phase, *(f"watcher: {each}" for each in look.said)):
            if line not in told:
                told.add(line)
                recent = [each for each in look.waste_at_hosts[-2:] if each is not None]
                waste = f"  waste at hosts {recent[-1]:.0%}" if recent else ""
                err.print(f"{look.seconds:5.1f} s  {line}{waste}", markup=False, soft_wrap=True)

    return show


def _table(look: LoopView) -> Table:
    from rich.table import Table

    counts = look.counts
    p50, p99 = (f"{late / 1000:,.1f} ms" if late is not None else "-" for late in counts.late_us)
    table = Table.grid(padding=(0, 2))
    rows: list[tuple[str, Any]] = [
        ("", f"[bold]{look.phase}[/bold]  ({look.seconds:.0f} s)"),
        ("events published", f"{look.published:,}"),
        ("events delivered", f"{counts.delivered:,}"),
        ("waste at hosts, every 2 s", curve(look)),
        ("plan in force", f"{look.epoch or '-'}"),
        ("publish to application", f"median {p50}, 99% within {p99}"),
    ]
    rows += [("the watcher" if not number else "", each) for number, each in enumerate(look.said[-SHOWN_DECISIONS:])]
    for row in rows:
        table.add_row(*row)
    return table


def curve(look: LoopView) -> str:
    """Bars of waste; a line where the traffic shifted and where a change of plans began and ended."""
    first = max(len(look.waste_at_hosts) - CURVE_POINTS, 0)
    marks = {place for place, _ in look.marks}
    bars = []
    for place, share in enumerate(look.waste_at_hosts[first:], first):
        if place in marks:
            bars.append("[dim]│[/dim]")
        colour = "red" if (share or 0.0) >= 0.5 else "yellow" if (share or 0.0) >= 0.4 else "green"
        bars.append(
            " " if share is None else f"[{colour}]{BARS[min(int(share * len(BARS)), len(BARS) - 1)]}[/{colour}]"
        )
    recent = [share for share in look.waste_at_hosts[-3:] if share is not None]
    return "".join(bars) + (f"  {recent[-1]:.0%}" if recent else "")


def summary(loop: LoopStory) -> None:
    rows = [
        (
            each.name,
            each.epoch,
            f"{each.seconds:.1f}",
            each.published,
            each.counts.delivered,
            each.wasted,
            f"{each.waste_at_hosts:.1%}",
        )
        for each in loop.stretches
    ]
    columns = ("stretch", "plan", "seconds", "published", "delivered", "packets wasted", "waste at hosts")
    show_table("traffic shifts, and the pipeline follows", columns, rows)
    for each in loop.decisions:
        found = "" if each["technique"] is None else f" ({each['technique']})"
        out.print(f"watcher: {each['detail']}: {each['outcome'].replace('_', ' ')}{found}", markup=False)
    if loop.shift_to_plan is None:
        out.print("no better plan came into force before the end", style="yellow")
    else:
        out.print(f"{loop.shift_to_plan:.1f} s from the shift to the new plan in force", end="")
        done = "" if loop.shift_to_settled is None else f", {loop.shift_to_settled:.1f} s until the old one was gone"
        out.print(done, markup=False)
    waste = [f"{each.waste_at_hosts:.1%} {each.name}" for each in loop.stretches]
    out.print(f"waste at hosts: {', '.join(waste)}", markup=False, soft_wrap=True)
    if not loop.missed and not loop.too_many:
        out.print("every wanted event arrived, and arrived once; publishing never paused")
