"""How much the samples of one principal may count: no more than the events that the network saw from its hosts.

Plans are learned from samples, and a publisher says itself what it has sampled. Whoever handed over many samples of one
corner of the event space would draw the plan's resolution there, at the cost of all others. So a principal has credit:
every event that the network let in at one of its hosts adds to it, and a sample costs as many events as it stands for.
The network's count is independent of what the publisher says, and to raise it takes real events that are advertised.
Switches cannot tell who at a host has sent an event, so the principals that advertise there have equal parts of it.
Where a network counts nothing, all principals that publish may bring equal parts of the samples that are wanted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Registrations
from pleroma.routing import HostId
from pleroma.service.collecting.sampling_rates import SAMPLES_PER_SECOND

FIRST_SAMPLES = 50
"""What a principal may hand over before the network has counted anything: hardly any of those that plans come from."""
MAX_SAVED_SAMPLES = 10_000
"""So many may be handed over at once by who has published before and handed nothing over: what a client keeps."""
CREDIT_RATIO = 1.5
"""Credit for each event that was counted: by chance, more samples may be drawn than their rate says."""
_LOOK_SECONDS = 0.25


class TrafficWitness(Protocol):
    """A network that counts what comes in."""

    count_lag_seconds: float
    """So long after an event came in it is counted, at the latest."""

    counts_by_principal: bool
    """Whether a count is of the principal alone, and not of all who send at the host."""

    def published(self, host: HostId, principal: str) -> int | None:
        """How many events the network has let in at a host's port; None if it does not count them."""


@dataclass(slots=True)
class _Credit:
    events: float | None = None
    """None until the first samples come."""
    seen: dict[HostId, int | None] = field(default_factory=dict)
    """By host where the principal advertises something: the network's count when it was last looked at."""
    advertised: dict[HostId, set[str]] = field(default_factory=dict)
    """By host: the ids of advertisements. A listener may hear of one that it knows already."""
    paid_until: float = 0.0
    """The time up to which an equal part was credited, where the network counts nothing."""


class InfluenceLimit:
    """Hears of all registrations of a controller."""

    def __init__(
        self, registrations: Registrations, witness: TrafficWitness, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.left_out = 0
        """Samples that did not count."""
        self._witness = witness
        self._clock = clock
        self._credits: dict[str, _Credit] = {}
        self._principals_at: Counter[HostId] = Counter()
        """By host: how many principals advertise something there."""
        for each in registrations.values():
            self._add(each, None)  # nobody knows how much of a count is from before
        registrations.subscribe(self)

    def on_registered(self, registered: Registered) -> None:
        self._add(registered, 0)  # a switch has let nothing in before

    def _add(self, registered: Registered, unknown: int | None) -> None:
        """Begin to count for an advertisement: from the network's count on, or from another if that is not known."""
        if registered.kind != "advertisement":
            return
        credit = self._credits.setdefault(registered.principal, _Credit(paid_until=self._clock()))
        if registered.host not in credit.advertised:
            count = self._witness.published(registered.host, registered.principal)
            credit.seen[registered.host] = unknown if count is None else count
            self._principals_at[registered.host] += 1
        credit.advertised.setdefault(registered.host, set()).add(registered.id)

    def on_withdrawn(self, registered: Registered) -> None:
        if registered.kind != "advertisement":
            return
        credit = self._credits.get(registered.principal)  # stays: who advertises anew has no other credit than before
        if credit is None or registered.host not in credit.advertised:
            return  # the principal was removed
        credit.advertised[registered.host].discard(registered.id)
        if not credit.advertised[registered.host]:
            del credit.advertised[registered.host], credit.seen[registered.host]
            self._leave(registered.host)

    def forget(self, principal: str) -> None:
        """The principal was removed, and all that it advertised."""
        gone = self._credits.pop(principal, None)
        for host in () if gone is None else gone.advertised:
            self._leave(host)

    def _leave(self, host: HostId) -> None:
        """A principal advertises nothing more at a host."""
        self._principals_at[host] -= 1
        if not self._principals_at[host]:
            del self._principals_at[host]

    async def settled(self, principal: str, samples: int, rate: float) -> None:
        """Wait until so many samples may count, or the network has counted all events that they may be of."""
        end = self._clock() + self._witness.count_lag_seconds
        while self._credit(principal, rate) * rate < samples and self._clock() < end:
            await asyncio.sleep(_LOOK_SECONDS)

    def counted(self, principal: str | None, samples: int, rate: float) -> int:
        """How many of so many samples count, which were drawn at a rate. They are paid for."""
        held = 0.0 if principal is None else self._credit(principal, rate)
        taken = min(samples, int(held * rate + 1e-9))
        if principal is not None and taken:
            self._credits[principal].events = held - taken / rate
        self.left_out += samples - taken
        return taken

    def _credit(self, principal: str, rate: float) -> float:
        """The events that a principal's samples may stand for now."""
        credit = self._credits.get(principal)
        if credit is None:
            return 0.0
        more = self._earned(principal, credit, rate)
        held = FIRST_SAMPLES / rate if credit.events is None else credit.events
        credit.events = min(held + more, MAX_SAVED_SAMPLES / rate)
        return credit.events

    def _earned(self, principal: str, credit: _Credit, rate: float) -> float:
        """The events that a principal is credited with since it was asked last."""
        now, events, is_counted = self._clock(), 0.0, False
        for host, before in credit.seen.items():
            count = self._witness.published(host, principal)
            credit.seen[host] = count
            if count is not None:
                is_counted = True
                # a switch that lost its rules counts from 0
                more = count - before if before is not None and count >= before else 0
                events += more if self._witness.counts_by_principal else more / max(self._principals_at[host], 1)
        seconds, credit.paid_until = now - credit.paid_until, now
        if is_counted:
            return CREDIT_RATIO * events
        publishing = sum(1 for each in self._credits.values() if each.advertised)
        return seconds * SAMPLES_PER_SECOND / max(publishing, 1) / rate
