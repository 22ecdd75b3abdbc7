"""The principals and the groups of the state, and what a command makes of them.

A principal may do what it was given itself and what any of its groups was given; the two are joined whenever one of
them changes, so that to check a request is one look. Rights that go take along what was registered by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pleroma.content import Schema
from pleroma.control.state.people_commands import (
    ChangeGroup,
    ChangePrincipal,
    CreateGroup,
    CreatePrincipal,
    EndToken,
    PeopleCommand,
    RemoveGroup,
    RemovePrincipal,
    RotateToken,
)
from pleroma.control.state.principals import Principals
from pleroma.control.state.records import Group, Principal, Registered, Rights, Token
from pleroma.control.state.registrations import Registrations
from pleroma.control.state.rights import (
    EVERY_SCHEMA,
    all_rights,
    check_counts,
    check_name,
    check_principal,
    check_rights,
    check_role,
    check_token,
    parsed,
    still_allowed,
)
from pleroma.errors import AlreadyThere, LimitReached, NotThere, UnknownName

MAX_GROUPS_OF_A_PRINCIPAL = 16


@dataclass(frozen=True, slots=True)
class PeopleChange:
    """What becomes of principals and groups by one command, and what to answer."""

    value: dict[str, Any]
    principals: tuple[Principal, ...] = ()
    """As they are to be, but for the rights that they have from groups."""
    groups: Mapping[str, Group | None] = field(default_factory=dict)
    """As they are to be; None for one that goes. All members of them change, too."""
    removed: Principal | None = None
    withdraws_all: bool = False
    """Whether all that the principals registered goes."""


class People:
    """Owns principals and groups. `schema` finds a schema by name, and raises `UnknownName`."""

    def __init__(self, registrations: Registrations, schema: Callable[[str], Schema]) -> None:
        self.principals = Principals()
        self.groups: dict[str, Group] = {}
        self._registrations = registrations
        self._schema = schema

    def find(self, name: str) -> Principal:
        principal = self.principals.get(name)
        if principal is None:
            raise NotThere("there is no principal of this name", field="principal", value=name)
        return principal

    def members(self, group: str) -> Iterator[Principal]:
        return (each for each in self.principals.values() if group in each.groups)

    def compares_filters(self, command: PeopleCommand) -> bool:
        """Whether filters of registrations are compared with rights, which may take long even if they are few."""
        match command:
            case ChangePrincipal():
                return command.name in self._registrations.by_principal
            case ChangeGroup() | RemoveGroup():
                return any(self.members(command.name))
            case _:
                return False

    def concerned(self, command: PeopleCommand) -> int:
        """How many registrations may be withdrawn."""
        match command:
            case RemovePrincipal() | EndToken() | RotateToken(withdraw=True):
                return len(self._registrations.by_principal.get(command.name, ()))
            case _:
                return 0

    def check(self, command: PeopleCommand) -> PeopleChange:
        """What the command makes of people; a refusal is raised. Nothing changes yet."""
        match command:
            case CreatePrincipal():
                return self._create(command)
            case ChangePrincipal():
                return self._change(command)
            case RotateToken():
                return self._rotate(command)
            case EndToken():
                return self._end_token(command)
            case RemovePrincipal():
                removed = self.find(command.name)
                return PeopleChange({"name": removed.name}, removed=removed)
            case CreateGroup():
                return self._create_group(command)
            case ChangeGroup():
                return self._change_group(command)
            case RemoveGroup():
                return PeopleChange({"name": self._group(command.name).name}, groups={command.name: None})

    def leaving(self, change: PeopleChange) -> list[Registered]:
        """The registrations that have to go with the change."""
        by_principal = self._registrations.by_principal
        if change.removed is not None:
            return list(by_principal.get(change.removed.name, {}).values())
        groups = self._groups_after(change)
        leaving = []
        for each in self._changing(change):
            before = self.principals.get(each.name)
            if before is not None and (standing := by_principal.get(each.name)):
                after = _with_rights(each, groups)
                leaving += [
                    registered
                    for registered in standing.values()
                    if change.withdraws_all or not still_allowed(before, after, registered)
                ]
        return leaving

    def carry_out(self, change: PeopleChange) -> None:
        groups = self._groups_after(change)
        for principal in self._changing(change):
            self.principals.put(_with_rights(principal, groups))
        self.groups = groups
        if change.removed is not None:
            self.principals.remove(change.removed.name)

    def drop_schema(self, schema: str) -> list[str]:
        """Take away all rights that name a schema. Returns the names of the principals that had any by themselves."""
        groups = {name: Group(name, _of_others(each.rights, schema)) for name, each in self.groups.items()}
        having = [each for each in self.principals.values() if schema in each.own.publish or schema in each.own.read]
        changed = tuple(replace(each, own=_of_others(each.own, schema)) for each in having)
        self.carry_out(PeopleChange({}, changed, groups))
        return [each.name for each in having]

    def restore(self, groups: Iterable[Group], principals: Iterable[Principal]) -> None:
        """Begin with these, as a snapshot has them."""
        self.carry_out(PeopleChange({}, tuple(principals), {each.name: each for each in groups}))

    def _changing(self, change: PeopleChange) -> list[Principal]:
        """The principals that the change is about, and the members of the groups that it is about."""
        named = {each.name for each in change.principals}
        members = (
            each
            for each in (self.principals.values() if change.groups else ())
            if each.name not in named and not change.groups.keys().isdisjoint(each.groups)
        )
        return [*change.principals, *members]

    def _groups_after(self, change: PeopleChange) -> dict[str, Group]:
        after: dict[str, Group | None] = {**self.groups, **change.groups}
        return {name: group for name, group in after.items() if group is not None}

    def _create(self, command: CreatePrincipal) -> PeopleChange:
        check_name(command.name)
        if command.name in self.principals:
            raise AlreadyThere("there is a principal of this name", field="name", value=command.name)
        check_principal(command, self._schema)
        own = Rights(dict(command.publish), dict(command.read))
        limits = command.subscriptions, command.boxes
        made = Principal(
            command.name, command.role, Token(command.digest, command.ends), own, own, *limits, tuple(command.groups)
        )
        self._check_groups(made)
        return PeopleChange({"name": made.name}, (made,))

    def _change(self, command: ChangePrincipal) -> PeopleChange:
        before = self.find(command.name)
        if command.role is not None:
            check_role(command.role)
        check_counts(command.limits)
        own = self._merged(before.own, command)
        groups = tuple(name for name in before.groups if command.groups.get(name, True))
        groups += tuple(name for name, joins in command.groups.items() if joins and name not in groups)
        limits: dict[str, Any] = dict(command.limits)
        changed = replace(before, role=command.role or before.role, own=own, groups=groups, **limits)
        self._check_groups(changed)
        return PeopleChange({"name": before.name}, (changed,))

    def _rotate(self, command: RotateToken) -> PeopleChange:
        before = self.find(command.name)
        check_token(command.digest, command.ends, command.earlier_ends)
        if any(token.digest == command.digest for token in before.tokens):
            raise AlreadyThere("it is a token of the principal already", field="digest")
        earlier = None
        if command.earlier_ends is not None and not before.token.is_over:
            ends = [each for each in (before.token.ends, command.earlier_ends) if each is not None]
            earlier = replace(before.token, ends=min(ends))
        changed = replace(before, token=Token(command.digest, command.ends), earlier=earlier)
        return PeopleChange({"name": before.name}, (changed,), withdraws_all=command.withdraw)

    def _end_token(self, command: EndToken) -> PeopleChange:
        before = self.find(command.name)
        check_token(command.digest)
        token = before.token_with(command.digest)
        if token is None or token.ends is None or token.is_over:
            raise NotThere("the principal has no such token that is to end", field="digest")
        ended = replace(token, is_over=True)
        changed = replace(before, token=ended) if token is before.token else replace(before, earlier=ended)
        has_none = all(each.is_over for each in changed.tokens)
        return PeopleChange({"name": before.name}, (changed,), withdraws_all=has_none)

    def _group(self, name: str) -> Group:
        group = self.groups.get(name)
        if group is None:
            raise NotThere("there is no group of this name", field="group", value=name)
        return group

    def _create_group(self, command: CreateGroup) -> PeopleChange:
        check_name(command.name)
        if command.name in self.groups:
            raise AlreadyThere("there is a group of this name", field="name", value=command.name)
        rights = Rights(dict(command.publish), dict(command.read))
        check_rights(rights, self._schema)
        return PeopleChange({"name": command.name}, groups={command.name: Group(command.name, rights)})

    def _change_group(self, command: ChangeGroup) -> PeopleChange:
        group = self._group(command.name)
        changed = Group(group.name, self._merged(group.rights, command))
        change = PeopleChange({"name": group.name}, groups={group.name: changed})
        groups, schemas = self._groups_after(change), {*command.publish, *command.read}
        for each in {_parts(each, schemas): each for each in self.members(group.name)}.values():
            self._check_joined(_with_rights(each, groups))
        return change

    def _merged(self, before: Rights, change: ChangePrincipal | ChangeGroup) -> Rights:
        """Rights with some others in the place of those that there were; None takes a right away."""
        sides = []
        for side, changes in zip(before, (change.publish, change.read), strict=True):
            given = {name: text for name, text in changes.items() if text is not None}
            check_rights(Rights(given, {}), self._schema)
            kept = {name: text for name, text in side.items() if name not in changes}
            sides.append(kept | given)
        return Rights(*sides)

    def _check_groups(self, principal: Principal) -> None:
        """Refuse a principal of groups that there are not, of too many, or whose rights cannot be joined."""
        for name in principal.groups:
            if name not in self.groups:
                raise UnknownName("group", str(name), self.groups, field="groups")
        if len(principal.groups) > MAX_GROUPS_OF_A_PRINCIPAL:
            reason = f"a principal belongs to at most {MAX_GROUPS_OF_A_PRINCIPAL} groups"
            raise LimitReached(reason, field="groups", value=len(principal.groups))
        self._check_joined(_with_rights(principal, self.groups))

    def _check_joined(self, principal: Principal) -> None:
        """Refuse rights that are understood one by one and too many together."""
        if principal.groups:
            for side in principal.rights:
                for name, text in side.items():
                    if name != EVERY_SCHEMA:
                        with suppress(UnknownName):  # a schema that is gone
                            parsed(self._schema(name), text)


def _with_rights(principal: Principal, groups: Mapping[str, Group]) -> Principal:
    """The principal with all rights that it has by itself and from its groups, as far as there still are these."""
    if not principal.groups:
        return replace(principal, rights=principal.own)
    left = tuple(name for name in principal.groups if name in groups)
    rights = all_rights((principal.own, *(groups[name].rights for name in left)))
    return replace(principal, groups=left, rights=rights)


def _of_others(rights: Rights, schema: str) -> Rights:
    return Rights(*({name: text for name, text in side.items() if name != schema} for side in rights))


def _parts(principal: Principal, schemas: Iterable[str]) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    """What the rights of a principal on some schemas are joined of: principals with the same parts have the same."""
    return principal.groups, tuple(side.get(name) for side in principal.own for name in schemas)
