"""The state of the control plane: a deterministic fold of commands, without I/O and without a clock.

The same commands at the same positions always give the same registrations, the same regions and the same flow tables.
A command that cannot be carried out is refused and changes nothing, so even an entry that was overtaken on its way into
the log does no harm there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json
from pleroma.control.state.chosen_names import check_lease, check_name
from pleroma.control.state.command import (
    REGISTRATION_KINDS,
    AdoptPlan,
    Advance,
    Begin,
    ChangePlan,
    Command,
    CreatePrincipal,
    CreateSchema,
    Expire,
    ForgetHost,
    LearnHost,
    Register,
    RemovePrincipal,
    Withdraw,
    canonical,
)
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.learned_hosts import host_of, with_host, without_host
from pleroma.control.state.network_rules import NetworkRules
from pleroma.control.state.records import Principal, Registered, SchemaEntry
from pleroma.control.state.registrations import Registrations
from pleroma.control.state.result import CommandRefused, Done, GuardOp, Result
from pleroma.control.state.rights import check_principal, check_registration, check_withdrawal
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
from pleroma.routing import FlowOp, Host, HostId, Router, Topology
from pleroma.routing.topology_files import to_json as topology_to_json

_RECENT = 1024


class ControlState:
    """Read its attributes; change it with `apply` alone."""

    def __init__(self, topology: Topology, settings: ControlSettings | None = None) -> None:
        self.topology = topology
        """With the hosts that were learned."""
        self.learned: dict[HostId, Host] = {}
        self.settings = settings or ControlSettings()
        self.network = fingerprint(topology)
        self.principals: dict[str, Principal] = {}
        self.registrations = Registrations()
        self._recent: dict[tuple[str, str], Filter] = {}
        self.rules = NetworkRules(topology, self.settings.max_length)
        self.plans = SchemaPlans(self.registrations, self.rules, self.settings)

    def apply(self, position: int, command: Command) -> Result:
        """Carry out the command at this position of the log, or say why not."""
        try:
            return self._carry_out(position, command)
        except PleromaError as error:
            return CommandRefused(error)

    def check(self, command: Command) -> PleromaError | None:
        """What `apply` would refuse this command with, as things stand."""
        try:
            self._check(command)
        except PleromaError as error:
            return error
        return None

    @property
    def schemas(self) -> Mapping[str, SchemaEntry]:
        return self.plans.schemas

    @property
    def router(self) -> Router:
        return self.rules.router

    def _check(self, command: Command) -> None:
        match command:
            case Begin():
                self.check_begin(command)
            case CreateSchema():
                self.plans.check_new(command)
            case AdoptPlan():
                self.plans.check_adoption(command)
            case ChangePlan():
                self.plans.check_change(command)
            case Advance():
                self.plans.check_advance(command)
            case CreatePrincipal():
                self._check_principal(command)
            case RemovePrincipal():
                self._principal(command.name)
            case Register():
                self._check_registration(command)
            case Withdraw():
                self._check_withdrawal(command)
            case Expire():
                self._leased(command)
            case LearnHost():
                with_host(self.topology, host_of(command))
            case ForgetHost():
                self._without(command)

    def _carry_out(self, position: int, command: Command) -> Done:
        match command:
            case Begin():
                self.check_begin(command)
                return Done({})
            case CreateSchema():
                return self.plans.create(command)
            case AdoptPlan():
                return self.plans.adopt(command)
            case ChangePlan():
                return self.plans.prepare(command)
            case Advance():
                return self.plans.advance(command)
            case CreatePrincipal():
                return self._create_principal(command)
            case RemovePrincipal():
                return self._remove_principal(command)
            case Register():
                return self._register(position, command)
            case Withdraw():
                return self._withdraw(command)
            case Expire():
                return self._expire(command)
            case LearnHost():
                return self._learn(command)
            case ForgetHost():
                return self._forget(command)

    def check_begin(self, command: Begin) -> None:
        if dict(command.settings) != self.settings.to_json():
            reason = f"the log was made with {dict(command.settings)}, not with {self.settings.to_json()}"
            raise OtherControl(reason, field="settings", value=dict(command.settings))
        if command.network != self.network:
            raise OtherControl("the log was made for another network", field="topology", value=command.network)

    # -- principals ----------------------------------------------------------------------------------------------

    def _check_principal(self, command: CreatePrincipal) -> None:
        check_name(command.name)
        if command.name in self.principals:
            raise AlreadyThere("there is a principal of this name", field="name", value=command.name)
        check_principal(command, self._known_schema)

    def _known_schema(self, name: str) -> Schema:
        return self.plans.find(name).schema

    def _create_principal(self, command: CreatePrincipal) -> Done:
        self._check_principal(command)
        principal = Principal(
            command.name, command.role, command.digest, dict(command.publish), dict(command.read), command.subscriptions
        )
        self.principals[principal.name] = principal
        return Done({"name": principal.name})

    def _remove_principal(self, command: RemovePrincipal) -> Done:
        principal = self._principal(command.name)
        withdrawn, ops, more = self._drop_all(self.registrations.by_principal.get(principal.name, {}).values())
        del self.principals[principal.name]
        return Done({"name": principal.name, "withdrawn": withdrawn}, ops, more)

    # -- registrations -------------------------------------------------------------------------------------------

    def _check_registration(self, command: Register) -> tuple[SchemaEntry, Filter]:
        if command.kind not in REGISTRATION_KINDS:
            raise UnknownName("kind", str(command.kind), REGISTRATION_KINDS, field="kind")
        principal = self._principal(command.principal)
        entry = self.plans.find(command.schema)
        if command.host not in self.topology.host:
            raise UnknownName("host", str(command.host), self.topology.host, field="host")
        if command.lease is not None:
            check_lease(command.lease)
        wanted = self._read(entry, command.boxes)
        if not wanted:
            raise ContentError("no event matches the filter", field="filter", value=str(wanted))
        check_registration(principal, command.kind, wanted)
        most = principal.subscriptions
        if (
            command.kind == "subscription"
            and most is not None
            and self.registrations.subscriptions_of(principal.name) >= most
        ):
            reason = f"{principal.name} has {most} subscriptions, and may have no more"
            raise LimitReached(reason, field="subscriptions", value=most)
        return entry, wanted

    def _read(self, entry: SchemaEntry, boxes: str) -> Filter:
        """A request is checked before it is written and again when it is applied; it is read once."""
        known = self._recent.get((entry.name, boxes))
        if known is None:
            known = from_json(entry.schema, json.loads(boxes))
            self.remember(boxes, known)
        return known

    def remember(self, boxes: str, filter: Filter) -> None:
        """Who has read a filter already saves the state from reading it again."""
        if len(self._recent) >= _RECENT:
            self._recent.clear()
        self._recent[filter.schema.name, boxes] = filter

    def _register(self, position: int, command: Register) -> Done:
        entry, wanted = self._check_registration(command)
        region, other, opened = self.plans.cover(entry, command.kind, wanted)
        name = f"{command.kind[0]}{position}"
        publisher = position if command.kind == "advertisement" else 0
        made = Registered(
            name,
            command.kind,
            command.principal,
            HostId(command.host),
            entry,
            command.boxes,
            region,
            publisher,
            command.lease,
        )
        self.registrations.add(made)
        value = {
            "id": name,
            "schema": entry.name,
            "host": made.host,
            "filter": str(wanted),
            "members": len(region),
            "epoch": entry.epoch,
        }
        if publisher:
            value["publisher"] = publisher
        if opened:
            value["opened"] = True
        ops, more = self.rules.add(made, other)
        region.slim()  # there may be very many
        return Done(value, ops, more)

    def _check_withdrawal(self, command: Withdraw) -> Registered:
        principal = self._principal(command.principal)
        registered = self.registrations.get(command.id)
        if registered is None:
            raise NotThere("nothing is registered under this id", field="id", value=command.id)
        check_withdrawal(principal, registered)
        return registered

    def _withdraw(self, command: Withdraw) -> Done:
        registered = self._check_withdrawal(command)
        self.registrations.remove(registered)
        return Done({"id": registered.id}, *self.rules.remove([registered]))

    def _leased(self, command: Expire) -> Mapping[str, Registered]:
        leased = self.registrations.by_lease.get((command.principal, command.lease))
        if leased is None:
            raise NotThere("nothing is registered under this lease", field="lease", value=command.lease)
        return leased

    def _expire(self, command: Expire) -> Done:
        withdrawn, ops, more = self._drop_all(self._leased(command).values())
        return Done({"lease": command.lease, "principal": command.principal, "withdrawn": withdrawn}, ops, more)

    def _drop_all(self, registered: Iterable[Registered]) -> tuple[list[str], list[FlowOp], list[GuardOp]]:
        """Their ids, and what the switches have to do."""
        gone = list(registered)
        for each in gone:
            self.registrations.remove(each)
        return [each.id for each in gone], *self.rules.remove(gone)

    # -- hosts ---------------------------------------------------------------------------------------------------

    def _learn(self, command: LearnHost) -> Done:
        host = host_of(command)
        topology = with_host(self.topology, host)
        if topology is not self.topology:
            self.learn(host, topology)
        return Done({"name": host.name, "switch": host.switch, "port": host.port, "address": host.address})

    def learn(self, host: Host, topology: Topology) -> None:
        """From now on there may be registrations at it. They have an effect once somebody routes on it."""
        self.topology = self.rules.topology = topology
        self.learned[host.name] = host
        self.rules.expect(host.name)

    def _without(self, command: ForgetHost) -> Topology:
        topology = without_host(self.topology, self.learned, command.name)
        standing = sum(each.host == command.name for each in self.registrations.values())
        if standing:
            reason = f"{standing} registrations stand at this host"
            raise AlreadyThere(reason, field="host", value=command.name)
        return topology

    def _forget(self, command: ForgetHost) -> Done:
        self.topology = self.rules.topology = self._without(command)
        del self.learned[HostId(command.name)]
        return Done({"name": command.name})

    # -- finding -------------------------------------------------------------------------------------------------

    def _principal(self, name: str) -> Principal:
        principal = self.principals.get(name)
        if principal is None:
            raise NotThere("there is no principal of this name", field="principal", value=name)
        return principal


def fingerprint(topology: Topology) -> str:
    """Tells one network from another."""
    return hashlib.sha256(canonical(topology_to_json(topology)).encode()).hexdigest()
