"""What a plan is worth: waste and flow entries, the two numbers that every tuner and every experiment reports.

Deliveries are counted without looking at event and subscription pairs: codes are sorted once, and each dz of a cover
holds the events of one stretch of them. On a star, where every subscriber has a port of its own, a switch has one rule
for each distinct dz of all covers, since no dz of a cover is in another of the same subscriber.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.index import Dz, DzSet, Index, TreeIndex, Waste
from pleroma.index.codes import WORD, Codes
from pleroma.tuning.evaluation import GridEvaluator
from pleroma.tuning.sample import Sample
from pleroma.tuning.tree_counts import deliveries_of, rules_of


@dataclass(frozen=True, slots=True)
class Outcome:
    waste: Waste
    rules: int
    """Of the fullest switch."""
    beyond: int = 0
    """By how many the rules of any switch exceed the limit of its own, where it has one."""


def judge(index: Index, subscriptions: Sequence[Filter], events: EventBatch, max_members: int | None = None) -> Outcome:
    """Each subscription its own subscriber on a star."""
    if isinstance(index, TreeIndex) and max_members is None:
        return judge_tree(index, Sample.of(events, subscriptions))
    covers = [index.cover(each, max_members=max_members) for each in subscriptions]
    deliveries = held(index.encode(events.points()), covers)
    wanted = GridEvaluator(Sample.of(events, subscriptions), 1).wanted
    if deliveries < wanted:
        raise AssertionError(f"{wanted} deliveries are wanted and only {deliveries} made")
    return Outcome(Waste(deliveries, wanted), len({dz for cover in covers for dz in cover}))


def judge_tree(index: TreeIndex, sample: Sample, wanted: int | None = None) -> Outcome:
    """Each owner its own subscriber on a star, with covers as fine as the tree."""
    known = GridEvaluator(sample, 1).wanted if wanted is None else wanted
    return Outcome(Waste(deliveries_of(index, sample), known), rules_of(index, sample))


def held(codes: Codes, covers: Sequence[DzSet]) -> int:
    """How many (event, cover) pairs there are in which the cover holds the event."""
    asked = Counter(dz for cover in covers for dz in cover)
    return int((events_in(codes, list(asked)) * np.array(list(asked.values()), np.int64)).sum())


def events_in(codes: Codes, cells: Sequence[Dz]) -> NDArray[np.int64]:
    atoms = _atoms(codes)
    bounds = [bound for dz in cells for bound in (dz.start, dz.end)]
    if codes.words.shape[1] == 1:  # 112-bit atoms, cut to the word that has all the bits
        places = np.array([bound >> 48 for bound in bounds[::2]], np.uint64)
        last = np.array([(bound >> 48) - 1 for bound in bounds[1::2]], np.uint64)
        return np.asarray(np.searchsorted(atoms, last, "right") - np.searchsorted(atoms, places, "left"))
    found = np.searchsorted(atoms, np.array(bounds, object), "left")
    return np.asarray(found[1::2] - found[::2])


def _atoms(codes: Codes) -> NDArray[np.uint64] | NDArray[np.object_]:
    """The codes, sorted: words where one is enough, atoms of the 2**112 as integers where not."""
    if codes.words.shape[1] == 1:
        return np.sort(codes.words[:, 0])
    high, low = codes.words[:, 0].astype(object), codes.words[:, 1].astype(object)
    return np.sort((high << WORD | low) >> 2 * WORD - 112)
