"""`pleroma pipeline watch`: follow the traffic as it lands, and have a better plan adopted when there is one."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.lake_advice import told_situation
from pleroma.cli.options import CompareFlag, LakeArgument, LakeSchema, Selections, SparkMaster, Splits, grouped, listed
from pleroma.cli.output import err, show_json
from pleroma.errors import ControllerAway, DamagedFile, SetupError

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder
    from pleroma.pipeline.watch.replanner import OnEntry
    from pleroma.replanning.decisions import Decision, WatchSettings
    from pleroma.replanning.plan_in_force import PlanHolder
    from pleroma.replanning.windows import TrafficWindow

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")
STOP_POLL_SECONDS = 0.2
SHORTEST_TRIGGER_SECONDS, LONGEST_TRIGGER_SECONDS = 0.2, 5.0
"""New files are looked for ten times a window, but not more and not less often than this."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """The controller that gets a better plan, and how it is convinced that it may."""

    url: Annotated[str | None, typer.Option(envvar="PLEROMA_URL", help="The controller that gets a better plan.")] = (
        None
    )
    token_file: Annotated[Path | None, typer.Option(help="Where the token is; one of the role `tuner` is enough.")] = (
        None
    )
    token: Annotated[
        str | None, typer.Option(envvar="PLEROMA_TOKEN", help="The token itself: rather in the variable.")
    ] = None

    def plan_holder(self, url: str, schema: str) -> ControllerPlanHolder:
        """The controller, asked once: nothing is started if its plan may not be read."""
        from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder

        token = self.token if self.token_file is None else self.token_file.read_text(encoding="utf-8").strip()
        if not token:
            raise SetupError("no token: give --token-file, or set PLEROMA_TOKEN", field="--token-file")
        holder = ControllerPlanHolder(url, token, schema)
        try:
            holder.current()
        except ControllerAway as error:
            err.print(f"{error}: windows are published all the same", markup=False)
        except BaseException:
            holder.close()
            raise
        return holder


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """When a better plan is looked for, and which plans are tried: `WatchSettings` as words of the command line."""

    window: Annotated[str, typer.Option(help="The length of a window: 500ms, 60s, 5m, 1h.")] = "60s"
    lateness: Annotated[str, typer.Option(help="How much later than others an event may land.")] = "10s"
    threshold: Annotated[float, typer.Option(help="The waste at hosts that is borne.")] = 0.3
    patience: Annotated[int, typer.Option(help="Windows in a row above it.")] = 2
    drift: Annotated[float, typer.Option(help="From which distance on (0 to 1) traffic counts as changed.")] = 0.3
    newcomers: Annotated[
        float,
        typer.Option(help="The share of subscriptions whose coming and going is a reason to look; 0: none."),
    ] = 0.25
    margin: Annotated[float, typer.Option(help="The share of the waste that a plan must save.")] = 0.1
    period: Annotated[str, typer.Option(help="After so long look for a better plan, whatever the waste.")] = "1h"
    cool_down: Annotated[str | None, typer.Option(help="Between two looks; two windows, otherwise.")] = None
    least: Annotated[int, typer.Option(help="Events that a window needs to say anything.")] = 200
    bits: Annotated[int | None, typer.Option(min=1, help="Bits for a plan; as many as now, otherwise.")] = None
    rules: Annotated[int | None, typer.Option(min=1, help="Rules that a switch has room for.")] = None
    compare: CompareFlag = False
    selections: Selections = None
    splits: Splits = None

    def settings(self) -> WatchSettings:
        from pleroma.replanning.decisions import WatchSettings
        from pleroma.selection.advice_question import DEFAULT_SELECTIONS, DEFAULT_SPLITS

        if not self.compare and (self.selections or self.splits):
            option = "--selections" if self.selections else "--splits"
            raise SetupError("names techniques of a comparison: give --compare as well", field=option)
        window = seconds("--window", self.window)
        return WatchSettings(
            window=window,
            lateness=seconds("--lateness", self.lateness),
            threshold=self.threshold,
            patience=self.patience,
            drift=self.drift,
            newcomers=self.newcomers,
            margin=self.margin,
            period=seconds("--period", self.period),
            cool_down=None if self.cool_down is None else seconds("--cool-down", self.cool_down),
            least=self.least,
            bits=self.bits,
            rules=self.rules,
            compare=self.compare,
            selections=DEFAULT_SELECTIONS if self.selections is None else listed(self.selections),
            splits=DEFAULT_SPLITS if self.splits is None else listed(self.splits),
            trigger=min(max(window / 10, SHORTEST_TRIGGER_SECONDS), LONGEST_TRIGGER_SECONDS),
        )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How the job runs."""

    master: SparkMaster = None
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Where Spark notes how far it is: in the lake, or on this machine if that is an object store."
        ),
    ] = None
    once: Annotated[bool, typer.Option("--once", help="Go through what is there, and stop.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide and tune, and hand nothing over.")] = False


