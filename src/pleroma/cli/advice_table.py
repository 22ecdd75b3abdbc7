"""What trying techniques gives, as commands show it: rows of a table, figures for JSON, the best plan as a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pleroma.index import Waste
    from pleroma.routing import SwitchId
    from pleroma.selection.advice import Advice
    from pleroma.switches.simulated.simulation import Simulation


class NetworkFigures(NamedTuple):
    """What a plan does on a network: the waste at its hosts, and the rules of every switch."""

    waste: Waste
    rules: Mapping[SwitchId, int]
    missed: int = 0

    @classmethod
    def of(cls, simulated: Simulation) -> NetworkFigures:
        switches = simulated.router.topology.switches
        return cls(simulated.waste, dict(zip(switches, simulated.rules, strict=True)), simulated.missed)

    @property
    def fullest(self) -> int:
        return max(self.rules.values(), default=0)

    def described(self) -> str:
        switch = max(self.rules, key=lambda each: self.rules[each], default="no switch")
        return f"{self.waste.rate:.1%} wasted at hosts, at most {self.fullest:,} rules ({switch})"


def advice_columns(placed: bool) -> tuple[str, ...]:
    """The columns of `table_row`: on a network, or on one switch with a port for each subscription."""
    waste, rules = ("waste at hosts", "rules, fullest") if placed else ("waste at subscriptions", "rules")
    return ("", "technique", "bits", waste, rules, "dz each", "without limit", "seconds")


def techniques_tried(compare: bool, every: bool = False) -> int:
    """How many techniques are tried: the tree, one from every event, and those of a comparison, as far as asked for."""
    from pleroma.selection.advice_question import DEFAULT_SELECTIONS, DEFAULT_SPLITS

    others = (len(DEFAULT_SELECTIONS) + 1) * len(DEFAULT_SPLITS) if compare else 0
    return 1 + every + others


def write_plan(best: Advice, path: Path | None, subscriptions: int, placed: NetworkFigures | None = None) -> None:
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
        predicted |= {"waste_at_hosts": placed.waste.rate, "rules": placed.fullest}
    StoredPlan(IndexPlan(1, best.index, best.members), predicted).write(path)


def table_title(members: int | None, rules: int | None) -> str:
    limits = [] if members is None else [f"{members} dz per subscription"]
    limits += [] if rules is None else [f"{rules:,} rules"]
    return f"plans with at most {' and '.join(limits)}, best first" if limits else "plans, best first"


def table_row(advice: Advice, best: bool, placed: NetworkFigures | None = None) -> tuple[Any, ...]:
    """Figures of a technique: what it did on a network where it was tried on one, or else what it was judged to do."""
    from pleroma.index import TreeIndex

    given = ", ".join(f"{name} {n}" for name, n in advice.bits.items())
    if isinstance(advice.index, TreeIndex):
        given = f"{advice.index.leaves:,} leaves: {given}"
    if advice.rectangles:
        given += f" in {advice.rectangles} rectangles"
    waste, rules = advice.outcome.waste, advice.outcome.rules
    if placed is not None:
        waste, rules = placed.waste, placed.fullest
    mark = "*" if best else ""
    free, seconds = f"{advice.unlimited.rate:.1%}", f"{advice.seconds:.2f}"
    return mark, advice.technique, given, f"{waste.rate:.1%}", rules, advice.members, free, seconds


def advice_figures(advice: Advice, placed: NetworkFigures | None = None) -> dict[str, Any]:
    waste, where = advice.outcome.waste, "subscriptions" if placed is None else "hosts"
    told: dict[str, Any] = {
        "technique": advice.technique,
        "bits": advice.bits,
        "rectangles": advice.rectangles,
        f"waste_at_{where}": waste.rate,
        "deliveries": waste.deliveries,
        "wanted": waste.wanted,
        "rules": advice.outcome.rules,
        "members": advice.members,
        "waste_at_subscriptions_without_limit": advice.unlimited.rate,
        "training_waste_at_subscriptions_by_dimensions": {str(n): w.rate for n, w in sorted(advice.by_count.items())},
        "seconds": advice.seconds,
    }
    if placed is not None:
        told["network"] = {"rules": dict(placed.rules), "waste_at_hosts": placed.waste.rate, "missed": placed.missed}
    return told
