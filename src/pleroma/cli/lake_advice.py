"""Advice on collected traffic, as `tune` and `pipeline tune` share it: options, the question, and what is shown.

Plans are judged on the network that the lake knows, with every switch's own room; on a star only if that is asked for,
or if the lake does not know the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.advice_table import (
    NetworkFigures,
    advice_columns,
    advice_figures,
    table_row,
    table_title,
    techniques_tried,
    write_plan,
)
from pleroma.cli.options import BudgetOptions, LakeSchema
from pleroma.cli.output import err, out, progress, show_json, show_table
from pleroma.cli.plot_files import plots_told, say_written

if TYPE_CHECKING:
    from pleroma.index import TreeIndex
    from pleroma.learning.fitting import Budget
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.replanning.situation import NetworkSituation
    from pleroma.selection.advice_question import Advice
    from pleroma.selection.traffic_summary import TrafficSummary

StarFlag = Annotated[
    bool,
    typer.Option("--star", help="Judge plans on one switch with a port for each subscription, as the papers do."),
]


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """Which events of a lake are used, and on which network plans are judged."""

    schema: LakeSchema = None
    start: Annotated[datetime | None, typer.Option("--from", help="Events from this moment on (UTC).")] = None
    end: Annotated[datetime | None, typer.Option("--to", help="Events before this moment (UTC).")] = None
    draw: Annotated[int, typer.Option(min=2, help="Events to learn from and to judge by.")] = 100_000
    star: StarFlag = False

    def situation(self, lake: Lake) -> NetworkSituation:
        """The schema's last situation in that time with subscriptions; what the lake does not know of it is said."""
        from pleroma.pipeline.lake_situation import last_subscribed

        name = lake.chosen(self.schema)
        return told_situation(lake, name, last_subscribed(lake, name, self.start, self.end), self.star)


def told_situation(lake: Lake, name: str, moment: datetime | None, star: bool) -> NetworkSituation:
    """A schema's situation at a moment. What the lake does not know of it is said in a line each."""
    from pleroma.pipeline.lake_situation import shortcomings, situation_of

    found = situation_of(lake, name, moment, star=star)
    for line in () if star else shortcomings(found):
        err.print(line, style="yellow", markup=False, soft_wrap=True)
    return found


def advised(
    summary: TrafficSummary,
    situation: NetworkSituation,
    budget: BudgetOptions,
    compare: bool,
    seed: int,
    grow_from_all: Callable[[Budget], TreeIndex] | None = None,
) -> list[Advice]:
    """The plans that are found for gathered traffic in a situation, the best first."""
    from pleroma.selection.advice import AdviceQuestion, advise_from

    question = AdviceQuestion(
        situation.filters,
        budget.bits,
        max_members=budget.members,
        rules=budget.rules,
        compare=compare,
        seed=seed,
        placement=situation.placement,
    )
    with progress("trying techniques", techniques_tried(compare, grow_from_all is not None)) as advance:
        return advise_from(summary, question, grow_from_all=grow_from_all, advance=advance)


def show_advised(
    found: list[Advice],
    summary: TrafficSummary,
    situation: NetworkSituation,
    budget: BudgetOptions,
    plan: Path | None,
    json: bool,
    drawn: list[Path],
) -> None:
    """Print what was found, or write it as JSON, and write the best plan as a file if that is wanted."""
    best, placed = found[0], _on_network(found[0], summary, situation)
    write_plan(best, plan, len(situation.subscriptions), placed)
    if json:
        read = {"events": summary.events, "refused": summary.refused, "subscriptions": len(situation.subscriptions)}
        told = {
            "waste_at": "subscriptions" if placed is None else "hosts",
            "best": best.technique,
            "techniques": [advice_figures(each, placed if each is best else None) for each in found],
        }
        made = ({"plan": str(plan)} if plan else {}) | plots_told(drawn)
        show_json(read | told | made)
        return
    rows = [table_row(each, each is best) for each in found]
    show_table(table_title(budget.members, budget.rules), advice_columns(placed is not None), rows)
    counts = f"{summary.events:,} events, {summary.refused:,} outside the domains"
    out.print(f"{counts}, {len(situation.subscriptions):,} subscriptions")
    if placed is not None:
        out.print(f"on the network of the lake: {placed.described()}", markup=False)
    say_written([*([plan] if plan else []), *drawn])


def _on_network(best: Advice, summary: TrafficSummary, situation: NetworkSituation) -> NetworkFigures | None:
    from pleroma.replanning.forecast import forecast

    if situation.topology is None:
        return None
    there = forecast(situation, best.index, best.members, summary.judging)
    return NetworkFigures(there.at_hosts, there.rules)
