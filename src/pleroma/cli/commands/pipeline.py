"""`pleroma pipeline`: from collected traffic to a better plan, on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.advice_table import (
    ADVICE_COLUMNS,
    advice_figures,
    table_row,
    table_title,
    techniques_tried,
    write_plan,
)
from pleroma.cli.options import (
    BudgetOptions,
    CompareFlag,
    JsonFlag,
    LakeSchema,
    PlanFile,
    SparkMaster,
    check_file,
    grouped,
)
from pleroma.cli.output import out, progress, show_json, show_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pleroma.content import Filter
    from pleroma.index import TreeIndex
    from pleroma.learning.fitting import Budget
    from pleroma.pipeline.passes.collected_events import CollectedEvents
    from pleroma.selection.advice import Advice
    from pleroma.selection.traffic_summary import TrafficSummary

ROW_NUMBER = "pleroma row"
"""The column that numbers a workload's events as they come."""

app = typer.Typer(help="From collected traffic to a better plan, on Spark.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class EventOptions:
    """Which of the collected events are used, and how."""

    start: Annotated[datetime | None, typer.Option("--from", help="Events from this moment on (UTC).")] = None
    end: Annotated[datetime | None, typer.Option("--to", help="Events before this moment (UTC).")] = None
    draw: Annotated[int, typer.Option(min=2, help="Events to learn from and to judge by; statistics are of all.")] = (
        100_000
    )
    every: Annotated[
        bool, typer.Option("--every-event", help="Also grow a tree from all events: a pass over them for each level.")
    ] = False
    seed: Annotated[int, typer.Option(help="Which events are drawn.")] = 0


@app.command()
@grouped
def tune(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A lake (a folder or a URI), or a workload's folder.")
    ],
    *,
    schema: LakeSchema = None,
    master: SparkMaster = None,
    budget: BudgetOptions,
    events: EventOptions,
    compare: CompareFlag = False,
    plan: PlanFile = None,
    json: JsonFlag = False,
) -> None:
    """Learn a tree from all that was collected; --compare tries the papers' techniques as well.

    One pass over the events, where they are, draws those that a tree is learned from: half of these train, half judge.
    For a comparison, the pass makes the statistics that the papers' techniques ask for. The result is the plan that
    `pleroma tune` finds on the same events.
    """
    from pleroma.pipeline.spark_session import session

    check_file("--plan", plan)
    budget.check()
    with session(master) as spark:
        traffic, subscriptions = _collected(spark, source, schema, events)
        summary, found = _tried(spark, traffic, subscriptions, budget, events, compare)
    write_plan(found[0], plan, len(subscriptions))
    if json:
        read = {"events": summary.events, "refused": summary.refused, "subscriptions": len(subscriptions)}
        told = {"best": found[0].technique, "techniques": [advice_figures(each) for each in found]}
        show_json(read | told | ({"plan": str(plan)} if plan else {}))
        return
    rows = [table_row(each, each is found[0]) for each in found]
    show_table(table_title(budget.members, budget.rules), ADVICE_COLUMNS, rows)
    counts = f"{summary.events:,} events, {summary.refused:,} outside the domains"
    out.print(f"{counts}, {len(subscriptions):,} subscriptions")
    if plan is not None:
        out.print(f"wrote {plan}", markup=False, soft_wrap=True)


def _tried(
    spark: SparkSession,
    traffic: CollectedEvents,
    subscriptions: list[Filter],
    budget: BudgetOptions,
    events: EventOptions,
    compare: bool,
) -> tuple[TrafficSummary, list[Advice]]:
    """A summary of the events, and what the techniques make of it, the best first."""
    from pleroma.pipeline.passes.collected_events import LakeEvents
    from pleroma.pipeline.passes.summary_pass import gather_from
    from pleroma.pipeline.passes.tree_pass import grown_from
    from pleroma.pipeline.spark_progress import followed
    from pleroma.selection.advice import AdviceQuestion, advise_from

    scratch = traffic.scratch if isinstance(traffic, LakeEvents) else None
    with progress("reading events", 1) as advance, followed(spark, advance):
        summary = gather_from(
            traffic, subscriptions, draw=events.draw, seed=events.seed, statistics=compare, scratch=scratch
        )

    def grown(limit: Budget) -> TreeIndex:
        held_out = summary.held_out
        return grown_from(traffic, subscriptions, budget.bits, limit, seed=events.seed, held_out=held_out)

    with progress("trying techniques", techniques_tried(compare, events.every)) as advance:
        question = AdviceQuestion(
            subscriptions,
            budget.bits,
            max_members=budget.members,
            rules=budget.rules,
            compare=compare,
            seed=events.seed,
        )
        found = advise_from(summary, question, grow_from_all=grown if events.every else None, advance=advance)
    return summary, found


def _collected(
    spark: SparkSession, source: str, name: str | None, events: EventOptions
) -> tuple[CollectedEvents, list[Filter]]:
    """The events and the subscriptions of a workload's folder or of a lake."""
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.passes.collected_events import FrameEvents, LakeEvents
    from pleroma.workloads import Workload
    from pleroma.workloads.workload import EVENTS_FILE

    file = Path(source) / EVENTS_FILE
    if file.is_file():
        data = Workload.load(source)
        rows = spark.read.parquet(str(file.resolve())).selectExpr("*", f"_metadata.row_index AS `{ROW_NUMBER}`")
        return FrameEvents.of(rows, data.schema, ROW_NUMBER), list(data.subscriptions)
    lake = Lake.at(source)
    chosen = lake.chosen(name)
    filters = [each.filter for each in lake.subscriptions(chosen, events.end)]
    return LakeEvents.of(spark, lake, chosen, events.start, events.end), filters
