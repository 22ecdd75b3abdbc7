"""What a process does of the control plane."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pleroma.errors import SetupError


class ProcessRole(StrEnum):
    GATE = "gate"
    """Answers requests: rights, filters, regions. Any number of processes do at a time."""
    CONFIGURATOR = "configurator"
    """Computes the rules that follow from the log."""
    OWNER = "owner"
    """Tells the switches their rules."""
    MONITOR = "monitor"
    """Expires leases, and looks for better plans."""


LEADING_ROLES = frozenset({ProcessRole.CONFIGURATOR, ProcessRole.OWNER, ProcessRole.MONITOR})
"""One process at a time has these, and all of them: it leads."""
ALL_ROLES = frozenset(ProcessRole)


def read_roles(text: str) -> frozenset[ProcessRole]:
    """Roles with commas between them."""
    try:
        roles = frozenset(ProcessRole(each.strip()) for each in text.split(","))
    except ValueError:
        known = ", ".join(ProcessRole)
        raise SetupError(f"roles are {known}, with commas between them, not {text!r}", field="roles") from None
    return check_roles(roles)


def check_roles(roles: Iterable[ProcessRole]) -> frozenset[ProcessRole]:
    given = frozenset(roles)
    if given & LEADING_ROLES and not given >= LEADING_ROLES:
        raise SetupError("configurator, owner and monitor go together: one process has all three", field="roles")
    return given
