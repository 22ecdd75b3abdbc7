"""`pleroma tune`: where the bits should go for a workload, or for what a lake has collected."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from pleroma.cli.lake_advice import LakeOptions, advised, show_advised
from pleroma.cli.options import (
    BudgetOptions,
    CompareFlag,
    JsonFlag,
    PlanFile,
    check_file,
    grouped,
    listed,
)
from pleroma.cli.output import progress, show_json, show_table
from pleroma.cli.plot_files import PlotFiles, PlotFormats, plots_told, say_written
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.content.batch import EventBatch
    from pleroma.routing import Topology
    from pleroma.selection.advice import Advice
    from pleroma.workloads import Workload


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """What is drawn of the best plan."""

    plot: Annotated[
        Path | None, typer.Option(help="A folder to draw the best plan's cells and waste by dimensions in.")
    ] = None
    across: Annotated[
        str | None, typer.Option(help="The two dimensions to draw cells over: price,volume. The most used, otherwise.")
    ] = None

    def dimensions(self, data: Workload) -> tuple[int, ...] | None:
        return None if self.across is None else tuple(data.schema.position(name) for name in listed(self.across))


@grouped
def tune(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A workload's folder, or a lake (a folder or a URI).")
    ],
    *,
    budget: BudgetOptions,
    collected: LakeOptions,
    topology: Annotated[
        str | None, typer.Option(help="Tune for this network and try the plans on it: fat-tree:4, line:5, a file, ...")
    ] = None,
    plan: PlanFile = None,
    pictures: PictureOptions,
    formats: PlotFormats,
    compare: CompareFlag = False,
    seed: Annotated[int, typer.Option(help="Which half of the events trains and which judges.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Learn a tree for a workload or a lake, and tell what it wastes; --compare tries the papers' techniques as well.

    Half of the events (of 100,000 drawn, where there are more) train; waste and flow entries are reported on the other
    half. Flow entries are those of one switch with every subscription on a port of its own. The column "without limit"
    is what the bits alone would waste if every subscription could have as many dz as it takes. The learned tree cuts
    the event space wherever that saves most. Without a number of rules, it is grown for 2,000, and in a comparison for
    as many as the best of the others takes. Without a number of dz per subscription ("dz each"), it gets the fewest
    that waste hardly more than any number. With a topology, subscriptions are placed on its hosts at random; waste is
    that at the hosts, flow entries are those of the fullest switch, and no switch may have more than its own limit,
    where the topology gives one. Then every plan is tried on the network, and the waste at its hosts and the rules of
    all switches decide among those that keep to the limits.

    Of a lake, all events are read in this process (`pleroma pipeline tune` reads them on Spark), and plans are judged
    on the network that it knows, by who subscribes and who publishes where.
    """
    from pleroma.routing import build
    from pleroma.workloads import Workload

    check_file("--plan", plan)
    files = formats.in_folder(pictures.plot)
    budget.check()
    if is_lake(source):
        if topology is not None:
            raise SetupError("a lake has a network of its own", field="--topology", value=topology)
        _tune_lake(source, budget, collected, compare, plan, pictures, files, seed, json)
        return
    network = None if topology is None else build(topology)
    data = Workload.load(source)
    dimensions = pictures.dimensions(data)
    found, judging = _tried(data, network, budget, compare, seed)
    placed = {} if network is None else _placed(network, replace(data, events=judging), found, seed)
    if placed:
        found.sort(key=lambda each: _on_network(each, placed[each.technique], budget.rules))
    write_plan(found[0], plan, len(data.subscriptions), placed.get(found[0].technique))
    drawn = [] if files is None else _draw(files, data, found, dimensions)
    if json:
        techniques = [advice_figures(each, placed.get(each.technique)) for each in found]
        made = ({"plan": str(plan)} if plan else {}) | plots_told(drawn)
        show_json({"best": found[0].technique, "techniques": techniques} | made)
        return
    _show(table_title(budget.members, budget.rules), found, placed)
    say_written([*([plan] if plan else []), *drawn])


def is_lake(source: str) -> bool:
    """Whether something is the place of a lake, and not of a workload."""
    return "://" in source or (Path(source) / "schemas").is_dir()


