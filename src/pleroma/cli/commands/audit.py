"""`pleroma audit`: what a day of collected traffic wasted, on whom, why, and what the best plan would have saved."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.lake_advice import StarFlag
from pleroma.cli.options import JsonFlag, LakeArgument, LakeSchema, SparkMaster, grouped
from pleroma.cli.output import out, progress, shortened, show_json, show_table
from pleroma.cli.plot_files import PlotFiles, PlotFormats, plots_told, say_written
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.pipeline.audit.counterfactual import BestPlanQuestion
    from pleroma.pipeline.audit.findings import Audit, DeliverySum
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.lake.period import Period
    from pleroma.replanning.reported_counts import ReportedCounts

TABLE_FILTER_LETTERS = 60
"""Letters of a filter in a table."""


@dataclass(frozen=True, slots=True)
class PeriodOptions:
    """A day, or from a moment to another."""

    day: Annotated[str | None, typer.Option(help="2026-11-15, in UTC; the last with events, otherwise.")] = None
    start: Annotated[str | None, typer.Option("--from", help="From a moment on: 2026-11-15T16:00.")] = None
    end: Annotated[str | None, typer.Option("--to", help="Before a moment.")] = None

    def period(self, lake: Lake, name: str) -> Period:
        from pleroma.pipeline.lake.period import Period

        if self.day is not None and (self.start or self.end):
            raise SetupError("a day or a beginning and an end, not both", field="--day", value=self.day)
        if self.day is not None:
            return Period.day(self.day)
        if self.start is None and self.end is None:
            return Period.newest(lake, name)
        return Period.between(self.start, self.end)


@dataclass(frozen=True, slots=True)
class BestPlanOptions:
    """What the best plan, which stands beside the plan in force, may use."""

    bits: Annotated[int | None, typer.Option(help="Bits for the best plan; as many as the plan has, otherwise.")] = None
    rules: Annotated[int | None, typer.Option(help="Rules that the best plan has to do with.")] = None
    best: Annotated[bool, typer.Option(help="Look for the best plan.")] = True
    star: StarFlag = False

    def check(self) -> None:
        for option, number in (("--bits", self.bits), ("--rules", self.rules)):
            if number is not None and number < 1:
                raise SetupError(f"{number} is too few", field=option, value=number)

    def question(self) -> BestPlanQuestion | None:
        from pleroma.pipeline.audit.counterfactual import BestPlanQuestion

        return BestPlanQuestion(self.bits, self.rules, self.star) if self.best else None


@grouped
def audit(
    lake: LakeArgument,
    *,
    schema: LakeSchema = None,
    time: PeriodOptions,
    master: SparkMaster = None,
    local: Annotated[
        bool, typer.Option("--local", help="In this process, without Spark: for days that one process can read.")
    ] = False,
    plan: BestPlanOptions,
    top: Annotated[int, typer.Option(min=1, help="How many subscriptions and rules to name.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="A folder to draw the findings in.")] = None,
    formats: PlotFormats,
    json: JsonFlag = False,
) -> None:
    """Look through a day of landed events: who was sent what in vain.

    Each event is judged under the plan it was sent by and the subscriptions of its time. A delivery is one event to one
    subscription, as if each subscriber had a port of its own ("waste at subscriptions"); at the hosts, packets are
    counted ("waste at hosts"), and what clients reported stands beside them. The best plan is made for the network
    that the lake knows, and judged by the waste at its hosts.
    """
    from pleroma.pipeline.audit.audit_pass import audit_here
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.lake_situation import last_subscribed
    from pleroma.pipeline.spark_needs import check

    files = formats.in_folder(plot)
    plan.check()
    if not local:
        check()
    landed = Lake.at(lake)
    name = landed.chosen(schema)
    period = time.period(landed, name)
    last_subscribed(landed, name, period.start, period.end)  # or it is refused, before Spark starts for it
    if local:
        found = audit_here(landed, name, period, plan.question(), progress)
    else:
        found = _audited_on_spark(landed, name, period, plan.question(), master)
    drawn = [] if files is None else _draw(found, files, top)
    if json:
        show_json(found.to_json(top) | plots_told(drawn))
        return
    _show(found, top)
    say_written(drawn)


def _audited_on_spark(
    lake: Lake, name: str, period: Period, question: BestPlanQuestion | None, master: str | None
) -> Audit:
    from pleroma.pipeline.audit.audit_pass import audit_on
    from pleroma.pipeline.spark_session import session

    with ExitStack() as running:
        with progress("starting Spark"):
            spark = running.enter_context(session(master, "pleroma audit"))
        return audit_on(spark, lake, name, period, question, progress)


def _draw(found: Audit, files: PlotFiles, top: int) -> list[Path]:
    from pleroma.cli.pictures.audit_picture import draw_causes, draw_hours, draw_wasters

    pictures = {"wasters": draw_wasters(found, top), "attributes": draw_causes(found), "hours": draw_hours(found)}
    return [path for name, picture in pictures.items() for path in files.write(picture, name)]


def _show(found: Audit, top: int) -> None:
    total = found.total
    estimate = f", standing for {found.of:,.0f}" if found.of != found.events else ""
    out.print(f"{found.schema}, {found.period}: {found.events:,} events{estimate}")
    again = f", {found.repeated:,.0f} of them because they came again" if found.repeated else ""
    out.print(f"waste at subscriptions: {total.wasted:,.0f} of {total.delivered:,.0f} ({total.waste:.1%}){again}")
    packets = found.at_hosts
    out.print(f"waste at hosts: {packets.wasted:,.0f} of {packets.delivered:,.0f} packets ({packets.waste:.1%})")
    for reason, count in found.unjudged.items():
        out.print(f"{count:,} events not judged: {reason}", style="yellow", markup=False)
    for path, reason in found.refused.items():
        out.print(f"{path} left out: {reason}", style="yellow", markup=False, soft_wrap=True)
    rows: list[tuple[Any, ...]] = [(epoch, *_sums(deliveries)) for epoch, deliveries in found.plans.items()]
    show_table("by plan", ("plan", "deliveries", "wasted", "waste at subscriptions"), rows)
    unwanted = total.wasted - found.repeated
    rows = [
        (each.attribute, round(each.removable), _of(each.removable, unwanted), round(each.needed))
        for each in found.causes
    ]
    columns: tuple[str, ...] = ("attribute", "it alone could prevent", "share", "only it could prevent")
    show_table("by attribute: unwanted deliveries", columns, rows)
    rows = [
        (
            each.id,
            each.host,
            *_sums(each.deliveries),
            *_said(each.reported),
            shortened(each.filter, TABLE_FILTER_LETTERS),
        )
        for each in found.subscriptions[:top]
    ]
    columns = ("subscription", "host", "deliveries", "wasted", "share", "reported wanted", "reported wasted", "filter")
    show_table(f"waste at subscriptions, the {len(rows)} worst of {len(found.subscriptions)}", columns, rows)
    rows = [
        (
            each.epoch,
            each.dz,
            *_sums(each.deliveries),
        )
        for each in found.rules[:top]
    ]
    title = f"waste at subscriptions by rule, the {len(rows)} worst of {len(found.rules):,}"
    show_table(title, ("plan", "dz", "deliveries", "wasted", "share"), rows)
    rows = [
        (
            each.host,
            *_sums(each.deliveries),
            *(("", "") if each.reported is None else (each.reported.wanted, each.reported.wasted)),
        )
        for each in found.hosts
    ]
    columns = ("host", "packets", "wasted", "share", "reported wanted", "reported wasted")
    show_table("waste at hosts, each packet once", columns, rows)
    _show_saving(found)


def _show_saving(found: Audit) -> None:
    saved = found.counterfactual
    if saved is None:
        return
    for line in saved.unknown:
        out.print(line, style="yellow", markup=False, soft_wrap=True)
    rows = [
        (f"plan {saved.plan}", f"{saved.plan_waste:.1%}", saved.plan_wasted, saved.plan_rules),
        (saved.technique, f"{saved.waste:.1%}", saved.wasted, saved.rules),
    ]
    title = f"the best plan, on {saved.events:,} events that it was not made from"
    fullest = "rules, fullest" if saved.waste_at == "hosts" else "rules"
    show_table(title, ("plan", f"waste at {saved.waste_at}", "wasted", fullest), rows)
    if saved.share_saved > 0:
        out.print(f"it would have saved {saved.share_saved:.0%} of what was wasted")
    else:
        out.print("nothing was found that wastes less than the plan in force")


def _sums(deliveries: DeliverySum) -> tuple[Any, ...]:
    return round(deliveries.delivered), round(deliveries.wasted), f"{deliveries.waste:.1%}"


def _of(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"


def _said(reported: ReportedCounts | None) -> tuple[Any, Any]:
    return ("", "") if reported is None else (reported.delivered, reported.wasted)
