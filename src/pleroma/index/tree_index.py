"""The tree: any binary decomposition of the event space, split by split, wherever a learner found it worth a bit.

A node is cut at a coordinate of one dimension: what is below goes to 0, the cut and what is above to 1, and the path to
a leaf is the dz of what lies in it. Events and filters are compared with the same coordinates, so nothing is rounded. A
subtree can be replaced without any other dz changing its meaning.
"""

from __future__ import annotations

import base64
import binascii
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from pleroma.content import Event, Filter, Schema
from pleroma.errors import ContentError, DzError, PlanError
from pleroma.index.coarsening import fewest
from pleroma.index.dz import MAX_LENGTH, ROOT, Dz
from pleroma.index.dzset import DzSet
from pleroma.index.grid_index import KERNELS, Span
from pleroma.index.tree_walk import LEAF, enough, meet, merged, refined

if TYPE_CHECKING:
    from pleroma.arrays.types import Floats
    from pleroma.index.codes import Codes
    from pleroma.index.tree_codes import TreeTables

MAX_DIMENSIONS = 255
"""A dimension is one byte in a plan, and one of its values says leaf."""
_LEAF_BYTE = 255
Bounds = tuple[Sequence[float], Sequence[float]]
"""The first and the last coordinates that a box can be met at."""


class TreeLayout(NamedTuple):
    """By node, in preorder. `cuts` has a number for leaves too, that means nothing."""

    cuts: list[float]
    right: list[int]
    end: list[int]
    parent: list[int]
    depth: list[int]
    codes: list[int]


