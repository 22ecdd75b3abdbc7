"""`pleroma workload`: make data to work on, and look at it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import JsonFlag, grouped
from pleroma.cli.output import out, progress, shortened, show_json, show_table
from pleroma.cli.plot_files import PlotFormats, plots_told, say_written
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.workloads import Model
    from pleroma.workloads.summary import AttributeSummary
    from pleroma.workloads.workload import Workload

app = typer.Typer(help="Make workloads (events and subscriptions) and look at them.", no_args_is_help=True)


class Preset(StrEnum):
    pleroma = "pleroma"
    expressive = "expressive"
    thesis = "thesis"


class Distribution(StrEnum):
    uniform = "uniform"
    zipfian = "zipfian"


class Variation(StrEnum):
    fixed = "fixed"
    random = "random"


class Correlation(StrEnum):
    positive = "positive"
    inverse = "inverse"
    random = "random"


class EventPlacement(StrEnum):
    inside = "inside"
    independent = "independent"


TargetFolder = Annotated[
    Path, typer.Argument(metavar="OUT", help="The folder to write: new, empty, or an older workload.")
]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What is changed of the model that one begins with; None leaves it as it is."""

    dimensions: Annotated[int | None, typer.Option(help="How many attributes: d0, d1, ...")] = None
    low: Annotated[int | None, typer.Option(help="The least value of each.")] = None
    high: Annotated[int | None, typer.Option(help="The largest value of each.")] = None
    subscriptions: Annotated[int | None, typer.Option(help="How many subscriptions.")] = None
    events: Annotated[int | None, typer.Option(help="How many events.")] = None
    distribution: Annotated[Distribution | None, typer.Option(help="Centres anywhere, or around a few hotspots.")] = (
        None
    )
    hotspots: Annotated[int | None, typer.Option(help="How many hotspots, up to 8, if zipfian.")] = None
    exponent: Annotated[
        float | None, typer.Option(help="The hotspot of rank r is chosen in proportion to 1 / r ** exponent.")
    ] = None
    width: Annotated[float | None, typer.Option(help="Mean share of a dimension that a subscription asks for.")] = None
    selectivity: Annotated[Variation | None, typer.Option(help="Random: widths differ between dimensions.")] = None
    variance: Annotated[
        Variation | None, typer.Option(help="Random: the spread of values differs between dimensions.")
    ] = None
    selective: Annotated[
        int | None, typer.Option(help="With random variance: so many dimensions spread fully, the others hardly.")
    ] = None
    correlation: Annotated[
        Correlation | None, typer.Option(help="Random pairs of dimensions go together, or against each other.")
    ] = None
    correlation_strength: Annotated[
        float | None, typer.Option(help="The share of equal values; the largest one if the correlation is random.")
    ] = None
    pairs: Annotated[int | None, typer.Option(help="How many pairs are correlated, if not all.")] = None
    placement: Annotated[
        EventPlacement | None, typer.Option(help="Events inside subscriptions, or independent of them.")
    ] = None
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same data.")] = None

    def applied_to(self, model: Model) -> Model:
        given: dict[str, Any] = {name: value for name, value in asdict(self).items() if value is not None}
        given |= {name: str(value) for name, value in given.items() if isinstance(value, StrEnum)}
        return replace(model, **given)


@app.command()
@grouped
def make(
    folder: TargetFolder,
    *,
    model: Annotated[
        Preset,
        typer.Option(help="Begin with 10 x [0, 1023], 8 x [0, 4095] or 8 x [0, 10000]; the options below change it."),
    ] = Preset.pleroma,
    changes: ModelOptions,
    json: JsonFlag = False,
) -> None:
    """Make a synthetic workload, by the models of the papers."""
    from pleroma.workloads import PRESETS, generate
    from pleroma.workloads.workload import check_target

    chosen = changes.applied_to(PRESETS[model.value])
    check_target(folder)
    _keep(generate(chosen), folder, json)


