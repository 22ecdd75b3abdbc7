"""The state of the control plane: a deterministic fold of commands, without I/O and without a clock.

The same commands at the same positions always give the same registrations, the same regions and the same flow tables.
A command that cannot be carried out is refused and changes nothing, so even an entry that was overtaken on its way into
the log does no harm there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

from pleroma.control.state.command import (
    REGISTRATION_KINDS,
    AdoptPlan,
    Advance,
    Begin,
    ChangePlan,
    ChooseTrees,
    Command,
    CoveredFilter,
    CreateSchema,
    Expire,
    ExtendSchema,
    ForgetHost,
    Lead,
    LearnHost,
    Register,
    RemoveSchema,
    Rewire,
    Withdraw,
    canonical,
)
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.learned_hosts import host_of, with_host, without_host
from pleroma.control.state.network_rules import NO_INPUTS, NetworkOps, NetworkRules
from pleroma.control.state.people import People, PeopleChange
from pleroma.control.state.people_commands import PeopleCommand
from pleroma.control.state.present_network import present_topology
from pleroma.control.state.principals import Principals
from pleroma.control.state.records import Principal, Registered, SchemaEntry, box_count, kept_text
from pleroma.control.state.registrations import Registrations
from pleroma.control.state.result import CommandRefused, Done, Result
from pleroma.control.state.rights import check_lease, check_registration, check_withdrawal, is_allowed
from pleroma.control.state.tree_choice import TreeChoice, check_choice
from pleroma.control.transition.schema_plans import SchemaPlans
from pleroma.errors import (
    AlreadyThere,
    ContentError,
    LimitReached,
    NotThere,
    OtherControl,
    PleromaError,
    UnknownName,
)
from pleroma.index import EVERYTHING, DzSet
from pleroma.routing import Host, HostId, Router, Topology
from pleroma.routing.topology_files import to_json as topology_to_json

CheckedCommand = Callable[[int], Done]
"""A command that was found to be in order. Called with a position of the log, it is carried out there."""

MAX_PUBLISHER_NUMBER = 2**32 - 1
"""Packets have four bytes for the number of a publisher, which is the position of its advertisement in the log."""
NO_LEADERSHIP = 0
MAX_QUICK_REGISTRATIONS = 20
"""A command that concerns more registrations may take longer than others should wait."""
MAX_QUICK_BOXES = 200
"""So may one that covers more boxes by another plan: a filter can have a thousand of them."""


class ControlState:
    """Read its attributes; change it with `apply` alone."""

    def __init__(self, topology: Topology, settings: ControlSettings | None = None, share: DzSet = EVERYTHING) -> None:
        """Rules are computed for events in this share of the dz alone; all else is the same whatever the share."""
        self.settings = settings or ControlSettings()
        self.network = fingerprint(topology)
        self.learned: dict[HostId, Host] = {}
        """Hosts that were learned while the controller ran."""
        self.registrations = Registrations()
        self.rules = NetworkRules(topology, self.settings.max_length, share)
        self.there = Rewire()
        """What there is of the network, as the last command said."""
        self.leadership = NO_LEADERSHIP
        """The position of the last `Lead`: who appended it tells the switches what to do."""
        self.lead: Lead | None = None
        self.rights_since = 0
        """The position of the last command that may have changed what somebody may do."""
        self.plans = SchemaPlans(self.registrations, self.rules, self.settings)
        self.people = People(self.registrations, lambda name: self.plans.find(name).schema)

    def apply(self, position: int, command: Command) -> Result:
        """Carry out the command at this position of the log, or say why not."""
        try:
            return self._checked(command)(position)
        except PleromaError as error:
            return CommandRefused(error)

    def check(self, command: Command) -> PleromaError | None:
        """What `apply` would refuse this command with, if it were applied now."""
        try:
            self._checked(command)
        except PleromaError as error:
            return error
        return None

    def cover_beforehand(self, position: int, command: Register) -> None:
        """Note in a command that is in order at this position what region its filter has, for all who follow the log.

        While the plan changes, and where the region would change the plan, everybody finds the region for itself.
        """
        entry = self.plans.find(command.schema)
        if self.plans.is_changing(entry):
            return
        index, region = self.plans.found(entry, command.kind, command.parsed(entry.schema), command.region)
        if index is entry.index:
            plan = entry.number, entry.epoch
            object.__setattr__(command, "covered", CoveredFilter(position, plan, region))

    def is_large(self, command: Command) -> bool:
        """Whether to carry out the command may take long, because it may concern many registrations."""
        if isinstance(command, PeopleCommand):
            return self.people.compares_filters(command) or self.people.concerned(command) > MAX_QUICK_REGISTRATIONS
        match command:
            case Expire():
                concerned = len(self.registrations.by_lease.get((command.principal, command.lease), ()))
            case ExtendSchema() | AdoptPlan() | ChangePlan() | Advance() if self.registrations.boxes > MAX_QUICK_BOXES:
                return True
            case ExtendSchema() | AdoptPlan() | ChangePlan() | Advance() | Rewire() | LearnHost() | ForgetHost():
                concerned = len(self.registrations)
            case _:
                concerned = 1
        return concerned > MAX_QUICK_REGISTRATIONS

    @property
    def topology(self) -> Topology:
        """The network as it was described, with the hosts that were learned."""
        return self.rules.topology

    @property
    def principals(self) -> Principals:
        return self.people.principals

    @property
    def schemas(self) -> Mapping[str, SchemaEntry]:
        return self.plans.schemas

    @property
    def trees(self) -> TreeChoice:
        """How trees are dealt out from now on. A schema may still be on trees of another choice (`SchemaEntry`)."""
        return self.rules.trees

    @property
    def router(self) -> Router:
        return self.rules.router

    def _checked(self, command: Command) -> CheckedCommand:
        """The command, checked; a refusal is raised. To check changes nothing.

        A command is checked before it is written to the log, and again when it is applied: others may have overtaken.
        """
        if isinstance(command, PeopleCommand):
            people = self.people.check(command)
            return lambda position: self._change_people(position, people)
        match command:
            case Begin():
                return self._begin(command)
            case CreateSchema():
                first = self.plans.check_creation(command)
                return lambda _: self.plans.create(command, first)
            case RemoveSchema():
                unused = self.plans.check_removal(command)
                return lambda position: self._remove_schema(position, unused)
            case ExtendSchema():
                extending = self.plans.check_extension(command)
                return lambda position: self._extend_schema(position, command, extending)
            case AdoptPlan():
                adopting = self.plans.check_adoption(command)
                return lambda _: self.plans.adopt(command, adopting)
            case ChangePlan():
                wanted_change = self.plans.check_change(command)
                return lambda _: self.plans.begin(wanted_change)
            case Advance():
                change = self.plans.check_advance(command)
                return lambda _: self.plans.advance(change)
            case Register():
                return self._register(command)
            case Withdraw():
                return self._withdraw(command)
            case Expire():
                return self._expire(command)
            case LearnHost():
                return self._learn_host(command)
            case ForgetHost():
                return self._forget_host(command)
            case Rewire():
                present = present_topology(self.topology, command)
                return lambda _: self._rewire(command, present)
            case Lead():
                return lambda position: self._follow(position, command)
            case ChooseTrees():
                choice = check_choice(command.trees)
                return lambda _: self._choose_trees(choice)

    def _remove_schema(self, position: int, entry: SchemaEntry) -> Done:
        """Rights that name the schema go with it: a later schema of this name may be about something else."""
        self.rights_since = position
        self.plans.drop(entry)
        return Done({"schema": entry.name, "principals": self.people.drop_schema(entry.name)})

    def _extend_schema(self, position: int, command: ExtendSchema, entry: SchemaEntry) -> Done:
        """What somebody registered, and by its rights may not have on the wider domains, goes."""
        self.rights_since = position
        done = self.plans.extend(command, entry)
        mine = [each for each in self.registrations.values() if each.entry is entry]
        leaving = [each for each in mine if not is_allowed(self.principals[each.principal], each.kind, each.filter)]
        ops = self._remove(leaving)
        flows, guards = [*done.flows, *ops.flows], [*done.guards, *ops.guards]
        return Done(dict(done.value) | {"withdrawn": [each.id for each in leaving]}, flows, guards)

    def _begin(self, command: Begin) -> CheckedCommand:
        self.check_begin(command)

        def carry_out(_: int) -> Done:
            self.plans.first_members = command.settings["max_members"]
            return Done({})

        return carry_out

    def check_begin(self, command: Begin) -> None:
        """Refuse a log, or a snapshot, that was made with other settings or for another network.

        The limit of dz of first plans may be another one: plans that there are have their own.
        """
        if dict(command.settings) != self.settings.to_json() | {"max_members": command.settings.get("max_members")}:
            reason = f"the log was made with {dict(command.settings)}, not with {self.settings.to_json()}"
            raise OtherControl(reason, field="settings", value=dict(command.settings))
        if command.network != self.network:
            raise OtherControl("the log was made for another network", field="topology", value=command.network)

    def _change_people(self, position: int, change: PeopleChange) -> Done:
        self.rights_since = position
        leaving = self.people.leaving(change)
        ops = self._remove(leaving)
        self.people.carry_out(change)
        return Done(change.value | {"withdrawn": [each.id for each in leaving]}, *ops)

    def _register(self, command: Register) -> CheckedCommand:
        if command.kind not in REGISTRATION_KINDS:
            raise UnknownName("kind", str(command.kind), REGISTRATION_KINDS, field="kind")
        principal = self.people.find(command.principal)
        entry = self.plans.find(command.schema)
        if command.host not in self.topology.host:
            raise UnknownName("host", str(command.host), self.topology.host, field="host")
        if command.lease is not None:
            check_lease(command.lease)
        known = self._known_region(command, entry)
        if known is None:
            wanted = command.parsed(entry.schema)
            if not wanted:
                raise ContentError("no event matches the filter", field="filter", value=str(wanted))
            check_registration(principal, command.kind, wanted, command.within)
        limit = principal.subscriptions
        if (
            command.kind == "subscription"
            and limit is not None
            and self.registrations.subscriptions_of(principal.name) >= limit
        ):
            reason = f"{principal.name} has {limit} subscriptions, and may have no more"
            raise LimitReached(reason, field="subscriptions", value=limit)
        self._check_boxes(principal, command)
        return lambda position: self._add(position, command, entry, known)

    def _known_region(self, command: Register, entry: SchemaEntry) -> DzSet | None:
        """The region that whoever appended a command has found, if that is still the region.

        Then the filter was found to be in order, too, and no rights have changed since.
        """
        covered = command.covered
        if covered is None or covered.position < self.rights_since or self.plans.is_changing(entry):
            return None
        return covered.region if covered.plan == (entry.number, entry.epoch) else None

    def _check_boxes(self, principal: Principal, command: Register) -> None:
        """Refuse a filter that has more boxes than the principal may still have."""
        if principal.boxes is not None:
            known, more = self.registrations.boxes_of(principal.name), box_count(command.boxes)
            if known + more > principal.boxes:
                reason = f"{principal.name} may have filters of {principal.boxes} boxes in all, has {known}"
                raise LimitReached(f"{reason} and asks for {more} more", field="boxes", value=more)

    def _add(self, position: int, command: Register, entry: SchemaEntry, known: DzSet | None) -> Done:
        if command.kind == "advertisement" and position > MAX_PUBLISHER_NUMBER:
            reason = f"the log has {position} entries, and packets have no room for the number of this publisher"
            raise LimitReached(reason, field="position", value=position)
        opened = False
        if known is None:
            wanted = command.parsed(entry.schema)
            region, opened = self.plans.cover(entry, command.kind, wanted, command.region)
        else:
            wanted, region = None, known
        registered = Registered(
            id=f"{command.kind[0]}{position}",
            kind=command.kind,
            principal=command.principal,
            host=HostId(command.host),
            entry=entry,
            boxes=command.boxes,
            region=region,
            publisher=position if command.kind == "advertisement" else 0,
            lease=command.lease,
            _text=None if command.text is None else kept_text(command.text),
        )
        ops = self.rules.exchange(NO_INPUTS, self.plans.add(registered, wanted))
        self.registrations.add(registered)
        value = {
            "id": registered.id,
            "schema": entry.name,
            "host": registered.host,
            "members": len(region),
            "epoch": entry.epoch,
        }
        if registered.publisher:
            value["publisher"] = registered.publisher
        if opened:
            value["opened"] = True
        region.slim()  # there may be very many
        return Done(value, *ops)

    def _withdraw(self, command: Withdraw) -> CheckedCommand:
        principal = self.people.find(command.principal)
        registered = self.registrations.get(command.id)
        if registered is None:
            raise NotThere("nothing is registered under this id", field="id", value=command.id)
        check_withdrawal(principal, registered)
        return lambda _: Done({"id": registered.id}, *self._remove([registered]))

    def _expire(self, command: Expire) -> CheckedCommand:
        leased = self.registrations.by_lease.get((command.principal, command.lease))
        if leased is None:
            raise NotThere("nothing is registered under this lease", field="lease", value=command.lease)

        def carry_out(_: int) -> Done:
            value = {"lease": command.lease, "principal": command.principal, "withdrawn": list(leased)}
            return Done(value, *self._remove(list(leased.values())))

        return carry_out

    def _remove(self, registered: Iterable[Registered]) -> NetworkOps:
        leaving = list(registered)
        for each in leaving:
            self.registrations.remove(each)
        return self.rules.exchange(self.plans.remove(leaving), NO_INPUTS)

    def _learn_host(self, command: LearnHost) -> CheckedCommand:
        host = host_of(command)
        topology = with_host(self.topology, host)

        def carry_out(_: int) -> Done:
            value = {"name": host.name, "switch": host.switch, "port": host.port, "address": host.address}
            if topology is self.topology:
                return Done(value)
            self.learn(host, topology)
            return Done(value, *self.rules.route_on(present_topology(topology, self.there)))

        return carry_out

    def learn(self, host: Host, topology: Topology) -> None:
        """Allow registrations at a host of this topology."""
        self.rules.topology = topology
        self.rules.expect(host.name)
        self.learned[host.name] = host

    def _rewire(self, command: Rewire, present: Topology) -> Done:
        self.there = command
        if self._is_quiet:
            self._deal_anew(present, self.trees)
            return Done({})
        return Done({}, *self.rules.route_on(present))

    def _follow(self, position: int, lead: Lead) -> Done:
        self.leadership, self.lead = position, lead
        return Done({"leadership": position})

    def _choose_trees(self, choice: TreeChoice) -> Done:
        if self._is_quiet:
            self._deal_anew(self.rules.present, choice)
        else:
            self.rules.choose_trees(choice)
        return Done({"trees": choice})

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing is registered, so that nothing is under way and no switch has a rule that forwards."""
        return not self.registrations and self.plans.change is None

    def _deal_anew(self, present: Topology, choice: TreeChoice) -> None:
        """Give all schemas the best trees of this network at once, while nothing is under way."""
        self.rules.resume(present, choice, None)
        for entry in self.schemas.values():
            self.rules.open_prefix(entry.prefix)
            entry.trees = choice

    def _forget_host(self, command: ForgetHost) -> CheckedCommand:
        topology = without_host(self.topology, self.learned, command.name)
        count = sum(each.host == command.name for each in self.registrations.values())
        if count:
            reason = f"{count} registrations stand at this host"
            raise AlreadyThere(reason, field="host", value=command.name)

        def carry_out(_: int) -> Done:
            self.rules.topology = topology
            del self.learned[HostId(command.name)]
            return Done({"name": command.name}, *self.rules.route_on(present_topology(topology, self.there)))

        return carry_out


def fingerprint(topology: Topology) -> str:
    """Tells one network from another."""
    return hashlib.sha256(canonical(topology_to_json(topology)).encode()).hexdigest()
