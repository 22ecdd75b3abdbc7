"""What an index is wanted for, and what a technique found: the values that all advice is asked and given in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import UnknownName
from pleroma.evaluation.judge import Judge, Outcome
from pleroma.evaluation.network_judge import NetworkJudge
from pleroma.evaluation.placement import Placement
from pleroma.index import GridIndex, Index, SelectiveIndex, TreeIndex, Waste
from pleroma.index.tree_walk import LEAF
from pleroma.learning.learner import GrowthStyle
from pleroma.selection.evidence import Dimensions
from pleroma.selection.splits import SPLITS

DEFAULT_SPLITS = ("regular", "adaptive", "selective")
"""Ways to split the event space that send an event once."""
DEFAULT_SELECTIONS = ("evs", "sms", "emcs", "sfs", "cs", "pfs-cmm", "ges")
SHORTER_LENGTHS = (8, 10, 12, 14, 16, 20)
"""Bits that techniques may shorten their dz to when rules are limited."""
MAX_UNLIMITED_BITS = 10
"""Covers of dz up to so many bits need no limit on their members."""
LONG_DZ_MEMBERS = 32
"""The limit on members for longer dz, where none is given: covers by a grid would have more than any table."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A technique, the index it made from the training events, and what that does with the others."""

    technique: str
    dimensions: Dimensions
    index: Index
    outcome: Outcome
    members: int
    """The limit on dz per subscription that goes with it: the one asked for, or else the one chosen for the index."""
    unlimited: Waste
    """What the bits alone would waste, with as many dz per subscription as it takes: the papers' figure."""
    by_count: dict[int, Waste]
    """By number of dimensions: the waste of this technique on the events it learned from, under the limit."""
    seconds: float
    """For choosing dimensions, for every count, making the index and choosing members; not for judging."""
    style: GrowthStyle | None = None
    """How a learned tree was grown."""

    @property
    def bits(self) -> dict[str, int]:
        """Bits by attribute, those without left out; where regions differ, the most that any gives."""
        names = self.index.schema.names
        if isinstance(self.index, TreeIndex):
            return {names[d]: n for d, n in sorted(_deepest(self.index).items())}
        grids: list[GridIndex] = []
        if isinstance(self.index, SelectiveIndex):
            grids = [region.grid for region in self.index.regions]
        elif isinstance(self.index, GridIndex):
            grids = [self.index]
        most = {names[d]: max(g.axes[d].bits if d in g.axes else 0 for g in grids) for d in self.dimensions}
        return {name: bits for name, bits in most.items() if bits}

    @property
    def rectangles(self) -> int:
        return len(self.index.regions) - 1 if isinstance(self.index, SelectiveIndex) else 0


@dataclass(frozen=True, slots=True, eq=False)
class AdviceQuestion:
    """What an index is wanted for, what it may take, and which techniques to try."""

    subscriptions: Sequence[Filter]
    bits: int
    max_members: int | None = None
    """The limit on dz per subscription. Without one, a tree gets as few as waste hardly more than any number."""
    rules: int | None = None
    """The limit on rules of every switch, beside its own limit where it has one.

    Techniques may take fewer bits to keep to it; those that do not keep to it come last. Without a limit, a tree is
    grown for `DEFAULT_RULES`, and in a comparison for as many rules as the best of the others takes.
    """
    compare: bool = False
    """Whether the papers' techniques are tried as well. That takes many times longer."""
    selections: Sequence[str] = DEFAULT_SELECTIONS
    """Ways to select dimensions for a comparison: each is tried with every split, beside all dimensions."""
    splits: Sequence[str] = DEFAULT_SPLITS
    """Ways to split for a comparison."""
    seed: int = 0
    style: GrowthStyle | None = None
    """How to grow the tree, if that is known from a tree for the same traffic: it takes a fraction of the time."""
    placement: Placement | None = None
    """Where the subscriptions are: waste is then that at the hosts, and rules are those of the fullest switch.

    Without a placement, every subscription has a port of its own on one switch.
    """

    def __post_init__(self) -> None:
        for name in self.splits:
            if name not in SPLITS:
                raise UnknownName("split", name, SPLITS)

    @property
    def lengths(self) -> list[int]:
        """The lengths of dz that techniques may choose from."""
        return [self.bits] if self.rules is None else [*(n for n in SHORTER_LENGTHS if n < self.bits), self.bits]

    def members(self, length: int) -> int:
        """The limit on dz per subscription for dz of a length, of techniques that choose none themselves."""
        if self.max_members is not None:
            return self.max_members
        return LONG_DZ_MEMBERS if length > MAX_UNLIMITED_BITS else 1 << length

    def judge(self, events: EventBatch) -> Judge | NetworkJudge:
        if self.placement is None:
            return Judge(self.subscriptions, events)
        return NetworkJudge(self.subscriptions, events, self.placement)


def exceeds_room(outcome: Outcome, rules: int | None) -> bool:
    """Whether some table needs more rules than it has room for."""
    return outcome.beyond > 0 or (rules is not None and outcome.rules > rules)


def rank(outcome: Outcome, rules: int | None) -> tuple[int, int]:
    """Orders outcomes: those within the limit by deliveries, then the others by rules."""
    return outcome.rules if exceeds_room(outcome, rules) else 0, outcome.waste.deliveries


def dimensions_by_use(tree: TreeIndex) -> Dimensions:
    """The dimensions that a tree cuts, the most often cut first."""
    return tuple(d for d, _ in Counter(d for d in tree.dimensions if d != LEAF).most_common())


def _deepest(tree: TreeIndex) -> dict[int, int]:
    """By dimension, the most cuts on any path."""
    most: dict[int, int] = {}
    path: dict[int, dict[int, int]] = {0: {}}
    for node, d in enumerate(tree.dimensions):
        cut = path.pop(node)
        if d != LEAF:
            below = cut | {d: cut.get(d, 0) + 1}
            most[d] = max(most.get(d, 0), below[d])
            path[node + 1] = path[tree.layout.right[node]] = below
    return most
