"""What trying techniques gives, as commands show it: rows of a table, figures for JSON, the best plan as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pleroma.selection.advice import Advice
    from pleroma.switches.simulated.simulation import Simulation

ADVICE_COLUMNS = ("", "technique", "bits", "waste", "flow entries", "dz each", "without limit", "seconds")


def techniques_tried(compare: bool, every: bool = False) -> int:
    """How many techniques are tried: the tree, one from every event, and those of a comparison, as far as asked for."""
    from pleroma.selection.advice_question import DEFAULT_SELECTIONS, DEFAULT_SPLITS

    others = (len(DEFAULT_SELECTIONS) + 1) * len(DEFAULT_SPLITS) if compare else 0
    return 1 + every + others


def write_plan(best: Advice, path: Path | None, subscriptions: int, placed: Simulation | None = None) -> None:
    """The plan of the best technique as a file, if that is wanted.

    It has the limit of dz that it was judged with, and what was found: on a network, or on one switch.
    """
    from pleroma.cli.plan_file import StoredPlan
    from pleroma.index import IndexPlan

    if path is None:
        return
    predicted: dict[str, Any] = {"subscriptions": subscriptions}
    if placed is None:
        predicted |= {"waste_at_subscriptions": best.outcome.waste.rate, "rules": best.outcome.rules}
    else:
        predicted |= {"waste_at_hosts": placed.waste.rate, "rules": max(placed.rules)}
    StoredPlan(IndexPlan(1, best.index, best.members), predicted).write(path)


def table_title(members: int | None, rules: int | None) -> str:
    limits = [] if members is None else [f"{members} dz per subscription"]
    limits += [] if rules is None else [f"{rules:,} rules"]
    return f"plans with at most {' and '.join(limits)}, best first" if limits else "plans, best first"


def table_row(advice: Advice, best: bool) -> tuple[Any, ...]:
    from pleroma.index import TreeIndex

    given = ", ".join(f"{name} {n}" for name, n in advice.bits.items())
    if isinstance(advice.index, TreeIndex):
        given = f"{advice.index.leaves:,} leaves: {given}"
    if advice.rectangles:
        given += f" in {advice.rectangles} rectangles"
    waste, free = f"{advice.outcome.waste.rate:.1%}", f"{advice.unlimited.rate:.1%}"
    mark = "*" if best else ""
    seconds = f"{advice.seconds:.2f}"
    return mark, advice.technique, given, waste, advice.outcome.rules, advice.members, free, seconds


def advice_figures(advice: Advice, placed: Simulation | None = None) -> dict[str, Any]:
    waste = advice.outcome.waste
    told: dict[str, Any] = {
        "technique": advice.technique,
        "bits": advice.bits,
        "rectangles": advice.rectangles,
        "waste": waste.rate,
        "deliveries": waste.deliveries,
        "wanted": waste.wanted,
        "rules": advice.outcome.rules,
        "members": advice.members,
        "waste_without_limit": advice.unlimited.rate,
        "training_waste_by_dimensions": {str(n): w.rate for n, w in sorted(advice.by_count.items())},
        "seconds": advice.seconds,
    }
    if placed is not None:
        switches = placed.router.topology.switches
        told["network"] = {
            "rules": dict(zip(switches, placed.rules, strict=True)),
            "waste": placed.waste.rate,
            "missed": placed.missed,
        }
    return told
