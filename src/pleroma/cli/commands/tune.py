"""`pleroma tune`: where the bits should go for a workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.advice_table import COLUMNS, figures, row, title
from pleroma.cli.output import JsonFlag, out, progress, show_json, show_table
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.content.batch import EventBatch
    from pleroma.routing import Topology
    from pleroma.selection.advice import Advice
    from pleroma.switches.simulated.simulation import Simulation
    from pleroma.workloads import Workload


def tune(
    workload: Annotated[Path, typer.Argument(metavar="FOLDER", help="A workload made by `pleroma workload`.")],
    bits: Annotated[int, typer.Option(help="Bits to spend: 23 for IPv4, up to 112 for IPv6.")] = 23,
    rules: Annotated[
        int | None, typer.Option(help="Rules that a switch has room for; techniques may take fewer bits to keep to it.")
    ] = None,
    members: Annotated[
        int | None, typer.Option(help="At most this many dz per subscription; 32, or any number with --rules.")
    ] = None,
    topology: Annotated[
        str | None, typer.Option(help="Tune for this network and try the plans on it: fat-tree:4, line:5, a file, ...")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Write the best plan here, as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="A folder to draw the best plan's cells and waste by dimensions in.")
    ] = None,
    across: Annotated[
        str | None, typer.Option(help="The two dimensions to draw cells over: price,volume. The most used, otherwise.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which half of the events trains and which judges.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Try the selection and splitting techniques on a workload, learn a tree for it, and mark the best.

    Half of the events (of 100,000 drawn, where there are more) train; waste and flow entries are reported on the other
    half. Flow entries are those of one switch with every subscription on a port of its own. The column "without limit"
    is what the bits alone would waste if every subscription could have as many dz as it takes. The learned tree cuts
    the event space wherever that saves most; without a number of rules, it may take as many as the best of the others.
    With a topology, subscriptions are placed on its hosts at random; waste is that at the hosts, flow entries are those
    of the fullest switch, and no switch may have more than its own limit, where the topology gives one. Then every plan
    is tried on the network, and the waste at its hosts and the rules of all switches decide among those that keep to
    the limits.
    """
    from pleroma.evaluation.placement import placement_of
    from pleroma.index import IndexPlan
    from pleroma.routing import build
    from pleroma.selection.advice import DEFAULT_SELECTIONS, DEFAULT_SPLITS, AdviceQuestion, advise_from
    from pleroma.selection.traffic_summary import summarise_traffic
    from pleroma.workloads import Workload

    if plan is not None and not plan.resolve().parent.is_dir():
        raise SetupError(f"the folder {plan.resolve().parent} does not exist", field="--plan", value=str(plan))
    if plot is not None and not plot.is_dir():
        raise SetupError(f"the folder {plot} does not exist", field="--plot", value=str(plot))
    if rules is not None and rules < 1:
        raise SetupError(f"{rules} rules are no budget", field="--rules", value=rules)
    most = 32 if members is None and rules is None else members
    network = None if topology is None else build(topology)
    data = Workload.load(workload)
    shown = None if across is None else _positions(data, across)
    count = len(data.subscriptions)
    placement = None if network is None else placement_of(network, count, rules=rules, seed=seed)
    with progress("trying techniques", (len(DEFAULT_SELECTIONS) + 1) * len(DEFAULT_SPLITS) + 1) as advance:
        seen = summarise_traffic(data.events, data.subscriptions, seed=seed)
        question = AdviceQuestion(
            data.subscriptions, bits, max_members=most, rules=rules, seed=seed, placement=placement
        )
        found = advise_from(seen, question, advance=advance)
    placed = {} if network is None else _placed(network, data, seen.judging, found, seed)
    if placed:
        found.sort(key=lambda each: _on_network(each, placed[each.technique], rules))
    best = found[0]
    if plan is not None:
        plan.write_text(IndexPlan(1, best.index).dumps() + "\n", encoding="utf-8")
    drawn = [] if plot is None else _draw(plot, data, found, shown)
    if json:
        told: dict[str, Any] = {
            "best": best.technique,
            "techniques": [figures(each, placed.get(each.technique)) for each in found],
        }
        made = {"plan": str(plan)} if plan else {}
        show_json(told | made | ({"plots": list(map(str, drawn))} if drawn else {}))
        return
    columns: tuple[str, ...] = COLUMNS
    listed = [row(each, each is best) for each in found]
    if placed:
        columns += ("waste at hosts", "rules, fullest", "rules, all")
        for number, each in enumerate(found):
            result = placed[each.technique]
            listed[number] += (f"{result.waste.rate:.1%}", max(result.rules), sum(result.rules))
    show_table(title(most, rules), columns, listed)
    for path in (*([plan] if plan else []), *drawn):
        out.print(f"wrote {path}", markup=False, soft_wrap=True)


def _placed(
    network: Topology, data: Workload, unseen: EventBatch, found: list[Advice], seed: int
) -> dict[str, Simulation]:
    """By technique: what its plan does on a network with the events that judge."""
    from dataclasses import replace

    from pleroma.switches.simulated.simulation import simulate

    judged = replace(data, events=unseen)
    results = {}
    with progress("placing rules", len(found)) as advance:
        for each in found:
            results[each.technique] = simulate(network, judged, each.index, max_members=each.members, seed=seed)
            advance(1)
    return results


def _on_network(each: Advice, result: Simulation, rules: int | None) -> tuple[bool, float, int]:
    from pleroma.selection.advice import exceeds_room

    return exceeds_room(each.outcome, rules), result.waste.rate, sum(result.rules)


def _positions(data: Workload, across: str) -> tuple[int, ...]:
    return tuple(data.schema.position(name.strip()) for name in across.split(","))


def _draw(folder: Path, data: Workload, found: list[Advice], shown: tuple[int, ...] | None) -> list[Path]:
    from pleroma.cli.pictures.figure_picture import draw_panels
    from pleroma.cli.pictures.space_picture import draw_cells

    cells, curves = folder / "cells.png", folder / "waste.png"
    best = found[0]
    draw_cells(best.index, shown or best.dimensions, data, best.technique, cells)
    panels: dict[str, dict[str, dict[int, float]]] = {}
    for each in sorted(found, key=lambda each: each.technique):
        selection, _, split = each.technique.rpartition(" + ")
        if selection:
            line = {n: waste.rate for n, waste in sorted(each.by_count.items())}
            panels.setdefault(split, {})[selection] = line
    draw_panels(panels, "waste by number of selected dimensions, on the training events", "dimensions", curves)
    return [cells, curves]
