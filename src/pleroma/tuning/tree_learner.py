"""Learning a tree: the event space cut where that saves the most deliveries for the rules that switches have.

Trees are grown best split first, so that every smaller tree is the beginning of a larger one, and the number of splits
is found by counting the rules that each would need. More splits never deliver more, on any event: what a tree has
learned too well costs rules, not deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from pleroma.errors import TuningError
from pleroma.index import MAX_LENGTH, Dz, TreeIndex
from pleroma.index.kernels import Floats, Ints
from pleroma.index.tree_walk import LEAF
from pleroma.tuning.network_outcome import Spread
from pleroma.tuning.sample import Sample
from pleroma.tuning.tree_counts import Nodes, deliveries_of
from pleroma.tuning.tree_growth import Ranks, grow
from pleroma.tuning.tree_rules import Rules, Splits, ways_of
from pleroma.tuning.tree_smoothing import SMOOTHINGS, Weighted

SET_ASIDE = 0.25
"""The share of the events by which smoothings are compared."""
COMPARED = 12_000
"""More events than this are not needed to compare smoothings; the budget shrinks with them."""
AT_A_TIME = 2
"""Trees to be compared are grown beside each other: most of that runs without the interpreter's lock."""
SHARE = 0.1
"""What telling apart two subscriptions of one subscriber counts, against those of two."""
AT_ONCE = "at once"
"""Cuts for what they save at once, which is better where many subscriptions share a host: tried on events set aside."""
ROUNDS = 3
"""A tree has at most as many rules as leaves. Where it has fewer, more leaves are grown, at most doubled so often."""
WORTHWHILE = 1.02
"""Times the rules of a tree: for less room than that it is not grown again."""


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many leaves, rules per switch, or both."""

    rules: int | None = None
    leaves: int | None = None
    own: tuple[int | None, ...] = ()
    """By switch of a spread: its own number of rules, or None where `rules` is its number too."""

    def __post_init__(self) -> None:
        given = (("rules", self.rules), ("leaves", self.leaves), *(("own", each) for each in self.own))
        for name, value in given:
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise TuningError(f"{value!r} {name} are no budget", field=name, value=value)
        if all(value is None for _, value in given):
            raise TuningError("a tree is grown to a number of rules or of leaves", field="rules")

    @property
    def meant(self) -> int:
        """The leaves that a tree is grown for: as many as the largest table has rules, where so many are allowed."""
        rules = [self.rules if each is None else each for each in self.own or (None,)]
        tables = max((each for each in rules if each is not None), default=None)
        return min(number for number in (tables, self.leaves) if number is not None)

    def part(self, share: float) -> Budget:
        def less(number: int | None) -> int | None:
            return None if number is None else max(int(number * share), 1)

        return Budget(less(self.rules), less(self.leaves), tuple(map(less, self.own)))


class Tables:
    """The tables that a tree would need on every switch, and whether they have room."""

    def __init__(self, sample: Sample, budget: Budget, spread: Spread = ()) -> None:
        switches = spread or [np.arange(sample.owners)]
        own = budget.own or (None,) * len(switches)
        if len(own) != len(switches):
            raise TuningError(f"{len(own)} numbers for {len(switches)} switches", field="own", value=len(own))
        limits: dict[tuple[int, ...], int | None] = {}  # switches that part the hosts alike have the same rules
        for way, each in zip(ways_of(switches), own, strict=True):
            known = (budget.rules if each is None else each, limits.get(way))
            limits[way] = min((limit for limit in known if limit is not None), default=None)
        self._sample = sample
        self._ways = [np.array(way) for way in limits]
        self._limits = [(way, limit) for way, limit in enumerate(limits.values()) if limit is not None]
        self._leaves = budget.leaves

    def rules(self, tree: Splits) -> Rules:
        """To be made once for a growth: `fit` and `wider` look at several of its beginnings."""
        return Rules(tree, self._sample, self._ways)

    def fit(self, rules: Rules, splits: int) -> bool:
        return all(rules.after(splits, way) <= limit for way, limit in self._limits)

    def wider(self, rules: Rules, splits: int) -> int:
        """As many splits as would fill them if rules grow as leaves do, at most twice the leaves that the tree has."""
        times = [limit / max(rules.after(splits, way), 1) for way, limit in self._limits]
        room = min([*times, 2.0])
        leaves = int((splits + 1) * room) if room > WORTHWHILE else splits + 1
        return (leaves if self._leaves is None else min(leaves, self._leaves)) - 1

    def largest(self, rules: Rules, splits: int) -> int:
        """The most splits, of at most so many, that they have room for."""
        least, tried, most = 0, splits, splits
        while least < most:
            if self.fit(rules, tried):
                least = tried
            else:
                most = tried - 1
            tried = (least + most + 1) // 2
        return least


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """The splits in the order in which they were made; see `tree_growth.grow`."""

    sample: Sample
    bits: int
    cuts: list[Floats]
    dim: Ints
    at: Ints
    child: Ints
    cost: Floats

    @property
    def splits(self) -> int:
        return len(self.dim) // 2

    def tree(self, splits: int) -> TreeIndex:
        """After so many of them."""
        nodes = self.nodes(splits)
        inner = nodes.dims != LEAF
        return TreeIndex(self.sample.schema, self.bits, tuple(nodes.dims.tolist()), tuple(nodes.cuts[inner].tolist()))

    def nodes(self, splits: int) -> Nodes:
        """The same where only counting matters."""
        return self.order().nodes(splits)

    def order(self) -> Splits:
        values = np.zeros(len(self.dim))
        for d, cuts in enumerate(self.cuts):
            values[self.dim == d] = cuts[self.at[self.dim == d]]
        return Splits(self.dim, values, self.child)


@dataclass(frozen=True, slots=True)
class Learned:
    index: TreeIndex
    rules: int
    """Of the fullest switch."""
    smoothing: str
    patient: bool
    """Whether the upper cuts were made for what nodes will cost in the end."""
    compared: dict[str, int]
    """By smoothing, and for the best of them at once: the deliveries of events set aside, by a tree from the others."""


def learn(
    sample: Sample,
    bits: int,
    budget: Budget,
    *,
    spread: Spread = (),
    smoothing: str | None = None,
    patient: bool | None = None,
    seed: int = 0,
    advance: Callable[[float], None] = lambda _: None,
) -> Learned:
    """The tree of least waste within a budget.

    Every owner of the sample is a subscriber to be told apart. Without a `spread`, each has a port of its own on one
    switch; with it, rules are counted for each switch, where subscribers behind the same port need no separate ones,
    and no switch may have more than its own budget.
    """
    if not 1 <= bits <= MAX_LENGTH:
        raise TuningError(f"an index has 1 to {MAX_LENGTH} bits, not {bits}", field="bits", value=bits)
    if smoothing is not None or patient is not None or sample.events < 2 / SET_ASIDE:
        chosen, waits = smoothing or next(iter(SMOOTHINGS)), patient is not False
        return Learned(*_fitted(sample, bits, budget, spread, chosen, waits, seed), chosen, waits, {})
    order = np.random.default_rng([seed, 1]).permutation(sample.events)
    count = min(len(order), COMPARED)
    aside = order[: int(count * SET_ASIDE)]
    judging, compared = _only(sample, aside), {}
    few, part = _only(sample, order[len(aside) : count]), budget.part((count - len(aside)) / sample.events)
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        tried = threads.map(lambda name: _fitted(few, bits, part, spread, name, True, seed)[0], SMOOTHINGS)
        for name, tree in zip(SMOOTHINGS, tried, strict=True):
            compared[name] = deliveries_of(tree, judging)
            advance(1)
        chosen = min(compared, key=lambda name: compared[name])
        if count == sample.events:
            compared[AT_ONCE] = deliveries_of(_fitted(few, bits, part, spread, chosen, False, seed)[0], judging)
            waits = compared[chosen] <= compared[AT_ONCE]
            index, rules = _fitted(sample, bits, budget, spread, chosen, waits, seed)
        else:  # how long paths are for their leaves decides: to be tried at full size, and few events are missed
            rest = _only(sample, order[len(aside) :])
            both = threads.map(lambda each: _fitted(rest, bits, budget, spread, chosen, each, seed), (True, False))
            patiently, at_once = both
            waits = deliveries_of(patiently[0], judging) <= deliveries_of(at_once[0], judging)
            index, rules = patiently if waits else at_once
    advance(1)
    return Learned(index, rules, chosen, waits, compared)


def regrown(index: TreeIndex, at: Dz, sample: Sample, budget: Budget, *, seed: int = 0) -> TreeIndex:
    """The tree with the part below one node learned anew, within a budget for that part; all else stays."""
    inside, low, high = _within(index, at, sample)
    if not inside.events:
        return index
    part, _ = _fitted(inside, index.bits - at.length, budget, (), "neighbours", True, seed, (low, high))
    return index.regrown(at, part)


def _only(sample: Sample, events: Ints) -> Sample:
    kept = np.sort(events)
    return replace(sample, points=sample.points[kept], keys=sample.keys[kept])


def _fitted(
    sample: Sample,
    bits: int,
    budget: Budget,
    spread: Spread,
    smoothing: str,
    patient: bool,
    seed: int,
    bounds: tuple[Floats, Floats] | None = None,
) -> tuple[TreeIndex, int]:
    """The largest tree within the budget."""
    seen = SMOOTHINGS[smoothing](sample, np.random.default_rng([seed, 2]))
    tables = Tables(sample, budget, spread)

    def growth_to(splits: int) -> Growth:
        return grown(sample, seen, bits, splits, bounds, budget.meant if patient else 0)

    splits = budget.meant - 1
    growth = growth_to(splits)
    rules = tables.rules(growth.order())
    for _ in range(ROUNDS):
        wider = tables.wider(rules, splits)
        if growth.splits < splits or wider == splits:
            break
        splits = wider
        growth = growth_to(splits)
        rules = tables.rules(growth.order())
    largest = tables.largest(rules, growth.splits)
    return growth.tree(largest), rules.fullest(largest)


def grown(
    sample: Sample,
    seen: Weighted,
    bits: int,
    splits: int,
    bounds: tuple[Floats, Floats] | None = None,
    leaves: int = 0,
) -> Growth:
    """Growth over the borders of the sample's boxes, within bounds where there are some; `leaves` as in `grow`."""
    cuts = [borders(sample, d, bounds) for d in range(len(sample.schema))]
    made = grow(
        ranks_of(cuts, seen.points),
        seen.weight,
        ranks_of(cuts, sample.first),
        ranks_of(cuts, sample.last),
        sample.owner.astype(np.int32),
        np.array([len(each) for each in cuts], np.int64),
        bits,
        splits,
        SHARE,
        leaves,
    )
    return Growth(sample, bits, cuts, *made)


