"""A filter explained: the dz and prefixes that enclose it under an index, and what they leave out of account.

`pleroma explain` and the API answer with the same record.
"""

from __future__ import annotations

from typing import Any

from pleroma.content import Filter
from pleroma.content.filter_json import to_json
from pleroma.index.address import AddressRange
from pleroma.index.dz import ROOT, Dz
from pleroma.index.dzset import DzSet
from pleroma.index.grid_index import GridIndex
from pleroma.index.plan import Index
from pleroma.index.selective_index import SelectiveIndex
from pleroma.index.tree_index import TreeIndex
from pleroma.index.tree_walk import LEAF

FINER_MEMBERS = 1024
"""Dz of the finer cover that tells what a limit on dz costs."""


def explained(wanted: Filter, index: Index, members: int, addresses: AddressRange, prefix: Dz = ROOT) -> dict[str, Any]:
    """What becomes of a filter that at most so many dz enclose. Addresses begin with the prefix of the schema."""
    opened = index.opened() if isinstance(index, SelectiveIndex) else index
    room = addresses.bits - prefix.length
    cover = opened.cover(wanted, max_length=room, max_members=members)
    finer = opened.cover(wanted, max_length=room, max_members=max(FINER_MEMBERS, members))
    names = wanted.schema.names
    cells = [(str(dz), str(addresses.prefix(prefix.then(dz))), 2.0**-dz.length) for dz in cover]
    return {
        "filter": str(wanted),
        "boxes": to_json(wanted),
        "index": {
            "kind": index.to_json()["kind"],
            "bits": index.bits,
            "attributes": [names[d] for d in indexed(index)],
        },
        "members": len(cover),
        "limit": members,
        "cover": [{"dz": dz, "prefix": place, "space": space} for dz, place, space in cells],
        "space": cover.volume,
        "finer": {"members": len(finer), "space": finer.volume},
        "ignored": [names[d] for d in ignored(opened, wanted, cover)],
    }


def indexed(index: Index) -> list[int]:
    """The attributes that an index gives bits to, in the order of the schema."""
    if isinstance(index, TreeIndex):
        return sorted({*index.dimensions} - {LEAF})
    if isinstance(index, GridIndex):
        return sorted({*index.order})
    regions = index.regions if isinstance(index, SelectiveIndex) else ()
    return sorted({d for region in regions for d in region.grid.order})


def ignored(index: Index, wanted: Filter, cover: DzSet) -> list[int]:
    """The attributes that a filter restricts, and none of the cells that enclose it."""
    attributes = wanted.schema.attributes
    open_ones = {d for d, a in enumerate(attributes) if any(box.ranges[d] != a.domain for box in wanted.boxes)}
    whole = (
        index.extent(ROOT) if not isinstance(index, SelectiveIndex) else {d: a.extent for d, a in enumerate(attributes)}
    )
    for dz in cover:
        if not open_ones:
            break
        extent = index.extent(dz)
        open_ones = {d for d in open_ones if extent[d] == whole[d]}
    return sorted(open_ones)
