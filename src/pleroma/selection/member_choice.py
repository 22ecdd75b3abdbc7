"""How many dz a subscription may have under a tree: as few as waste hardly more than any number of them would.

Every member of a cover costs room and time wherever the cover goes: in requests, in the router, in the log. A tree is
grown so that covers as fine as its leaves fit the tables, so that too few members waste what was learned.
"""

from __future__ import annotations

from collections.abc import Callable

from pleroma.evaluation.batch_covers import BatchCovers
from pleroma.evaluation.tree_covers import TreeCovers
from pleroma.index import MAX_MEMBERS, Waste

MEMBER_LIMITS = (16, 32, 64, 128, 256, 512, 1024, 2048, MAX_MEMBERS)
"""The limits that are tried, in dz per subscription; the last is taken where none is good enough."""
TOLERATED_SHARE = 0.02
"""A limit may waste so much more than none, as a share of what is wasted without."""
TOLERATED_RATE = 0.001
"""A limit may in any case waste so much more, as a share of all deliveries: next to nothing is tolerable."""


def chosen_members(
    covers: TreeCovers, waste: Callable[[BatchCovers], Waste], fit: Callable[[BatchCovers], bool]
) -> int:
    """The least limit under which covers `fit` the tables and waste hardly more than without one.

    Coarser covers mostly need fewer rules, but not always: subscriptions that had dz in common may have others then.
    """
    without = waste(covers.within(None))
    tolerated = without.deliveries + max(TOLERATED_SHARE * without.wasted, TOLERATED_RATE * without.deliveries)
    for limit in MEMBER_LIMITS:
        if limit >= covers.most:
            return limit
        limited = covers.within(limit)
        if waste(limited).deliveries <= tolerated and fit(limited):
            return limit
    return MEMBER_LIMITS[-1]
