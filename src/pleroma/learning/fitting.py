"""How far to grow a tree: as far as the tables of all switches have room for its rules.

Trees are grown best split first, so that every smaller tree is the beginning of a larger one, and the number of splits
is found by counting the rules that each would need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pleroma.errors import TuningError
from pleroma.evaluation.placement import Spread
from pleroma.evaluation.sample import Sample
from pleroma.index import MAX_LENGTH, TreeIndex
from pleroma.learning.rule_counts import RuleCounter, SplitSequence, port_groupings

DEFAULT_RULES = 2_000
"""The rules of the fullest switch where neither a switch nor a user gives a limit: the TCAM of small switches has them.
"""
MAX_REGROWTHS = 3
"""A tree that has fewer rules than leaves is grown further, to twice the leaves at most, so often at most."""
MAX_SPLITS = 1 << 20
"""No tree is grown to more splits, however many rules there are."""
WORTHWHILE_RATIO = 1.02
"""A tree is grown further only if the tables have room for so many times its rules."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How large a tree may be: its leaves, the rules that any switch needs for it, or both."""

    rules: int | None = None
    leaves: int | None = None
    own: tuple[int | None, ...] = ()
    """By switch of a spread: its own limit on rules, or None where `rules` is the limit."""

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
        """A share of the budget, for a share of the events."""

        def less(number: int | None) -> int | None:
            return None if number is None else max(int(number * share), 1)

        return Budget(less(self.rules), less(self.leaves), tuple(map(less, self.own)))


class SwitchTables:
    """The flow tables of all switches, and whether they have room for the rules of a tree."""

    def __init__(self, sample: Sample, budget: Budget, spread: Spread = ()) -> None:
        switches = spread or [np.arange(sample.owners)]
        own = budget.own or (None,) * len(switches)
        if len(own) != len(switches):
            raise TuningError(f"{len(own)} numbers for {len(switches)} switches", field="own", value=len(own))
        limits: dict[tuple[int, ...], int | None] = {}  # switches that part the hosts alike have the same rules
        for way, each in zip(port_groupings(switches), own, strict=True):
            known = (budget.rules if each is None else each, limits.get(way))
            limits[way] = min((limit for limit in known if limit is not None), default=None)
        self._sample = sample
        self._ways = [np.array(way) for way in limits]
        self._limits = [(way, limit) for way, limit in enumerate(limits.values()) if limit is not None]
        self._leaves = budget.leaves

    def rules(self, tree: SplitSequence) -> RuleCounter:
        """Counts the rules of a tree and of its beginnings; `fit`, `wider` and `largest` ask it."""
        return RuleCounter(tree, self._sample, self._ways)

    def fit(self, rules: RuleCounter, splits: int) -> bool:
        return all(rules.after(splits, way) <= limit for way, limit in self._limits)

    def room(self, rules: RuleCounter, splits: int) -> float:
        """How many times the rules there is room for, up to twice; less than 1 where some table is too small."""
        return min([2.0, *(limit / max(rules.after(splits, way), 1) for way, limit in self._limits)])

    def wider(self, rules: RuleCounter, splits: int) -> int:
        """How many splits would fill the tables if rules grow as leaves do, up to twice the leaves of the tree."""
        room = self.room(rules, splits)
        leaves = int((splits + 1) * room) if room > WORTHWHILE_RATIO else splits + 1
        return (leaves if self._leaves is None else min(leaves, self._leaves)) - 1

    def largest(self, rules: RuleCounter, splits: int) -> int:
        """The most splits, up to `splits`, that the tables have room for."""
        least, tried, most = 0, splits, splits
        while least < most:
            if self.fit(rules, tried):
                least = tried
            else:
                most = tried - 1
            tried = (least + most + 1) // 2
        return least


class GrowingTree(Protocol):
    """A tree that can always be grown further."""

    sample: Sample
    bits: int

    def grow(self, splits: int) -> None:
        """Grow until the best `splits` splits are known, or all that gain anything."""

    def splits(self, max_splits: int) -> SplitSequence:
        """The best known splits, at most so many, in the order of best-first growth."""


def fitted(growth: GrowingTree, budget: Budget, spread: Spread = (), leaves: int = 0) -> tuple[TreeIndex, int]:
    """The largest tree within a budget, and the rules of the fullest switch. It is first grown to `leaves`, if more."""
    if not 1 <= growth.bits <= MAX_LENGTH:
        raise TuningError(f"an index has 1 to {MAX_LENGTH} bits, not {growth.bits}", field="bits", value=growth.bits)
    tables = SwitchTables(growth.sample, budget, spread)
    wanted = min(max(budget.meant, leaves) - 1, MAX_SPLITS)
    for _ in range(1 + MAX_REGROWTHS):
        growth.grow(wanted)
        made = growth.splits(wanted)
        rules = tables.rules(made)
        wider = min(tables.wider(rules, wanted), MAX_SPLITS)
        if made.made < wanted or wider == wanted:
            break
        wanted = wider
    largest = tables.largest(rules, made.made)
    return made.tree(growth.sample.schema, growth.bits, largest), rules.fullest(largest)
