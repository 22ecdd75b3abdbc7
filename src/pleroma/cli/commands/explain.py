"""`pleroma explain`: what becomes of a filter on its way into a switch, by a grid, a plan, or the plan in force."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import JsonFlag, grouped, listed
from pleroma.cli.output import show_json
from pleroma.cli.plot_files import PlotFiles, PlotFormats, plots_told, say_written
from pleroma.cli.remote import TokenOption, remote_api, segment
from pleroma.errors import PlanError, SetupError

if TYPE_CHECKING:
    from pleroma.content import Filter, Schema
    from pleroma.content.batch import EventBatch
    from pleroma.index import Index

LOCAL_OPTIONS = ("plan", "bits", "dimensions", "members", "base")
"""Options that say what the plan in force says otherwise."""
PLANNED_OPTIONS = ("bits", "dimensions", "members")
"""Options that say what a plan in a file says otherwise."""


@grouped
def explain(
    context: typer.Context,
    filter_text: Annotated[str, typer.Argument(metavar="FILTER", help="For example: 'price >= 50 and volume < 30'.")],
    *,
    schema: Annotated[
        str,
        typer.Option(help="The schema: a file, TOML or JSON, or a workload's folder; with --url the name of one."),
    ],
    plan: Annotated[Path | None, typer.Option(help="Explain by this plan, as `pleroma tune` writes it.")] = None,
    bits: Annotated[int, typer.Option(help="Bits of the index, shared by the dimensions in turn.")] = 23,
    dimensions: Annotated[
        str | None, typer.Option(help="Index only these attributes, separated by commas, in this order.")
    ] = None,
    members: Annotated[int, typer.Option(help="Enclose the filter with at most this many dz.")] = 32,
    base: Annotated[
        str, typer.Option(help="Multicast range for the addresses, such as ff0e::/16 or 225.128.0.0/9.")
    ] = "ff0e::/16",
    plot: Annotated[Path | None, typer.Option(help="Draw two dimensions, the cells and the boxes: a file.")] = None,
    formats: PlotFormats,
    url: Annotated[
        str | None, typer.Option(help="Explain by the plan in force and the traffic of the controller there.")
    ] = None,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Show the boxes, dz and multicast prefixes that a filter becomes.

    A filter is a union of boxes. The index encloses them with cells of the event space, each named by a bit string
    (dz); a switch matches each dz as one address prefix. What the cells hold beyond the boxes is waste: events that
    reach the subscriber's host and are dropped there. Of a workload, the share of its events that they hold is told.
    """
    files = formats.at_file(plot)
    if url is not None:
        _check_not_given(context, LOCAL_OPTIONS, "the plan in force says, with --url")
    if plan is not None:
        _check_not_given(context, PLANNED_OPTIONS, "the plan says")
    if url is None:
        space, index, found = _by_own_index(filter_text, Path(schema), plan, bits, dimensions, members, base)
    else:
        space, index, found = _by_plan(filter_text, schema, url, token)
    drawn = [] if files is None else _draw(index, space, found, files)
    if json:
        show_json(found | plots_told(drawn))
        return
    from pleroma.cli.explanation_tables import show_explanation

    show_explanation(space, found)
    say_written(drawn)


def _check_not_given(context: typer.Context, names: Sequence[str], who_says: str) -> None:
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            raise SetupError(f"is what {who_says}", field=f"--{name}")


def _by_own_index(
    text: str, place: Path, plan: Path | None, bits: int, dimensions: str | None, members: int, base: str
) -> tuple[Schema, Index, dict[str, Any]]:
    from pleroma.cli.plan_file import StoredPlan
    from pleroma.content import Filter, Schema
    from pleroma.index import AddressRange, GridIndex
    from pleroma.index.explanation import explained

    data = None
    if place.is_dir():
        from pleroma.workloads import Workload

        data = Workload.load(place)
    schema = Schema.load(place) if data is None else data.schema
    wanted = Filter.parse(schema, text)
    index: Index
    if plan is None:
        index = GridIndex.regular(schema, bits, None if dimensions is None else listed(dimensions))
    else:
        stored = StoredPlan.read(plan).plan
        if stored.schema != schema:
            raise PlanError("the plan is for another schema", field="--plan", value=str(plan))
        index, members = stored.index, stored.members
    found = explained(wanted, index, members, AddressRange.parse(base))
    return schema, index, found if data is None else found | {"share": _share(data.events, index, found, wanted)}


def _share(events: EventBatch, index: Index, found: dict[str, Any], wanted: Filter) -> dict[str, Any] | None:
    """Which part of a workload's events the dz bring, and which part the filter wants; None if there are no events."""
    from pleroma.evaluation.ordered_codes import OrderedCodes
    from pleroma.index import DzSet

    if not len(events):
        return None
    codes = OrderedCodes(index.encode(events.points()), len(events))
    cover = DzSet.parse(*(each["dz"] for each in found["cover"]))
    return {
        "delivered": float(codes.within(cover).mean()),
        "wanted": float(events.matches(wanted).mean()),
        "events": len(events),
    }


def _by_plan(text: str, schema: str, url: str, token: str | None) -> tuple[Schema, Index, dict[str, Any]]:
    from pleroma.content import Schema
    from pleroma.index import index_from_json

    with remote_api(url, token) as remote:
        found = remote.ask("POST", "/v1/explain", {"schema": schema, "filter": text})
        plan = remote.get(f"/v1/schemas/{segment(schema)}/plan")["plan"]
    space = Schema.from_json(plan["schema"])
    return space, index_from_json(space, plan["index"]), found


def _draw(index: Index, schema: Schema, found: dict[str, Any], files: PlotFiles) -> list[Path]:
    from pleroma.cli.pictures.space_picture import draw_cover
    from pleroma.content.filter_json import from_json
    from pleroma.index import DzSet, GridIndex, TreeIndex

    if not isinstance(index, (GridIndex, TreeIndex)):
        raise SetupError("rectangles with a grid each are not drawn", field="--plot")
    cover = DzSet.parse(*(each["dz"] for each in found["cover"]))
    return files.write(draw_cover(index, from_json(schema, found["boxes"]), cover))
