"""All rules of all switches: those that forward events, detours above them, and what hosts may send.

The rules follow from `RuleInputs`, which is all of the registrations that switches have to know. A change of the rules
names the inputs that go and those that come instead. What plans are, and how they change, is of no concern here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pleroma.control.state.records import Registered
from pleroma.control.state.result import GuardOp
from pleroma.control.state.tree_choice import DealtTree, TreeChoice, policy_of
from pleroma.errors import LimitReached
from pleroma.index import EVERYTHING, Dz, DzSet
from pleroma.routing import (
    Admissions,
    Advertise,
    Change,
    DetourOp,
    Family,
    FlowOp,
    HostId,
    Registration,
    Router,
    Subscribe,
    SwitchId,
    SwitchOp,
    Topology,
    in_safe_order,
)
from pleroma.routing.family import FollowedTrees, released
from pleroma.routing.family_spans import FamilySpans, family_room

BOTH_VERSIONS = 2
"""While both versions of a plan stand, so many times the usual room may go to telling families apart."""


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """What some registrations ask of the switches."""

    forwarded: Sequence[Registration] = ()
    """What is published where, and what is wanted where."""
    detoured: Sequence[Registration] = ()
    """The same for detours: with the cells of detours as regions."""
    admitted: Sequence[tuple[HostId, DzSet]] = ()
    """What a host may send, once for each of its advertisements."""

    @property
    def cells(self) -> list[Dz]:
        """Where the rules may be that follow from these."""
        requests = [*self.forwarded, *self.detoured]
        return [*(dz for each in requests for dz in each.region), *(dz for _, region in self.admitted for dz in region)]

    def __add__(self, other: RuleInputs) -> RuleInputs:
        return RuleInputs(
            [*self.forwarded, *other.forwarded],
            [*self.detoured, *other.detoured],
            [*self.admitted, *other.admitted],
        )


NO_INPUTS = RuleInputs()


def inputs_of(registered: Iterable[Registered]) -> RuleInputs:
    """What registrations ask of the switches by their regions in force."""
    everyone = list(registered)
    admitted = [(each.host, each.region) for each in everyone if each.kind == "advertisement"]
    return RuleInputs([request_of(each) for each in everyone], admitted=admitted)


def request_of(registered: Registered) -> Registration:
    """A registration as the router knows it, with its region in force."""
    return request_with(registered, registered.id, registered.region)


def request_with(registered: Registered, id: str, region: DzSet) -> Registration:
    """A registration as the router knows it, under another id or with another region."""
    kind = Advertise if registered.kind == "advertisement" else Subscribe
    return kind(id, registered.host, region)


class NetworkOps(NamedTuple):
    """What the switches have to change."""

    flows: list[FlowOp]
    guards: list[GuardOp]


class NetworkRules:
    """The rules that the switches are to have.

    `topology` has every host that may have registrations. The switches, links and hosts that are there at the moment
    may be fewer (`route_on`).
    """

    def __init__(self, topology: Topology, max_length: int, share: DzSet = EVERYTHING) -> None:
        """Rules are computed for events in this share of the dz alone."""
        self.topology = topology
        self._share = share
        self.trees: TreeChoice = "single"
        """How trees are dealt out."""
        self.router = Router(topology, max_length=max_length, share=share)
        self.detours = self._detour_router(topology)
        """Detours are computed like rules, from registrations that have their cells as regions, on the same trees."""
        self.admissions = Admissions()
        self._present = topology
        self._reserved = 0
        """How many places of every limited table are kept free for detours."""

    def _detour_router(self, present: Topology) -> Router:
        trees = FollowedTrees(lambda: self.router.families)
        return Router(present.with_limit(None), policy=trees, max_length=self.router.max_length, share=self._share)

    @property
    def present(self) -> Topology:
        """What there is to route on."""
        return self._present

    def choose_trees(self, choice: TreeChoice) -> None:
        """Deal trees out in this way. What is under way stays where it is."""
        self.trees = choice
        self.router.policy = policy_of(choice, self.router.max_length)

    def resume(self, present: Topology, trees: TreeChoice, families: Sequence[Family] | None) -> None:
        """Begin on this network and with these families instead; with those of the policy, if they are not known."""
        self._present, self.trees = present, trees
        max_length = self.router.max_length
        policy = policy_of(trees, max_length)
        self.router = Router(present, policy=policy, families=families, max_length=max_length, share=self._share)
        self.detours = self._detour_router(present)
        for host in self.topology.host:
            self.expect(host)

    def open_prefix(self, prefix: Dz, families: Sequence[Family] | None = None) -> NetworkOps:
        """Have trees for the dz that begin with a prefix, which nobody uses yet."""
        flows = self.router.open_prefix(prefix, families)
        return NetworkOps(flows, _as_detours(self.detours.adopt(self.router.families)))

    def check_trees(self, prefix: Dz, dealt: Sequence[DealtTree]) -> None:
        """Refuse trees for the dz under a prefix if telling all families apart would take half of a table or more.

        Where none are dealt, those of the policy count. The families of the version before go soon. Cells that are
        longer than a dz may be are refused too: no switch could tell them apart.
        """
        router = self.router
        longest = prefix.length + max((each.cells.longest for each in dealt), default=0)
        if longest > router.max_length:
            reason = f"a cell of {longest} bits is longer than the {router.max_length} that a dz has at most"
            raise LimitReached(reason, field="trees", value=longest)
        if dealt:
            regions = [family.region for family in released(router.families, prefix)]
            regions += [each.cells.under(prefix) for each in dealt]
        else:
            regions = [family.region for family in router.policy.opened(router.families, router.topology, prefix)]
        least, most = FamilySpans(regions).least_rules, BOTH_VERSIONS * family_room(self._present.limits.values())
        if least > most:
            reason = f"tables have room for {most} rules to tell trees apart, and {least} are needed"
            raise LimitReached(reason, field="trees", value=least)

    def detour_cells(self, area: DzSet) -> int:
        """How many detours it takes to cover an area: a detour belongs to one family."""
        parts = [area & family.region for family in self.router.families]
        held = DzSet(dz for part in parts for dz in part)
        return sum(map(len, parts)) + len(area - held)

    def everything(self) -> list[SwitchOp]:
        """What a network without any rules has to be told."""
        flows = (FlowOp(switch, Change.ADD, flow) for switch, table in self.router.tables.items() for flow in table)
        detours = [DetourOp(s, Change.ADD, flow) for s, table in self.detours.tables.items() for flow in table]
        return [*in_safe_order(flows), *detours, *self.admissions.operations(self.topology)]

    def load(self, inputs: RuleInputs) -> None:
        """Compute all rules at once, as after a restart."""
        self.router.hold(_advertised(inputs.detoured))
        self.router.load(inputs.forwarded)
        self.detours.load(inputs.detoured)
        for host, region in inputs.admitted:
            self.admissions.add(host, region)

    def exchange(self, gone: RuleInputs, come: RuleInputs) -> NetworkOps:
        """Change the rules in one step: without the inputs that go, with those that come. An id may be among both."""
        held = self.router.hold(_advertised(come.detoured)) if come.detoured else []
        flows = held + self.router.exchange([each.id for each in gone.forwarded], come.forwarded)
        flows += self._joined_to_fit()
        guards: list[GuardOp] = []
        if self.detours.families is not self.router.families:
            guards += _as_detours(self.detours.adopt(self.router.families))
        if gone.detoured or come.detoured:
            guards += _as_detours(self.detours.exchange([each.id for each in gone.detoured], come.detoured))
            coming = {each.id for each in come.detoured}
            flows += self.router.let_go(each.id for each in gone.detoured if each.id not in coming)
        for host, region in come.admitted:
            guards += self.admissions.add(host, region).at(self.topology, host)
        for host, region in gone.admitted:
            guards += self.admissions.remove(host, region).at(self.topology, host)
        return NetworkOps(flows, guards)

    def serving(self, inputs: RuleInputs, among: Iterable[SwitchId]) -> set[SwitchId]:
        """On which of these switches the inputs rely: those on the way of their events, and those of their hosts."""
        switches = list(among)
        homes = {self.topology.host[request.host].switch for request in inputs.forwarded}
        found = homes.intersection(switches)
        for router, requests in ((self.router, inputs.forwarded), (self.detours, inputs.detoured)):
            for request in requests:
                found |= router.serving(request, switches)
        return found

    def expect(self, host: HostId) -> None:
        """Allow registrations at a host that is not there yet."""
        self.router.expect(host)
        self.detours.expect(host)

    def route_on(self, topology: Topology) -> NetworkOps:
        """Go on with the switches, links and hosts of this topology; without effect if they are the same as before."""
        if topology == self._present == self.router.topology:
            return NetworkOps([], [])
        self._present = topology
        flows = self.router.change_topology(self._with_reserved_places()) + self._joined_to_fit()
        return NetworkOps(flows, _as_detours(self.detours.change_topology(topology.with_limit(None))))

    def _joined_to_fit(self) -> list[FlowOp]:
        """If a switch has not even room for a rule of each tree, put all events on one tree.

        It would refuse rules, and lose their events for good. Trees that were dealt out before the room was known may
        come to need more of it with any registration.
        """
        tables, limits = self.router.tables, self._present.limits
        is_overfull = any(len(tables[switch]) > limit for switch, limit in limits.items() if switch in tables)
        return self.router.join_families() if is_overfull else []

    def check_detours(self, area: DzSet) -> None:
        """Refuse detours over an area if a table has no room for them beside those that tell families apart."""
        needed = self.detour_cells(area)
        least = max(self.router.family_rules, 1)
        small = [switch for switch, limit in self._present.limits.items() if limit < needed + least]
        if small:
            reason = f"the table of {small[0]} has no room for detours ({needed}) beside its rules"
            raise LimitReached(reason, field="switch", value=small[0])

    @property
    def max_detours(self) -> int:
        """How many detours every table has room for: an eighth of the smallest table, and at least one."""
        return max(min(self._present.limits.values(), default=sys.maxsize) // 8, 1)

    def reserve(self, places: int) -> list[FlowOp]:
        """Keep so many places of every limited table free for detours."""
        self._reserved = places
        return self.router.change_topology(self._with_reserved_places()) if self._present.limits else []

    def remove_detours(self) -> NetworkOps:
        """Remove all detours of all switches."""
        detoured = list(self.detours.registrations)
        detours = _as_detours(self.detours.exchange(detoured, ()))
        return NetworkOps(self.router.let_go(detoured) if detoured else [], detours)

    def _with_reserved_places(self) -> Topology:
        if not self._reserved:
            return self._present
        limits = {switch: max(limit - self._reserved, 1) for switch, limit in self._present.limits.items()}
        return replace(self._present, limits=limits)


def _advertised(registrations: Iterable[Registration]) -> list[Advertise]:
    return [each for each in registrations if isinstance(each, Advertise)]


def _as_detours(ops: Iterable[FlowOp]) -> list[GuardOp]:
    return [DetourOp(*op) for op in ops]
