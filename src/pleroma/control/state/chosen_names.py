"""Names that people and programs choose: one line of printable text."""

from __future__ import annotations

from pleroma.errors import ControlError

MAX_NAME_CHARACTERS = 200
MAX_LEASE_CHARACTERS = 64


def check_name(name: object) -> None:
    """Refuse what cannot be the name of a schema, a principal, a host or a switch."""
    _check("name", name, MAX_NAME_CHARACTERS)


def check_lease(name: object) -> None:
    """Refuse what cannot be the name of a lease."""
    _check("lease", name, MAX_LEASE_CHARACTERS)


def _check(field: str, name: object, max_characters: int) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= max_characters or not name.isprintable():
        raise ControlError(f"a {field} has 1 to {max_characters} printable characters", field=field, value=name)
