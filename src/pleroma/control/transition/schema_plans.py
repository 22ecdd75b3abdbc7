"""The schemas, and how the plan of one gives way to the next: at once, or step by step under traffic (`rules`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from pleroma.content import Filter
from pleroma.control.state.chosen_names import check_name
from pleroma.control.state.command import AdoptPlan, Advance, ChangePlan, CreateSchema, RegistrationKind
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.network_rules import CHANGE_METHODS, ChangeMethod, ChangePhase, NetworkRules, PlanChange
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.regions import check_plan, cover, covered_anew, first_index, prefix, spare_prefix
from pleroma.control.state.registrations import Registrations
from pleroma.control.state.result import Done
from pleroma.control.transition.regrowth import MAX_AREA_CELLS, Regrowth, differing
from pleroma.errors import ControlError, PlanChanging, PlanMoved, UnknownName
from pleroma.index import EVERYTHING, DzSet, GridIndex, IndexPlan, TreeIndex


class SchemaPlans:
    """Reads and changes what it is given: the registrations, and the rules that follow from them."""

    def __init__(self, registrations: Registrations, rules: NetworkRules, settings: ControlSettings) -> None:
        self.schemas: dict[str, SchemaEntry] = {}
        self._registrations = registrations
        self._rules = rules
        self._settings = settings
        self._known_regrowth: Regrowth | None = None

    @property
    def change(self) -> PlanChange | None:
        """The change that is under way; there is one at a time."""
        return self._rules.changing

    def phase(self, name: str) -> ChangePhase | Literal["settled"]:
        """How far the plan of a schema is on its way to the next."""
        return self.change.phase if self.change is not None and self.change.schema == name else "settled"

    def find(self, name: str) -> SchemaEntry:
        entry = self.schemas.get(name)
        if entry is None:
            raise UnknownName("schema", str(name), self.schemas, field="schema")
        return entry

    def check_new(self, command: CreateSchema) -> GridIndex:
        check_name(command.schema.name)
        taken = {entry.prefix for entry in self.schemas.values()}
        if self.change is not None:
            taken.add(self.change.prefix)
        return first_index(command, self.schemas, taken, self._settings)

    def create(self, command: CreateSchema) -> Done:
        index = self.check_new(command)
        number = len(self.schemas)
        share = prefix(number, self._settings)
        entry = SchemaEntry(command.schema, number, share, [IndexPlan(1, index)])
        self.schemas[entry.name] = entry
        return Done({"schema": entry.name, "number": number, "prefix": str(share), "epoch": 1})

    # -- regions -------------------------------------------------------------------------------------------------

    def cover(self, entry: SchemaEntry, kind: RegistrationKind, wanted: Filter) -> tuple[DzSet, DzSet | None, bool]:
        """The region of a filter, its other region while the plan changes, and whether that made another plan."""
        most, changing = self._settings.max_members, self.change
        index, region = cover(entry.prefix, kind, wanted, entry.index, most)
        opened = index is not entry.index
        if opened:
            entry.plans.append(IndexPlan(entry.epoch + 1, index))
        if changing is None or changing.schema != entry.name:
            return region, None, opened
        if changing.method == "lightweight" and changing.phase == "swapped":
            return region, None, opened  # nobody sends it under the old plan: it was not there then
        if changing.is_local:
            regrowth = self._regrowth(changing)
            return region, regrowth.region(region, wanted) if regrowth.concerns(region) else None, opened
        index, other = cover(changing.prefix, kind, wanted, changing.other_index, most)
        if changing.phase == "prepared":
            changing.after = index
        return region, other, opened

    def _regrowth(self, changing: PlanChange) -> Regrowth:
        """From regions in force to those of the other plan."""
        index, known = changing.other_index, self._known_regrowth
        assert isinstance(index, TreeIndex)  # noqa: S101 (nothing else changes locally)
        if known is None or known.index is not index or known.area != changing.area:
            known = Regrowth(index, changing.prefix, changing.area, self._settings.max_members)
            self._known_regrowth = known
        return known

    def _mine(self, entry: SchemaEntry) -> list[Registered]:
        return [each for each in self._registrations.values() if each.entry is entry]

    # -- at once -------------------------------------------------------------------------------------------------

    def check_adoption(self, command: AdoptPlan | ChangePlan) -> SchemaEntry:
        entry = self.find(command.schema)
        check_plan(command.index, entry, self._settings)
        if command.after is not None and command.after != entry.epoch:
            reason = f"plan {entry.epoch} of {entry.name} is in force, not {command.after}"
            raise PlanMoved(reason, field="epoch", value=command.after)
        if self.change is not None:
            reason = f"the plan of {self.change.schema} is changing already"
            raise PlanChanging(reason, field="schema", value=self.change.schema)
        return entry

    def adopt(self, command: AdoptPlan) -> Done:
        """In one step: fine while nobody publishes."""
        entry = self.check_adoption(command)
        mine = self._mine(entry)
        index, moved = covered_anew(entry.prefix, mine, command.index, self._settings.max_members)
        entry.plans.append(IndexPlan(entry.epoch + 1, index))
        self._registrations.replace(moved)
        ops, more = self._rules.exchange(mine, moved)
        _slim(moved)
        return Done({"schema": entry.name, "epoch": entry.epoch, "registrations": len(moved)}, ops, more)

    # -- step by step --------------------------------------------------------------------------------------------

    def check_change(self, command: ChangePlan) -> SchemaEntry:
        entry = self.check_adoption(command)
        if command.method not in CHANGE_METHODS:
            raise UnknownName("method", str(command.method), CHANGE_METHODS, field="method")
        if command.method != "versioning":
            self._rules.check_detours()
        elif self._area(entry, command) == EVERYTHING:
            spare_prefix(entry, self.schemas, self._settings)
        return entry

    def _area(self, entry: SchemaEntry, command: ChangePlan) -> DzSet:
        """Where the next plan differs; with limited tables, in no more cells than there is room for detours."""
        most = MAX_AREA_CELLS if command.method == "versioning" else min(MAX_AREA_CELLS, self._rules.room_for_detours)
        return differing(entry.index, command.index, most)

    def prepare(self, command: ChangePlan) -> Done:
        entry = self.check_change(command)
        value = {"schema": entry.name, "epoch": entry.epoch}
        if command.index.to_json() == entry.index.to_json():
            return Done(value | {"unchanged": True})
        area = self._area(entry, command)
        versioned = command.method == "versioning" and area == EVERYTHING
        share = spare_prefix(entry, self.schemas, self._settings) if versioned else entry.prefix
        mine = self._mine(entry)
        changing = PlanChange(
            entry.name, _method(command), "prepared", entry.index, command.index, share, area.under(entry.prefix)
        )
        if changing.is_local:
            regrowth = self._regrowth(changing)
            concerned = [each for each in mine if regrowth.concerns(each.region)]
            changing.other = {each.id: regrowth.region(each.region, each.filter) for each in concerned}
        else:
            changing.after, moved = covered_anew(share, mine, command.index, self._settings.max_members)
            changing.other = {each.id: each.region for each in moved}
        ops, more = self._rules.prepare(changing, mine)
        for region in changing.other.values():
            region.slim()
        return Done(value | {"phase": "prepared", "registrations": len(changing.other)}, ops, more)

    def check_advance(self, command: Advance) -> tuple[SchemaEntry, PlanChange]:
        entry, changing = self.find(command.schema), self.change
        if changing is None or changing.schema != entry.name or changing.phase != _BEFORE.get(command.step):
            raise ControlError(f"there is nothing to {command.step} now", field="step", value=command.step)
        return entry, changing

    def advance(self, command: Advance) -> Done:
        entry, changing = self.check_advance(command)
        return self._swap(entry, changing) if command.step == "swap" else self._clear(entry)

    def _swap(self, entry: SchemaEntry, changing: PlanChange) -> Done:
        mine = [each for each in self._mine(entry) if each.id in changing.other]
        moved = [replace(each, region=changing.other[each.id]) for each in mine]
        old_prefix, entry.prefix = entry.prefix, changing.prefix
        entry.plans.append(IndexPlan(entry.epoch + 1, changing.after))
        self._registrations.replace(moved)
        ops = self._rules.swap(mine, moved, old_prefix)
        _slim(moved)
        return Done({"schema": entry.name, "epoch": entry.epoch, "phase": "swapped"}, ops)

    def _clear(self, entry: SchemaEntry) -> Done:
        ops, more = self._rules.clear(self._mine(entry))
        return Done({"schema": entry.name, "epoch": entry.epoch, "phase": "done"}, ops, more)

    def resume(self, changing: PlanChange) -> None:
        """Go on with a change from a snapshot."""
        self._rules.changing = changing


def _method(command: ChangePlan) -> ChangeMethod:
    return "versioning" if command.method == "versioning" else "lightweight"


_BEFORE = {"swap": "prepared", "clear": "swapped"}


def _slim(registered: Iterable[Registered]) -> None:
    """There may be very many."""
    for each in registered:
        each.region.slim()
