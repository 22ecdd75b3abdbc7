"""`pleroma pipeline watch`: follow the traffic as it lands, and have a better plan adopted when there is one."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.output import MasterOption, err, show_json
from pleroma.errors import ControllerAway, SetupError

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.watch.decisions import Decision
    from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder
    from pleroma.pipeline.watch.windows import TrafficWindow

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")
_POLL = 0.2


def watch(
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="Where `pleroma up --lake` lands: a folder or a URI.")],
    schema: Annotated[str | None, typer.Option(help="Which schema of the lake; not needed where there is one.")] = None,
    url: Annotated[
        str | None, typer.Option(envvar="PLEROMA_URL", help="The controller that gets a better plan.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Where the token is; one of the role `tuner` is enough.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="PLEROMA_TOKEN", help="The token itself: rather in the variable.")
    ] = None,
    master: MasterOption = None,
    window: Annotated[str, typer.Option(help="The length of a window: 500ms, 60s, 5m, 1h.")] = "60s",
    lateness: Annotated[str, typer.Option(help="How much later than others an event may land.")] = "10s",
    threshold: Annotated[float, typer.Option(help="The share of deliveries that may be wasted.")] = 0.3,
    patience: Annotated[int, typer.Option(help="Windows in a row above it.")] = 2,
    drift: Annotated[float, typer.Option(help="From which distance on (0 to 1) traffic counts as changed.")] = 0.3,
    margin: Annotated[float, typer.Option(help="The share of wasted deliveries that a plan must save.")] = 0.1,
    period: Annotated[str, typer.Option(help="After so long look for a better plan, whatever the waste.")] = "1h",
    cool_down: Annotated[str | None, typer.Option(help="Between two looks; two windows, otherwise.")] = None,
    least: Annotated[int, typer.Option(help="Events that a window needs to say anything.")] = 200,
    bits: Annotated[int | None, typer.Option(min=1, help="Bits for a plan; as many as now, otherwise.")] = None,
    rules: Annotated[int | None, typer.Option(min=1, help="Rules that a switch has room for.")] = None,
    selections: Annotated[
        str | None, typer.Option(help="Ways to select dimensions that are tried: ges,sms; all, otherwise.")
    ] = None,
    splits: Annotated[
        str | None, typer.Option(help="Ways to split that are tried: regular,adaptive; all, otherwise.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where Spark notes how far it is; in the lake, otherwise.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Go through what is there, and stop.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide and tune, and hand nothing over.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print an object a line: each window, each decision.")] = False,
) -> None:
    """Follow the traffic as it lands, in windows, until Ctrl-C.

    Each closed window is published in the lake: what was wasted, and where values lay. When waste stays above the
    threshold, or the period is over, a plan is looked for; one that is better on events held out by the margin is
    handed to the controller. Started again with the same checkpoint it goes on where it was.
    """
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.spark_needs import check
    from pleroma.pipeline.watch.decisions import WatchSettings
    from pleroma.selection.advice import DEFAULT_SELECTIONS, DEFAULT_SPLITS

    settings = WatchSettings(
        window=seconds("--window", window),
        lateness=seconds("--lateness", lateness),
        threshold=threshold,
        patience=patience,
        drift=drift,
        margin=margin,
        period=seconds("--period", period),
        cool_down=None if cool_down is None else seconds("--cool-down", cool_down),
        least=least,
        bits=bits,
        rules=rules,
        selections=DEFAULT_SELECTIONS if selections is None else listed(selections),
        splits=DEFAULT_SPLITS if splits is None else listed(splits),
        trigger=min(max(seconds("--window", window) / 10, 0.2), 5.0),
    )
    landed = Lake.at(lake)
    name = landed.chosen(schema)
    if url is None and not dry_run:
        raise SetupError("say to which controller, or --dry-run", field="--url")
    check()
    handover = None if dry_run or url is None else _handover(url, token_file, token, name)
    told = _telling(json)
    with handover or nullcontext():
        _run(master, landed, name, settings, handover, told, checkpoint, once)


def _run(
    master: str | None,
    lake: Lake,
    name: str,
    settings: Any,
    handover: ControllerPlanHolder | None,
    told: Callable[[TrafficWindow | Decision], None],
    checkpoint: str | None,
    once: bool,
) -> None:
    from pleroma.pipeline.spark_session import session
    from pleroma.pipeline.watch.streaming_job import start_watching

    with session(master, f"pleroma watch {name}") as spark, interruptions() as stopped:
        running = start_watching(spark, lake, name, settings, handover, told, checkpoint=checkpoint, once=once)
        err.print(f"watching {name} in {lake.url}", markup=False)
        while not running.wait(_POLL):
            if stopped.is_set():
                err.print("stopping")
                running.stop()
                break
        if running.late:
            err.print(f"{running.late} sums of events came too late for their windows; --lateness waits longer")


@contextmanager
def interruptions() -> Iterator[Event]:
    """Set by Ctrl-C or a request to end, in place of what Spark does: it cancels what is being done."""
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


def listed(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name for each in text.split(",") if (name := each.strip()))


def _handover(url: str, file: Path | None, token: str | None, schema: str) -> ControllerPlanHolder:
    """The controller, asked once: who may not read a plan need not begin to watch."""
    from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder

    given = token if file is None else file.read_text(encoding="utf-8").strip()
    if not given:
        raise SetupError("no token: give --token-file, or set PLEROMA_TOKEN", field="--token-file")
    made = ControllerPlanHolder(url, given, schema)
    try:
        made.current()
    except ControllerAway as error:
        err.print(f"{error}: windows are published all the same", markup=False)
    except BaseException:
        made.close()
        raise
    return made


def _telling(json: bool) -> Callable[[TrafficWindow | Decision], None]:
    from pleroma.pipeline.watch.windows import TrafficWindow

    def told(each: TrafficWindow | Decision) -> None:
        if json:
            show_json(as_json(each))
        err.print(line(each), markup=False, soft_wrap=True)

    def line(each: TrafficWindow | Decision) -> str:
        return _window_line(each) if isinstance(each, TrafficWindow) else _decision_line(each)

    def as_json(each: TrafficWindow | Decision) -> dict[str, Any]:
        if isinstance(each, TrafficWindow):
            return {"window": each.to_json()}
        return {"decision": {key: value for key, value in each.to_json().items() if key not in ("learned", "index")}}

    return told


def _window_line(window: TrafficWindow) -> str:
    parts = [f"{window.start:%H:%M:%S}", f"{window.events:>7,} events", f"waste {window.waste.rate:6.1%}"]
    if window.reported is not None:
        received = window.reported.delivered + window.reported.wasted
        parts.append(f"reported {window.reported.wasted / max(received, 1):6.1%}")
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
        found += f", {decision.technique} {decision.before.rate:.1%} -> {decision.after.rate:.1%} of held-out events"
    if decision.new_epoch is not None:
        found += f", plan {decision.new_epoch}"
    return f"{decision.window:%H:%M:%S}  {found}" + ("" if decision.seconds is None else f", {decision.seconds:.1f} s")