@grouped
def watch(
    lake: LakeArgument,
    *,
    schema: LakeSchema = None,
    controller: ControllerOptions,
    options: WatchOptions,
    run: RunOptions,
    json: Annotated[bool, typer.Option("--json", help="Print an object a line: each window, each decision.")] = False,
) -> None:
    """Follow the traffic as it lands, in windows, until Ctrl-C.

    Each closed window is published in the lake: what was wasted, and where values lay. When waste stays above the
    threshold, or the period is over, a plan is looked for; one that is better on events held out by the margin is
    handed to the controller. Started again with the same checkpoint it goes on where it was.
    """
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.spark_needs import check

    settings = options.settings()
    landed = Lake.at(lake)
    name = landed.chosen(schema)
    if controller.url is None and not run.dry_run:
        raise SetupError("say to which controller, or --dry-run", field="--url")
    check()
    with suppress(DamagedFile):  # a registration that cannot be read is named when a plan is looked for
        told_situation(landed, name, None, star=False)
    holder = None if run.dry_run or controller.url is None else controller.plan_holder(controller.url, name)
    with holder or nullcontext():
        _watch(landed, name, settings, holder, run, _printer(json))


def _watch(
    lake: Lake, name: str, settings: WatchSettings, holder: PlanHolder | None, run: RunOptions, on_entry: OnEntry
) -> None:
    from pleroma.pipeline.spark_session import session
    from pleroma.pipeline.watch.streaming_job import start_watching

    with session(run.master, f"pleroma watch {name}") as spark, interruptions() as stopped:
        job = start_watching(spark, lake, name, settings, holder, on_entry, checkpoint=run.checkpoint, once=run.once)
        err.print(f"watching {name} in {lake.url}", markup=False)
        while not job.wait(STOP_POLL_SECONDS):
            if stopped.is_set():
                err.print("stopping")
                job.stop()
                break
        if job.late:
            err.print(f"{job.late} sums of events came too late for their windows; --lateness waits longer")


@contextmanager
def interruptions() -> Iterator[Event]:
    """An event that Ctrl-C or a request to end sets. Spark's own handler would cancel the batch that is processed."""
    stopped = Event()
    before = {each: signal.signal(each, lambda *_: stopped.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def seconds(option: str, text: str) -> float:
    """A time such as 500ms, 60s, 5m, 1h."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise SetupError(f"{text!r} is no time such as 500ms, 60s, 5m or 1h", field=option, value=text)
    return float(found[1]) * _UNITS[found[2]]


def _printer(json: bool) -> OnEntry:
    """Prints windows and decisions: a line on standard error, and an object on standard output if that is wanted."""
    from pleroma.replanning.windows import TrafficWindow

    def show(each: TrafficWindow | Decision) -> None:
        if json:
            show_json(as_json(each))
        err.print(line(each), markup=False, soft_wrap=True)

    def line(each: TrafficWindow | Decision) -> str:
        return _window_line(each) if isinstance(each, TrafficWindow) else _decision_line(each)

    def as_json(each: TrafficWindow | Decision) -> dict[str, Any]:
        if isinstance(each, TrafficWindow):
            return {"window": each.to_json()}
        return {"decision": {key: value for key, value in each.to_json().items() if key not in ("learned", "index")}}

    return show


def _window_line(window: TrafficWindow) -> str:
    parts = [f"{window.start:%H:%M:%S}", f"{window.events:>7,} events", f"waste at hosts {window.waste.rate:6.1%}"]
    if window.reported is not None:
        parts.append(f"reported {window.reported.waste_at_hosts:6.1%}")
    if window.drift is not None:
        parts.append(f"drift {window.drift:.2f}")
    if window.epoch is not None:
        parts.append(f"plan {window.epoch}")
    named = {"refused": window.refused, "unjudged": window.unjudged, "empty windows before": window.empty_before}
    return "  ".join([*parts, *(f"{number:,} {name}" for name, number in named.items() if number)])


def _decision_line(decision: Decision) -> str:
    if decision.reason is None:
        return f"{decision.window:%H:%M:%S}  keep: {decision.detail}"
    found = f"tuned ({decision.reason}: {decision.detail}): {decision.outcome}"
    if decision.before is not None and decision.after is not None:
        change = f"{decision.before.rate:.1%} -> {decision.after.rate:.1%}"
        found += f", {decision.technique}: waste at {decision.waste_at} {change} of held-out events"
    if decision.rules is not None:
        found += f", at most {decision.rules:,} rules"
    if decision.new_epoch is not None:
        found += f", plan {decision.new_epoch}"
    return f"{decision.window:%H:%M:%S}  {found}" + ("" if decision.seconds is None else f", {decision.seconds:.1f} s")
