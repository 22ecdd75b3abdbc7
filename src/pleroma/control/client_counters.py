"""What clients report about the events they sent and got, added up by subscription and by principal.

The counters are kept in memory only: they begin when the controller starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pleroma.control.accepted_batches import AcceptedBatches
from pleroma.control.state.principals import Principals
from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Registrations
from pleroma.errors import ControlError, NotThere, UnknownName

CLIENT_COUNTER_NAMES = ("delivered", "wanted", "wasted", "duplicates", "dropped", "forged", "missed")
"""`delivered` counts events at each subscription; `wanted`, `wasted`, `forged` count packets at a client, each once."""
CLIENT_SUM_NAMES = ("published", "unsent", "overrun")
"""Counted for a client as a whole."""
COUNT_LIMIT = 2**53


class ClientCounters:
    """The counters of all subscriptions that are in force, and of all principals that have reported."""

    def __init__(self, registrations: Registrations, principals: Principals) -> None:
        self.subscriptions: dict[str, dict[str, int]] = {}
        self.principals: dict[str, dict[str, int]] = {}
        self._of_removed: dict[str, int] = {}
        """What principals reported that were removed since."""
        self._registrations = registrations
        self._accepted = AcceptedBatches()
        registrations.subscribe(self)
        principals.on_removed(self._forget)

    @property
    def totals(self) -> dict[str, int]:
        return {
            name: sum(counted.get(name, 0) for counted in (self._of_removed, *self.principals.values()))
            for name in (*CLIENT_SUM_NAMES, *CLIENT_COUNTER_NAMES)
        }

    def report(
        self,
        principal: str,
        subscriptions: Mapping[str, Mapping[str, int]] | None = None,
        sums: Mapping[str, int] | None = None,
        batch: tuple[str, int] | None = None,
    ) -> bool:
        """Add what a principal counted for its subscriptions, and in sum. All is added or, with an error, nothing.

        `batch` is the name and the number that a client gave the report. One that was added before is passed over, and
        the answer is False.
        """
        if batch is not None and self._accepted.has(principal, *batch):
            return False
        own = self._registrations.by_principal.get(principal, {})
        given = subscriptions or {}
        for each, counted in given.items():
            if each not in own or own[each].kind != "subscription":
                raise NotThere("the principal has no such subscription", field="subscriptions", value=each)
            _check_counts(counted, CLIENT_COUNTER_NAMES, each)
        _check_counts(sums or {}, CLIENT_SUM_NAMES, "sums")
        mine = self.principals.setdefault(principal, {})
        _add(mine, sums or {})
        for each, counted in given.items():
            _add(self.subscriptions.setdefault(each, {}), counted)
            _add(mine, counted)
        if batch is not None:
            self._accepted.add(principal, *batch)
        return True

    def _forget(self, principal: str) -> None:
        """Keep of a principal that was removed only its part of the sums."""
        _add(self._of_removed, self.principals.pop(principal, {}))
        self._accepted.forget(principal)

    def on_registered(self, registered: Registered) -> None:
        """Nothing is counted for it yet."""

    def on_withdrawn(self, registered: Registered) -> None:
        """Forget the counters of a subscription; the principal's sums stay."""
        self.subscriptions.pop(registered.id, None)


def _add(counters: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counters[name] = counters.get(name, 0) + count


def _check_counts(counted: Mapping[str, Any], known: tuple[str, ...], field: str) -> None:
    for name, count in counted.items():
        if name not in known:
            raise UnknownName("counter", str(name), known, field=field)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < COUNT_LIMIT:
            raise ControlError(f"is a count from 0, not {count!r}", field=name, value=count)
