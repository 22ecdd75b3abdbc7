"""Why an event comes to a host or does not: one cause out of a fixed set, and a sentence that says what it is here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pleroma.routing import Presence, Topology
from pleroma.routing.tree import components
from pleroma.service.http.tracing.edge_explanation import ComparedRegistration, ComparedRegistrations, nearest_of
from pleroma.service.http.tracing.traced_event import PlanTrace, TracedWay
from pleroma.switches.tracing.examined_step import Difference, DifferenceKind, ExaminedStep

TraceCause = Literal[
    "delivered",
    "same_host",
    "not_sent",
    "not_advertised",
    "not_advertised_here",
    "not_admitted",
    "sender_away",
    "host_away",
    "cut_off",
    "no_subscription",
    "not_subscribed",
    "not_matched",
    "switch_behind",
    "switch_refused",
    "switch_away",
    "switch_silent",
    "rule_missing",
    "rule_changed",
    "foreign_rule",
    "no_rule",
    "waste_index",
    "waste_coarser_rule",
    "waste_plan_change",
    "waste_stray_rule",
]

MAX_NAMED_HOSTS = 5
"""Hosts that a sentence names."""


class Reason(NamedTuple):
    cause: TraceCause
    text: str


@dataclass(frozen=True, slots=True)
class EventVerdict:
    """About a host, or about the event as a whole (None), by the plans of these epochs."""

    host: str | None
    reason: Reason
    epochs: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {"host": self.host, "cause": self.reason.cause, "text": self.reason.text, "epochs": list(self.epochs)}


@dataclass(frozen=True)
class EventJudge:
    """Judges what happens to one event that a host (`sender`) publishes; None if nobody has advertised the event."""

    sender: str | None
    compared: ComparedRegistrations
    topology: Topology
    presence: Presence
    live: bool

    def verdicts(self, plans: Sequence[PlanTrace], to: str | None) -> list[EventVerdict]:
        """About the host asked about; else about the event, or about all hosts that it reaches or that want it."""
        found: dict[tuple[str | None, Reason], list[int]] = {}
        for plan in plans:
            for host, reason in self._judged(plan, to):
                found.setdefault((host, reason), []).append(plan.epoch)
        return [EventVerdict(host, reason, tuple(epochs)) for (host, reason), epochs in found.items()]

    def _judged(self, plan: PlanTrace, to: str | None) -> Iterator[tuple[str | None, Reason]]:
        if to is not None:
            yield to, self._host(plan, to)
            return
        barred = self._barred(plan) or self._unwanted(plan)
        if barred is not None:
            yield None, barred
            return
        wanting = {each.host for each in self.compared.subscriptions if each.matches}
        for host in sorted(wanting | plan.receivers):
            yield host, self._host(plan, host)

    def _barred(self, plan: PlanTrace) -> Reason | None:
        """Why the event does not get into the network, if it does not."""
        if not plan.dzs:
            text = f"plan {plan.epoch} does not send it: its index is quiet where nobody had subscribed"
            return Reason("not_sent", text)
        if plan.receivers:
            return None
        covering = sorted({each.host for each in self.compared.advertisements if each.matches})
        if self.sender is None:
            return Reason("not_advertised", f"nobody has advertised it{self._near(self.compared.advertisements)}")
        if any(way.trace.is_away for way in plan.ways):
            return Reason("sender_away", f"it is not sent: {self._why_away(self.sender)}")
        if not any(way.admitted_by for way in plan.ways):
            own = [each for each in self.compared.advertisements if each.host == self.sender]
            text = f"not admitted: {self.sender} has advertised nothing that covers it{self._near(own)}"
            if not covering:
                return Reason("not_advertised", f"{text}, and nobody else has")
            return Reason(
                "not_advertised_here", f"{text}; {_named(covering)} {'has' if len(covering) == 1 else 'have'}"
            )
        first = [way.steps[0] for way in plan.ways if way.steps]
        if first and all(step.dropped == "not_admitted" for step in first):
            at = first[0].step
            said = f"{self.sender} has advertised it, but {at.switch} does not let it in at port {at.in_port}"
            return Reason("not_admitted", f"not admitted: {said}{_said(first[0])}")
        return None

    def _unwanted(self, plan: PlanTrace) -> Reason | None:
        """That nobody wants the event, and it reaches nobody."""
        if plan.receivers or any(each.matches for each in self.compared.subscriptions):
            return None
        return Reason("no_subscription", f"no subscription matches it{self._near(self.compared.subscriptions)}")

    def _host(self, plan: PlanTrace, host: str) -> Reason:
        there = [each for each in self.compared.subscriptions if each.host == host]
        matching = [each for each in there if each.matches]
        if host in plan.receivers:
            return self._arrives(plan, host, matching) if matching else self._wasted(plan, host, there)
        if not there:
            return Reason("not_subscribed", f"nothing is subscribed at {host}")
        if not matching:
            return Reason("not_matched", f"no subscription at {host} matches it{self._near(there)}")
        barred = self._barred(plan)
        if barred is not None:
            return barred
        if host == self.sender:
            return Reason("same_host", "it is published at this host: programs there get it without the network")
        return self._lost(plan, host)

    def _arrives(self, plan: PlanTrace, host: str, matching: Sequence[ComparedRegistration]) -> Reason:
        number = len(matching)
        said = f"it arrives, and {number} subscription{'s match' if number > 1 else ' matches'}"
        for step in _route(plan, host):
            if self.live:
                if _has(step, "not_answering"):
                    text = f"{said}, by the rules wanted; {step.step.switch} on the way does not answer"
                    return Reason("switch_silent", text)
            elif step.standing != "confirmed":
                return _unconfirmed(step, host)
        return Reason("delivered", said)

    def _wasted(self, plan: PlanTrace, host: str, there: Sequence[ComparedRegistration]) -> Reason:
        """Why the event comes to a host where nobody wants it."""
        covering = [each for each in there if plan.covers(each.registered)]
        if covering:
            text = f"it arrives in vain{self._near(covering)}, and the index does not tell such events apart"
            return Reason("waste_index", text)
        route = _route(plan, host)
        for step in route:
            strays = [each for each in step.differences if each.kind in _STRAYS]
            if strays:
                return Reason("waste_stray_rule", f"it arrives in vain: at {step.step.switch}, {strays[0].text}")
        for step in route:
            if step.needless:
                text = f"it arrives in vain: {step.step.switch} has room for a coarser rule only"
                return Reason("waste_coarser_rule", text)
        for step in route:
            if step.step.meeting is not None and step.step.meeting.followed is not None:
                followed = step.step.meeting.followed
                if followed.kind == "detour":
                    text = (
                        f"it arrives in vain while the plan changes, by the detour {followed.dz} at {step.step.switch}"
                    )
                    return Reason("waste_plan_change", text)
        return Reason("waste_plan_change", "it arrives in vain while the plan changes: rules of both plans stand")

    def _lost(self, plan: PlanTrace, host: str) -> Reason:
        """Why an event that is admitted does not come to a host where a subscription matches it."""
        if host not in self._there.host:
            return Reason("host_away", f"it does not arrive: {self._why_away(host)}")
        ends = {each.switch for each in self._there.hosts if each.name in (self.sender, host)}
        if not any(ends <= part for part in components(self._there)):
            return Reason("cut_off", f"no way leads from {self.sender} to {host}: a link or a switch between is down")
        for way in plan.ways:
            lost = _lost_at(way, host)
            if lost is not None:
                return lost
        return Reason("no_rule", f"a subscription at {host} matches it, and no rule leads there")

    @cached_property
    def _there(self) -> Topology:
        return self.presence.of(self.topology)

    def _why_away(self, host: str) -> str:
        place = self.topology.host.get(host)  # type: ignore[call-overload]  # any text may be asked for
        if place is None:
            return f"the switch of {host} is not known yet"
        if place.switch in self.presence.absent:
            return f"{host} is away, since {place.switch} is gone"
        return f"{host} is away, since port {place.port} of {place.switch} is down"

    def _near(self, compared: Iterable[ComparedRegistration]) -> str:
        """The registration that nearly matches, if there is one."""
        near = nearest_of(compared)
        if near is None or near.matches:
            return ""
        what = "subscription" if near.registered.kind == "subscription" else "advertisement"
        return f" (the nearest {what}, {near.filter} at {near.host}, misses it by {_named(near.failed)})"


_STRAYS: tuple[DifferenceKind, ...] = ("foreign_rule", "rule_changed", "rule_unwanted", "rule_missing")
_LOSSES: Mapping[DifferenceKind, TraceCause] = {
    "foreign_rule": "foreign_rule",
    "rule_missing": "rule_missing",
    "rule_changed": "rule_changed",
    "rule_unwanted": "rule_changed",
    "foreign_rule_may_match": "foreign_rule",
    "not_answering": "switch_silent",
}
"""What a difference causes; of several differences, the first of these."""
_OWN_DIFFERENCES: tuple[DifferenceKind, ...] = ("rule_missing", "rule_changed", "rule_unwanted")


def _route(plan: PlanTrace, host: str) -> list[ExaminedStep]:
    """The steps that lead to a host, from the sender on."""
    for way in plan.ways:
        numbers = way.trace.route(host)
        if numbers:
            return [way.steps[number] for number in reversed(numbers)]
    return []


def _lost_at(way: TracedWay, host: str) -> Reason | None:
    """Where the way that was followed leaves the way to a host that is wanted."""
    followed = {step.step.switch: step for step in way.steps}
    lost: Reason | None = None
    for number in reversed(way.wanted.route(host)):
        step = followed.get(way.wanted.steps[number].switch)
        if step is None:
            break
        if step.differences:
            difference = min(step.differences, key=lambda each: list(_LOSSES).index(each.kind))
            lost = _lost_by(step, difference)
    return lost


def _lost_by(step: ExaminedStep, difference: Difference) -> Reason:
    """A rule that the switch has not confirmed, or refuses, was not taken away by anybody."""
    text = f"lost at {step.step.switch}: {difference.text}"
    if difference.kind in _OWN_DIFFERENCES:
        match step.standing:
            case "behind":
                text += ", which has not confirmed its rules yet"
            case "refused":
                text += f", which refused rules: {step.refusal}"
    return Reason(_LOSSES[difference.kind], text)


def _unconfirmed(step: ExaminedStep, host: str) -> Reason:
    switch = step.step.switch
    match step.standing:
        case "refused":
            return Reason("switch_refused", f"{switch} on the way to {host} refused rules: {step.refusal}")
        case "away" | "gone":
            text = f"{switch} on the way to {host} is {step.standing}: it forwards by the rules that it had, if at all"
            return Reason("switch_away", text)
        case _:
            text = f"{switch} on the way to {host} has not confirmed its rules yet; then it arrives"
            return Reason("switch_behind", text)


def _has(step: ExaminedStep, kind: DifferenceKind) -> bool:
    return any(each.kind == kind for each in step.differences)


def _said(step: ExaminedStep) -> str:
    return f" ({step.differences[0].text})" if step.differences else ""


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED_HOSTS])
    return shown if len(names) <= MAX_NAMED_HOSTS else f"{shown} and {len(names) - MAX_NAMED_HOSTS} more"
