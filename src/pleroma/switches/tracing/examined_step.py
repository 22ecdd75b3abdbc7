"""A step of a trace, compared with what is wanted there: unconfirmed, missing, changed, unwanted and foreign rules.

All words that a step is marked with come from fixed sets, so that programs can tell them apart, and each difference has
a sentence for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from pleroma.index.dz import Dz
from pleroma.routing.flow import Output
from pleroma.routing.topology import Port
from pleroma.switches.tracing.event_trace import Step
from pleroma.switches.tracing.meeting import Meeting, MetRule, SwitchRules, SwitchStanding, TracedTables

Standing = Literal["confirmed", "behind", "refused", "reading", "away", "gone"]
"""Whether a switch has confirmed what is wanted for the event: `behind`, not yet; `refused`, it does not take a rule.
The others are states of a switch of which it is not known what it has.
"""
STANDINGS: tuple[Standing, ...] = get_args(Standing)

DifferenceKind = Literal[
    "rule_missing", "rule_changed", "rule_unwanted", "foreign_rule", "foreign_rule_may_match", "not_answering"
]
DIFFERENCE_KINDS: tuple[DifferenceKind, ...] = get_args(DifferenceKind)

Dropped = Literal["not_admitted", "nobody_behind", "only_back", "rule_missing", "foreign_rule", "rewritten"]
"""Why an event goes no further: `nobody_behind`, no rule is wanted, since nobody behind the switch wants the event;
`only_back`, the rule leads only to where the event came from.
"""
DROPS: tuple[Dropped, ...] = get_args(Dropped)


class Difference(NamedTuple):
    kind: DifferenceKind
    text: str


@dataclass(frozen=True, slots=True)
class ExaminedStep:
    """`needless` are ports that the event leaves by only because its rule is a coarser one (None: it is none)."""

    step: Step
    standing: Standing
    refusal: str | None
    needless: tuple[Port, ...] | None
    dropped: Dropped | None
    differences: tuple[Difference, ...]


def examine(
    step: Step, event: Dz, wanted: TracedTables, known: SwitchStanding, found: SwitchRules | None, *, live: bool
) -> ExaminedStep:
    """Compare a step with the wanted rules. `found` are the rules read from the switch, None if it does not answer."""
    standing, refusal = _standing(step, event, wanted, known)
    if step.meeting is None:
        return ExaminedStep(step, standing, refusal, None, "rewritten", ())
    expected = wanted.meet(step.in_port, event)
    differences: tuple[Difference, ...] = ()
    if live and found is None:
        differences = (Difference("not_answering", "the switch does not answer; followed by the rules wanted"),)
    elif live and found is not None:
        differences = tuple(_differences(step, step.meeting, expected, wanted, found))
    followed = step.meeting.followed
    is_coarse = followed is not None and followed.kind == "rule" and followed == expected.followed
    return ExaminedStep(
        step,
        standing,
        refusal,
        wanted.needless(event) if is_coarse else None,
        _dropped(step, step.meeting, expected),
        differences,
    )


def _standing(step: Step, event: Dz, wanted: TracedTables, known: SwitchStanding) -> tuple[Standing, str | None]:
    if known.state != "ready":
        return known.state, None
    expected = wanted.meet(step.in_port, event)
    if known.confirmed == expected:
        return "confirmed", None
    return ("refused", "; ".join(known.refused)) if known.refused else ("behind", None)


def _dropped(step: Step, meeting: Meeting, expected: Meeting) -> Dropped | None:
    if meeting.admitted_by is None:
        return "not_admitted"
    if meeting.followed is None:
        return "nobody_behind" if expected.followed is None else "rule_missing"
    if step.outputs or not meeting.is_clear:
        return None
    if meeting.followed.kind == "foreign":
        return "foreign_rule"
    return "only_back" if meeting.outputs else "nobody_behind"


def _differences(
    step: Step, meeting: Meeting, expected: Meeting, wanted: TracedTables, found: SwitchRules
) -> list[Difference]:
    said = "a rule of somebody else may match first"
    made = [Difference("foreign_rule_may_match", f"{said}: {rule.text}") for rule in meeting.in_front]
    followed = None if meeting.followed is meeting.admitted_by else meeting.followed
    for met, want in ((meeting.admitted_by, expected.admitted_by), (followed, expected.followed)):
        if met is not None and met.kind == "foreign":
            made.append(Difference("foreign_rule", f"a rule of somebody else comes first: {met.text}"))
        if want is not None:
            there = found.find(step.in_port, want.kind, want.dz)
            if there is None:
                made.append(Difference("rule_missing", f"{described(want)} is not on the switch"))
            elif there != want:
                made.append(Difference("rule_changed", _change(want, there)))
        if met is not None and met.kind != "foreign" and wanted.find(step.in_port, met.kind, met.dz) is None:
            made.append(Difference("rule_unwanted", f"nobody wants {described(met)}, which the event meets"))
    return made


def _change(want: MetRule, there: MetRule) -> str:
    if there.outputs == want.outputs:
        return f"{described(want)} was changed: {there.text}"
    return f"{described(want)} leads to {_ports(there.outputs)}, not to {_ports(want.outputs)}"


def described(rule: MetRule) -> str:
    """A rule in words."""
    match rule.kind:
        case "cell":
            return f"the admission of {rule.dz}"
        case "link":
            return "the admission of events from the link"
        case "detour":
            return f"the detour {rule.dz}"
        case "rule":
            return f"the rule {rule.dz}"
        case "foreign":
            return f"a rule of somebody else ({rule.text})"


def _ports(outputs: tuple[Output, ...]) -> str:
    return f"ports {', '.join(str(port) for port, _ in outputs)}" if outputs else "no port"
