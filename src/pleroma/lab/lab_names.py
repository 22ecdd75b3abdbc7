"""What the parts of a lab are called in the kernel and in Open vSwitch.

All parts of a lab can be found by the lab's name alone. Switches and hosts may have any names in a topology; short and
plain names are kept here, others are replaced by numbers.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pleroma.errors import SetupError, shown

if TYPE_CHECKING:
    from pleroma.routing import Port, SwitchId, Topology

MARK = "PLEROMA_LAB"
"""The variable in the environment of a lab's processes; its value is the lab's name."""

_LAB = re.compile(r"[A-Za-z0-9_]{1,24}", re.ASCII)
_BRIDGE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,7}", re.ASCII)  # an interface's name has 15 characters, see `port`
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,40}", re.ASCII)
_NOT_BRIDGES = {"lo", "all", "default"}  # taken, in a network namespace and among its settings
_NOT_HOSTS = {"net"}


def random_lab() -> str:
    return secrets.token_hex(4)


def check_lab(name: str) -> str:
    if not _LAB.fullmatch(name):
        reason = f"a lab is called by 1 to 24 letters, digits or underscores, not {shown(name)}"
        raise SetupError(reason, field="lab", value=name)
    return name


def prefix(lab: str) -> str:
    """The prefix of the names of a lab's namespaces, and of no other lab's."""
    return f"pl-{lab}-"


@dataclass(frozen=True, slots=True)
class LabNames:
    """`net` is the namespace of the switches, `hosts` those of the hosts; a bridge has the same name inside `net`."""

    net: str
    hosts: Mapping[str, str]
    bridges: Mapping[str, str]

    @classmethod
    def of(cls, lab: str, topology: Topology) -> LabNames:
        hosts = _assign((h.name for h in topology.hosts), _HOST, _NOT_HOSTS, "host")
        return cls(
            net=prefix(lab) + "net",
            hosts={host: prefix(lab) + short for host, short in hosts.items()},
            bridges=_assign(topology.switches, _BRIDGE, _NOT_BRIDGES, "s"),
        )

    def port(self, switch: SwitchId, port: Port) -> str:
        """The interface behind a port; no bridge has a dash in its name."""
        return f"{self.bridges[switch]}-p{port}"


def _assign(names: Iterable[str], plain: re.Pattern[str], taken: Iterable[str], other: str) -> dict[str, str]:
    """A short name for each, its own where it is plain and free."""
    names = list(names)
    reserved = set(taken)
    kept = {name for name in names if plain.fullmatch(name) and name not in reserved}
    used, given = set(kept) | reserved, {}
    for number, name in enumerate(names, 1):
        short = name
        if name not in kept:
            short = f"{other}{number}"
            while short in used:
                short += "_"
            used.add(short)
        given[name] = short
    return given