@app.command()
def stock(
    folder: TargetFolder,
    subscriptions: Annotated[int, typer.Option(help="How many subscriptions, each around a random quote.")] = 1000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same subscriptions.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Make a workload of real data: 12,154 daily quotes of five stocks, 2000 to 2013."""
    from pleroma.workloads import StockModel, generate_stock
    from pleroma.workloads.workload import check_target

    model = StockModel(subscriptions=subscriptions, seed=seed)
    check_target(folder)
    _keep(generate_stock(model), folder, json)


@app.command("import")
def import_data(
    folder: TargetFolder,
    schema: Annotated[Path, typer.Option(help="The schema of the events: a file, TOML or JSON.")],
    events: Annotated[Path, typer.Option(help="The events: a .csv, .tsv or .jsonl (also .gz), or a .parquet.")],
    subscriptions: Annotated[Path | None, typer.Option(help="The subscriptions: a text file, a filter a line.")] = None,
    generate: Annotated[int | None, typer.Option(help="Draw so many subscriptions around the events.")] = None,
    width: Annotated[float, typer.Option(help="The share of all events that a drawn range holds, on average.")] = 0.2,
    seed: Annotated[int, typer.Option(help="The same seed draws the same subscriptions.")] = 0,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out and count rows and filters that do not fit the schema.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Make a workload of your own data: events from a file, subscriptions from a file or drawn around the events.

    A column belongs to the attribute of its name, whatever the case and whatever stands for spaces. Files are read
    piece by piece, so they may be larger than memory.
    """
    from pleroma.content import Schema
    from pleroma.workloads.data_files import DataFile
    from pleroma.workloads.importing import FilterFile, LeftOut, SubscriptionSource, import_workload, unused_columns
    from pleroma.workloads.subscriptions_around import SubscriptionsAround
    from pleroma.workloads.workload import check_target

    space, source = Schema.load(schema), DataFile.at(events)
    rows, lines = LeftOut(events, source.unit, skip), LeftOut(subscriptions or events, "line", skip)
    if (subscriptions is None) == (generate is None):
        raise SetupError("give a file of filters, or how many to --generate", field="--subscriptions")
    wanted: SubscriptionSource = (
        FilterFile(subscriptions, space, lines)
        if generate is None and subscriptions is not None
        else SubscriptionsAround(subscriptions=generate or 0, width=width, seed=seed)
    )
    check_target(folder)
    with progress("reading events") as advance:
        label = import_workload(folder, space, source, wanted, rows, advance)
    unused = unused_columns(source, space)
    if json:
        figures = {name: label[name] for name in ("events", "subscriptions", "description")}
        show_json({"folder": str(folder), **figures, "unused_columns": unused})
        return
    _say_where(folder, label["events"], label["subscriptions"])
    for path, left_out in ((events, rows), (subscriptions, lines)):
        if left_out.count:
            said = f"left out {left_out.count:,} of {path}, the first: {left_out.first}"
            out.print(said, style="yellow", markup=False, soft_wrap=True)
    if unused:
        out.print(f"columns that no attribute is called like: {', '.join(unused)}", markup=False, soft_wrap=True)


@app.command()
@grouped
def show(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A workload made earlier.")],
    *,
    plot: Annotated[
        Path | None, typer.Option(help="Draw subscriptions and events over pairs of dimensions: a file.")
    ] = None,
    formats: PlotFormats,
    json: JsonFlag = False,
) -> None:
    """Show what a workload holds: attributes, ranges, variance, widths and matches."""
    from pleroma.workloads import Workload
    from pleroma.workloads.summary import summarise

    files = formats.at_file(plot)
    with progress("reading"):
        workload = Workload.load(folder)
    with progress("matching", total=len(workload.subscriptions)) as advance:
        summary = summarise(workload, advance)
    drawn = []
    if files is not None:
        from pleroma.cli.pictures.workload_picture import draw

        drawn = files.write(draw(workload))
    if json:
        figures = {"folder": str(folder), **asdict(summary), "description": workload.description}
        show_json(figures | plots_told(drawn))
        return
    show_table(
        f"{folder}: {summary.events:,} events, {summary.subscriptions:,} subscriptions",
        ("attribute", "domain", "seen", "variance", "width", "limits"),
        [_row(each) for each in summary.attributes],
    )
    sample = f" (counted on {summary.counted:,} of them)" if summary.counted < summary.events else ""
    out.print("width: mean share of the domain; limits: share of subscriptions that set a bound")
    out.print(
        f"An event matches {summary.matches:,.4g} subscriptions on average, {summary.most_matches:,} at most; "
        f"nobody wants {summary.unwanted:.1%} of the events{sample}.",
        soft_wrap=True,
    )
    say_written(drawn)


def _row(each: AttributeSummary) -> tuple[str, ...]:
    seen = "nothing" if each.least is None else f"{_short(each.least)} – {_short(each.most)}"
    variance = "-" if each.variance is None else _short(each.variance)
    width = "-" if each.width is None else f"{each.width:.1%}"
    return each.name, each.domain, seen, variance, width, f"{each.limited:.0%}"


def _short(value: Any) -> str:
    """A value in few characters, for it stands in a narrow column."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return shortened(value, len("2026-11-16T21:00:00Z"))
    if abs(value) >= 1e7:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.10g}" if value == round(value, 2) else f"{value:.4g}"


def _keep(workload: Workload, folder: Path, json: bool) -> None:
    workload.save(folder)
    counts = {"events": len(workload.events), "subscriptions": len(workload.subscriptions)}
    if json:
        show_json({"folder": str(folder), **counts, "description": workload.description})
        return
    _say_where(folder, len(workload.events), len(workload.subscriptions))


def _say_where(folder: Path, events: int, subscriptions: int) -> None:
    out.print(f"wrote {events:,} events and {subscriptions:,} subscriptions to {folder}", markup=False, soft_wrap=True)
    out.print(f"look at them with: pleroma workload show {folder}", markup=False, soft_wrap=True)
