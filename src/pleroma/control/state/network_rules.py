"""All rules of all switches: what the registrations ask for, and what a change of plans adds to that for a while.

When the plan of a schema changes, every dz of it means something else, and neither switches nor publishers can be told
at one moment. Two ways lead across without losing an event (Bhowmik et al. 2018, V); both go by three steps, and each
step is confirmed by every switch before the next begins.

Light-weight: **prepare** puts a detour above all other rules of the schema, by which any of its events goes wherever
anybody on that side wants any; **swap** exchanges the rules below and tells publishers the new plan; when they have
adopted it and nothing of before is under way, **clear** takes the detours away. On a tree one detour a switch is
enough: a packet never leaves by the port it came in by, so sending it to all ports in use goes nowhere twice.

Versioning: **prepare** adds the rules of the new plan beside the old ones, under another prefix that tells the versions
apart; **swap** has publishers use it; **clear** removes the old ones. Nothing is wasted meanwhile, but tables have to
hold both.

Where two trees differ only below some nodes (`regrowth`), all of that is about this area alone: detours cover nothing
else, and the rules of both versions stand side by side there under the one prefix, so that an event in the area goes
where either plan would have it. Outside, an event has the same dz before and after, and the same people want it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from pleroma.control.state.records import Registered
from pleroma.control.state.result import GuardOp
from pleroma.errors import LimitReached
from pleroma.index import Dz, DzSet, Index
from pleroma.routing import (
    Admissions,
    AdmitOp,
    Advertise,
    Change,
    DetourOp,
    FlowOp,
    HostId,
    Registration,
    Router,
    Subscribe,
    SwitchOp,
    Topology,
    in_safe_order,
)

ChangeMethod = Literal["lightweight", "versioning"]
CHANGE_METHODS: tuple[ChangeMethod, ...] = get_args(ChangeMethod)
ChangePhase = Literal["prepared", "swapped"]


@dataclass(slots=True)
class PlanChange:
    """A schema between two plans.

    `other` has the regions that registrations have besides those in force: until the swap those of the next plan, after
    it those of the last one, under `prefix`. Who has nothing in the area of a local change is not among them.
    """

    schema: str
    method: ChangeMethod
    phase: ChangePhase
    before: Index
    after: Index
    prefix: Dz
    area: DzSet
    """Where events may have another dz after the change: what detours cover."""
    other: dict[str, DzSet] = field(default_factory=dict)

    @property
    def other_index(self) -> Index:
        return self.after if self.phase == "prepared" else self.before

    @property
    def is_local(self) -> bool:
        """Whether a part of the event space stays as it is."""
        return self.area.longest > self.prefix.length


class NetworkRules:
    """`topology` has the place of every host; what is there of the network now may be less (`route_on`)."""

    def __init__(self, topology: Topology, max_length: int) -> None:
        self.topology = topology
        self._now = topology
        self.router = Router(topology, max_length=max_length)
        self.admissions = Admissions()
        self.changing: PlanChange | None = None
        self.detours = Router(topology.with_limit(None), max_length=max_length)
        """Has registrations only while a light-weight change is under way."""

    def everything(self) -> list[SwitchOp]:
        """What an empty network has to be told."""
        flows = (FlowOp(switch, Change.ADD, flow) for switch, table in self.router.tables.items() for flow in table)
        detours = [DetourOp(s, Change.ADD, flow) for s, table in self.detours.tables.items() for flow in table]
        return [*in_safe_order(flows), *detours, *self.admissions.operations(self.topology)]

    def route_on(self, topology: Topology) -> tuple[list[FlowOp], list[GuardOp]]:
        """Switches or links have come or gone; nothing to do if it is all as before."""
        if topology == self._now == self.router.topology:
            return [], []
        self._now = topology
        flows = self.router.change_topology(self._with_room())
        return flows, _detours(self.detours.change_topology(topology.with_limit(None)))

    def expect(self, host: HostId) -> None:
        """There may be registrations at a host that is not there yet."""
        self.router.expect(host)
        self.detours.expect(host)

    # -- registrations -------------------------------------------------------------------------------------------

    def load(self, registered: Iterable[Registered]) -> None:
        """All registrations at once, as after a restart; a change that is under way has been set before."""
        everyone = list(registered)
        concerned = [each for each in everyone if self._concerns(each)]
        self.router.load([*map(request_of, everyone), *self._doubles(concerned)])
        self.detours.load(self._detoured(concerned))
        for each in everyone:
            self._admit(each, each.region)
        for each in concerned:
            if each.id in self._other:
                self._admit(each, self._other[each.id])
        self._make_room()

    def add(self, made: Registered, other: DzSet | None = None) -> tuple[list[FlowOp], list[GuardOp]]:
        """`other` is its region in the other plan, while the plan changes."""
        flows = self.router.apply(request_of(made))
        more: list[GuardOp] = list(self._admit(made, made.region))
        if self.changing is None or not self._concerns(made):
            return flows, more
        if other is not None:
            self.changing.other[made.id] = other
            more += self._admit(made, other)
            for double in self._doubles([made]):
                flows += self.router.apply(double)
        for detoured in self._detoured([made]):
            more += _detours(self.detours.apply(detoured))
        return flows, more

    def remove(self, gone: Iterable[Registered]) -> tuple[list[FlowOp], list[GuardOp]]:
        leaving = list(gone)
        concerned = [each for each in leaving if self._concerns(each)]
        doubles = [each.id for each in self._doubles(concerned)]
        flows = self.router.exchange([*(each.id for each in leaving), *doubles], ())
        detoured = [each.id for each in concerned if each.id in self.detours.registrations]
        more = _detours(self.detours.exchange(detoured, ()))
        for each in leaving:
            more += self._expel(each, each.region)
            other = self._other.pop(each.id, None)
            if other is not None:
                more += self._expel(each, other)
        return flows, more

    def exchange(self, gone: Iterable[Registered], come: Iterable[Registered]) -> tuple[list[FlowOp], list[GuardOp]]:
        """The same registrations with other regions, in one step: whoever is on the way may be lost."""
        old, new = list(gone), list(come)
        flows = self.router.exchange([each.id for each in old], map(request_of, new))
        more: list[GuardOp] = [op for each in new for op in self._admit(each, each.region)]
        return flows, more + [op for each in old for op in self._expel(each, each.region)]

    # -- from plan to plan ---------------------------------------------------------------------------------------

    def check_detours(self) -> None:
        """A table of one rule has no room for a detour beside it."""
        small = [switch for switch, limit in self.topology.limits.items() if limit < 2]
        if small:
            raise LimitReached("the table has room for one rule, and for no detour", field="switch", value=small[0])

    @property
    def room_for_detours(self) -> int:
        """How many no table would miss: an eighth of the smallest, and one in any case."""
        return max(min(self.topology.limits.values(), default=sys.maxsize) // 8, 1)

    def prepare(self, changing: PlanChange, registered: Iterable[Registered]) -> tuple[list[FlowOp], list[GuardOp]]:
        """`changing.other` has the regions of the new plan for these registrations."""
        concerned = [each for each in registered if each.id in changing.other]
        self.changing = changing
        flows = self._make_room()
        flows += self.router.exchange((), self._doubles(concerned))
        more = _detours(self.detours.exchange((), self._detoured(concerned)))
        for each in concerned:
            more += self._admit(each, changing.other[each.id])
        return flows, more

    def swap(self, old: Iterable[Registered], new: Iterable[Registered], prefix: Dz) -> list[FlowOp]:
        """Put the new regions in force; the old ones, under their prefix, are the others from now on."""
        assert self.changing is not None  # noqa: S101 (the state has checked it)
        before, after = list(old), list(new)
        gone = [*(each.id for each in before), *(each.id for each in self._doubles(before))]
        self.changing.phase, self.changing.prefix = "swapped", prefix
        self.changing.other = {each.id: each.region for each in before}
        return self.router.exchange(gone, [*map(request_of, after), *self._doubles(after)])

    def clear(self, registered: Iterable[Registered]) -> tuple[list[FlowOp], list[GuardOp]]:
        """The change is over."""
        concerned = list(registered)
        flows = self.router.exchange([each.id for each in self._doubles(concerned)], ())
        more = _detours(self.detours.exchange(list(self.detours.registrations), ()))
        for each in concerned:
            if each.id in self._other:
                more += self._expel(each, self._other[each.id])
        self.changing = None
        return flows + self._make_room(), more

    def _make_room(self) -> list[FlowOp]:
        """Where tables are limited: fit them anew, as a change has begun or ended."""
        return self.router.change_topology(self._with_room()) if self._now.limits else []

    def _with_room(self) -> Topology:
        """What is there now. While there are detours, each table has to have room for them."""
        if self.changing is None or self.changing.method != "lightweight":
            return self._now
        most = len(self.changing.area)
        return replace(self._now, limits={switch: max(limit - most, 1) for switch, limit in self._now.limits.items()})

    # -- parts ---------------------------------------------------------------------------------------------------

    @property
    def _other(self) -> dict[str, DzSet]:
        return {} if self.changing is None else self.changing.other

    def _concerns(self, registered: Registered) -> bool:
        return self.changing is not None and registered.schema == self.changing.schema

    def _doubles(self, registered: Iterable[Registered]) -> list[Registration]:
        """With versioning, the other regions have rules of their own."""
        if self.changing is None or self.changing.method != "versioning":
            return []
        other = self.changing.other
        return [_request(each, f"{each.id}'", other[each.id]) for each in registered if each.id in other]

    def _detoured(self, registered: Iterable[Registered]) -> list[Registration]:
        """Otherwise everybody wants, or says, anything in the cells of the area that they have something in."""
        if self.changing is None or self.changing.method != "lightweight":
            return []
        found = ((each, self._cells(each)) for each in registered)
        return [_request(each, each.id, cells) for each, cells in found if cells]

    def _cells(self, registered: Registered) -> DzSet:
        """By either plan, so that a swap makes no difference."""
        assert self.changing is not None  # noqa: S101 (there are detours only while it changes)
        area = self.changing.area
        if not self.changing.is_local:
            return area
        regions = [DzSet(registered.region), DzSet(self._other.get(registered.id, ()))]
        return DzSet(cell for cell in area if any(region.overlaps(cell) for region in regions))

    def _admit(self, registered: Registered, region: DzSet) -> list[AdmitOp]:
        if registered.kind != "advertisement":
            return []
        return self.admissions.add(registered.host, region).at(self.topology, registered.host)

    def _expel(self, registered: Registered, region: DzSet) -> list[AdmitOp]:
        if registered.kind != "advertisement":
            return []
        return self.admissions.remove(registered.host, region).at(self.topology, registered.host)


def request_of(registered: Registered) -> Registration:
    return _request(registered, registered.id, registered.region)


def _request(registered: Registered, id: str, region: DzSet) -> Registration:
    kind = Advertise if registered.kind == "advertisement" else Subscribe
    return kind(id, registered.host, region)


def _detours(ops: Iterable[FlowOp]) -> list[GuardOp]:
    return [DetourOp(*op) for op in ops]