@dataclass(frozen=True)
class TreeIndex:
    """`dimensions` has, for every node in preorder, the position of the attribute that it cuts, or `LEAF`.

    `cuts` has the coordinate of each split, in the same order. An event's dz has `bits` bits: the path to its leaf, and
    zeros behind it, so that a tree grown further below some leaf leaves all others as they are.
    """

    schema: Schema
    bits: int
    dimensions: tuple[int, ...] = (LEAF,)
    cuts: tuple[float, ...] = ()
    layout: TreeLayout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or not isinstance(self.bits, int) or not 0 <= self.bits <= MAX_LENGTH:
            raise PlanError(f"a dz has 0 to {MAX_LENGTH} bits, not {self.bits!r}", field="bits", value=self.bits)
        if len(self.schema) > MAX_DIMENSIONS:
            raise PlanError(f"a tree has at most {MAX_DIMENSIONS} dimensions", field="schema", value=len(self.schema))
        for cut in self.cuts:
            if isinstance(cut, bool) or not isinstance(cut, (int, float)) or not isfinite(cut):
                raise PlanError(f"{cut!r} is not a coordinate to cut at", field="cuts", value=cut)
        object.__setattr__(self, "layout", self._laid_out())

    def _laid_out(self) -> TreeLayout:
        size, dims = len(self.dimensions), self.dimensions
        cuts = [0.0] * size
        right, parent, depth, codes = [0] * size, [0] * size, [0] * size, [0] * size
        given = iter(self.cuts)
        open_nodes: list[int] = []
        above, code = 0, 1
        for node, d in enumerate(dims):
            if not code:
                raise PlanError(f"the tree ends before node {node}", field="dimensions", value=node)
            parent[node], codes[node], depth[node] = above, code, code.bit_length() - 1
            if d == LEAF:
                code = 0
                if open_nodes:  # what follows is the upper part of the last node that has none yet
                    above = open_nodes.pop()
                    right[above], code = node + 1, codes[above] << 1 | 1
                continue
            if isinstance(d, bool) or not isinstance(d, int) or not 0 <= d < len(self.schema):
                raise PlanError(f"{d!r} is not the position of an attribute", field="dimensions", value=d)
            if depth[node] >= self.bits:
                raise PlanError(f"a path is longer than {self.bits} bits", field="dimensions", value=node)
            cut = next(given, None)
            if cut is None:
                raise PlanError(f"there are only {len(self.cuts)} cuts", field="cuts", value=len(self.cuts))
            cuts[node] = float(cut)
            open_nodes.append(node)
            above, code = node, code << 1
        if not size or code or next(given, None) is not None:
            raise PlanError("the nodes are no tree, or there are more cuts than splits", field="dimensions", value=size)
        end = list(range(1, size + 1))
        for node in range(size - 1, -1, -1):
            if dims[node] != LEAF:
                end[node] = end[right[node]]
        return TreeLayout(cuts, right, end, parent, depth, codes)

    @property
    def leaves(self) -> int:
        return len(self.cuts) + 1

    def dzs(self, event: Event) -> tuple[Dz, ...]:
        """The one cell of an event."""
        return (self.dz(event),)

    def dz(self, event: Event) -> Dz:
        if event.schema is not self.schema and event.schema != self.schema:
            raise ContentError(f"the event is of schema {event.schema.name!r}, the index of {self.schema.name!r}")
        attributes, keys = self.schema.attributes, event.value_keys
        dims, (cuts, right, _, _, depth, codes) = self.dimensions, self.layout
        known: dict[int, float] = {}
        node = 0
        while (d := dims[node]) != LEAF:
            if d not in known:
                known[d] = attributes[d].coordinate(keys[d])
            node = right[node] if known[d] >= cuts[node] else node + 1
        return Dz(codes[node] << self.bits - depth[node])

    def encode(self, points: Floats) -> Codes:
        """The cells of a batch: one row per event, one column of coordinates per attribute of the schema."""
        return self.tables.encode(points)

    def cover(self, filter: Filter, *, max_length: int | None = None, max_members: int | None = None) -> DzSet:
        """The leaves in which the filter may be met, or nodes around them that have the fewest other leaves."""
        if filter.schema is not self.schema and filter.schema != self.schema:
            raise ContentError(f"the filter is of schema {filter.schema.name!r}, the index of {self.schema.name!r}")
        length = self.bits if max_length is None else min(max_length, self.bits)
        if length < 0 or (max_members is not None and max_members < 1):
            raise PlanError("a cover needs a length of at least 0 and at least one member", value=(length, max_members))
        boxes = [self.bounds(box.ranges) for box in filter.boxes]
        if not boxes:
            return DzSet()
        kernels = KERNELS in sys.modules
        nodes = (self.tables if kernels else self).cover_nodes(boxes, length, max_members)
        return DzSet([Dz(self.layout.codes[node]) for node in nodes])

    def bounds(self, ranges: Sequence[Any]) -> Bounds:
        spans = [a.span(part) for a, part in zip(self.schema.attributes, ranges, strict=True)]
        return [low for low, _ in spans], [high for _, high in spans]

    def cover_nodes(self, boxes: Sequence[Bounds], length: int, max_members: int | None) -> list[int]:
        """`TreeTables.cover_nodes` in plain Python: a sensor has no compiler."""
        dims, (cuts, right, end, parent, depth, _) = self.dimensions, self.layout
        met = bytearray(len(dims))
        for first, last in boxes:
            meet(dims, cuts, right, first, last, met)
        if length == self.bits:
            nodes = merged(dims, parent, met)
            if max_members is None or len(nodes) <= max_members:
                return nodes
        counts = list(met)
        for node in range(len(dims) - 1, -1, -1):
            if dims[node] != LEAF:
                counts[node] = counts[node + 1] + counts[right[node]]
        nodes, child = refined(dims, right, end, depth, counts, length, enough(max_members, len(dims)))
        if max_members is None or (len(nodes) + 1) // 2 <= max_members:
            return [node for node, parts in zip(nodes, child, strict=True) if not parts]
        sizes = [float((end[node] - node + 1) // 2) for node in nodes]
        return [nodes[place] for place in fewest(sizes, child, max_members)]

    def node(self, dz: Dz) -> int:
        """The node of a path."""
        node = 0
        for place in range(dz.length - 1, -1, -1):
            if self.dimensions[node] == LEAF:
                raise DzError(f"{dz} is below a leaf", field="dz", value=str(dz))
            node = self.layout.right[node] if dz >> place & 1 else node + 1
        return node

    def subtree(self, dz: Dz) -> TreeIndex:
        """The subtree of a node, as a tree of its own."""
        node = self.node(dz)
        end, before = self.layout.end[node], _inner(self.dimensions[:node])
        kept = self.dimensions[node:end]
        return TreeIndex(self.schema, self.bits - dz.length, kept, self.cuts[before : before + _inner(kept)])

    def regrown(self, dz: Dz, part: TreeIndex) -> TreeIndex:
        """This tree with another subtree below one node. Outside of that node, every dz keeps its meaning."""
        node = self.node(dz)
        if part.schema != self.schema:
            raise PlanError("the subtree is of another schema", field="schema", value=part.schema.name)
        end, before = self.layout.end[node], _inner(self.dimensions[:node])
        after = before + _inner(self.dimensions[node:end])
        return TreeIndex(
            self.schema,
            self.bits,
            self.dimensions[:node] + part.dimensions + self.dimensions[end:],
            self.cuts[:before] + part.cuts + self.cuts[after:],
        )

    def changed(self, other: TreeIndex) -> DzSet:
        """The region where two trees differ. Outside of it, an event and a filter have the same dz in both trees."""
        if other.schema != self.schema or other.bits != self.bits:
            return DzSet([ROOT])
        found: list[Dz] = []
        stack = [(0, 0)]
        while stack:
            mine, its = stack.pop()
            d = self.dimensions[mine]
            if d != other.dimensions[its] or (d != LEAF and self.layout.cuts[mine] != other.layout.cuts[its]):
                found.append(Dz(self.layout.codes[mine]))
            elif d != LEAF:
                stack += [(mine + 1, its + 1), (self.layout.right[mine], other.layout.right[its])]
        return DzSet(found)

    def extent(self, dz: Dz) -> dict[int, Span]:
        """The coordinates `[low, high)` of a cell along every attribute, for drawing."""
        sides = {d: attribute.extent for d, attribute in enumerate(self.schema.attributes)}
        node = 0
        for place in range(dz.length - 1, -1, -1):
            d = self.dimensions[node]
            if d == LEAF:  # the zeros behind a leaf's path
                break
            (low, high), cut = sides[d], self.layout.cuts[node]
            up = dz >> place & 1
            sides[d] = (min(max(low, cut), high), high) if up else (low, max(min(high, cut), low))
            node = self.layout.right[node] if up else node + 1
        return sides

    def cells(self) -> Iterator[Dz]:
        """The leaves."""
        return (Dz(self.layout.codes[node]) for node, d in enumerate(self.dimensions) if d == LEAF)

    @cached_property
    def tables(self) -> TreeTables:
        from pleroma.index.tree_codes import TreeTables  # needs numpy and numba, which a sensor does not have

        return TreeTables.of(self)

    def to_json(self) -> dict[str, Any]:
        """Nodes as bytes and cuts as doubles, both in base64: twelve characters a split."""
        shape = bytes(_LEAF_BYTE if d == LEAF else d for d in self.dimensions)
        cuts = struct.pack(f"<{len(self.cuts)}d", *self.cuts)
        return {"kind": "tree", "bits": self.bits, "nodes": _text(shape), "cuts": _text(cuts)}

    @classmethod
    def from_json(cls, schema: Schema, data: Mapping[str, Any]) -> TreeIndex:
        shape, packed = _bytes("nodes", data.get("nodes")), _bytes("cuts", data.get("cuts"))
        if len(packed) % 8:
            raise PlanError("cuts are doubles of eight bytes", field="cuts", value=len(packed))
        cuts = struct.unpack(f"<{len(packed) // 8}d", packed)
        return cls(schema, data.get("bits", -1), tuple(LEAF if d == _LEAF_BYTE else d for d in shape), cuts)


def _inner(dimensions: Sequence[int]) -> int:
    return sum(d != LEAF for d in dimensions)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _bytes(field: str, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise PlanError("is base64", field=field) from None
