"""The state of the control plane: a deterministic fold of commands, without I/O and without a clock.

The same commands at the same positions always give the same registrations, the same regions and the same flow tables.
A command that cannot be carried out is refused and changes nothing, so even an entry that was overtaken on its way into
the log does no harm there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pleroma.index.kernels  # noqa: F401  # covers run compiled
from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json, to_json
from pleroma.control.command import (
    KINDS,
    ROLES,
    AdoptPlan,
    Begin,
    Command,
    CreatePrincipal,
    CreateSchema,
    Kind,
    Register,
    RemovePrincipal,
    Withdraw,
    canonical,
)
from pleroma.control.rights import check_limits, check_registration, check_withdrawal
from pleroma.control.settings import ControlSettings
from pleroma.control.standing import Principal, Registered, SchemaEntry
from pleroma.errors import (
    AlreadyThere,
    ContentError,
    ControlError,
    LimitReached,
    NotThere,
    OtherControl,
    PlanError,
    PleromaError,
    UnknownName,
)
from pleroma.index import Dz, DzSet, GridIndex, Index, IndexPlan, SelectiveIndex
from pleroma.routing import (
    Advertise,
    FlowOp,
    HostId,
    Registration,
    Router,
    Subscribe,
    Topology,
    Unadvertise,
    Unsubscribe,
)
from pleroma.routing.topology_files import to_json as topology_to_json

MAX_NAME = 200
_RECENT = 1024
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Done:
    """Carried out: what to answer, and what the switches have to do for it."""

    value: dict[str, Any]
    ops: list[FlowOp] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Refused:
    """Not carried out, and why."""

    error: PleromaError


Result = Done | Refused


class ControlState:
    """Read its attributes; change it with `apply` alone."""

    def __init__(self, topology: Topology, settings: ControlSettings | None = None) -> None:
        self.topology = topology
        self.settings = settings or ControlSettings()
        self.network = fingerprint(topology)
        self.schemas: dict[str, SchemaEntry] = {}
        self.principals: dict[str, Principal] = {}
        self.registrations: dict[str, Registered] = {}
        self.registered_by: dict[str, dict[str, Registered]] = {}
        """By principal and id."""
        self._subscriptions: dict[str, int] = {}
        self._recent: dict[tuple[str, str], Filter] = {}
        self.router = Router(topology, max_length=self.settings.max_length)

    def apply(self, position: int, command: Command) -> Result:
        """Carry out the command at this position of the log, or say why not."""
        try:
            return self._carry_out(position, command)
        except PleromaError as error:
            return Refused(error)

    def check(self, command: Command) -> PleromaError | None:
        """What `apply` would refuse this command with, as things stand."""
        try:
            self._check(command)
        except PleromaError as error:
            return error
        return None

    def subscriptions_of(self, principal: str) -> int:
        """How many subscriptions a principal has."""
        return self._subscriptions.get(principal, 0)

    def _check(self, command: Command) -> None:
        match command:
            case Begin():
                self.check_begin(command)
            case CreateSchema():
                self._check_schema(command)
            case AdoptPlan():
                self._check_plan(command)
            case CreatePrincipal():
                self._check_principal(command)
            case RemovePrincipal():
                self._principal(command.name)
            case Register():
                self._check_registration(command)
            case Withdraw():
                self._check_withdrawal(command)

    def _carry_out(self, position: int, command: Command) -> Done:
        match command:
            case Begin():
                self.check_begin(command)
                return Done({})
            case CreateSchema():
                return self._create_schema(command)
            case AdoptPlan():
                return self._adopt_plan(command)
            case CreatePrincipal():
                return self._create_principal(command)
            case RemovePrincipal():
                return self._remove_principal(command)
            case Register():
                return self._register(position, command)
            case Withdraw():
                return self._withdraw(command)

    def check_begin(self, command: Begin) -> None:
        if dict(command.settings) != self.settings.to_json():
            reason = f"the log was made with {dict(command.settings)}, not with {self.settings.to_json()}"
            raise OtherControl(reason, field="settings", value=dict(command.settings))
        if command.network != self.network:
            raise OtherControl("the log was made for another network", field="topology", value=command.network)

    # -- schemas and plans ---------------------------------------------------------------------------------------

    def _check_schema(self, command: CreateSchema) -> GridIndex:
        name, most = command.schema.name, 1 << self.settings.schema_bits
        _check_name(name)
        if name in self.schemas:
            raise AlreadyThere("there is a schema of this name", field="schema", value=name)
        if len(self.schemas) == most:
            raise LimitReached(f"there are {most} schemas, and no more prefixes", field="schema", value=name)
        bits = self.settings.default_bits if command.bits is None else command.bits
        if isinstance(bits, bool) or not isinstance(bits, int) or not 0 <= bits <= self.settings.room:
            raise PlanError(f"is a number from 0 to {self.settings.room}, not {bits!r}", field="bits", value=bits)
        return GridIndex.regular(command.schema, bits)

    def _create_schema(self, command: CreateSchema) -> Done:
        index = self._check_schema(command)
        number = len(self.schemas)
        prefix = self.prefix(number)
        entry = SchemaEntry(command.schema, number, prefix, [IndexPlan(1, index)])
        self.schemas[entry.name] = entry
        return Done({"schema": entry.name, "number": number, "prefix": str(prefix), "epoch": 1})

    def prefix(self, number: int) -> Dz:
        return Dz(1 << self.settings.schema_bits | number)

    def _check_plan(self, command: AdoptPlan) -> SchemaEntry:
        entry = self._schema(command.schema)
        if command.index.schema != entry.schema:
            raise PlanError("the index is of another schema", field="index", value=command.index.schema.name)
        if command.index.bits > self.settings.room:
            reason = f"{command.index.bits} bits are more than the {self.settings.room} that a schema has"
            raise PlanError(reason, field="index", value=command.index.bits)
        return entry

    def _adopt_plan(self, command: AdoptPlan) -> Done:
        entry = self._check_plan(command)
        mine = [each for each in self.registrations.values() if each.entry is entry]
        index, moved = self._covered_anew(entry, mine, command.index)
        entry.plans.append(IndexPlan(entry.epoch + 1, index))
        self.registrations.update({each.id: each for each in moved})
        for each in moved:
            self.registered_by[each.principal][each.id] = each
        ops = self.router.exchange([each.id for each in moved], map(request_of, moved))
        for each in moved:
            each.region.slim()
        return Done({"schema": entry.name, "epoch": entry.epoch, "registrations": len(moved)}, ops)

    def _covered_anew(
        self, entry: SchemaEntry, registered: Iterable[Registered], index: Index
    ) -> tuple[Index, list[Registered]]:
        """All of these with the regions of another index, and that index: opened where one of them needs it."""
        moved = []
        for each in registered:
            index, region = self._cover(entry, each.kind, each.filter, index)
            moved.append(replace(each, region=region))
        return index, moved

    def _cover(self, entry: SchemaEntry, kind: Kind, filter: Filter, index: Index) -> tuple[Index, DzSet]:
        """The region of a filter, and the index that can give it.

        A quiet index sends nothing outside its rectangles. A subscription that reaches out opens it, by which all
        other regions stay what they are; an advertisement promises there what nobody wants yet.
        """
        most = self.settings.max_members
        opened = index.opened() if isinstance(index, SelectiveIndex) and index.quiet else index
        covering = opened.cover(filter, max_members=most)
        if opened is not index and kind == "subscription":
            try:
                index.cover(filter, max_members=most)
            except PlanError:
                index = opened
        return index, covering.under(entry.prefix)

    # -- principals ----------------------------------------------------------------------------------------------

    def _check_principal(self, command: CreatePrincipal) -> None:
        _check_name(command.name)
        if command.name in self.principals:
            raise AlreadyThere("there is a principal of this name", field="name", value=command.name)
        if command.role not in ROLES:
            raise UnknownName("role", str(command.role), ROLES, field="role")
        if not isinstance(command.digest, str) or not _DIGEST.fullmatch(command.digest):
            raise ControlError("is the SHA-256 of the token, in hex", field="digest")
        limit = command.subscriptions
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise ControlError(f"is a number from 0, not {limit!r}", field="subscriptions", value=limit)
        for side in (command.publish, command.read):
            for schema, text in side.items():
                check_limits(schema, text, self._known_schema)

    def _known_schema(self, name: str) -> Schema:
        return self._schema(name).schema

    def _create_principal(self, command: CreatePrincipal) -> Done:
        self._check_principal(command)
        principal = Principal(
            command.name, command.role, command.digest, dict(command.publish), dict(command.read), command.subscriptions
        )
        self.principals[principal.name] = principal
        return Done({"name": principal.name})

    def _remove_principal(self, command: RemovePrincipal) -> Done:
        principal = self._principal(command.name)
        withdrawn = list(self.registered_by.get(principal.name, ()))
        for each in withdrawn:
            self._drop(self.registrations[each])
        del self.principals[principal.name]
        return Done({"name": principal.name, "withdrawn": withdrawn}, self.router.exchange(withdrawn, ()))

    # -- registrations -------------------------------------------------------------------------------------------

    def _check_registration(self, command: Register) -> tuple[SchemaEntry, Filter, str]:
        if command.kind not in KINDS:
            raise UnknownName("kind", str(command.kind), KINDS, field="kind")
        principal = self._principal(command.principal)
        entry = self._schema(command.schema)
        if command.host not in self.topology.host:
            raise UnknownName("host", str(command.host), self.topology.host, field="host")
        boxes = canonical(command.filter)
        wanted = self._read(entry, boxes)
        if not wanted:
            raise ContentError("no event matches the filter", field="filter", value=str(wanted))
        check_registration(principal, command.kind, wanted)
        most = principal.subscriptions
        if command.kind == "subscription" and most is not None and self.subscriptions_of(principal.name) >= most:
            reason = f"{principal.name} has {most} subscriptions, and may have no more"
            raise LimitReached(reason, field="subscriptions", value=most)
        return entry, wanted, boxes

    def _read(self, entry: SchemaEntry, boxes: str) -> Filter:
        """A request is checked before it is written and again when it is applied; it is read once."""
        known = self._recent.get((entry.name, boxes))
        return self._remember(boxes, from_json(entry.schema, json.loads(boxes))) if known is None else known

    def _remember(self, boxes: str, filter: Filter) -> Filter:
        if len(self._recent) >= _RECENT:
            self._recent.clear()
        self._recent[filter.schema.name, boxes] = filter
        return filter

    def boxes_of(self, filter: Filter) -> list[dict[str, Any]]:
        """A filter as a command has it. Who has read it already saves the state from reading it again."""
        boxes = to_json(filter)
        if filter.schema.name in self.schemas:
            self._remember(canonical(boxes), filter)
        return boxes

    def _register(self, position: int, command: Register) -> Done:
        entry, wanted, boxes = self._check_registration(command)
        index, region = self._cover(entry, command.kind, wanted, entry.index)
        opened = index is not entry.index
        if opened:
            entry.plans.append(IndexPlan(entry.epoch + 1, index))
        name = f"{command.kind[0]}{position}"
        publisher = position if command.kind == "advertisement" else 0
        made = Registered(
            name,
            command.kind,
            command.principal,
            HostId(command.host),
            entry,
            boxes,
            region,
            publisher,
        )
        self.keep(made)
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
        ops = self.router.apply(request_of(made))
        region.slim()  # there may be very many
        return Done(value, ops)

    def _check_withdrawal(self, command: Withdraw) -> Registered:
        principal = self._principal(command.principal)
        registered = self.registrations.get(command.id)
        if registered is None:
            raise NotThere("nothing is registered under this id", field="id", value=command.id)
        check_withdrawal(principal, registered)
        return registered

    def _withdraw(self, command: Withdraw) -> Done:
        registered = self._check_withdrawal(command)
        self._drop(registered)
        request = Unadvertise if registered.kind == "advertisement" else Unsubscribe
        return Done({"id": registered.id}, self.router.apply(request(registered.id)))

    def keep(self, registered: Registered) -> None:
        """Put a registration on the lists. For `apply` and for restoring a snapshot: the router is told apart."""
        self.registrations[registered.id] = registered
        self.registered_by.setdefault(registered.principal, {})[registered.id] = registered
        if registered.kind == "subscription":
            self._subscriptions[registered.principal] = self.subscriptions_of(registered.principal) + 1

    def _drop(self, registered: Registered) -> None:
        del self.registrations[registered.id]
        mine = self.registered_by[registered.principal]
        del mine[registered.id]
        if not mine:
            del self.registered_by[registered.principal]
        if registered.kind == "subscription":
            self._subscriptions[registered.principal] -= 1

    # -- finding -------------------------------------------------------------------------------------------------

    def _schema(self, name: str) -> SchemaEntry:
        entry = self.schemas.get(name)
        if entry is None:
            raise UnknownName("schema", str(name), self.schemas, field="schema")
        return entry

    def _principal(self, name: str) -> Principal:
        principal = self.principals.get(name)
        if principal is None:
            raise NotThere("there is no principal of this name", field="principal", value=name)
        return principal


def fingerprint(topology: Topology) -> str:
    """Tells one network from another."""
    return hashlib.sha256(canonical(topology_to_json(topology)).encode()).hexdigest()


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ControlError(f"a name has 1 to {MAX_NAME} printable characters", field="name", value=name)


def request_of(registered: Registered) -> Registration:
    kind = Advertise if registered.kind == "advertisement" else Subscribe
    return kind(registered.id, registered.host, registered.region)
