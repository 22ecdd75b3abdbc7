"""A picture of a network: switches, hosts, and how much crossed each cable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import networkx as nx
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from pleroma.cli.pictures.figure_style import FAINT, one_panel, save_figure

if TYPE_CHECKING:
    from pleroma.switches.simulated.simulation import Simulation

SWITCH_COLOUR, HOST_COLOUR = "#33415c", "#7d8597"
USE_COLOURS = "YlOrRd"
MAX_LABELLED_NODES = 60
MIN_LAYERS = 2
"""A network with fewer switches between hosts is not drawn in layers."""


def draw_use(result: Simulation, path: Path) -> None:
    """Cables coloured by the bytes that crossed them in both directions; the unused ones dotted."""
    topology = result.router.topology
    used: dict[frozenset[str], int] = {}
    for line, (_, size) in result.forwarding.by_line().items():
        ends = frozenset[str]((line.source, line.target))
        used[ends] = used.get(ends, 0) + size
    graph = nx.Graph(tuple(ends) for ends in used)
    graph.add_nodes_from(topology.switches)
    places = _places(graph, [host.name for host in topology.hosts])
    figure, canvas = one_panel(7, width=9)
    scale = Normalize(0, max(used.values(), default=1) / 1e6 or 1)
    colours = mpl.colormaps[USE_COLOURS]
    for pair, size in used.items():
        (x0, y0), (x1, y1) = (places[end] for end in pair)
        if size:
            share = float(scale(size / 1e6))
            canvas.plot([x0, x1], [y0, y1], color=colours(0.15 + 0.85 * share), lw=1 + 5 * share, zorder=1)
        else:
            canvas.plot([x0, x1], [y0, y1], color=FAINT, lw=1, ls=":", zorder=0)
    _nodes(canvas, (places[switch] for switch in topology.switches), SWITCH_COLOUR, "s", 260)
    _nodes(canvas, (places[host.name] for host in topology.hosts), HOST_COLOUR, "o", 120)
    if len(places) <= MAX_LABELLED_NODES:
        for name, (x, y) in places.items():
            canvas.annotate(name, (x, y), color="white", ha="center", va="center", fontsize=6)
    canvas.set_axis_off()
    waste, trees = result.waste, len(result.router.families)
    canvas.set_title(
        f"{waste.deliveries:,} packets at hosts, {waste.rate:.1%} wasted there, {sum(result.rules):,} rules, "
        f"{trees} {'tree' if trees == 1 else 'trees'}"
    )
    figure.colorbar(ScalarMappable(scale, colours), ax=canvas, label="MB on the cable", shrink=0.7)
    save_figure(figure, path)


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
