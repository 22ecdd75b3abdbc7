"""A plan change: how a schema gets from one plan to the next while events flow, without losing one.

When the plan of a schema changes, every dz of it means something else, and neither switches nor publishers can be told
at one moment. Two methods lead across without losing an event (Bhowmik et al. 2018, V). Both take three steps, and each
step is confirmed by every switch before the next begins.

Light-weight: **prepare** puts a detour above all other rules of the schema, by which any of its events goes wherever
anybody on that side wants any; **swap** exchanges the rules below and tells publishers the new plan; when they have
adopted it and no event of the old plan is under way, **clear** takes the detours away. On a tree one detour a switch is
enough: a packet never leaves by the port it came in by, so sending it to all ports in use goes nowhere twice.

Versioning: **prepare** adds the rules of the new plan beside the old ones, under another prefix that tells the versions
apart; **swap** has publishers use it; **clear** removes the old ones. Nothing is wasted meanwhile, but tables have to
hold both. The new version may travel on other trees than the old one: an event has the prefix of one version, so all
switches send it along the trees of that version. This is how events move to other trees, with another index or with
the same.

Where two trees differ only below some nodes (`regrowth`), all of that is about this area alone: detours cover nothing
else, and the rules of both versions stand side by side there under the one prefix, so that an event in the area goes
where either plan would have it. Outside, an event has the same dz before and after, and the same people want it.

Two plans may also differ in how many dz a registration has at most. If they do, all regions are computed anew, also
those outside of the area. There, an event has the same dz before and after, and the old and the new region of whoever
wants it both have that dz. So a switch forwards it rightly by the rules of either plan, whatever the others have: the
area need not be larger because of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from pleroma.content import Filter
from pleroma.control.state.network_rules import (
    NO_INPUTS,
    NetworkOps,
    NetworkRules,
    RuleInputs,
    request_of,
    request_with,
)
from pleroma.control.state.plan_origin import PlanOrigin
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.regions import cover, covered_anew
from pleroma.control.state.registrations import Registrations
from pleroma.control.state.tree_choice import DealtTree, TreeChoice
from pleroma.control.transition.regrowth import Regrowth
from pleroma.index import Dz, DzSet, Index, IndexPlan, TreeIndex
from pleroma.routing import HostId, Registration

ChangeMethod = Literal["lightweight", "versioning"]
CHANGE_METHODS: tuple[ChangeMethod, ...] = get_args(ChangeMethod)
ChangePhase = Literal["prepared", "swapped"]


@dataclass(slots=True)
class PlanChange:
    """One schema between two plans. Its steps are `prepare`, `swap` and `clear`, in this order.

    A registration has a region in force and, if the change concerns it, another one: until the swap that of the next
    plan, after the swap that of the last one. If the change regrows parts of a tree, a registration that has nothing in
    its area has no other region.
    """

    entry: SchemaEntry
    method: ChangeMethod
    before: Index
    after: Index
    prefix: Dz
    """The prefix of the other regions."""
    area: DzSet
    """Where an event may have another dz after the change. Detours cover these cells."""
    before_members: int
    """How many members a region may have by the plan before."""
    after_members: int
    trees: tuple[DealtTree, ...] | None = None
    """The trees of the next version, if they are given; an empty list leaves them to the policy."""
    origin: PlanOrigin | None = None
    dealt_by: TreeChoice | None = None
    """How the trees of the next version were dealt out, if it has a prefix of its own."""
    phase: ChangePhase = "prepared"
    other: dict[str, DzSet] = field(default_factory=dict)
    """The other regions, by the id of the registration."""
    _known_regrowth: Regrowth | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> str:
        return self.entry.name

    @property
    def other_plan(self) -> IndexPlan:
        """The plan of the other regions: until the swap the next one, after the swap the last one."""
        if self.phase == "prepared":
            return IndexPlan(self.entry.epoch + 1, self.after, self.after_members)
        plans, after = self.entry.plans, self.after.to_json()
        later = next(number for number in reversed(range(len(plans))) if plans[number].index.to_json() == after)
        return plans[later - 1]

    @property
    def is_local(self) -> bool:
        """Whether events outside of the area keep their dz."""
        return self.area.longest > self.prefix.length

    @property
    def is_regrowth(self) -> bool:
        """Whether regions keep their members outside of the area, and get others only inside."""
        return self.is_local and self.before_members == self.after_members

    def detours_per_table(self, rules: NetworkRules) -> int:
        """How many places of a table the change may need for detours."""
        return rules.detour_cells(self.area) if self.method == "lightweight" else 0

    def prepare(self, registrations: Registrations, rules: NetworkRules) -> NetworkOps:
        """Compute the regions of the next plan, and add the rules that carry events across the swap."""
        mine = self._mine(registrations)
        if self.is_regrowth:
            regrowth = self._regrowth()
            concerned = [each for each in mine if regrowth.concerns(each.region)]
            self.other = {each.id: regrowth.region(each.region, each.filter) for each in concerned}
        else:
            concerned = mine
            self.after, moved = covered_anew(self.prefix, mine, self.after, self.after_members)
            self.other = {each.id: each.region for each in moved}
        has_own_prefix = self.prefix != self.entry.prefix
        opened = self._open_prefix(rules) if has_own_prefix else NetworkOps([], [])
        ops = rules.exchange(NO_INPUTS, self.extra_inputs(concerned))
        flows = opened.flows + ops.flows + rules.reserve(self.detours_per_table(rules))
        for region in self.other.values():
            region.slim()  # there may be very many
        return NetworkOps(flows, opened.guards + ops.guards)

    def _open_prefix(self, rules: NetworkRules) -> NetworkOps:
        """Have trees for the events of the next version."""
        self.dealt_by = rules.trees
        given = [each.family(rules.router.topology, self.prefix) for each in self.trees or ()]
        return rules.open_prefix(self.prefix, given or None)

    def swap(self, registrations: Registrations, rules: NetworkRules) -> NetworkOps:
        """Put the next plan and its regions in force; the regions of the last plan are the others from now on.

        Detours and admissions are about both regions of a registration, so they stay as they are.
        """
        old = [each for each in self._mine(registrations) if each.id in self.other]
        new = [replace(each, region=self.other[each.id]) for each in old]
        gone = self._forwarded(old)
        self.entry.prefix, self.prefix = self.prefix, self.entry.prefix
        self.entry.trees = self.dealt_by or self.entry.trees
        self.entry.move_to(IndexPlan(self.entry.epoch + 1, self.after, self.after_members), self.origin)
        self.phase = "swapped"
        self.other = {each.id: each.region for each in old}
        self._known_regrowth = None
        registrations.replace(new)
        ops = rules.exchange(gone, self._forwarded(new))
        for each in new:
            each.region.slim()  # there may be very many
        return ops

    def clear(self, registrations: Registrations, rules: NetworkRules) -> NetworkOps:
        """Remove all rules that only the change needed."""
        mine = self._mine(registrations)
        detours = rules.remove_detours()
        ops = rules.exchange(RuleInputs(self._doubled(mine), admitted=self._admitted(mine)), NO_INPUTS)
        return NetworkOps(detours.flows + ops.flows + rules.reserve(0), detours.guards + ops.guards)

    def _mine(self, registrations: Registrations) -> list[Registered]:
        return [each for each in registrations.values() if each.entry is self.entry]

    def add(self, registered: Registered, wanted: Filter) -> None:
        """Give a new registration of the schema its other region, if it needs one."""
        if self.method == "lightweight" and self.phase == "swapped":
            return  # nobody sends it under the old plan: it was not there then
        if self.is_regrowth:
            regrowth = self._regrowth()
            if regrowth.concerns(registered.region):
                self.other[registered.id] = regrowth.region(registered.region, wanted)
            return
        if self.phase == "prepared":
            self.after, other = cover(self.prefix, registered.kind, wanted, self.after, self.after_members)
        else:
            _, other = cover(self.prefix, registered.kind, wanted, self.before, self.before_members)
        self.other[registered.id] = other

    def remove(self, registered: Registered) -> None:
        """Forget the other region of a registration that is withdrawn."""
        self.other.pop(registered.id, None)

    def _regrowth(self) -> Regrowth:
        """From regions in force to the others."""
        if self._known_regrowth is None:
            index = self.after if self.phase == "prepared" else self.before
            assert isinstance(index, TreeIndex)  # noqa: S101 (nothing else changes locally)
            self._known_regrowth = Regrowth(index, self.prefix, self.area, self.after_members)
        return self._known_regrowth

    def extra_inputs(self, registered: Iterable[Registered]) -> RuleInputs:
        """What these registrations ask of the switches because of the change, besides what they ask for anyway."""
        mine = [each for each in registered if each.entry is self.entry]
        return RuleInputs(self._doubled(mine), self._detoured(mine), self._admitted(mine))

    def _forwarded(self, registered: Iterable[Registered]) -> RuleInputs:
        """All that these ask of the rules that forward."""
        everyone = list(registered)
        return RuleInputs([*map(request_of, everyone), *self._doubled(everyone)])

    def _doubled(self, registered: Iterable[Registered]) -> list[Registration]:
        """With versioning, the other regions have rules of their own, as of a second registration."""
        if self.method != "versioning":
            return []
        found = ((each, self.other.get(each.id)) for each in registered)
        return [request_with(each, f"{each.id}'", region) for each, region in found if region is not None]

    def _detoured(self, registered: Iterable[Registered]) -> list[Registration]:
        """With the light-weight method, everybody wants or publishes all of the area's cells that they meet."""
        if self.method != "lightweight":
            return []
        found = ((each, self._cells(each)) for each in registered)
        return [request_with(each, each.id, cells) for each, cells in found if cells]

    def _cells(self, registered: Registered) -> DzSet:
        """The cells of the area that a registration meets by either plan, so that they outlast a swap."""
        if not self.is_local:
            return self.area
        regions = [DzSet(registered.region), DzSet(self.other.get(registered.id, ()))]
        return DzSet(cell for cell in self.area if any(region.overlaps(cell) for region in regions))

    def _admitted(self, registered: Iterable[Registered]) -> list[tuple[HostId, DzSet]]:
        """Publishers may send under both plans."""
        return [
            (each.host, self.other[each.id])
            for each in registered
            if each.kind == "advertisement" and each.id in self.other
        ]
