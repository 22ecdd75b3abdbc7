"""`pleroma tune`: where the bits should go for a workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.output import JsonFlag, out, progress, show_json, show_table
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.tuning.advice import Advice


def tune(
    workload: Annotated[Path, typer.Argument(metavar="FOLDER", help="A workload made by `pleroma workload`.")],
    bits: Annotated[int, typer.Option(help="Bits to spend: 23 for IPv4, up to 112 for IPv6.")] = 23,
    members: Annotated[int, typer.Option(help="At most this many dz per subscription.")] = 32,
    plan: Annotated[Path | None, typer.Option(help="Write the best plan here, as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder to draw the best plan's cells in.")] = None,
    seed: Annotated[int, typer.Option(help="Which half of the events trains and which judges.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Try the selection and splitting techniques on a workload and mark the best.

    Half of the events train; waste and flow entries are reported on the other half. Flow entries are those of one
    switch with every subscription on a port of its own. The column "without limit" is what the bits alone would waste
    if every subscription could have as many dz as it takes.
    """
    from pleroma.index import IndexPlan
    from pleroma.tuning.advice import SELECTIONS, SPLITS, advise
    from pleroma.workloads import Workload

    if plan is not None and not plan.resolve().parent.is_dir():
        raise SetupError(f"the folder {plan.resolve().parent} does not exist", field="--plan", value=str(plan))
    if plot is not None and not plot.is_dir():
        raise SetupError(f"the folder {plot} does not exist", field="--plot", value=str(plot))
    data = Workload.load(workload)
    with progress("trying techniques", (len(SELECTIONS) + 1) * len(SPLITS)) as advance:
        found = advise(data.events, data.subscriptions, bits, max_members=members, seed=seed, advance=advance)
    best = found[0]
    if plan is not None:
        plan.write_text(IndexPlan(1, best.index).dumps() + "\n", encoding="utf-8")
    drawn = None
    if plot is not None:
        from pleroma.cli.picture import draw_cells

        drawn = plot / "cells.png"
        draw_cells(best.index, data, best.technique, drawn)
    if json:
        figures: dict[str, Any] = {"best": best.technique, "techniques": [_figures(each) for each in found]}
        show_json(figures | ({"plan": str(plan)} if plan else {}) | ({"plot": str(drawn)} if drawn else {}))
        return
    rows = []
    for each in found:
        given = ", ".join(f"{name} {n}" for name, n in each.bits.items())
        mark = "*" if each is best else ""
        outcome = each.outcome
        waste, free = f"{outcome.waste.rate:.1%}", f"{each.unlimited.rate:.1%}"
        rows.append((mark, each.technique, given, waste, outcome.rules, free, f"{each.seconds:.2f}"))
    columns = ("", "technique", "bits", "waste", "flow entries", "without limit", "seconds")
    show_table(f"techniques with at most {members} dz per subscription, best first", columns, rows)
    if plan is not None:
        out.print(f"wrote {plan}", markup=False, soft_wrap=True)
    if drawn is not None:
        out.print(f"drew {drawn}", markup=False, soft_wrap=True)


def _figures(advice: Advice) -> dict[str, Any]:
    waste = advice.outcome.waste
    return {
        "technique": advice.technique,
        "bits": advice.bits,
        "waste": waste.rate,
        "deliveries": waste.deliveries,
        "wanted": waste.wanted,
        "rules": advice.outcome.rules,
        "waste_without_limit": advice.unlimited.rate,
        "seconds": advice.seconds,
    }
