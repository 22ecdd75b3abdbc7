"""The commands about people: principals, their tokens, and groups of rights.

Time is in the commands and nowhere in the fold: whoever makes a command says at which instant a token ends, and another
command (`EndToken`) says that the instant has come. Instants are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pleroma.wire.token_proof import verifier_of

Role = Literal["admin", "publisher", "subscriber", "both", "tuner"]
PRINCIPAL_ROLES: tuple[Role, ...] = get_args(Role)
PRINCIPAL_LIMITS = ("subscriptions", "boxes")
"""What a principal may have only so many of."""


@dataclass(frozen=True, slots=True)
class CreatePrincipal:
    """`digest` is the token's verifier in hex (`wire.token_proof`). `publish` and `read` give, by schema, the filter to
    stay within; the principal may also do what its `groups` may. Its token `ends` at an instant, or never.

    A schema that is not listed is not allowed, except to an admin; `"*": "true"` allows everything of every schema that
    is not listed by name.
    """

    name: str
    role: Role
    digest: str
    publish: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)
    subscriptions: int | None = None
    boxes: int | None = None
    """How many boxes the filters of all its registrations may have together."""
    groups: tuple[str, ...] = ()
    ends: float | None = None

    def to_json(self) -> dict[str, Any]:
        data = {
            "do": "create_principal",
            "name": self.name,
            "role": self.role,
            "verifier": self.digest,
            "publish": dict(self.publish),
            "read": dict(self.read),
            "subscriptions": self.subscriptions,
        }
        return data | _given(boxes=self.boxes, groups=list(self.groups) or None, ends=self.ends)


@dataclass(frozen=True, slots=True)
class ChangePrincipal:
    """Change what is given of a principal, and withdraw what it registered and may no longer have registered.

    `publish` and `read` give, by schema, another filter to stay within, or None to take the right away. `limits` gives
    other limits by name, None for none, and `groups`, by name, whether the principal belongs to a group.
    """

    name: str
    role: Role | None = None
    publish: Mapping[str, str | None] = field(default_factory=dict)
    read: Mapping[str, str | None] = field(default_factory=dict)
    limits: Mapping[str, int | None] = field(default_factory=dict)
    groups: Mapping[str, bool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        changes = {"publish": self.publish, "read": self.read, "limits": self.limits, "groups": self.groups}
        given = {name: dict(change) for name, change in changes.items() if change}
        return {"do": "change_principal", "name": self.name} | given | _given(role=self.role)


@dataclass(frozen=True, slots=True)
class RotateToken:
    """Give a principal another token, which `ends` at an instant or never.

    The token before ends at the instant `earlier_ends`, or now; one that was still good from before that ends now. If
    the token may be in wrong hands, `withdraw` withdraws all that was registered with it.
    """

    name: str
    digest: str
    ends: float | None = None
    earlier_ends: float | None = None
    withdraw: bool = False

    def to_json(self) -> dict[str, Any]:
        data = {"do": "rotate_token", "name": self.name, "verifier": self.digest}
        return data | _given(ends=self.ends, earlier_ends=self.earlier_ends, withdraw=self.withdraw or None)


@dataclass(frozen=True, slots=True)
class EndToken:
    """The instant has come at which a token ends. If it was the last one of its principal, all that is registered is
    withdrawn. From now on the token is over, whatever a clock says later.
    """

    name: str
    digest: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "end_token", "name": self.name, "verifier": self.digest}


@dataclass(frozen=True, slots=True)
class RemovePrincipal:
    """Remove a principal, and withdraw whatever it registered."""

    name: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "remove_principal", "name": self.name}


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Name a set of rights that any number of principals can have. `publish` and `read` are as in `CreatePrincipal`."""

    name: str
    publish: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"do": "create_group", "name": self.name, "publish": dict(self.publish), "read": dict(self.read)}


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Change rights of a group as `ChangePrincipal` does, for all its members at once."""

    name: str
    publish: Mapping[str, str | None] = field(default_factory=dict)
    read: Mapping[str, str | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"do": "change_group", "name": self.name, "publish": dict(self.publish), "read": dict(self.read)}


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    """Remove a group: its members lose the rights that they had from it."""

    name: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "remove_group", "name": self.name}


PeopleCommand = (
    CreatePrincipal
    | ChangePrincipal
    | RotateToken
    | EndToken
    | RemovePrincipal
    | CreateGroup
    | ChangeGroup
    | RemoveGroup
)

PEOPLE_READERS: Mapping[str, Callable[[Mapping[str, Any]], PeopleCommand]] = {
    "create_principal": lambda data: CreatePrincipal(
        data["name"],
        data["role"],
        verifier_in(data),
        data["publish"],
        data["read"],
        data["subscriptions"],
        data.get("boxes"),
        tuple(data.get("groups", ())),
        data.get("ends"),
    ),
    "change_principal": lambda data: ChangePrincipal(
        data["name"], data.get("role"), *(data.get(name, {}) for name in ("publish", "read", "limits", "groups"))
    ),
    "rotate_token": lambda data: RotateToken(
        data["name"], data["verifier"], data.get("ends"), data.get("earlier_ends"), data.get("withdraw", False)
    ),
    "end_token": lambda data: EndToken(data["name"], data["verifier"]),
    "remove_principal": lambda data: RemovePrincipal(data["name"]),
    "create_group": lambda data: CreateGroup(data["name"], data["publish"], data["read"]),
    "change_group": lambda data: ChangeGroup(data["name"], data["publish"], data["read"]),
    "remove_group": lambda data: RemoveGroup(data["name"]),
}


def verifier_in(data: Mapping[str, Any]) -> str:
    """The verifier of a principal. Logs of earlier versions have the client's key itself, as `digest`."""
    return data["verifier"] if "verifier" in data else verifier_of(bytes.fromhex(data["digest"])).hex()


def _given(**values: Any) -> dict[str, Any]:
    """Those of the values that are not None. What is not given is not written: earlier versions did not know it."""
    return {name: value for name, value in values.items() if value is not None}
