"""`pleroma explain`: what becomes of a filter on its way into a switch, by a grid or by the plan in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import JsonFlag, listed
from pleroma.cli.output import check_picture, out, show_json
from pleroma.cli.remote import TokenOption, remote_api, segment
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.content import Schema
    from pleroma.index import Index

LOCAL_OPTIONS = ("bits", "dimensions", "members", "base")
"""Options that say what the plan in force says otherwise."""


def explain(
    context: typer.Context,
    filter_text: Annotated[str, typer.Argument(metavar="FILTER", help="For example: 'price >= 50 and volume < 30'.")],
    schema: Annotated[str, typer.Option(help="The schema: a file, TOML or JSON; with --url the name of one.")],
    bits: Annotated[int, typer.Option(help="Bits of the index, shared by the dimensions in turn.")] = 23,
    dimensions: Annotated[
        str | None, typer.Option(help="Index only these attributes, separated by commas, in this order.")
    ] = None,
    members: Annotated[int, typer.Option(help="Enclose the filter with at most this many dz.")] = 32,
    base: Annotated[
        str, typer.Option(help="Multicast range for the addresses, such as ff0e::/16 or 225.128.0.0/9.")
    ] = "ff0e::/16",
    plot: Annotated[
        Path | None, typer.Option(help="Draw two dimensions, the cells and the boxes (.png or .svg).")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Explain by the plan in force and the traffic of the controller there.")
    ] = None,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Show the boxes, dz and multicast prefixes that a filter becomes.

    A filter is a union of boxes. The index encloses them with cells of the event space, each named by a bit string
    (dz); a switch matches each dz as one address prefix. What the cells hold beyond the boxes is waste: events that
    reach the subscriber's host and are dropped there.
    """
    check_picture(plot)
    if url is None:
        space, index, found = _by_own_index(filter_text, Path(schema), bits, dimensions, members, base)
    else:
        for name in LOCAL_OPTIONS:
            source = context.get_parameter_source(name)
            if source is not None and source.name != "DEFAULT":
                raise SetupError("is what the plan in force says, with --url", field=f"--{name}")
        space, index, found = _by_plan(filter_text, schema, url, token)
    if plot is not None:
        _draw(index, space, found, plot)
    if json:
        show_json(found | ({"plot": str(plot)} if plot else {}))
        return
    from pleroma.cli.explanation_tables import show_explanation

    show_explanation(space, found)
    if plot is not None:
        out.print(f"drew {plot}", markup=False, soft_wrap=True)


def _by_own_index(
    text: str, file: Path, bits: int, dimensions: str | None, members: int, base: str
) -> tuple[Schema, Index, dict[str, Any]]:
    from pleroma.content import Filter, Schema
    from pleroma.index import AddressRange, GridIndex
    from pleroma.index.explanation import explained

    schema = Schema.load(file)
    wanted = Filter.parse(schema, text)
    index = GridIndex.regular(schema, bits, None if dimensions is None else listed(dimensions))
    return schema, index, explained(wanted, index, members, AddressRange.parse(base))


def _by_plan(text: str, schema: str, url: str, token: str | None) -> tuple[Schema, Index, dict[str, Any]]:
    from pleroma.content import Schema
    from pleroma.index import index_from_json

    with remote_api(url, token) as remote:
        found = remote.ask("POST", "/v1/explain", {"schema": schema, "filter": text})
        plan = remote.get(f"/v1/schemas/{segment(schema)}/plan")["plan"]
    space = Schema.from_json(plan["schema"])
    return space, index_from_json(space, plan["index"]), found


def _draw(index: Index, schema: Schema, found: dict[str, Any], path: Path) -> None:
    from pleroma.cli.pictures.space_picture import draw_cover
    from pleroma.content.filter_json import from_json
    from pleroma.index import DzSet, GridIndex, TreeIndex

    if not isinstance(index, (GridIndex, TreeIndex)):
        raise SetupError("rectangles with a grid each are not drawn", field="--plot", value=str(path))
    cover = DzSet.parse(*(each["dz"] for each in found["cover"]))
    draw_cover(index, from_json(schema, found["boxes"]), cover, path)
