"""Compiled loops of the audit: every delivery that covers make of some events, judged and charged.

The rows of codes are sorted, so that a dz of a cover holds one stretch of them; what is looked at is in proportion to
what is delivered, never to events times subscriptions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Words

DELIVERED, WASTED, REPEATED = range(3)
REMOVABLE, NEEDED = range(2)


@compiled
def _place(words: Words, bound: Words, after: bool) -> Int:
    """The first sorted row that is not before the bound, or, with `after`, the first behind it."""
    low, high = 0, words.shape[0]
    while low < high:
        middle = (low + high) >> 1
        order = 0
        for word in range(words.shape[1]):
            if words[middle, word] != bound[word]:
                order = -1 if words[middle, word] < bound[word] else 1
                break
        if order < 0 or (after and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def charge(
    words: Words,
    event: Ints,
    keys: Floats,
    low: Floats,
    high: Floats,
    first_box: Ints,
    start: Words,
    end: Words,
    owner: Ints,
    rule: Ints,
    home: Ints,
    by_subscription: Ints,
    by_rule: Ints,
    by_attribute: Ints,
    by_home: Ints,
) -> None:
    """Add what is delivered, and what of it in vain, to the counters of subscriptions, rules, attributes and homes.

    `words` are the sorted codes and `event` whose they are. Member m of a cover holds the codes from `start[m]` to
    `end[m]`, belongs to subscription `owner[m]` and is rule `rule[m]`; members of one owner stand together. The boxes
    of subscription s are rows `first_box[s]` to `first_box[s + 1]` of `low` and `high`.

    An event in no box of a subscription could have been kept away by an attribute alone if its key is outside there
    for every box (`REMOVABLE`), and not without an attribute if for some box it is outside there only (`NEEDED`). A
    wanted event that comes again is wasted, and no attribute's fault. At a home an event counts once.
    """
    dims = keys.shape[1]
    served = np.full(keys.shape[0], -1, np.int64)
    arrived = np.zeros((by_home.shape[0], keys.shape[0]), np.uint8)
    outside_all = np.empty(dims, np.bool_)
    outside_only = np.empty(dims, np.bool_)
    for m in range(owner.shape[0]):
        s, r = owner[m], rule[m]
        for row in range(_place(words, start[m], False), _place(words, end[m], True)):
            e = event[row]
            by_subscription[s, DELIVERED] += 1
            by_rule[r, DELIVERED] += 1
            outside_all[:] = True
            outside_only[:] = False
            matched = False
            for box in range(first_box[s], first_box[s + 1]):
                failed = 0
                last = 0
                for d in range(dims):
                    if low[box, d] <= keys[e, d] < high[box, d]:
                        outside_all[d] = False
                    else:
                        failed += 1
                        last = d
                if failed == 0:
                    matched = True
                    break
                if failed == 1:
                    outside_only[last] = True
            if matched:
                arrived[home[s], e] = 2
                if served[e] != s:
                    served[e] = s
                    continue
                by_subscription[s, REPEATED] += 1
            else:
                if arrived[home[s], e] == 0:
                    arrived[home[s], e] = 1
                for d in range(dims):
                    by_attribute[d, REMOVABLE] += outside_all[d]
                    by_attribute[d, NEEDED] += outside_only[d]
            by_subscription[s, WASTED] += 1
            by_rule[r, WASTED] += 1
    for h in range(by_home.shape[0]):
        for e in range(keys.shape[0]):
            by_home[h, DELIVERED] += arrived[h, e] > 0
            by_home[h, WASTED] += arrived[h, e] == 1


def bounds(starts: list[int], ends: list[int], words: int) -> tuple[Words, Words]:
    """Spans of the 2**112 atoms as the first and the last code they hold, left-aligned in so many words."""
    return _words(starts, words), _words([end - 1 for end in ends], words, fill=True)


def _words(atoms: list[int], count: int, fill: bool = False) -> NDArray[np.uint64]:
    shifted = [atom << 16 | (0xFFFF if fill else 0) for atom in atoms]
    columns = [[each >> 64 & 0xFFFFFFFFFFFFFFFF for each in shifted], [each & 0xFFFFFFFFFFFFFFFF for each in shifted]]
    return np.ascontiguousarray(np.array(columns[:count], np.uint64).T.reshape(len(atoms), count))
