"""Names that people and programs choose: text for one line."""

from __future__ import annotations

from pleroma.errors import ControlError

MAX_NAME_CHARACTERS = 200
MAX_LEASE_CHARACTERS = 64


def check_name(name: object) -> None:
    """Of a schema or a principal."""
    _check("name", name, MAX_NAME_CHARACTERS)


def check_lease(name: object) -> None:
    _check("lease", name, MAX_LEASE_CHARACTERS)


def _check(field: str, name: object, most: int) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= most or not name.isprintable():
        raise ControlError(f"a {field} has 1 to {most} printable characters", field=field, value=name)
