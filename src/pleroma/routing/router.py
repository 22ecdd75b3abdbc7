"""Requests in, flow operations out: the pure core that turns advertisements and subscriptions into flow tables.

The tables are a function of the registrations and of the trees. A request changes the tables step by step, and each
step returns the difference as operations. A switch that has room for fewer rules than it needs gets a coarser table,
which forwards more events and never fewer. A router may have a share of the dz alone: then it has the rules for events
in its share, and none for others. Routers whose shares are apart have, together, rules for all events in these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from pleroma.background import collecting_later
from pleroma.errors import PleromaError, RoutingError, UnknownName
from pleroma.index.dz import MAX_LENGTH, Dz
from pleroma.index.dzset import EVERYTHING, NOTHING, DzSet
from pleroma.routing.budget import Coarsening, Weights, coarsen
from pleroma.routing.demand import ADVERTISEMENTS, SUBSCRIPTIONS, Demands
from pleroma.routing.family import Family, OneTree, Policy, held_by, released, repaired
from pleroma.routing.family_spans import FamilySpans
from pleroma.routing.flow import Flow, FlowOp, FlowTable, difference, in_safe_order
from pleroma.routing.port_bits import PortBits
from pleroma.routing.request import Advertise, Registration, Request, Subscribe, Unadvertise, Unsubscribe
from pleroma.routing.shadowed_rules import ShadowedRules
from pleroma.routing.topology import HostId, SwitchId, Topology


class Router:
    """The state of one network: topology, registrations, trees, and the flow tables that follow from them.

    `tables` are those in force. `coarsened` reports the switches whose tables had to be coarser, for lack of room.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        policy: Policy | None = None,
        families: Sequence[Family] | None = None,
        max_length: int = MAX_LENGTH,
        weights: Weights | None = None,
        share: DzSet = EVERYTHING,
    ) -> None:
        """The policy decides with which families to begin, unless some are given."""
        self._share = share
        self.policy = policy or OneTree()
        self.topology = topology
        self.max_length = max_length
        self.registrations: dict[str, Registration] = {}
        self.tables: dict[SwitchId, FlowTable] = {s: FlowTable() for s in topology.switches}
        self.coarsened: dict[SwitchId, Coarsening] = {}
        self._exact: dict[SwitchId, FlowTable] = {s: FlowTable() for s in topology.limits}
        self._shadowed: dict[SwitchId, ShadowedRules] = {s: ShadowedRules() for s in topology.switches}
        self._weights = weights
        self._ports = PortBits(topology)
        self._known = set(topology.host)  # also those that are away
        self._held: dict[str, Advertise] = {}
        self.families: Sequence[Family] = ()
        """Only to be read. A policy that returns this very object leaves everything as it is."""
        self._families: list[tuple[Family, Demands]] = []
        self._spans = FamilySpans(())
        self._to_refit = False
        """The families have changed, so coarser tables may have to change although no exact table does."""
        self._take(self.policy.start(topology) if families is None else families)

    @property
    def family_rules(self) -> int:
        """How many rules the coarsest table has on a switch that all families pass by."""
        return self._spans.least_rules

    def open_prefix(self, prefix: Dz, families: Sequence[Family] | None = None) -> list[FlowOp]:
        """The dz that begin with a prefix are about to be used, on the trees of these families or as the policy says.

        No registration may have any of these dz.
        """
        if families is None:
            chosen = self.policy.opened(self.families, self.topology, prefix)
        else:
            chosen = [*released(self.families, prefix), *families]
        return self.adopt(chosen)

    def adopt(self, families: Sequence[Family]) -> list[FlowOp]:
        """Go on with these families, which somebody else has decided on."""
        return self._replace_tables() if self._take(families) else self._collect()

    def hold(self, advertised: Iterable[Advertise]) -> list[FlowOp]:
        """Have families for all that these advertise until they are let go, though they need no rules here."""
        moved = False
        for request in advertised:
            self._held[request.id] = request
            if self._joins(request):
                moved |= self._take(self.policy.advertised(self.families, self.topology, request))
        return self._replace_tables() if moved else self._collect()

    def let_go(self, held: Iterable[str]) -> list[FlowOp]:
        """Families that only these needed may go."""
        for each in held:
            self._held.pop(each, None)
        self._take(self.policy.unadvertised(self.families, self._advertised))
        return self._collect()

    def exact(self, switch: SwitchId) -> FlowTable:
        """The table of a switch as it would be with room enough."""
        return self._exact.get(switch, self.tables[switch])

    def apply(self, request: Request) -> list[FlowOp]:
        """Carry out one request. Raises an error for a request that cannot be carried out, and changes nothing then."""
        match request:
            case Advertise() | Subscribe():
                return self._register(request)
            case Unadvertise():
                return self._withdraw(request.id, Advertise)
            case Unsubscribe():
                return self._withdraw(request.id, Subscribe)

    def load(self, registrations: Iterable[Registration]) -> list[FlowOp]:
        """Add many registrations at once, as after a restart: the same tables as one by one, computed only once."""
        before = dict(self.registrations)
        families: Sequence[Family] = self.families
        try:
            for request in registrations:
                self._check(request)
                if self._joins(request):
                    families = self.policy.advertised(families, self.topology, request)
                self.registrations[request.id] = request
        except PleromaError:
            self.registrations = before
            raise
        with collecting_later():
            self._families = []
            self._take(families)
            return self._replace_tables()

    def exchange(self, gone: Iterable[str], come: Iterable[Registration]) -> list[FlowOp]:
        """Withdraw these ids and register these instead, in one step. An id may be among both."""
        leaving, coming = dict.fromkeys(gone), list(come)
        for each in leaving:
            if each not in self.registrations:
                raise RoutingError("nothing is registered under this id", field=each)
        arriving: set[str] = set()
        for request in coming:
            if request.id in arriving or (request.id in self.registrations and request.id not in leaving):
                raise RoutingError("the id is in use", field=request.id)
            self._check_contents(request)
            arriving.add(request.id)
        withdrawn = [self.registrations.pop(each) for each in leaving]
        is_advertised_less = any(isinstance(each, Advertise) for each in withdrawn)
        if len(leaving) + len(coming) > len(self.registrations):
            return self._rebuild(coming, is_advertised_less)
        for registration in withdrawn:
            self._remove(registration)
        moved = False
        for request in coming:
            if self._joins(request):
                moved |= self._take(self.policy.advertised(self.families, self.topology, request))
            self._add(request)
        ops = self._replace_tables() if moved else self._collect()
        if is_advertised_less:
            self._take(self.policy.unadvertised(self.families, self._advertised))
        return ops

    def _rebuild(self, coming: Iterable[Registration], is_advertised_less: bool) -> list[FlowOp]:
        """Compute demands and tables anew from all registrations; the families are as if requests came one by one."""
        families: Sequence[Family] = self.families
        for request in coming:
            if self._joins(request):
                families = self.policy.advertised(families, self.topology, request)
            self.registrations[request.id] = request
        with collecting_later():
            self._families = []
            self._take(families)
            ops = self._replace_tables()
        if is_advertised_less:
            self._take(self.policy.unadvertised(self.families, self._advertised))
        return ops

    def _check(self, request: Registration) -> None:
        if request.id in self.registrations:
            raise RoutingError("the id is in use", field=request.id)
        self._check_contents(request)

    def _check_contents(self, request: Registration) -> None:
        if request.host not in self._known:
            raise UnknownName("host", request.host, self._known, field=request.id)
        if not request.region:
            raise RoutingError("the region is empty", field=request.id)
        if request.region.longest > self.max_length:
            reason = f"a dz of {request.region.longest} bits is longer than the plan's {self.max_length}"
            raise RoutingError(reason, field=request.id, value=request.region.longest)

    def _register(self, request: Registration) -> list[FlowOp]:
        self._check(request)
        moved = False
        if self._joins(request):
            moved = self._take(self.policy.advertised(self.families, self.topology, request))
        self._add(request)
        return self._replace_tables() if moved else self._collect()

    def _joins(self, request: Registration) -> TypeGuard[Advertise]:
        """Whether the policy has to know of a request: an advertisement of a host that is there."""
        return isinstance(request, Advertise) and request.host in self.topology.host

    def _add(self, request: Registration) -> None:
        self.registrations[request.id] = request
        if request.host not in self.topology.host:
            return  # the registration waits for its host
        for number, part in self._parts(request):
            self._families[number][1].add(_side(request), request.host, part)

    def _remove(self, registration: Registration) -> None:
        if registration.host not in self.topology.host:
            return  # the demands of the host went when the host did
        for number, part in self._parts(registration):
            self._families[number][1].remove(_side(registration), registration.host, part)

    def _parts(self, request: Registration) -> list[tuple[int, DzSet]]:
        """The region of a request, as far as it is in the share here, divided among the families."""
        return self._spans.parts(self._shared(request.region))

    def _shared(self, region: DzSet) -> DzSet:
        if self._share is EVERYTHING or not self._share:
            return region if self._share else NOTHING
        return region & self._share

    def _withdraw(self, id: str, kind: type[Registration]) -> list[FlowOp]:
        registration = self.registrations.get(id)
        if not isinstance(registration, kind):
            what = "advertised" if kind is Advertise else "subscribed"
            raise RoutingError(f"nothing is {what} under this id", field=id)
        del self.registrations[id]
        self._remove(registration)
        ops = self._collect()
        if kind is Advertise:
            self._take(self.policy.unadvertised(self.families, self._advertised))
        return ops

    def serving(self, request: Registration, among: Iterable[SwitchId]) -> set[SwitchId]:
        """Which of these switches lie between the host of a registration and any host that it has events in common
        with: a publisher's with its subscribers', a subscriber's with its publishers'.
        """
        if request.host not in self.topology.host:
            return set()
        switches, side, found = list(among), _side(request), set[SwitchId]()
        for number, part in self._parts(request):
            found |= self._families[number][1].serving(side, request.host, part, switches)
        return found

    def _advertised(self) -> DzSet:
        registered = [*self.registrations.values(), *self._held.values()]
        return DzSet(dz for each in registered if isinstance(each, Advertise) for dz in each.region)

    def expect(self, host: HostId) -> None:
        """Accept registrations for a host that the topology does not have yet; they wait until it has."""
        self._known.add(host)

    def change_topology(self, topology: Topology) -> list[FlowOp]:
        """Route on another topology from now on. Registrations of hosts that are gone wait for their return.

        A cut link concerns only the families whose trees have it: the others keep their demands.
        """
        before, self.topology = self.topology, topology
        self._known.update(topology.host)
        self._ports = PortBits(topology)
        families = repaired(self.families, topology)
        kept = []
        if (topology.switches, topology.hosts) == (before.switches, before.hosts):
            pairs = zip(families, self._families, strict=True)
            kept = [(new, demands) for new, (old, demands) in pairs if new.tree.links == old.tree.links]
        for request in (*self.registrations.values(), *self._held.values()):
            if self._joins(request):  # the host may have come back to a network that has no family for it
                families = list(self.policy.advertised(families, topology, request))
        is_same = topology.limits == before.limits and len(kept) == len(families)
        with collecting_later():
            self._families = kept
            return self._collect() if not self._take(families) and is_same else self._replace_tables()

    def join_families(self) -> list[FlowOp]:
        """Put all events on the tree of the largest family. Some that are under way may be lost or doubled."""
        largest = max(self.families, key=lambda family: family.region.atoms)
        self._take([Family(held_by(self.families), largest.tree)])
        return self._replace_tables()

    def _take(self, families: Sequence[Family]) -> bool:
        """Adopt these families. One that keeps its tree keeps its demands, and gains or loses what its region does.

        True if a family is gone, or a new one has taken cells over that are in use: then `Demands.changes` does not
        tell all, and the tables have to be computed anew.
        """
        if families is self.families and len(families) == len(self._families):
            return False
        left: list[tuple[Family, Demands]] = list(self._families)
        adopted: list[tuple[Family, Demands]] = []
        fresh: list[tuple[Family, Demands]] = []
        for family in families:
            known = next((each for each in left if each[0].tree == family.tree and _is_next(each[0], family)), None)
            if known is None:
                adopted.append((family, self._no_demands(family)))
                fresh.append(adopted[-1])
            else:
                left.remove(known)
                self._reshape(*known, family.region)
                adopted.append((family, known[1]))
        self._load(fresh)
        self._to_refit |= list(families) != list(self.families)
        self.families = tuple(families)
        self._families = adopted
        self._spans = FamilySpans(family.region for family in families)
        return bool(left) or any(next(demands.flows(), None) is not None for _, demands in fresh)

    def _reshape(self, family: Family, demands: Demands, region: DzSet) -> None:
        """A family has another region now: its demands are by the dz that registrations have in that region.

        Two dz that the old region kept apart may be one in the new region, and the other way round.
        """
        if region == family.region:
            return
        changed = (region - family.region) | (family.region - region)
        for request in self.registrations.values():
            wanted = self._shared(request.region)
            if request.host in self.topology.host and wanted.overlaps(changed):
                before, after = set(wanted & family.region), set(wanted & region)
                demands.remove(_side(request), request.host, before - after)
                demands.add(_side(request), request.host, after - before)

    def _no_demands(self, family: Family) -> Demands:
        ports, tree = self._ports, family.tree
        reach = {host: (ports.toward(tree, host), ports.away(tree, host)) for host in self.topology.host}
        return Demands(ports, reach)

    def _load(self, fresh: Sequence[tuple[Family, Demands]]) -> None:
        """Give families that are new what all registrations have in their regions."""
        if not fresh:
            return
        loads: list[list[tuple[int, HostId, DzSet]]] = [[] for _ in fresh]
        spans = FamilySpans(family.region for family, _ in fresh)
        for request in self.registrations.values():
            if request.host in self.topology.host:
                for number, part in spans.parts(self._shared(request.region)):
                    loads[number].append((_side(request), request.host, part))
        for (_, demands), load in zip(fresh, loads, strict=True):
            demands.load(load)

    def _collect(self) -> list[FlowOp]:
        """The operations since the last step, in an order that is safe to apply one by one."""
        wanted: dict[SwitchId, list[FlowOp]] = {}
        for _, demands in self._families:
            for op in demands.changes():
                wanted.setdefault(op.switch, []).append(op)
        ops: list[FlowOp] = []
        if self._to_refit:
            wanted = {switch: [] for switch in self.coarsened} | wanted
            self._to_refit = False
        for switch, asked in wanted.items():
            exact = self._exact.get(switch)
            table = self.tables[switch] if exact is None else exact
            made = self._shadowed[switch].change(switch, table, asked)
            ops += made if exact is None else self._limited(switch, made)
        return in_safe_order(ops) if ops else ops

    def _limited(self, switch: SwitchId, made: list[FlowOp]) -> list[FlowOp]:
        """The operations on the table of a limited switch, after these operations were made on its exact table."""
        if switch in self.coarsened or len(self._exact[switch]) > self.topology.limits[switch]:
            made = difference(switch, self.tables[switch], self._fitted(switch))
        for op in made:
            self.tables[switch].apply(op)
        return made

    def _fitted(self, switch: SwitchId) -> FlowTable:
        """The exact table of a limited switch if it fits, else the best coarser table that does."""
        limit = self.topology.limits[switch]
        table, report = coarsen(self._exact[switch], limit, self._weights, self._spans)
        if report.installed < report.wanted:
            self.coarsened[switch] = report
        else:
            self.coarsened.pop(switch, None)
        return table

    def _replace_tables(self) -> list[FlowOp]:
        """Compute all tables anew; returns the operations that turn the tables in force into them."""
        self._to_refit = False
        exact: dict[SwitchId, list[Flow]] = {s: [] for s in self.topology.switches}
        for _, demands in self._families:
            demands.forget_changes()
            for switch, flow in demands.flows():
                exact[switch].append(flow)
        before, self.tables, self.coarsened, self._shadowed = self.tables, {}, {}, {}
        for switch, flows in exact.items():
            self.tables[switch], self._shadowed[switch] = ShadowedRules.of(flows)
        self._exact = {switch: self.tables[switch] for switch in self.topology.limits}
        self.tables |= {switch: self._fitted(switch) for switch in self._exact}
        ops = [op for s, table in self.tables.items() for op in difference(s, before.get(s, FlowTable()), table)]
        return in_safe_order(ops)


def _side(registration: Registration) -> int:
    return ADVERTISEMENTS if isinstance(registration, Advertise) else SUBSCRIPTIONS


def _is_next(family: Family, other: Family) -> bool:
    return family.region.overlaps(other.region)
