"""What many hosts ask for, and how many rules a switch needs that has these hosts behind its ports.

A port demands the union of what the hosts behind it ask for. A switch has a rule for each distinct dz of its ports'
demands, except for dz that longer ones fill: no event would ever follow such a rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pleroma.arrays.types import Ints, Marks
from pleroma.evaluation.placement import NOWHERE_PORT
from pleroma.index.codes import Codes
from pleroma.index.dz_rows import DzRows, events_in, gathered, members, unfilled, union


class SharedDz:
    """`hosts[i]` has the members of what host i asks for; None where that is not known in full."""

    def __init__(self, hosts: Sequence[DzRows | None]) -> None:
        self.hosts = hosts
        self._demands: dict[tuple[int, ...], DzRows] = {}
        self._rules: dict[frozenset[tuple[int, ...]], int] = {}

    @classmethod
    def of(cls, rows: DzRows, host: Ints, known: Sequence[bool] | Marks | None = None) -> SharedDz:
        """Row i is asked for by `host[i]`. Of hosts that are not `known`, if that is given, rows are missing."""
        ends = np.cumsum(np.bincount(host, minlength=0 if known is None else len(known)))
        parts = np.split(rows[np.argsort(host, kind="stable")], ends[:-1])
        return cls([members(part) if known is None or known[i] else None for i, part in enumerate(parts)])

    def deliveries(self, codes: Codes) -> int:
        """How many deliveries the events make: one to every host that asks for a dz with the event in it."""
        known = [host for host in self.hosts if host is not None]
        return int(events_in(codes, np.concatenate(known)).sum()) if known else 0

    def rules(self, ports: Ints) -> int:
        """How many rules a switch needs that has host i behind port `ports[i]`; a lower bound if hosts are unknown."""
        behind: dict[int, list[int]] = {}
        for host, port in enumerate(ports.tolist()[: len(self.hosts)]):
            if port != NOWHERE_PORT:
                behind.setdefault(port, []).append(host)
        parted = frozenset(tuple(hosts) for hosts in behind.values())
        if parted not in self._rules:  # many switches part the hosts in the same way
            demands = [self._demand(hosts) for hosts in parted if all(self.hosts[i] is not None for i in hosts)]
            self._rules[parted] = unfilled(gathered(demands)) if demands else 0
        return self._rules[parted]

    def _demand(self, hosts: tuple[int, ...]) -> DzRows:
        if hosts not in self._demands:
            self._demands[hosts] = union([each for i in hosts if (each := self.hosts[i]) is not None])
        return self._demands[hosts]