def borders(sample: Sample, d: int, bounds: tuple[Floats, Floats] | None) -> Floats:
    """Where cutting can leave a box out: at its first coordinate, and behind its last."""
    low, high = sample.schema.attributes[d].extent if bounds is None else (bounds[0][d], bounds[1][d])
    found = np.unique(np.concatenate([sample.first[:, d], np.nextafter(sample.last[:, d], np.inf)]))
    return np.asarray(found[(found > low) & (found <= high)])


def ranks_of(cuts: Sequence[Floats], values: Floats) -> Ranks:
    columns = [np.searchsorted(each, values[:, d], "right") for d, each in enumerate(cuts)]
    return np.ascontiguousarray(np.stack(columns).astype(np.int32))


def _within(index: TreeIndex, at: Dz, sample: Sample) -> tuple[Sample, Floats, Floats]:
    """The events of a node and the boxes that meet it."""
    sides = index.extent(at)
    low, high = np.array([sides[d] for d in range(len(sample.schema))], np.float64).T
    node = index.node(at)
    leaves = index.tables.leaves_of(sample.points)
    boxes = (sample.first <= high).all(axis=1) & (sample.last >= low).all(axis=1)
    return sample.part((leaves >= node) & (leaves < index.layout.end[node]), boxes), low, high
