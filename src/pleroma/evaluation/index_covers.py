"""The covers of many subscriptions by an index of any kind: all at once where there is a kernel for that kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pleroma.content import Filter
from pleroma.evaluation.batch_covers import BatchCovers, covered, firsts
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_covers import TreeCovers
from pleroma.index import GridIndex, Index, SelectiveIndex, TreeIndex
from pleroma.index.dz_rows import packed


def covers_of(index: Index, subscriptions: Sequence[Filter], sample: Sample, max_members: int | None) -> BatchCovers:
    """The covers of these subscriptions, which the sample has too; a quiet selective index makes them one by one."""
    if isinstance(index, TreeIndex):
        return TreeCovers.of(index, sample).within(max_members)
    if isinstance(index, GridIndex) or (isinstance(index, SelectiveIndex) and not index.quiet):
        return covered(index, sample, max_members)
    found = [packed(index.cover(each, max_members=max_members)) for each in subscriptions]
    return BatchCovers(np.concatenate(found), firsts([len(each) for each in found]))
