"""When to look for a better plan: a pure function of the windows so far and of what was decided before.

Waste above the threshold in several windows in a row is a reason, and so are many new subscriptions, or the end of a
period. After a search, waste is a reason again only if the traffic has changed: waste fell below a lower mark, or
values lie elsewhere. So a network whose best plan is a bad one is not tuned again and again, and waste around the
threshold does not start many searches. Searches that fail, or whose plans are refused, are made ever more seldom, and
so are those of a network whose subscriptions never stop to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

from pleroma.errors import LakeError, SetupError
from pleroma.index import Waste
from pleroma.replanning.drift import drift
from pleroma.replanning.windows import TrafficWindow, written
from pleroma.routing import SwitchId
from pleroma.selection.advice_question import DEFAULT_SELECTIONS, DEFAULT_SPLITS

Reason = Literal["waste", "period", "subscriptions"]
Outcome = Literal["handing", "adopted", "not_better", "moved", "away", "failed", "dry"]
COMPLETED_OUTCOMES: tuple[Outcome, ...] = ("handing", "adopted", "not_better", "dry")
"""Outcomes of a search that was finished: whatever there was to find was found."""


MAX_CREDIT = 2
"""Searches that may follow each other without a pause, if there was none for long."""
CALM_SHARE = 0.1
"""The part of `newcomers` that is enough when no more subscriptions come."""
FREE_CHANGES = 6
"""Plans that may be adopted in a period before the pause grows."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Times in seconds; `threshold`, `hysteresis`, `margin` and `floor` are shares."""

    window: float = 60.0
    lateness: float = 10.0
    """How much later than other events an event may land and still be counted."""
    threshold: float = 0.3
    """The share of deliveries that may be wasted."""
    hysteresis: float = 0.2
    """The share of the threshold by which waste has to fall below it to be a reason again."""
    drift: float = 0.3
    """The drift from which on traffic counts as changed."""
    patience: int = 2
    """Windows in a row whose waste has to be above the threshold."""
    newcomers: float = 0.25
    """The share of subscriptions that may come or go before a plan is looked for that knows of them."""
    period: float = 3600.0
    """After so long a search is made, whatever the waste."""
    cool_down: float | None = None
    """The pause between two searches; two windows if not given."""
    least: int = 200
    """Windows with fewer events are ignored."""
    look_back: int = 60
    """Windows to learn from, at most."""
    margin: float = 0.1
    """The share of the wasted deliveries that a plan must save to be worth a change."""
    floor: float = 0.01
    """By how much a plan must lower the share of wasted deliveries."""
    bits: int | None = None
    """Bits of a plan; as many as the plan in force has if not given."""
    rules: int | None = None
    """Rules that a switch has room for."""
    compare: bool = False
    """Whether the papers' techniques are tried as well, beside a learned tree."""
    selections: tuple[str, ...] = DEFAULT_SELECTIONS
    """Ways to select dimensions for a comparison."""
    splits: tuple[str, ...] = DEFAULT_SPLITS
    """Ways to split for a comparison."""
    draw: int = 65_536
    """Events to learn from and to judge by, at most."""
    seed: int = 0
    trigger: float = 1.0
    """How often new files are looked for in the lake."""

    def __post_init__(self) -> None:
        for name in ("window", "period", "trigger", "patience", "least", "look_back"):
            if not getattr(self, name) > 0:
                raise SetupError("is more than 0", field=name, value=getattr(self, name))
        for name in ("threshold", "hysteresis", "drift", "margin", "floor", "newcomers"):
            if not 0 <= getattr(self, name) <= 1:
                raise SetupError("is a share, from 0 to 1", field=name, value=getattr(self, name))
        for name in ("lateness", "cool_down"):
            given = getattr(self, name)
            if given is not None and not given >= 0:
                raise SetupError("is not negative", field=name, value=given)

    @property
    def length(self) -> timedelta:
        return timedelta(seconds=self.window)

    @property
    def pause(self) -> timedelta:
        """The least time between two searches."""
        return timedelta(seconds=2 * self.window if self.cool_down is None else self.cool_down)

    @property
    def release(self) -> float:
        """The waste below which the threshold can be a reason again."""
        return self.threshold * (1 - self.hysteresis)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided when the window that begins at `window` was closed, and what came of it."""

    schema: str
    window: datetime
    end: datetime
    """The end of that window."""
    epoch: int | None
    """The epoch of the plan in force."""
    reason: Reason | None
    """Why a plan is searched for; None keeps the plan in force."""
    detail: str
    """The reason in words, for people."""
    outcome: Outcome | None = None
    new_epoch: int | None = None
    technique: str | None = None
    before: Waste | None = None
    """The waste of the plan in force on held-out events: at hosts, or at subscriptions if the network is not known."""
    after: Waste | None = None
    """The waste of the best plan found on the same events."""
    rules: int | None = None
    """The rules of the fullest switch under the best plan found."""
    rules_by_switch: Mapping[SwitchId, int] | None = None
    """The same of all switches; None where the network is not known, and empty where they were not counted."""
    learned: TrafficWindow | None = None
    """The traffic that was learned from, merged to one window."""
    index: Mapping[str, Any] | None = None
    """The index that is being handed over."""
    members: int | None = None
    """The limit of dz per registration of the best plan found."""
    seconds: float | None = None

    @property
    def verdict(self) -> Literal["keep", "tune"]:
        return "keep" if self.reason is None else "tune"

    @property
    def predicted(self) -> dict[str, float]:
        """What the best plan found is expected to do, in the words of a plan's origin."""
        waste = {} if self.after is None else {f"waste_at_{self.waste_at}": self.after.rate}
        return waste | ({} if self.rules is None else {"rules": self.rules})

    @property
    def waste_at(self) -> Literal["hosts", "subscriptions"]:
        """What `before` and `after` are the waste at."""
        return "subscriptions" if self.rules_by_switch is None else "hosts"

    def to_json(self) -> dict[str, Any]:
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        data |= {"verdict": self.verdict, "waste_at": self.waste_at}
        for name in ("window", "end"):
            data[name] = written(data[name])
        for name in ("before", "after"):
            if data[name] is not None:
                data[name] = {"deliveries": data[name].deliveries, "wanted": data[name].wanted, "rate": data[name].rate}
        if self.learned is not None:
            data["learned"] = self.learned.to_json()
        return data

    @classmethod
    def from_json(cls, data: Any) -> Decision:
        """What `to_json` gave."""
        try:
            data = {"members": None, "rules_by_switch": None, **data}  # earlier versions did not write them
            read = {each.name: data[each.name] for each in fields(cls)}
            for name in ("window", "end"):
                read[name] = datetime.fromisoformat(read[name])
            for name in ("before", "after"):
                if read[name] is not None:
                    read[name] = Waste(read[name]["deliveries"], read[name]["wanted"])
            if read["learned"] is not None:
                read["learned"] = TrafficWindow.from_json(read["learned"])
            return cls(**read)
        except (KeyError, TypeError, ValueError) as error:
            raise LakeError(f"is no decision: {error}", field="decision") from None


