"""`pleroma simulate`: a workload on an embedded network, every delivery judged."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import JsonFlag, grouped, listed
from pleroma.cli.output import out, progress, show_json, show_table
from pleroma.cli.plot_files import PlotFormats, plots_told, say_written
from pleroma.errors import PlanError, RoutingError

if TYPE_CHECKING:
    from pleroma.content import Schema
    from pleroma.index import Index
    from pleroma.routing import Topology
    from pleroma.switches.simulated.simulation import Simulation
    from pleroma.workloads import Workload

SHOWN_SWITCHES = 12
"""Of the fullest switches and of the busiest links."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """A plan, or a regular grid."""

    plan: Annotated[Path | None, typer.Option(help="Use the index of this plan, as `pleroma tune` writes it.")] = None
    bits: Annotated[int, typer.Option(help="Bits of the index.")] = 23
    dimensions: Annotated[str | None, typer.Option(help="Index only these attributes, separated by commas.")] = None
    members: Annotated[
        int | None, typer.Option(help="At most this many dz per subscription; as the plan has it, or 32 without one.")
    ] = None

    def chosen(self, schema: Schema) -> tuple[Index, int]:
        """The index, and how many dz a subscription may have."""
        from pleroma.index import GridIndex, IndexPlan
        from pleroma.switches.simulated.simulation import SIMULATION_MEMBERS

        if self.plan is None:
            dimensions = None if self.dimensions is None else listed(self.dimensions)
            index: Index = GridIndex.regular(schema, self.bits, dimensions)
            return index, SIMULATION_MEMBERS if self.members is None else self.members
        plan = IndexPlan.loads(self.plan.read_text(encoding="utf-8"))
        if plan.schema != schema:
            reason = "the plan is for another schema than the workload's"
            raise PlanError(reason, field="--plan", value=str(self.plan))
        return plan.index, plan.members if self.members is None else self.members


@dataclass(frozen=True, slots=True)
class MadeUpOptions:
    """Data that is made up where there is no workload."""

    subscriptions: Annotated[int, typer.Option(help="How many to make up.")] = 400
    events: Annotated[int, typer.Option(help="How many to make up.")] = 10_000
    distribution: Annotated[str, typer.Option(help="uniform or zipfian, for made-up data.")] = "zipfian"

    def workload(self, seed: int) -> Workload:
        from pleroma.workloads import EXPRESSIVE, generate

        settings: dict[str, Any] = asdict(self) | {"placement": "inside", "width": 0.2, "seed": seed}
        return generate(replace(EXPRESSIVE, **settings))


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """Who publishes, and how rules are placed."""

    publishers: Annotated[int | None, typer.Option(help="How many hosts publish; all, unless told.")] = None
    rules: Annotated[int | None, typer.Option(help="Room for this many rules on every switch.")] = None
    trees: Annotated[
        str, typer.Option(help="single (spanning tree), forest (a tree per publisher's dz) or balanced (by traffic).")
    ] = "single"

    def dealing(self) -> dict[str, Any]:
        """What a simulation is told about trees."""
        from pleroma.routing import PublisherForest
        from pleroma.routing.balancing import MAX_DEALT_TREES

        dealings: dict[str, dict[str, Any]] = {
            "single": {},
            "forest": {"policy": PublisherForest()},
            "balanced": {"balanced": MAX_DEALT_TREES},
        }
        if self.trees not in dealings:
            known = "single, forest or balanced"
            raise RoutingError(f"trees is {known}, not {self.trees!r}", field="--trees", value=self.trees)
        return dealings[self.trees]


@grouped
def simulate(
    workload: Annotated[
        Path | None, typer.Argument(help="A folder made by `pleroma workload`; without one, data is made up.")
    ] = None,
    *,
    topology: Annotated[
        str,
        typer.Option(help="testbed, line:5, ring:6, star:4, single:8, fat-tree:4, random:20x64, or a .json/.graphml."),
    ] = "testbed",
    indexing: IndexOptions,
    made_up: MadeUpOptions,
    routing: RoutingOptions,
    seed: Annotated[int, typer.Option(help="Other seed, other data and placement.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the network and the share of events on each cable: a file.")
    ] = None,
    formats: PlotFormats,
    json: JsonFlag = False,
) -> None:
    """Send events through simulated switches and report what came to hosts, what of it was wasted, and what was used.

    Subscriptions are placed on hosts at random and covered with the index; the controller computes every rule; the
    events are forwarded in batches; each host's deliveries are compared exactly with its subscriptions.
    """
    from pleroma.routing import build
    from pleroma.switches.simulated.simulation import simulate as run
    from pleroma.workloads import Workload

    files = formats.at_file(plot)
    dealing = routing.dealing()
    network = build(topology).with_limit(routing.rules)
    data = made_up.workload(seed) if workload is None else Workload.load(workload)
    index, members = indexing.chosen(data.schema)
    limits: dict[str, Any] = {"publishers": routing.publishers, "max_members": members, **dealing}
    with progress("covering subscriptions", len(data.subscriptions)) as advance:
        result = run(network, data, index, **limits, seed=seed, advance=advance)
    drawn = []
    if files is not None:
        from pleroma.cli.pictures.network_picture import draw_use

        drawn = files.write(draw_use(result))
    if json:
        show_json(_figures(result, index.bits) | plots_told(drawn))
    else:
        _show(result, network, data)
        say_written(drawn)
    if result.missed:
        raise RoutingError(f"{result.missed} wanted events did not arrive: this is a bug, please report it")


def _figures(result: Simulation, bits: int) -> dict[str, Any]:
    switches = result.router.topology.switches
    lines = [(str(line), *counts) for line, counts in result.forwarding.by_line().items()]
    return {
        "bits": bits,
        "sent": result.sent,
        "deliveries": result.waste.deliveries,
        "wanted": result.waste.wanted,
        "wasted": result.waste.wasted,
        "waste_at_hosts": result.waste.rate,
        "missed": result.missed,
        "rules": dict(zip(switches, result.rules, strict=True)),
        "rules_total": sum(result.rules),
        "coarsened": {
            switch: {"wanted": c.wanted, "installed": c.installed, "extra": c.extra}
            for switch, c in result.router.coarsened.items()
        },
        "trees": len(result.router.families),
        "busiest_cable_events": round(result.cable_loads.busiest),
        "links": {name: {"events": count, "bytes": size} for name, count, size in lines},
        "seconds": result.seconds,
    }


def _show(result: Simulation, network: Topology, data: Workload) -> None:
    waste, rules = result.waste, result.rules
    parts = (len(network.switches), len(network.hosts), len(data.subscriptions), len(data.events))
    out.print("{} switches, {} hosts, {:,} subscriptions, {:,} events".format(*parts))
    show_table(
        "at hosts, each packet once",
        ("packets", "wanted", "wasted", "waste at hosts", "missed"),
        [(waste.deliveries, waste.wanted, waste.wasted, f"{waste.rate:.1%}", result.missed)],
    )
    loads, trees = result.cable_loads, len(result.router.families)
    if (cable := loads.busiest_link) is not None:
        used = f"{int((loads.cables > 0).sum())} of {len(network.links)} cables between switches in use"
        busiest = f"the busiest is {cable.a} - {cable.b} with {loads.busiest:,.0f} events in both directions"
        out.print(f"{trees} {'tree' if trees == 1 else 'trees'}, {used}; {busiest}")
    by_rules = sorted(zip(rules, network.switches, strict=True), key=lambda each: -each[0])
    rows = []
    for count, switch in by_rules[:SHOWN_SWITCHES]:
        c = result.router.coarsened.get(switch)
        rows.append((switch, count, c.wanted if c else count, f"{c.extra:.2f}" if c else ""))
    title = f"rules: {sum(rules):,} in all" + (
        f", the {SHOWN_SWITCHES} fullest switches" if len(rules) > SHOWN_SWITCHES else ""
    )
    show_table(title, ("switch", "rules", "wanted", "needless ports per event"), rows)
    lines = sorted(result.forwarding.by_line().items(), key=lambda each: -each[1][1])[:SHOWN_SWITCHES]
    show_table("busiest links", ("link", "events", "bytes"), [(line, *counts) for line, counts in lines])
    show_table("seconds", tuple(result.seconds), [tuple(f"{s:.2f}" for s in result.seconds.values())])
