"""`pleroma pipeline`: from collected traffic to a better plan, on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pleroma.cli.lake_advice import LakeOptions, advised, show_advised
from pleroma.cli.options import BudgetOptions, CompareFlag, JsonFlag, PlanFile, SparkMaster, check_file, grouped
from pleroma.cli.output import progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pleroma.index import TreeIndex
    from pleroma.learning.fitting import Budget
    from pleroma.pipeline.passes.collected_events import CollectedEvents
    from pleroma.replanning.situation import NetworkSituation
    from pleroma.selection.advice import Advice
    from pleroma.selection.traffic_summary import TrafficSummary

ROW_NUMBER = "pleroma row"
"""The column that numbers a workload's events as they come."""

app = typer.Typer(help="From collected traffic to a better plan, on Spark.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class PassOptions:
    """What is made of the events."""

    compare: CompareFlag = False
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
    master: SparkMaster = None,
    budget: BudgetOptions,
    collected: LakeOptions,
    passes: PassOptions,
    plan: PlanFile = None,
    json: JsonFlag = False,
) -> None:
    """Learn a tree from all that was collected; --compare tries the papers' techniques as well.

    One pass over the events, where they are, draws those that a tree is learned from: half of these train, half judge.
    For a comparison, the pass makes the statistics that the papers' techniques ask for. The result is the plan that
    `pleroma tune` finds on the same events. Plans are made for the network that the lake knows, by who subscribes and
    who publishes where, and judged by the waste at its hosts; with --star, and for a workload, every subscription has
    a port of its own on one switch.
    """
    from pleroma.pipeline.spark_session import session

    check_file("--plan", plan)
    budget.check()
    collection = _collected(source, collected)
    situation = collection.situation
    with session(master) as spark:
        traffic = collection.events(spark)
        summary, found = _tried(spark, traffic, situation, budget, collected.draw, passes)
    show_advised(found, summary, situation, budget, plan, json, [])


def _tried(
    spark: SparkSession,
    traffic: CollectedEvents,
    situation: NetworkSituation,
    budget: BudgetOptions,
    draw: int,
    passes: PassOptions,
) -> tuple[TrafficSummary, list[Advice]]:
    """A summary of the events, and what the techniques make of it, the best first."""
    from pleroma.pipeline.passes.collected_events import LakeEvents
    from pleroma.pipeline.passes.summary_pass import gather_from
    from pleroma.pipeline.passes.tree_pass import grown_from
    from pleroma.pipeline.spark_progress import followed

    scratch = traffic.scratch if isinstance(traffic, LakeEvents) else None
    with progress("reading events", 1) as advance, followed(spark, advance):
        summary = gather_from(
            traffic, situation.filters, draw=draw, seed=passes.seed, statistics=passes.compare, scratch=scratch
        )

    def grown(limit: Budget) -> TreeIndex:
        return grown_from(
            traffic,
            situation.filters,
            budget.bits,
            limit,
            placement=situation.placement,
            seed=passes.seed,
            held_out=summary.held_out,
        )

    found = advised(summary, situation, budget, passes.compare, passes.seed, grown if passes.every else None)
    return summary, found


class _Collection(NamedTuple):
    """The situation of a workload or of a lake, known before Spark is started, and how Spark gets at the events."""

    situation: NetworkSituation
    events: Callable[[SparkSession], CollectedEvents]


def _collected(source: str, collected: LakeOptions) -> _Collection:
    """What a workload's folder, which is a star, or a lake holds."""
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.passes.collected_events import FrameEvents, LakeEvents
    from pleroma.replanning.situation import NetworkSituation
    from pleroma.workloads import Workload
    from pleroma.workloads.workload import EVENTS_FILE

    file = Path(source) / EVENTS_FILE
    if file.is_file():
        data = Workload.load(source)

        def of_workload(spark: SparkSession) -> CollectedEvents:
            rows = spark.read.parquet(str(file.resolve())).selectExpr("*", f"_metadata.row_index AS `{ROW_NUMBER}`")
            return FrameEvents.of(rows, data.schema, ROW_NUMBER)

        return _Collection(NetworkSituation.star(data.schema, data.subscriptions), of_workload)
    lake = Lake.at(source)
    situation = collected.situation(lake)

    def of_lake(spark: SparkSession) -> CollectedEvents:
        return LakeEvents.of(spark, lake, situation.schema.name, collected.start, collected.end)

    return _Collection(situation, of_lake)
