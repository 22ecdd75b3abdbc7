"""Compiled code that requests need, made before anybody can connect: on the event loop, everybody would wait for it.

Compiling is kept on disk, so it takes some seconds after an installation and a fraction of a second later. Each kind of
index covers a filter by many cells and by few, many registrations are loaded at once, and a table is too small.
"""

from __future__ import annotations

from pleroma.content import Filter, Integer, Schema
from pleroma.index import Dz, DzSet, GridIndex, TreeIndex
from pleroma.index.dz import ROOT
from pleroma.index.tree_walk import LEAF
from pleroma.routing import Advertise, HostId, Subscribe, build
from pleroma.routing.budget import coarsen
from pleroma.routing.family_spans import FamilySpans
from pleroma.routing.router import Router

_SCHEMA = Schema("ahead", (Integer("x", False, 0, 3),))
_TREE = TreeIndex(_SCHEMA, 2, (0, 0, LEAF, LEAF, 0, LEAF, LEAF), (2.0, 1.0, 3.0))


def compile_ahead() -> None:
    """Load the filter language and all compiled code that a request may need."""
    apart = Filter.parse(_SCHEMA, "x == 0 or x == 2")
    for index in (GridIndex.regular(_SCHEMA, 2), _TREE):
        for members in (None, 1):
            index.cover(apart, max_members=members)
    router = Router(build("line:2"))
    router.load([Advertise("a", HostId("h1"), DzSet([ROOT])), Subscribe("s", HostId("h2"), _TREE.cover(apart))])
    table = max(router.tables.values(), key=len)
    for families in (None, FamilySpans(DzSet([half]) for half in (Dz.parse("0"), Dz.parse("1")))):
        coarsen(table, 1, families=families)
