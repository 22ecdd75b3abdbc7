"""A picture of a network: switches, hosts, and which share of the events crossed each cable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from pleroma.cli.pictures.figure_style import FAINT, NOTE_SIZE, TITLE_SIZE, in_percent, one_panel
from pleroma.cli.pictures.picture import Picture

if TYPE_CHECKING:
    from pleroma.switches.simulated.simulation import Simulation

SWITCH_COLOUR, HOST_COLOUR = "#33415c", "#7d8597"
USE_COLOURS = LinearSegmentedColormap.from_list("use", mpl.colormaps["YlOrRd"](np.linspace(0.15, 1, 256)))
"""By share, the colours of cables and of the bar beside them. Paler ones would not be seen on white."""
MAX_LABELLED_NODES = 60
LABEL_AT = 0.2
"""How far from the lower end of a cable its share is written, as a part of its length."""
MIN_LAYERS = 2
"""A network with fewer switches between hosts is not drawn in layers."""


def draw_use(result: Simulation) -> Picture:
    """Cables coloured by the share of all events that crossed them, in either direction; the unused ones dotted."""
    topology = result.router.topology
    crossed: Counter[tuple[str, str]] = Counter()
    for line, (events, _) in result.forwarding.by_line().items():
        crossed[min(line.source, line.target), max(line.source, line.target)] += events
    shares = {ends: min(events / max(result.sent, 1), 1.0) for ends, events in crossed.items()}
    graph = nx.Graph(list(shares))
    graph.add_nodes_from(topology.switches)
    places = _places(graph, [host.name for host in topology.hosts])
    figure, canvas = one_panel(7, width=9)
    for ends, share in shares.items():
        (x0, y0), (x1, y1) = places[ends[0]], places[ends[1]]
        if share:
            canvas.plot([x0, x1], [y0, y1], color=USE_COLOURS(share), lw=1.5 + 4.5 * share, zorder=1)
        else:
            canvas.plot([x0, x1], [y0, y1], color=FAINT, lw=1, ls=":", zorder=0)
        if share and len(places) <= MAX_LABELLED_NODES:
            _write_share(canvas, (x0, y0), (x1, y1), share)
    _nodes(canvas, (places[switch] for switch in topology.switches), SWITCH_COLOUR, "s", 260)
    _nodes(canvas, (places[host.name] for host in topology.hosts), HOST_COLOUR, "o", 120)
    if len(places) <= MAX_LABELLED_NODES:
        for name, (x, y) in places.items():
            canvas.annotate(name, (x, y), color="white", ha="center", va="center", fontsize=6)
    canvas.set_axis_off()
    waste, trees = result.waste, len(result.router.families)
    canvas.set_title(
        f"{result.sent:,} events, {waste.deliveries:,} packets at hosts, {waste.rate:.1%} wasted there, "
        f"{sum(result.rules):,} rules, {trees} {'tree' if trees == 1 else 'trees'}",
        fontsize=TITLE_SIZE,
    )
    colours = ScalarMappable(Normalize(0, 1), USE_COLOURS)
    bar = figure.colorbar(colours, ax=canvas, label="share of all events on the cable", shrink=0.7)
    in_percent(bar.ax.yaxis)
    rows = [(*ends, crossed[ends], share) for ends, share in shares.items()]
    return Picture(figure, ("end", "other end", "events", "share"), sorted(rows))


def _write_share(canvas: Axes, one: tuple[float, float], other: tuple[float, float], share: float) -> None:
    """A share on its cable, nearer to the lower end: in the middle, cables cross."""
    (x0, y0), (x1, y1) = sorted((one, other), key=lambda end: end[1])
    place = (x0 + LABEL_AT * (x1 - x0), y0 + LABEL_AT * (y1 - y0))
    box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8}
    canvas.annotate(f"{share:.0%}", place, ha="center", va="center", fontsize=NOTE_SIZE, bbox=box, zorder=3)


def _places(graph: Any, hosts: list[str]) -> Mapping[str, tuple[float, float]]:
    """Hosts below and switches above them by distance, where that makes layers; otherwise as springs pull them."""
    distance: dict[str, int] = nx.multi_source_dijkstra_path_length(graph, set(hosts)) if hosts else {}
    if max(distance.values(), default=0) < MIN_LAYERS:
        return cast(Mapping[str, tuple[float, float]], nx.spring_layout(graph, seed=1, iterations=300))
    rows: dict[int, list[str]] = {}
    for name in graph.nodes:
        rows.setdefault(distance.get(name, 0), []).append(name)
    places: dict[str, tuple[float, float]] = {}
    for depth, names in sorted(rows.items()):
        if depth:  # above the middle of what hangs below
            middle = {n: [places[m][0] for m in graph[n] if m in places] for n in names}
            names.sort(key=lambda n: sum(middle[n]) / max(len(middle[n]), 1))
        for i, name in enumerate(names):
            places[name] = ((i + 0.5) / len(names), depth)
    return places


def _nodes(canvas: Axes, spots: Iterable[tuple[float, float]], colour: str, marker: str, size: int) -> None:
    x, y = zip(*spots, strict=True)
    canvas.scatter(x, y, s=size, c=colour, marker=marker, zorder=2)
