"""Pictures of an audit: the worst subscriptions, the attributes at fault, and the hours of the day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from pleroma.cli.output import shortened
from pleroma.cli.pictures.figure_style import (
    BLUE,
    DARK,
    GREY,
    LABEL_SIZE,
    PALE_RED,
    RED,
    TITLE_SIZE,
    draw_grid_lines,
    in_percent,
    one_panel,
)
from pleroma.cli.pictures.picture import Picture

if TYPE_CHECKING:
    from pleroma.pipeline.audit.findings import Audit

BAR_FILTER_LETTERS = 72
"""Letters of a filter over a bar."""


def draw_wasters(found: Audit, top: int) -> Picture:
    """A bar for each of the subscriptions that wasted most, what it wanted first."""
    worst = list(reversed(found.subscriptions[:top]))
    figure, canvas = one_panel(max(2.4, 0.5 * len(worst) + 1.4))
    names = [f"{each.id} at {each.host}" for each in worst]
    wanted = [each.deliveries.wanted for each in worst]
    canvas.barh(names, wanted, color=BLUE, label="wanted")
    canvas.barh(names, [each.deliveries.wasted for each in worst], left=wanted, color=RED, label="wasted")
    reach = max((each.deliveries.delivered for each in worst), default=1.0) or 1.0
    for row, each in enumerate(worst):
        canvas.text(
            each.deliveries.delivered + reach * 0.01,
            row,
            f"{each.deliveries.waste:.0%}",
            va="center",
            fontsize=LABEL_SIZE,
        )
        canvas.text(
            0, row + 0.42, f" {shortened(each.filter, BAR_FILTER_LETTERS)}", va="bottom", fontsize=6, color="#555555"
        )
    canvas.set_xlim(0, reach * 1.1)
    _finish(figure, canvas, "deliveries", f"waste at subscriptions, the {len(worst)} worst, {found.period}")
    rows = [
        (each.id, each.host, each.deliveries.wanted, each.deliveries.wasted, each.filter)
        for each in found.subscriptions[:top]
    ]
    return Picture(figure, ("subscription", "host", "wanted", "wasted", "filter"), rows)


def draw_causes(found: Audit) -> Picture:
    """What each attribute alone could have prevented, and what could not have been prevented without it."""
    causes = list(reversed(found.causes))
    figure, canvas = one_panel(max(2.4, 0.45 * len(causes) + 1.4))
    places = range(len(causes))
    canvas.barh(places, [each.removable for each in causes], 0.7, color=PALE_RED, label="it alone could have prevented")
    canvas.barh(places, [each.needed for each in causes], 0.35, color=RED, label="only it could have prevented")
    canvas.set_yticks(places, labels=[each.attribute for each in causes])
    unwanted = found.total.wasted - found.repeated
    canvas.axvline(unwanted, color=GREY, lw=0.8, ls="--", label="all unwanted deliveries")
    _finish(figure, canvas, "unwanted deliveries", f"waste at subscriptions by attribute, {found.period}")
    rows = [(each.attribute, each.removable, each.needed) for each in found.causes]
    return Picture(figure, ("attribute", "removable", "needed"), rows)


def draw_hours(found: Audit) -> Picture:
    """Deliveries as bars and the share that was wasted as a line."""
    figure, canvas = one_panel(4.2)
    places = range(len(found.hours))
    wanted = [share.wanted for share in found.hours.values()]
    canvas.bar(places, wanted, color=BLUE, label="wanted")
    canvas.bar(places, [share.wasted for share in found.hours.values()], bottom=wanted, color=RED, label="wasted")
    days = {hour[:10] for hour in found.hours}
    labels = [hour[11:16] if len(days) == 1 else f"{hour[5:10]} {hour[11:13]}" for hour in found.hours]
    step = max(1, -(-len(labels) // 12))
    canvas.set_xticks(places[::step], labels=labels[::step])
    canvas.set_ylabel("deliveries")
    canvas.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    rate = canvas.twinx()
    rate.plot(
        places,
        [share.waste for share in found.hours.values()],
        "o-",
        color=DARK,
        ms=3,
        lw=1,
        label="waste at subscriptions",
    )
    rate.set_ylim(0, 1)
    in_percent(rate.yaxis)
    canvas.set_title(f"waste at subscriptions by hour, {found.period}", fontsize=TITLE_SIZE)
    figure.legend(loc="outside lower center", ncols=3, fontsize=LABEL_SIZE)
    rows = [(hour, share.wanted, share.wasted) for hour, share in found.hours.items()]
    return Picture(figure, ("hour", "wanted", "wasted"), rows)


def _finish(figure: Figure, canvas: Axes, x: str, title: str) -> None:
    canvas.set_xlabel(x)
    canvas.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    draw_grid_lines(canvas, "x")
    canvas.set_title(title, fontsize=TITLE_SIZE)
    figure.legend(loc="outside lower center", ncols=3, fontsize=LABEL_SIZE)
