"""Content to bits: cells of the event space, the indexes that number them, and addresses made of them."""

from pleroma.index.address import IPV4, IPV6, AddressRange
from pleroma.index.dz import MAX_LENGTH, ROOT, Dz
from pleroma.index.dzset import EVERYTHING, NOTHING, DzSet
from pleroma.index.grid_index import GridIndex
from pleroma.index.plan import DEFAULT_MEMBERS, MAX_MEMBERS, Index, IndexPlan, index_from_json
from pleroma.index.selective_index import Rectangle, SelectiveIndex, SelectiveRegion
from pleroma.index.tree_index import TreeIndex
from pleroma.index.waste import Waste, evaluate

__all__ = [
    "DEFAULT_MEMBERS",
    "EVERYTHING",
    "IPV4",
    "IPV6",
    "MAX_LENGTH",
    "MAX_MEMBERS",
    "NOTHING",
    "ROOT",
    "AddressRange",
    "Dz",
    "DzSet",
    "GridIndex",
    "Index",
    "IndexPlan",
    "Rectangle",
    "SelectiveIndex",
    "SelectiveRegion",
    "TreeIndex",
    "Waste",
    "evaluate",
    "index_from_json",
]
