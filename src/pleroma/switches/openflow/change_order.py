"""What turns the rules that a switch has into those that are wanted: which changes, in which order, in which bundles.

Packets see a bundle as a whole, so the states between bundles have to be right: in none of them an event may be lost
that is wanted before and after. Therefore rules are added before others are deleted, which takes room for both. While
a plan changes in the light-weight way, a detour stands above the rules that are exchanged (Bhowmik et al. 2018, V). No
event meets these: all that go are deleted before any come, and the room of the larger table is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pleroma.routing import Change, in_safe_order
from pleroma.switches.openflow.rule import Key, Rule, RuleChange
from pleroma.switches.openflow.tables import FORWARDING, is_detour

MAX_BUNDLE_CHANGES = 1000
"""Changes in one bundle, so that a switch answers a bundle before it counts as silent."""


def bundles(
    known: Mapping[Key, Rule],
    wanted: Mapping[Key, Rule],
    keys: Iterable[Key],
    *,
    size: int = MAX_BUNDLE_CHANGES,
    tight: bool = False,
) -> list[list[RuleChange]]:
    """The bundles of at most `size` changes that turn the known rules into the wanted ones at these keys.

    Hidden rules are deleted first and added last, and the other rules change in between, in safe order. So changes to
    hidden rules never take more room than the larger of both tables. If the table is `tight`, the changes to the other
    rules are one bundle whatever its size: then only the outcome has to fit.
    """
    changes = rule_changes(known, wanted, keys)
    if len(changes) <= size:
        return _cut(changes, size)
    is_hidden = _hidden(known, wanted)
    going: list[RuleChange] = []
    visible: list[RuleChange] = []
    coming: list[RuleChange] = []
    for each in changes:
        if not is_hidden(each.rule):
            visible.append(each)
        elif each.change is Change.DELETE:
            going.append(each)
        else:
            coming.append(each)
    if tight:
        return _cut(going, size) + _cut(visible, len(visible)) + _cut(coming, size)
    return _cut([*going, *visible, *coming], size)


def rule_changes(known: Mapping[Key, Rule], wanted: Mapping[Key, Rule], keys: Iterable[Key]) -> list[RuleChange]:
    """What turns the known rules into the wanted ones at these keys, in an order that is safe even one by one.

    Forwarding is the later table: no event is admitted before there are rules that forward it.
    """
    changes: list[RuleChange] = []
    for key in keys:
        have, want = known.get(key), wanted.get(key)
        if have == want:
            continue
        if want is not None:
            changes.append(RuleChange(Change.ADD if have is None else Change.MODIFY, want))
        elif have is not None:
            changes.append(RuleChange(Change.DELETE, have))
    return in_safe_order(changes)


def _hidden(known: Mapping[Key, Rule], wanted: Mapping[Key, Rule]) -> Callable[[Rule], bool]:
    """Tells whether no event meets a rule, because it lies below a detour that the switch has and that stays."""
    standing = [key[2] for key in known if is_detour(key) and key in wanted]

    def is_hidden(rule: Rule) -> bool:
        if rule.table != FORWARDING or is_detour(rule.key):
            return False
        return any(detour.covers(rule.match) for detour in standing)

    return is_hidden


def _cut(changes: Sequence[RuleChange], size: int) -> list[list[RuleChange]]:
    """Bundles of at most so many changes. Each begins with its deletions, so that a full table can turn over."""
    parts = (changes[start : start + size] for start in range(0, len(changes), size or 1))
    return [sorted(part, key=lambda each: each.change is not Change.DELETE) for part in parts]