def decide(
    windows: Sequence[TrafficWindow],
    decisions: Sequence[Decision],
    settings: WatchSettings,
    begun: datetime | None = None,
    newcomers: float = 0.0,
    is_calm: bool = False,
) -> Decision:
    """Decide at the last of these windows, given earlier decisions. Both are in the order of time.

    `begun` is the start of the first window of all, if there were more windows than these. `newcomers` is the share of
    all subscriptions, past and present, that have come or gone since the last search. If none comes any more
    (`is_calm`), fewer are a reason, and after a search that had to wait another one need not: a plan that knows all
    of them is worth most then.
    """
    now = windows[-1]

    def kept(detail: str) -> Decision:
        return Decision(now.schema, now.start, now.end, now.epoch, None, detail)

    def tuned(reason: Reason, detail: str) -> Decision:
        return Decision(now.schema, now.start, now.end, now.epoch, reason, detail)

    newest = max((each.new_epoch or 0 for each in decisions), default=0)
    if now.epoch is not None and now.epoch < newest:
        return kept(f"most events were sent before plan {newest}")
    pause = pause_after([(each.end, each.outcome) for each in decisions], now.end, settings)
    has_failed = bool(decisions) and decisions[-1].outcome == "failed"
    is_early = is_calm and newcomers > settings.newcomers * CALM_SHARE and _credit(decisions, now.end, settings) >= 1
    is_early = is_early and not has_failed and pause == settings.pause
    if decisions and now.start < decisions[-1].end + pause and not is_early:
        return kept("it is too soon after the last look")
    has_newcomers = is_early or newcomers >= settings.newcomers > 0
    if has_newcomers and (now.events < settings.least or now.waste.rate >= settings.floor):
        return tuned("subscriptions", f"{newcomers:.0%} of the subscriptions have come or gone since the last look")
    if not now.events:
        return kept("there was no event")
    if now.events < settings.least:
        return kept(f"{now.events} events say too little")
    last = next((each for each in reversed(decisions) if each.outcome in COMPLETED_OUTCOMES), None)
    since = last.end if last is not None else begun or windows[0].start
    if now.end - since >= timedelta(seconds=settings.period):
        return tuned("period", f"the last look was at {since.isoformat(timespec='seconds')}")
    rate = now.waste.rate
    row = [each for each in windows if each.events >= settings.least][-settings.patience :]
    if rate < settings.threshold:
        return kept(f"{rate:.1%} of the packets at hosts are wasted")
    if now.unjudged * 2 > now.events:
        return kept(f"{now.unjudged} of {now.events} events could not be judged")
    if len(row) < settings.patience or any(each.waste.rate < settings.threshold for each in row):
        return kept(f"{rate:.1%} of the packets at hosts are wasted, which may pass")
    if not _is_armed(windows, last, settings):
        is_foreign = last is not None and last.reason is None  # somebody else has put a plan into force
        why = last.detail if last is not None and is_foreign else "the traffic is as it was at the last search"
        return kept(f"{rate:.1%} of the packets at hosts are wasted, but {why}")
    return tuned("waste", f"{rate:.1%} of the packets at hosts are wasted")


