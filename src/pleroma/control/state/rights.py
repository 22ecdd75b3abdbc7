"""Who may do what, and under which names. A refusal says what would be allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from pleroma.content import Filter, Schema
from pleroma.content.work_budget import MAX_BOXES, UNBOUNDED, WorkBudget
from pleroma.control.state.command import RegistrationKind
from pleroma.control.state.people_commands import PRINCIPAL_LIMITS, PRINCIPAL_ROLES, CreatePrincipal
from pleroma.control.state.records import Principal, Registered, Rights
from pleroma.errors import ControlError, FilterSyntax, NotAllowed, PleromaError, UnknownName

MAX_NAME_CHARACTERS = 200
MAX_LEASE_CHARACTERS = 64
EVERY_SCHEMA = "*"
_DIGEST = re.compile("[0-9a-f]{64}")
_ROLES = {"advertisement": ("publisher", "both", "admin"), "subscription": ("subscriber", "both", "admin")}
_VERBS = {"advertisement": "publish", "subscription": "read"}


def check_name(name: object) -> None:
    """Refuse what cannot be the name of a schema, a principal, a host or a switch."""
    _check_text("name", name, MAX_NAME_CHARACTERS)


def check_lease(name: object) -> None:
    """Refuse what cannot be the name of a lease."""
    _check_text("lease", name, MAX_LEASE_CHARACTERS)


def _check_text(field: str, name: object, max_characters: int) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= max_characters or not name.isprintable():
        raise ControlError(f"a {field} has 1 to {max_characters} printable characters", field=field, value=name)


def check_registration(
    principal: Principal,
    kind: RegistrationKind,
    filter: Filter,
    within: str | None = None,
    work: WorkBudget = UNBOUNDED,
) -> str | None:
    """Refuse a filter unless the principal may publish, or read, all that it matches. The limit is returned.

    `within` is a limit that the filter is known to lie within. To compare the two may take long.
    """
    text = limit(principal, kind, filter.schema)
    if text is not None and text != within and not parsed(filter.schema, text).covers(filter, work):
        reason = f"{principal.name} may {_VERBS[kind]} only {text}"
        raise NotAllowed(reason, field="filter", value=str(filter), allowed=text)
    return text


def limit(principal: Principal, kind: RegistrationKind, schema: Schema) -> str | None:
    """The filter, as text, that a principal has to stay within; None if there is no limit.

    A principal that may do nothing of the kind with the schema is refused.
    """
    if principal.role not in _ROLES[kind]:
        allowed = ", ".join(_ROLES[kind])
        reason = f"a {principal.role} may not {_VERBS[kind]}; that takes one of {allowed}"
        raise NotAllowed(reason, field="role", value=principal.role, allowed=allowed)
    if principal.role == "admin":
        return None
    within = principal.rights.publish if kind == "advertisement" else principal.rights.read
    text = _of_schema(within, schema.name)
    if text is None:
        allowed = ", ".join(within) or "nothing"
        reason = f"{principal.name} may {_VERBS[kind]} nothing of this schema; allowed: {allowed}"
        raise NotAllowed(reason, field="schema", value=schema.name, allowed=allowed)
    return text


def is_allowed(principal: Principal, kind: RegistrationKind, filter: Filter) -> bool:
    """Whether the principal may publish, or read, all that a filter matches. To compare filters may take long."""
    try:
        text = limit(principal, kind, filter.schema)
    except NotAllowed:
        return False
    return text is None or text.strip().lower() == "true" or parsed(filter.schema, text).covers(filter)


def still_allowed(before: Principal, after: Principal, registered: Registered) -> bool:
    """Whether a principal whose rights change may keep what it registered. To compare filters may take long."""
    schema = registered.entry.schema
    try:
        text = limit(after, registered.kind, schema)
        if text is None or text == limit(before, registered.kind, schema):
            return True
        return parsed(schema, text).covers(registered.filter)
    except PleromaError:  # it may do nothing of the kind, or the right is about an earlier schema of this name
        return False


def all_rights(parts: Iterable[Rights]) -> Rights:
    """What somebody may do who has all of these rights: whatever any of them allows."""
    given = list(parts)
    return given[0] if len(given) == 1 else Rights(*(_joined(side) for side in zip(*given, strict=True)))


def _joined(side: Iterable[Mapping[str, str]]) -> dict[str, str]:
    listed = list(side)
    names = dict.fromkeys(name for each in listed for name in each)
    return {name: either(text for each in listed if (text := _of_schema(each, name)) is not None) for name in names}


def either(texts: Iterable[str]) -> str:
    """One filter, as text, that matches whatever any of these matches."""
    distinct = list(dict.fromkeys(texts))
    if any(text.strip().lower() == "true" for text in distinct):
        return "true"
    return distinct[0] if len(distinct) == 1 else " or ".join(f"({text})" for text in distinct)


def _of_schema(within: Mapping[str, str], name: str) -> str | None:
    return within.get(name, within.get(EVERY_SCHEMA))


def check_withdrawal(principal: Principal, registered: Registered) -> None:
    """Refuse to withdraw what is another's, except to an admin."""
    if principal.role != "admin" and registered.principal != principal.name:
        reason = f"the {registered.kind} is another's; an admin may withdraw it"
        raise NotAllowed(reason, field="id", value=registered.id, allowed=f"what {principal.name} registered")


def check_principal(command: CreatePrincipal, schema: Callable[[str], Schema]) -> None:
    """Refuse a principal whose role, token or limits cannot be understood."""
    check_role(command.role)
    check_token(command.digest, command.ends)
    check_counts({"subscriptions": command.subscriptions, "boxes": command.boxes})
    check_rights(Rights(command.publish, command.read), schema)


def check_role(role: object) -> None:
    if role not in PRINCIPAL_ROLES:
        raise UnknownName("role", str(role), PRINCIPAL_ROLES, field="role")


def check_token(digest: object, *instants: object) -> None:
    """Refuse what is no verifier of a token, and what are no instants that tokens can end at."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ControlError("is the verifier of a token, in hex", field="digest")
    for ends in instants:
        is_instant = isinstance(ends, int | float) and not isinstance(ends, bool) and math.isfinite(ends)
        if ends is not None and not is_instant:
            raise ControlError("is an instant in seconds since 1970", field="ends", value=ends)


def check_counts(limits: Mapping[str, object]) -> None:
    """Refuse what cannot be limits of a principal, by name."""
    for field, limit in limits.items():
        if field not in PRINCIPAL_LIMITS:
            raise UnknownName("limit", field, PRINCIPAL_LIMITS, field="limits")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise ControlError(f"is a number from 0, not {limit!r}", field=field, value=limit)


def check_rights(rights: Rights, schema: Callable[[str], Schema]) -> None:
    for side in rights:
        for name, text in side.items():
            check_limits(name, text, schema)


def check_limits(name: str, text: str, schema: Callable[[str], Schema]) -> None:
    """Refuse a limit that cannot be understood: it is a schema, and a filter on it."""
    if not isinstance(text, str):
        raise FilterSyntax("a filter is text", field=name, value=text)
    if name != EVERY_SCHEMA:
        parsed(schema(name), text)
    elif text.strip().lower() != "true":
        raise FilterSyntax("for all schemas at once the filter can only be true", field=name, value=text)


@lru_cache(maxsize=4096)
def parsed(schema: Schema, text: str) -> Filter:
    """A limit as a filter. There are few, and each is asked for often.

    A log may hold limits that an earlier version needed fewer boxes for, and that was accepted then.
    """
    return Filter.parse(schema, text, WorkBudget(math.inf, 4 * MAX_BOXES))
