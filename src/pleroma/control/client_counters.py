"""What clients report about what they got, added up by subscription and by principal. Kept in memory only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pleroma.control.control_state import ControlState
from pleroma.errors import ControlError, NotThere, UnknownName

CLIENT_COUNTERS = ("delivered", "wasted", "duplicates", "dropped")
COUNT_LIMIT = 2**53


class ClientCounters:
    """Counters since the controller started."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, dict[str, int]] = {}
        self.principals: dict[str, dict[str, int]] = {}

    @property
    def totals(self) -> dict[str, int]:
        return {
            name: sum(counted.get(name, 0) for counted in self.principals.values())
            for name in ("published", *CLIENT_COUNTERS)
        }

    def report(
        self,
        state: ControlState,
        principal: str,
        subscriptions: Mapping[str, Mapping[str, int]] | None = None,
        published: int = 0,
    ) -> None:
        """Add what a principal counted for its subscriptions. All of it is added or, with an error, nothing."""
        own = state.registrations.by_principal.get(principal, {})
        given = subscriptions or {}
        for each, counted in given.items():
            if each not in own or own[each].kind != "subscription":
                raise NotThere("the principal has no such subscription", field="subscriptions", value=each)
            for name, count in counted.items():
                if name not in CLIENT_COUNTERS:
                    raise UnknownName("counter", str(name), CLIENT_COUNTERS, field=each)
                _check_count(name, count)
        _check_count("published", published)
        mine = self.principals.setdefault(principal, {})
        _add(mine, {"published": published})
        for each, counted in given.items():
            _add(self.subscriptions.setdefault(each, {}), counted)
            _add(mine, counted)

    def forget(self, id: str) -> None:
        """A subscription is gone; the principal's sums stay."""
        self.subscriptions.pop(id, None)


def _add(counters: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counters[name] = counters.get(name, 0) + count


def _check_count(name: str, count: Any) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < COUNT_LIMIT:
        raise ControlError(f"is a count from 0, not {count!r}", field=name, value=count)