def _credit(decisions: Sequence[Decision], now: datetime, settings: WatchSettings) -> float:
    """How many searches may be made now: `MAX_CREDIT` at first, one less by each, one more after each pause."""
    credit = float(MAX_CREDIT)
    for before, after in pairwise([*(each.end for each in decisions), now]):
        credit = min(credit - 1 + (after - before) / max(settings.pause, timedelta(microseconds=1)), MAX_CREDIT)
    return credit


def pause_after(
    decided: Sequence[tuple[datetime, Outcome | None]], now: datetime, settings: WatchSettings
) -> timedelta:
    """The least time from the last decision to the next search: twice as long after each further failure in a row.

    The same holds for each further plan in a period that has had many. Of each decision, the time and the outcome are
    given.
    """
    failures = next((n for n, (_, outcome) in enumerate(reversed(decided)) if outcome != "failed"), len(decided))
    period = timedelta(seconds=settings.period)
    changes = sum(outcome == "adopted" and end > now - period for end, outcome in decided)
    doublings = max(failures - 1, 0) + max(changes - FREE_CHANGES, 0)
    return min(settings.pause * 2.0 ** min(doublings, 30), max(settings.pause, period))


def _is_armed(windows: Sequence[TrafficWindow], last: Decision | None, settings: WatchSettings) -> bool:
    """Whether the traffic has changed since the last search."""
    if last is None:
        return True
    if last.reason == "subscriptions" and (last.learned is None or last.learned.events < settings.least):
        return True  # it went by imagined events, and knows nothing of the traffic
    later = [each for each in windows if each.start >= last.end and each.events >= settings.least]
    if any(each.waste.rate < settings.release for each in later if (each.epoch or 0) >= (last.new_epoch or 0)):
        return True
    return (drift(last.learned, windows[-1]) or 0.0) >= settings.drift


def reference(
    windows: Sequence[TrafficWindow], decisions: Sequence[Decision], epoch: int | None, settings: WatchSettings
) -> TrafficWindow | None:
    """The traffic that a plan was made from; of a plan from elsewhere, the first window that was sent by it."""
    if epoch is None:
        return None
    made = next((each.learned for each in reversed(decisions) if each.new_epoch == epoch), None)
    if made is not None:
        return made
    return next((each for each in windows if each.epoch == epoch and each.events >= settings.least), None)
