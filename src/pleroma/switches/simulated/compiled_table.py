"""A flow table laid out for arrays: disjoint intervals of left-aligned codes, found by binary search.

A prefix is an interval and prefixes nest, so the first match of every possible event is one list of interval starts,
each with its rule. Rules that do the same share a group: their outputs are kept once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pleroma.arrays.types import Ints, Words
from pleroma.errors import RoutingError
from pleroma.index.codes import WORD_BITS, Codes
from pleroma.index.dz import MAX_LENGTH
from pleroma.routing.flow import Flow, Output
from pleroma.routing.topology import Port
from pleroma.switches.simulated import table_kernels
from pleroma.switches.simulated.simulated_table import check_outputs

MISS = 0
"""The group of what no rule matches."""


@dataclass(frozen=True, slots=True)
class CompiledTable:
    """Interval i begins at (`high[i]`, `low[i]`) and ends where the next begins.

    `rule[i]` is a position in `flows`, -1 where no rule matches; `group[i]` a position in `groups`. Codes of at most 64
    bits have no low word. Rules longer than the events' dz match none of them.
    """

    bits: int
    flows: tuple[Flow, ...]
    groups: tuple[tuple[Output, ...], ...]
    high: Words
    low: Words
    rule: Ints
    group: Ints

    @classmethod
    def of(cls, flows: Iterable[Flow], bits: int) -> CompiledTable:
        """For events of `bits` bits. Of two rules for one dz the later counts."""
        if not 0 <= bits <= MAX_LENGTH:
            raise RoutingError(f"an event has 0 to {MAX_LENGTH} bits, not {bits}", field="bits", value=bits)
        listed = tuple(flows)
        groups: dict[tuple[Output, ...], int] = {}
        group = np.array([groups.setdefault(flow.outputs, len(groups) + 1) for flow in listed], np.int64)  # 0: the miss
        for _, first in zip(*np.unique(group, return_index=True), strict=True):
            check_outputs(listed[first])
        names = np.frombuffer(b"".join([flow.dz.to_bytes(16) for flow in listed]), ">u8").reshape(-1, 2)
        high, low = names.T.astype(np.uint64)
        length = table_kernels.align(high, low)
        possible = np.flatnonzero(length <= bits)
        order = possible[np.lexsort((length[possible], low[possible], high[possible]))]
        high, low, length = high[order], low[order], length[order]
        starts_high, starts_low = np.empty((2, 2 * len(order) + 1), np.uint64)
        owner = np.empty(2 * len(order) + 1, np.int64)
        last_high, last_low = high | _ones(WORD_BITS - length), low | _ones(2 * WORD_BITS - length)
        count = table_kernels.sweep(high, low, last_high, last_low, starts_high, starts_low, owner)
        rule = np.append(order, -1)[owner[:count]]
        return cls(
            bits=bits,
            flows=listed,
            groups=((), *groups),
            high=starts_high[:count].copy(),
            low=starts_low[: count if bits > WORD_BITS else 0].copy(),
            rule=rule,
            group=np.append(group, MISS)[rule],
        )

    def __len__(self) -> int:
        """How many intervals there are."""
        return len(self.rule)

    def by_port(self) -> dict[Port, dict[int, str | None]]:
        """For each port that some rule sends to, the groups that do, and what they rewrite the destination to."""
        found: dict[Port, dict[int, str | None]] = {}
        for number, outputs in enumerate(self.groups):
            for port, rewrite in outputs:
                found.setdefault(port, {})[number] = rewrite
        return dict(sorted(found.items()))

    def find(self, high: Words, low: Words | None = None) -> Ints:
        """The interval of each code, given by its words; `rule` and `group` tell the rest."""
        if self.bits <= WORD_BITS:
            return np.searchsorted(self.high, high, side="right").astype(np.int64, copy=False) - 1
        if low is None:
            raise RoutingError(f"codes of {self.bits} bits have two words", field="codes")
        found = np.empty(len(high), np.int64)
        table_kernels.find(self.high, self.low, high, low, found)
        return found

    def match(self, codes: Codes) -> Ints:
        """The position of each event's rule in `flows`, -1 where there is none."""
        if codes.bits != self.bits:
            raise RoutingError(f"the table is for {self.bits} bits, the events have {codes.bits}", field="codes")
        return self.rule[self.find(*words_of(codes))]


def words_of(codes: Codes) -> tuple[Words] | tuple[Words, Words]:
    """The words as arrays of their own."""
    high = np.ascontiguousarray(codes.words[:, 0])
    return (high,) if codes.bits <= WORD_BITS else (high, np.ascontiguousarray(codes.words[:, 1]))


def _ones(count: Ints) -> Words:
    """Words with as many ones at the end, none or all 64 for counts beyond."""
    shift = np.clip(WORD_BITS - count, 0, WORD_BITS - 1).astype(np.uint64)
    return np.where(count > 0, ~np.uint64(0) >> shift, np.uint64(0))