def _tune_lake(
    source: str,
    budget: BudgetOptions,
    collected: LakeOptions,
    compare: bool,
    plan: Path | None,
    pictures: PictureOptions,
    files: PlotFiles | None,
    seed: int,
    json: bool,
) -> None:
    from pleroma.content.batch import EventBatch
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.passes.summary_pass import gather_here
    from pleroma.workloads import Workload

    lake = Lake.at(source)
    situation = collected.situation(lake)
    schema, filters = situation.schema, situation.filters
    with progress("reading events", 1) as advance:
        span = {"start": collected.start, "end": collected.end}
        summary = gather_here(lake, schema.name, filters, draw=collected.draw, seed=seed, statistics=compare, **span)
        advance(1)
    data = Workload(schema, EventBatch.joined(schema, [summary.training, summary.judging]), tuple(filters))
    dimensions = pictures.dimensions(data)
    found = advised(summary, situation, budget, compare, seed)
    drawn = [] if files is None else _draw(files, data, found, dimensions)
    show_advised(found, summary, situation, budget, plan, json, drawn)


def _tried(
    data: Workload, network: Topology | None, budget: BudgetOptions, compare: bool, seed: int
) -> tuple[list[Advice], EventBatch]:
    """What the techniques make of a workload, the best first, and the events that judged them."""
    from pleroma.evaluation.placement import placement_of
    from pleroma.selection.advice import AdviceQuestion, advise_from
    from pleroma.selection.traffic_summary import summarise_traffic

    count = len(data.subscriptions)
    question = AdviceQuestion(
        data.subscriptions,
        budget.bits,
        max_members=budget.members,
        rules=budget.rules,
        compare=compare,
        seed=seed,
        placement=None if network is None else placement_of(network, count, rules=budget.rules, seed=seed),
    )
    with progress("trying techniques", techniques_tried(compare)) as advance:
        summary = summarise_traffic(data.events, data.subscriptions, seed=seed, statistics=compare)
        found = advise_from(summary, question, advance=advance)
    return found, summary.judging


def _placed(network: Topology, data: Workload, found: list[Advice], seed: int) -> dict[str, NetworkFigures]:
    """By technique: what its plan does with a workload on a network."""
    from pleroma.switches.simulated.simulation import simulate

    results = {}
    with progress("placing rules", len(found)) as advance:
        for each in found:
            result = simulate(network, data, each.index, max_members=each.members, seed=seed)
            results[each.technique] = NetworkFigures.of(result)
            advance(1)
    return results


def _show(title: str, found: list[Advice], placed: dict[str, NetworkFigures]) -> None:
    columns = advice_columns(bool(placed))
    rows = [table_row(each, each is found[0], placed.get(each.technique)) for each in found]
    if placed:
        columns += ("rules, all",)
        rows = [(*row, sum(placed[each.technique].rules.values())) for row, each in zip(rows, found, strict=True)]
    show_table(title, columns, rows)


def _on_network(each: Advice, result: NetworkFigures, rules: int | None) -> tuple[bool, float, int]:
    from pleroma.selection.advice_question import exceeds_room

    return exceeds_room(each.outcome, rules), result.waste.rate, sum(result.rules.values())


def _draw(files: PlotFiles, data: Workload, found: list[Advice], shown: tuple[int, ...] | None) -> list[Path]:
    from pleroma.cli.pictures.figure_picture import draw_panels
    from pleroma.cli.pictures.space_picture import draw_cells

    best = found[0]
    cells = files.write(draw_cells(best.index, shown or best.dimensions, data, best.technique), "cells")
    panels: dict[str, dict[str, dict[int, float]]] = {}
    for each in sorted(found, key=lambda each: each.technique):
        selection, _, split = each.technique.rpartition(" + ")
        if selection:
            line = {n: waste.rate for n, waste in sorted(each.by_count.items())}
            panels.setdefault(split, {})[selection] = line
    if not panels:  # nothing selects dimensions unless techniques are compared
        return cells
    curves = draw_panels(panels, "waste by number of selected dimensions, on the training events", "dimensions")
    return [*cells, *files.write(curves, "waste")]
