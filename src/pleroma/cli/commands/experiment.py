"""`pleroma experiment`: repeat a figure of the papers and say whether its claim holds here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import JsonFlag, grouped
from pleroma.cli.output import out, progress, show_json, show_table
from pleroma.cli.plot_files import PlotFiles, PlotFormats, plots_told, say_written
from pleroma.errors import SetupError, UnknownName

if TYPE_CHECKING:
    from pleroma.experiments.report import FigureReport


@grouped
def experiment(
    name: Annotated[str, typer.Argument(help="Which figure; without a name, they are listed.")] = "",
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, seconds; the papers' sizes otherwise.")] = False,
    plot: Annotated[Path | None, typer.Option(help="A folder to draw the figure in.")] = None,
    formats: PlotFormats,
    spark: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Send scenarios to Spark: local[*], spark://HOST:PORT, ...")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep results as they are found: interrupted, it goes on from there."),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Name all figures and what they stand for.")] = False,
    json: JsonFlag = False,
) -> None:
    """Repeat one of the papers' figures.

    The table has our numbers; below it stands what the paper found, and whether that is so here.
    """
    from pleroma.experiments.figures.catalogue import EXPERIMENTS

    if list_all or not name:
        if json:
            show_json({figure: sweep.title for figure, sweep in EXPERIMENTS.items()})
        else:
            listed = [(figure, sweep.title) for figure, sweep in EXPERIMENTS.items()]
            show_table("figures", ("name", "what it is"), listed)
        return
    if name not in EXPERIMENTS:
        raise UnknownName("figure", name, EXPERIMENTS)
    files = formats.in_folder(plot)
    if spark is not None or keep is not None:
        report = _in_parts(name, quick, spark, keep)
    else:
        with progress(f"experiment {name}", 1) as advance:
            report = EXPERIMENTS[name].run(quick, advance)
    drawn = [] if files is None else _draw(report, files)
    if json:
        data: dict[str, Any] = {
            "figure": report.figure,
            "title": report.title,
            "quick": quick,
            "lines": {label: {str(x): y for x, y in line.items()} for label, line in report.lines.items()},
            "spread": {label: {str(x): y for x, y in line.items()} for label, line in report.spread.items()},
            "published": [each._asdict() for each in report.published],
            "claims": [{"claim": verdict.claim, "holds": verdict.holds} for verdict in report.verdicts],
        }
        show_json(data | dict(report.figures) | plots_told(drawn))
        return
    show_table(report.title, report.columns, report.rows)
    for verdict in report.verdicts:
        out.print(f"{'holds' if verdict.holds else 'DOES NOT HOLD'}: {verdict.claim}", markup=False, soft_wrap=True)
    say_written(drawn)


def _draw(report: FigureReport, files: PlotFiles) -> list[Path]:
    from pleroma.cli.pictures.figure_picture import draw_grid, draw_lines

    if report.panels:
        return files.write(draw_grid(report.panels, report.title, report.x, report.y), report.figure)
    axes = report.title, report.x, report.y, report.ticks
    return files.write(draw_lines(report.lines, *axes, report.spread, report.published), report.figure)


def _in_parts(name: str, quick: bool, master: str | None, folder: Path | None) -> FigureReport:
    """Scenario by scenario, here or on Spark, keeping what is found where there is a folder."""
    from pleroma.experiments.figures.catalogue import SWEEPS
    from pleroma.experiments.result_cache import ResultCache
    from pleroma.experiments.scenarios import Performer, one_by_one

    if name not in SWEEPS:
        option, value = ("--spark", master) if master is not None else ("--keep", str(folder))
        reason = f"{name} cannot be split: it measures this machine, or is one scenario; run it without {option}"
        raise SetupError(reason, field=option, value=value)

    def run(perform: Performer, advance: Callable[[float], None]) -> FigureReport:
        return SWEEPS[name].run(quick, advance, perform if folder is None else ResultCache(folder.resolve(), perform))

    if master is None:
        with progress(f"experiment {name}", 1) as advance:
            return run(one_by_one, advance)
    from pleroma.pipeline.spark_needs import check

    check()
    from pleroma.pipeline.passes.spark_sweep import SparkSweep
    from pleroma.pipeline.spark_session import session

    with progress(f"experiment {name}", 1) as advance, session(master, f"pleroma experiment {name}") as started:
        return run(SparkSweep(started), advance)
