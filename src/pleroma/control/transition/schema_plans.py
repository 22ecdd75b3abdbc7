"""The schemas with their plans, and the one plan change that may be under way.

A plan gives way to the next at once (`adopt`) or step by step under traffic (`begin`, then `advance`). A plan has its
own limit of dz per registration, by which all regions of its schema are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from pleroma.content import Filter, Schema
from pleroma.content.schema_versions import obstacles
from pleroma.control.state.command import (
    AdoptPlan,
    Advance,
    ChangePlan,
    CreateSchema,
    ExtendSchema,
    KnownRegion,
    RegistrationKind,
    RemoveSchema,
)
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.network_rules import NetworkRules, RuleInputs, inputs_of
from pleroma.control.state.plan_origin import PlanOrigin
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.regions import (
    check_plan,
    cover,
    covered_anew,
    first_index,
    free_share,
    schema_prefix,
    spare_prefix,
    spare_share,
)
from pleroma.control.state.registrations import Registrations
from pleroma.control.state.result import Done
from pleroma.control.state.rights import check_name
from pleroma.control.state.tree_choice import check_trees
from pleroma.control.transition.plan_change import CHANGE_METHODS, ChangeMethod, ChangePhase, PlanChange
from pleroma.control.transition.regrowth import MAX_AREA_CELLS, differing
from pleroma.errors import (
    AlreadyThere,
    ControlError,
    LimitReached,
    PlanChanging,
    PlanError,
    PlanMoved,
    SchemaError,
    UnknownName,
    WireError,
)
from pleroma.index import EVERYTHING, NOTHING, Dz, DzSet, Index, IndexPlan
from pleroma.index.extended_index import extended
from pleroma.index.plan import check_members
from pleroma.wire.versioned_codec import codec_of

MAX_SCHEMA_NUMBERS = 2**16
"""Packets have two bytes for the number of a schema, and a number is given out once."""
MAX_VERSIONS = 32
"""Of a schema: every client reads them all."""
SHOWN_REGISTRATIONS = 3
"""Of those that keep a schema from being removed."""


class SchemaPlans:
    """Owns the schemas and the plan change. A step changes the registrations and the rules that it is given."""

    def __init__(self, registrations: Registrations, rules: NetworkRules, settings: ControlSettings) -> None:
        self.schemas: dict[str, SchemaEntry] = {}
        self.next_number = 0
        """The number of the next schema. Events that are on their way when their schema is removed are of no other."""
        self.first_epoch = 1
        """Of the plans of the next schema: later than any of a removed one, which may have had the same name."""
        self.first_members = settings.max_members
        """Dz per registration by the first plan of a schema that is created without a limit: as the log began."""
        self.change: PlanChange | None = None
        """The plan change that is under way; there is one at a time."""
        self._registrations = registrations
        self._rules = rules
        self._settings = settings
        self._forget: list[Callable[[str], None]] = []

    def phase(self, name: str) -> ChangePhase | Literal["settled"]:
        """How far the plan of a schema is on its way to the next."""
        return self.change.phase if self.change is not None and self.change.schema == name else "settled"

    def is_changing(self, entry: SchemaEntry) -> bool:
        """Whether the plan of a schema is on its way to the next."""
        return self.change is not None and self.change.entry is entry

    def find(self, name: str) -> SchemaEntry:
        entry = self.schemas.get(name)
        if entry is None:
            raise UnknownName("schema", str(name), self.schemas, field="schema")
        return entry

    def check_creation(self, command: CreateSchema) -> IndexPlan:
        """The first plan of a new schema, if there can be one."""
        name = command.schema.name
        check_name(name)
        if name in self.schemas:
            raise AlreadyThere("there is a schema of this name", field="schema", value=name)
        if self.next_number >= MAX_SCHEMA_NUMBERS:
            reason = f"{MAX_SCHEMA_NUMBERS} schemas were created, and packets have numbers for no more"
            raise LimitReached(reason, field="schema", value=name)
        self._free_share()
        index = first_index(command.schema, command.bits, self._settings)
        members = self.first_members if command.members is None else command.members
        return IndexPlan(self.first_epoch, index, members)

    def _free_share(self) -> int:
        taken = {entry.prefix for entry in self.schemas.values()}
        if self.change is not None:
            taken.add(self.change.prefix)
        return free_share(self.schemas.values(), taken, self._settings)

    def create(self, command: CreateSchema, plan: IndexPlan) -> Done:
        number, share = self.next_number, self._free_share()
        prefix = schema_prefix(share, self._settings)
        entry = SchemaEntry(command.schema, number, prefix, [plan], self._rules.trees, share)
        self.schemas[entry.name] = entry
        self.next_number += 1
        ops = self._rules.open_prefix(prefix)
        return Done({"schema": entry.name, "number": number, "prefix": str(prefix), "epoch": plan.epoch}, *ops)

    def on_removed(self, forget: Callable[[str], None]) -> None:
        """Have this called with the name of every schema that is removed. It must not raise an error."""
        self._forget.append(forget)

    def check_removal(self, command: RemoveSchema) -> SchemaEntry:
        """The schema that may be removed, since nothing is registered of it and its plan is not changing."""
        entry = self.find(command.schema)
        standing = [each for each in self._registrations.values() if each.entry is entry]
        if standing:
            first = ", ".join(
                f"{each.id} of {each.principal} at {each.host}" for each in standing[:SHOWN_REGISTRATIONS]
            )
            more = "" if len(standing) <= SHOWN_REGISTRATIONS else ", ..."
            reason = f"{len(standing)} registrations of {entry.name} stand ({first}{more}); they have to go first"
            raise AlreadyThere(reason, field="schema", value=entry.name)
        if self.change is not None and self.change.entry is entry:
            reason = f"the plan of {entry.name} is changing; try again when the change is over"
            raise PlanChanging(reason, field="schema", value=entry.name)
        return entry

    def drop(self, entry: SchemaEntry) -> None:
        """Forget a schema. No rule of it is left, and no later schema gets its number or an epoch of its plans."""
        del self.schemas[entry.name]
        self.first_epoch = max(self.first_epoch, entry.epoch + 1)
        for forget in self._forget:
            forget(entry.name)

    def check_extension(self, command: ExtendSchema) -> SchemaEntry:
        """The schema that may go over to this version."""
        later = command.schema
        entry = self.find(later.name)
        if later == entry.schema:
            return entry
        if later in entry.earlier:
            number, last = entry.earlier.index(later) + 1, len(entry.versions)
            raise SchemaError(f"is version {number}, and version {last} is in force", field="schema", value=later.name)
        if wrong := obstacles(entry.schema, later):
            reason = f"this is no later version of {later.name}: {'; '.join(wrong)}"
            raise SchemaError(reason, field="schema", value=later.name)
        if len(entry.versions) >= MAX_VERSIONS:
            raise LimitReached(f"a schema has at most {MAX_VERSIONS} versions", field="schema", value=later.name)
        try:
            fingerprints = codec_of((*entry.versions, later), entry.number).fingerprints
        except WireError as error:
            raise SchemaError(error.reason, field="schema", value=later.name) from None
        if len(fingerprints) <= len(entry.versions):
            reason = "receivers could not tell it from another version (same fingerprint); choose another bound or name"
            raise SchemaError(reason, field="schema", value=later.name)
        if self.is_changing(entry):
            reason = f"the plan of {entry.name} is changing; try again when the change is over"
            raise PlanChanging(reason, field="schema", value=entry.name)
        extended(entry.index, later)
        return entry

    def extend(self, command: ExtendSchema, entry: SchemaEntry) -> Done:
        """Go over to another version, under a new plan by which every event of the versions before keeps its dz.

        So an event goes wherever it went, whichever of the two plans a publisher or a switch has.
        """
        value = {"schema": entry.name, "epoch": entry.epoch, "version": len(entry.versions)}
        if command.schema == entry.schema:
            return Done(value | {"unchanged": True})
        entry.earlier, entry.schema = entry.versions, command.schema
        entry.plans = [plan for old in entry.plans if (plan := _extended_plan(old, command.schema)) is not None]
        old = [each for each in self._registrations.values() if each.entry is entry]
        index, new = covered_anew(entry.prefix, old, entry.index, entry.members)
        entry.move_to(IndexPlan(entry.epoch + 1, index, entry.members))
        # as text, a filter may have bounds that its boxes do not have, since they were the ends of a domain
        new = [replace(each, _text=None) for each in new]
        self._registrations.replace(new)
        ops = self._rules.exchange(inputs_of(old), inputs_of(new))
        for each in new:
            each.region.slim()  # there may be very many
        return Done(value | {"epoch": entry.epoch, "version": len(entry.versions)}, *ops)

    def own_prefixes(self, entry: SchemaEntry) -> list[Dz]:
        """The prefixes that nobody but this schema may have rules under."""
        spare, shares = spare_share(entry.share, self._settings), {each.share for each in self.schemas.values()}
        return [schema_prefix(share, self._settings) for share in (entry.share, *({spare} - shares))]

    def found(
        self, entry: SchemaEntry, kind: RegistrationKind, wanted: Filter, known: KnownRegion | None
    ) -> tuple[Index, DzSet]:
        """The index that gives a filter its region by the plan in force, and that region, which may be known."""
        if known is not None and known.plan is entry.plan and (known.kind, known.prefix) == (kind, entry.prefix):
            return known.found
        return cover(entry.prefix, kind, wanted, entry.index, entry.members)

    def cover(
        self, entry: SchemaEntry, kind: RegistrationKind, wanted: Filter, known: KnownRegion | None = None
    ) -> tuple[DzSet, bool]:
        """The region of a filter in the plan in force, and whether that plan had to be opened for it.

        The region may be known: to cover a filter of many boxes takes long.
        """
        index, region = self.found(entry, kind, wanted, known)
        opened = index is not entry.index
        if opened:
            entry.move_to(IndexPlan(entry.epoch + 1, index, entry.members))
        return region, opened

    def add(self, registered: Registered, wanted: Filter | None) -> RuleInputs:
        """What a new registration asks of the switches; the change of its plan, if one is under way, knows it now."""
        if self.is_changing(registered.entry):
            assert self.change is not None  # noqa: S101 (it is changing)
            self.change.add(registered, registered.filter if wanted is None else wanted)
        return self.inputs([registered])

    def remove(self, registered: Iterable[Registered]) -> RuleInputs:
        """What registrations asked of the switches that are withdrawn now."""
        leaving = list(registered)
        inputs = self.inputs(leaving)
        if self.change is not None:
            for each in leaving:
                self.change.remove(each)
        return inputs

    def inputs(self, registered: Iterable[Registered]) -> RuleInputs:
        """What registrations ask of the switches, with what a plan change under way adds to it."""
        everyone = list(registered)
        inputs = inputs_of(everyone)
        return inputs if self.change is None else inputs + self.change.extra_inputs(everyone)

    def load_rules(self) -> None:
        """Compute all rules from the registrations, as after a restart."""
        self._rules.load(self.inputs(self._registrations.values()))
        if self.change is not None:
            self._rules.reserve(self.change.detours_per_table(self._rules))

    def check_adoption(self, command: AdoptPlan | ChangePlan) -> SchemaEntry:
        entry = self.find(command.schema)
        check_plan(command.index, entry, self._settings)
        check_members(_members_after(command, entry))
        if command.after is not None and command.after != entry.epoch:
            reason = f"plan {entry.epoch} of {entry.name} is in force, not {command.after}"
            raise PlanMoved(reason, field="epoch", value=command.after)
        if self.change is not None:
            reason = f"the plan of {self.change.schema} is changing already"
            raise PlanChanging(reason, field="schema", value=self.change.schema)
        return entry

    def adopt(self, command: AdoptPlan, entry: SchemaEntry) -> Done:
        """Move to another plan in one step. Events that are under way may be lost if the index is another one."""
        return self._exchange(entry, command.index, _members_after(command, entry), command.origin)

    def _exchange(self, entry: SchemaEntry, index: Index, members: int, origin: PlanOrigin | None) -> Done:
        """Exchange plan, regions and rules."""
        old = [each for each in self._registrations.values() if each.entry is entry]
        index, new = covered_anew(entry.prefix, old, index, members)
        entry.move_to(IndexPlan(entry.epoch + 1, index, members), origin)
        self._registrations.replace(new)
        ops = self._rules.exchange(inputs_of(old), inputs_of(new))
        for each in new:
            each.region.slim()  # there may be very many
        return Done({"schema": entry.name, "epoch": entry.epoch, "registrations": len(new)}, *ops)

    def check_change(self, command: ChangePlan) -> PlanChange:
        """The change that the command asks for, not yet prepared."""
        entry = self.check_adoption(command)
        if command.method not in CHANGE_METHODS:
            raise UnknownName("method", str(command.method), CHANGE_METHODS, field="method")
        method: ChangeMethod = "versioning" if command.method == "versioning" else "lightweight"
        area, prefix = NOTHING, entry.prefix
        if command.trees is not None:
            area = EVERYTHING
            check_trees(command.trees)
            if method != "versioning":
                raise ControlError("events move to other trees by versioning only", field="method", value=method)
        elif not _is_same(entry.index, command.index):
            max_cells = min(MAX_AREA_CELLS, self._rules.max_detours if method == "lightweight" else MAX_AREA_CELLS)
            area = EVERYTHING if command.whole else differing(entry.index, command.index, max_cells)
        if method == "versioning" and area == EVERYTHING:
            prefix = spare_prefix(entry, self.schemas.values(), self._settings)
        if prefix != entry.prefix:
            self._rules.check_trees(prefix, command.trees or ())
        members = entry.members, _members_after(command, entry)
        area = area.under(entry.prefix)
        if area and method == "lightweight":
            self._rules.check_detours(area)
        return PlanChange(
            entry, method, entry.index, command.index, prefix, area, *members, command.trees, command.origin
        )

    def begin(self, change: PlanChange) -> Done:
        """The first step of a change, unless the next plan is the one in force. It is the only one if events keep their
        dz and only the limit of dz per registration changes: the regions of either limit enclose the filter, so
        whichever of the two a switch has rules for, nothing is lost.
        """
        value = {"schema": change.schema, "epoch": change.entry.epoch}
        if not change.area:
            if change.before_members == change.after_members and _is_same(change.before, change.after):
                return Done(value | {"unchanged": True})
            return self._exchange(change.entry, change.after, change.after_members, change.origin)
        ops = change.prepare(self._registrations, self._rules)
        self.change = change
        return Done(value | {"phase": change.phase, "registrations": len(change.other)}, *ops)

    def check_advance(self, command: Advance) -> PlanChange:
        """The change under way, if the step is its next."""
        entry, change = self.find(command.schema), self.change
        if change is None or change.entry is not entry or change.phase != _PHASE_BEFORE.get(command.step):
            raise ControlError(f"there is nothing to {command.step} now", field="step", value=command.step)
        return change

    def advance(self, change: PlanChange) -> Done:
        """The next step of the change."""
        if change.phase == "prepared":
            phase, ops = "swapped", change.swap(self._registrations, self._rules)
        else:
            phase, ops = "done", change.clear(self._registrations, self._rules)
            self.change = None
        return Done({"schema": change.schema, "epoch": change.entry.epoch, "phase": phase}, *ops)


def _extended_plan(plan: IndexPlan, schema: Schema) -> IndexPlan | None:
    """A plan that is kept, on a later version; None if it cannot be used any more."""
    try:
        return replace(plan, index=extended(plan.index, schema))
    except PlanError:
        return None


def _members_after(command: AdoptPlan | ChangePlan, entry: SchemaEntry) -> int:
    """The limit of dz per registration of the plan that a command asks for."""
    return entry.members if command.members is None else command.members


def _is_same(one: Index, other: Index) -> bool:
    return one.to_json() == other.to_json()


_PHASE_BEFORE = {"swap": "prepared", "clear": "swapped"}
"""By step: the phase in which it can be taken."""
