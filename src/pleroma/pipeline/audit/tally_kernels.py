"""Compiled loops of the audit: every delivery that covers make of some events, judged and charged.

The rows of codes are sorted, so that a dz of a cover holds one stretch of them; what is looked at is in proportion to
what is delivered, never to events times subscriptions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Words

Bools = NDArray[np.bool_]
DELIVERED, WASTED, REPEATED = range(3)
REMOVABLE, NEEDED = range(2)
FOREVER = np.iinfo(np.int64).max
ARRIVED_IN_VAIN, WANTED_THERE = 1, 2
"""What is known of an event at a host; 0 if it did not come there."""


class SortedCodes(NamedTuple):
    """The codes of some events in order, and the event of each code; an event may have several codes."""

    words: Words
    event: Ints


class SubscriptionBoxes(NamedTuple):
    """Boxes in the terms of the events' keys: those of subscription s are rows `first[s]` to before `first[s + 1]`."""

    first: Ints
    low: Floats
    high: Floats


class ChargedLives(NamedTuple):
    """By subscription: its host, and from when until before when it was in force, in microseconds."""

    host: Ints
    since: Ints
    until: Ints


class CoverMembers(NamedTuple):
    """Every dz of every cover: the first and the last code it holds, its subscription, and the number of its rule.

    Members of one owner stand together.
    """

    start: Words
    end: Words
    owner: Ints
    rule: Ints


class Charges(NamedTuple):
    """The counters that `charge` adds to, three columns each."""

    by_subscription: Ints
    by_rule: Ints
    by_attribute: Ints
    by_host: Ints


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
def _failed(keys: Floats, event: Int, low: Floats, high: Floats, box: Int, outside_all: Bools) -> tuple[Int, Int]:
    """Along how many attributes an event lies outside a box, and the last of them.

    `outside_all` is cleared for the attributes along which it lies inside.
    """
    failed = 0
    last = 0
    for d in range(keys.shape[1]):
        if low[box, d] <= keys[event, d] < high[box, d]:
            outside_all[d] = False
        else:
            failed += 1
            last = d
    return failed, last


@compiled
def charge(
    codes: SortedCodes,
    keys: Floats,
    at: Ints,
    boxes: SubscriptionBoxes,
    members: CoverMembers,
    lives: ChargedLives,
    charges: Charges,
) -> None:
    """Add each delivery, and whether it was wasted, to the counters of its subscription, rule, attributes and host.

    `keys` has a row for each event, and `at` its moment; nothing is delivered to a subscription that was not in force
    then. An event in no box of a subscription could have been kept away by an attribute alone if its key is outside
    there for every box (`REMOVABLE`), and not without an attribute if for some box it is outside there only (`NEEDED`).
    A wanted event that comes again is wasted, and no attribute's fault. At a host an event counts once.
    """
    events, dims = keys.shape
    first, low, high = boxes
    host, since, until = lives
    served = np.full(events, -1, np.int64)
    arrived = np.zeros((charges.by_host.shape[0], events), np.uint8)
    outside_all = np.empty(dims, np.bool_)  # for every box of the subscription
    outside_only = np.empty(dims, np.bool_)  # for some box, and along no other attribute
    for m in range(members.owner.shape[0]):
        s, r = members.owner[m], members.rule[m]
        by_subscription, by_rule, at_host = charges.by_subscription[s], charges.by_rule[r], arrived[host[s]]
        for row in range(_place(codes.words, members.start[m], False), _place(codes.words, members.end[m], True)):
            e = codes.event[row]
            if at[e] < since[s] or at[e] >= until[s]:
                continue
            by_subscription[DELIVERED] += 1
            by_rule[DELIVERED] += 1
            outside_all[:] = True
            outside_only[:] = False
            matched = False
            for box in range(first[s], first[s + 1]):
                failed, last = _failed(keys, e, low, high, box, outside_all)
                if failed == 0:
                    matched = True
                    break
                if failed == 1:
                    outside_only[last] = True
            if matched:
                at_host[e] = WANTED_THERE
                if served[e] != s:
                    served[e] = s
                    continue
                by_subscription[REPEATED] += 1
            else:
                if at_host[e] == 0:
                    at_host[e] = ARRIVED_IN_VAIN
                for d in range(dims):
                    charges.by_attribute[d, REMOVABLE] += outside_all[d]
                    charges.by_attribute[d, NEEDED] += outside_only[d]
            by_subscription[WASTED] += 1
            by_rule[WASTED] += 1
    _count_at_hosts(arrived, charges.by_host)


@compiled
def _count_at_hosts(arrived: NDArray[np.uint8], by_host: Ints) -> None:
    for h in range(arrived.shape[0]):
        for e in range(arrived.shape[1]):
            by_host[h, DELIVERED] += arrived[h, e] > 0
            by_host[h, WASTED] += arrived[h, e] == ARRIVED_IN_VAIN


def bounds(starts: list[int], ends: list[int], words: int) -> tuple[Words, Words]:
    """Spans of the 2**112 atoms as the first and the last code they hold, left-aligned in so many words."""
    return _words(starts, words), _words([end - 1 for end in ends], words, fill=True)


def _words(atoms: list[int], count: int, fill: bool = False) -> NDArray[np.uint64]:
    shifted = [atom << 16 | (0xFFFF if fill else 0) for atom in atoms]
    columns = [[each >> 64 & 0xFFFFFFFFFFFFFFFF for each in shifted], [each & 0xFFFFFFFFFFFFFFFF for each in shifted]]
    return np.ascontiguousarray(np.array(columns[:count], np.uint64).T.reshape(len(atoms), count))
