"""`pleroma explain`: what becomes of a filter on its way into a switch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import JsonFlag, listed
from pleroma.cli.output import check_picture, out, show_json, show_table

if TYPE_CHECKING:
    from pleroma.content import Filter
    from pleroma.index import DzSet, GridIndex

FINER_MEMBERS = 1024
"""Dz of the finer cover that tells what a limit on dz costs."""


def explain(
    filter_text: Annotated[str, typer.Argument(metavar="FILTER", help="For example: 'price >= 50 and volume < 30'.")],
    schema: Annotated[Path, typer.Option(help="The schema, TOML or JSON.")],
    bits: Annotated[int, typer.Option(help="Bits of the index, shared by the dimensions in turn.")] = 23,
    dimensions: Annotated[
        str | None, typer.Option(help="Index only these attributes, separated by commas, in this order.")
    ] = None,
    members: Annotated[int, typer.Option(help="Enclose the filter with at most this many dz.")] = 32,
    base: Annotated[
        str, typer.Option(help="Multicast range for the addresses, such as ff0e::/16 or 225.128.0.0/9.")
    ] = "ff0e::/16",
    plot: Annotated[
        Path | None, typer.Option(help="Draw the first two dimensions, the cells and the boxes (.png or .svg).")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show the boxes, dz and multicast prefixes that a filter becomes.

    A filter is a union of boxes. The index encloses them with cells of the event space, each named by a bit string
    (dz); a switch matches each dz as one address prefix. What the cells hold beyond the boxes is waste: events that
    reach the subscriber's host and are dropped there.
    """
    from pleroma.content import Filter, Schema
    from pleroma.content.filter_json import to_json
    from pleroma.index import AddressRange, GridIndex

    check_picture(plot)
    space = Schema.load(schema)
    wanted = Filter.parse(space, filter_text)
    index = GridIndex.regular(space, bits, None if dimensions is None else listed(dimensions))
    addresses = AddressRange.parse(base)
    cover = index.cover(wanted, max_length=addresses.bits, max_members=members)
    finer = index.cover(wanted, max_length=addresses.bits, max_members=max(FINER_MEMBERS, members))
    cells = [(str(dz), str(addresses.prefix(dz)), 2.0**-dz.length) for dz in cover]
    if plot is not None:
        from pleroma.cli.pictures.space_picture import draw_cover

        draw_cover(index, wanted, cover, plot)
    if json:
        data: dict[str, Any] = {
            "filter": str(wanted),
            "boxes": to_json(wanted),
            "index": {"bits": index.bits, "order": [space.names[d] for d in index.order]},
            "cover": [{"dz": dz, "prefix": prefix, "share": share} for dz, prefix, share in cells],
            "share": cover.volume,
            "share_of_finer_cover": finer.volume,
        }
        show_json(data | ({"plot": str(plot)} if plot else {}))
        return
    _show_filter(wanted, index)
    if wanted:
        _show_cover(cells, cover, finer)
        if plot is not None:
            out.print(f"drew {plot}", markup=False, soft_wrap=True)


def _show_filter(wanted: Filter, index: GridIndex) -> None:
    space = wanted.schema
    out.print(f"filter  {wanted}", markup=False, soft_wrap=True)
    used = [name for name in space.names if space.position(name) in index.axes]
    out.print(f"index   {index.bits} bits over {', '.join(used) or 'nothing'}", markup=False, soft_wrap=True)
    if not wanted:
        out.print("No event can match this filter, so nothing is installed.")
        return
    boxes = [[_one_box(wanted, i, name) for name in space.names] for i in range(len(wanted.boxes))]
    show_table("boxes", space.names, boxes)


def _show_cover(cells: list[tuple[str, str, float]], cover: DzSet, finer: DzSet) -> None:
    show_table("dz and prefixes", ("dz", "prefix", "share of the space"), [(dz, p, f"{s:.3%}") for dz, p, s in cells])
    loss = cover.volume / finer.volume - 1
    out.print(
        f"{len(cover)} dz hold {cover.volume:.4%} of the event space"
        + (f", {loss:.0%} more than {len(finer):,} would." if loss > 0.005 else ".")
    )


def _one_box(wanted: Filter, number: int, name: str) -> str:
    """What one box asks of one attribute, in a few characters."""
    attribute = wanted.schema[name]
    part = wanted.boxes[number].ranges[wanted.schema.position(name)]
    if part == attribute.domain:
        return "any"
    if part == attribute.present:
        return "present"
    inside = part.meet(attribute.present)
    if inside is None:
        return "absent"
    words = " and ".join(_condition(op, value) for op, value in attribute.conditions(inside))
    return words + (" or absent" if part.lo < inside.lo else "")


def _condition(operator: str, operand: Any) -> str:
    from pleroma.content.filter import literal

    if operator == "between":
        return " to ".join(map(literal, operand))
    return ", ".join(map(literal, operand)) if operator == "in" else f"{operator} {literal(operand)}"
