"""Pictures of an audit: the worst subscriptions, the attributes at fault, and the hours of the day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter

if TYPE_CHECKING:
    from pleroma.pipeline.audit.findings import Audit

WANTED = "#4c78a8"
WASTED = "#e45756"
PALE = "#f2b6b5"
LINE = "#e4e7eb"
WIDEST = 72


def draw_wasters(found: Audit, top: int, path: Path) -> None:
    """A bar for each of the subscriptions that wasted most, what it wanted first."""
    worst = list(reversed(found.subscriptions[:top]))
    figure, canvas = _canvas(max(2.4, 0.5 * len(worst) + 1.4))
    names = [f"{each.id} at {each.host}" for each in worst]
    wanted = [each.deliveries.wanted for each in worst]
    canvas.barh(names, wanted, color=WANTED, label="wanted")
    canvas.barh(names, [each.deliveries.wasted for each in worst], left=wanted, color=WASTED, label="wasted")
    reach = max((each.deliveries.delivered for each in worst), default=1.0) or 1.0
    for row, each in enumerate(worst):
        canvas.text(
            each.deliveries.delivered + reach * 0.01, row, f"{each.deliveries.waste:.0%}", va="center", fontsize=8
        )
        canvas.text(0, row + 0.42, f" {_short(each.filter)}", va="bottom", fontsize=6, color="#555555")
    canvas.set_xlim(0, reach * 1.1)
    _finish(figure, canvas, "deliveries", f"the {len(worst)} subscriptions that wasted most, {found.period}", path)


def draw_causes(found: Audit, path: Path) -> None:
    """What each attribute alone could have prevented, and what could not have been prevented without it."""
    causes = list(reversed(found.causes))
    figure, canvas = _canvas(max(2.4, 0.45 * len(causes) + 1.4))
    places = range(len(causes))
    canvas.barh(places, [each.removable for each in causes], 0.7, color=PALE, label="it alone could have prevented")
    canvas.barh(places, [each.needed for each in causes], 0.35, color=WASTED, label="only it could have prevented")
    canvas.set_yticks(places, labels=[each.attribute for each in causes])
    unwanted = found.total.wasted - found.repeated
    canvas.axvline(unwanted, color="#888888", lw=0.8, ls="--", label="all unwanted deliveries")
    _finish(figure, canvas, "unwanted deliveries", f"waste by attribute, {found.period}", path)


def draw_hours(found: Audit, path: Path) -> None:
    """Deliveries as bars and the share that was wasted as a line."""
    figure, canvas = _canvas(4.2)
    places = range(len(found.hours))
    wanted = [share.wanted for share in found.hours.values()]
    canvas.bar(places, wanted, color=WANTED, label="wanted")
    canvas.bar(places, [share.wasted for share in found.hours.values()], bottom=wanted, color=WASTED, label="wasted")
    days = {hour[:10] for hour in found.hours}
    labels = [hour[11:16] if len(days) == 1 else f"{hour[5:10]} {hour[11:13]}" for hour in found.hours]
    step = max(1, -(-len(labels) // 12))
    canvas.set_xticks(places[::step], labels=labels[::step])
    canvas.set_ylabel("deliveries")
    canvas.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    rate = canvas.twinx()
    rate.plot(places, [share.waste for share in found.hours.values()], "o-", color="#333333", ms=3, lw=1, label="waste")
    rate.set_ylim(0, 1)
    rate.yaxis.set_major_formatter(PercentFormatter(1.0))
    canvas.set_title(f"waste by hour, {found.period}", fontsize=10)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=130)


def _canvas(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, height), layout="constrained")
    canvas = figure.add_subplot()
    canvas.set_axisbelow(True)
    return figure, canvas


def _finish(figure: Figure, canvas: Axes, x: str, title: str, path: Path) -> None:
    canvas.set_xlabel(x)
    canvas.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    canvas.grid(axis="x", color=LINE, lw=0.6)
    canvas.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=130)


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
