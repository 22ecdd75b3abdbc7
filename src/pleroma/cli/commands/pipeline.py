"""`pleroma pipeline`: from collected traffic to a better plan, on Spark."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.advice_table import COLUMNS, figures, row, title
from pleroma.cli.output import JsonFlag, MasterOption, out, progress, show_json, show_table
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pleroma.content import Filter
    from pleroma.index import TreeIndex
    from pleroma.learning.fitting import Budget
    from pleroma.pipeline.passes.collected_events import CollectedEvents

NUMBER = "pleroma row"
"""A workload's events are numbered as they come."""

app = typer.Typer(help="From collected traffic to a better plan, on Spark.", no_args_is_help=True)


@app.command()
def tune(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A lake (a folder or a URI), or a workload's folder.")
    ],
    schema: Annotated[str | None, typer.Option(help="Which schema of the lake; not needed where there is one.")] = None,
    master: MasterOption = None,
    bits: Annotated[int, typer.Option(help="Bits to spend: 23 for IPv4, up to 112 for IPv6.")] = 23,
    rules: Annotated[int | None, typer.Option(min=1, help="Rules that a switch has room for.")] = None,
    members: Annotated[
        int | None, typer.Option(min=1, help="At most this many dz per subscription; 32, or any number with --rules.")
    ] = None,
    start: Annotated[datetime | None, typer.Option("--from", help="Events from this moment on (UTC).")] = None,
    end: Annotated[datetime | None, typer.Option("--to", help="Events before this moment (UTC).")] = None,
    draw: Annotated[int, typer.Option(min=2, help="Events to try techniques on; statistics are of all.")] = 100_000,
    every: Annotated[
        bool, typer.Option("--every-event", help="Also grow a tree from all events: a pass over them for each level.")
    ] = False,
    plan: Annotated[Path | None, typer.Option(help="Write the best plan here, as JSON.")] = None,
    seed: Annotated[int, typer.Option(help="Which events are drawn.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Try the techniques on all that was collected, and mark the best.

    One pass over the events, where they are, makes the statistics and draws the events that techniques are tried on:
    half of these train, half judge. The result is the plan that `pleroma tune` finds on the same events.
    """
    from pleroma.index import IndexPlan
    from pleroma.pipeline.passes.collected_events import LakeEvents
    from pleroma.pipeline.passes.summary_pass import gather_from
    from pleroma.pipeline.passes.tree_pass import grown_from
    from pleroma.pipeline.spark_progress import followed
    from pleroma.pipeline.spark_session import session
    from pleroma.selection.advice import DEFAULT_SELECTIONS, DEFAULT_SPLITS, AdviceQuestion, advise_from

    if plan is not None and not plan.resolve().parent.is_dir():
        raise SetupError(f"the folder {plan.resolve().parent} does not exist", field="--plan", value=str(plan))
    most = 32 if members is None and rules is None else members
    with session(master) as spark:
        traffic, subscriptions = _traffic(spark, source, schema, start, end)
        scratch = traffic.scratch if isinstance(traffic, LakeEvents) else None
        with progress("reading events", 1) as advance, followed(spark, advance):
            seen = gather_from(traffic, subscriptions, draw=draw, seed=seed, scratch=scratch)

        def grown(budget: Budget) -> TreeIndex:
            return grown_from(traffic, subscriptions, bits, budget, seed=seed, held_out=seen.held_out)

        with progress("trying techniques", (len(DEFAULT_SELECTIONS) + 1) * len(DEFAULT_SPLITS) + 1 + every) as advance:
            question = AdviceQuestion(subscriptions, bits, max_members=most, rules=rules, seed=seed)
            found = advise_from(seen, question, grow_from_all=grown if every else None, advance=advance)
    best = found[0]
    if plan is not None:
        plan.write_text(IndexPlan(1, best.index).dumps() + "\n", encoding="utf-8")
    if json:
        told: dict[str, Any] = {"events": seen.events, "refused": seen.refused, "subscriptions": len(subscriptions)}
        told |= {"best": best.technique, "techniques": [figures(each) for each in found]}
        show_json(told | ({"plan": str(plan)} if plan else {}))
        return
    show_table(title(most, rules), COLUMNS, [row(each, each is best) for each in found])
    out.print(f"{seen.events:,} events, {seen.refused:,} outside the domains, {len(subscriptions):,} subscriptions")
    if plan is not None:
        out.print(f"wrote {plan}", markup=False, soft_wrap=True)


def _traffic(
    spark: SparkSession, source: str, name: str | None, start: datetime | None, end: datetime | None
) -> tuple[CollectedEvents, list[Filter]]:
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.passes.collected_events import FrameEvents, LakeEvents
    from pleroma.workloads import Workload
    from pleroma.workloads.workload import EVENTS_FILE

    file = Path(source) / EVENTS_FILE
    if file.is_file():
        data = Workload.load(source)
        rows = spark.read.parquet(str(file.resolve())).selectExpr("*", f"_metadata.row_index AS `{NUMBER}`")
        return FrameEvents.of(rows, data.schema, NUMBER), list(data.subscriptions)
    lake = Lake.at(source)
    chosen = lake.chosen(name)
    filters = [each.filter for each in lake.subscriptions(chosen, end).rows]
    return LakeEvents.of(spark, lake, chosen, start, end), filters
