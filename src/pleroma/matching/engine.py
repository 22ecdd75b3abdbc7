"""Matching with subscriptions that come and go: parts of growing size that are never changed, and a few newcomers.

An event is compared with newcomers one by one. Once they are enough, newcomers become a part; a part that is not much
smaller than the one before it is joined with it. So each subscription is moved a few times in all, and an event is
looked up in a few parts. A subscription that left is marked, and dropped when its part is next joined. Readers take one
reference, the engine's view, and need no lock; writers wait for one another only.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Ints
from pleroma.errors import MatchingError
from pleroma.matching.choice import AUTOMATIC, choose
from pleroma.matching.constraint_table import Assignments, Constraint, ConstraintTable, Occurrences
from pleroma.matching.engine_part import EnginePart
from pleroma.matching.matcher import MatcherStatistics, Matches, Miss
from pleroma.matching.newcomers import Newcomers
from pleroma.matching.structure import MatchedRows
from pleroma.matching.tama.tama import Tama

MAX_NEWCOMERS = 1024
"""So many newcomers become a part."""
MIN_SIZE_RATIO = 4
"""A part less than so many times as large as all smaller ones together is joined with them."""
PIECES_PER_THREAD = 4
"""A batch is cut into so many pieces for each thread, so that no thread waits long for another."""


class EngineView(NamedTuple):
    """What readers see: the parts, the largest first, and the newcomers that are in none of them."""

    parts: tuple[EnginePart, ...]
    newcomers: Newcomers


class Engine:
    """A `Matcher`; `structure` is one of `choice.STRUCTURES`, or `auto` for what suits each part."""

    def __init__(self, structure: str = AUTOMATIC, young: int = MAX_NEWCOMERS) -> None:
        choose(ConstraintTable.from_rows([]), structure)
        self._structure = structure
        self._young = young
        self._lock = threading.Lock()
        self._view = EngineView((), Newcomers(young))
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, subscription: int) -> bool:
        parts, newcomers = self._view
        return subscription in newcomers.places or any(part.place(subscription) is not None for part in parts)

    def add(self, subscription: int, constraints: Sequence[Constraint], interface: int = 0) -> None:
        with self._lock:
            if subscription in self:
                raise MatchingError("there is one with this number", field="subscription", value=subscription)
            newcomers = self._view.newcomers
            newcomers.add(subscription, constraints, interface)
            self._size += 1
            if len(newcomers) == newcomers.room:
                self._join(newcomers.table())

    def add_all(self, table: ConstraintTable) -> None:
        """Add all subscriptions of a table at once."""
        with self._lock:
            parts, newcomers = self._view
            if len(np.unique(table.ids)) < len(table):
                raise MatchingError("a number is given twice", field="ids")
            taken = [each for part in parts if len(part) for each in part.known(table.ids)]
            taken += [each for each in table.ids.tolist() if each in newcomers.places]
            if taken:
                raise MatchingError("there is one with this number", field="subscription", value=int(taken[0]))
            self._join(ConstraintTable.joined([newcomers.table(), table]))
            self._size += len(table)

    def remove(self, subscription: int) -> None:
        with self._lock:
            self._remove(subscription)

    def remove_content(self, constraints: Sequence[Constraint], interface: int = 0) -> int:
        """Remove one subscription with exactly these constraints from this interface; returns its number.

        It is searched for among the subscriptions that an event at all lower bounds matches. Constraints that
        contradict each other match no event; then all subscriptions are compared.
        """
        wanted = sorted(constraints)
        corner: dict[int, float] = {}
        for attribute, low, _ in wanted:
            corner[attribute] = max(low, corner.get(attribute, low))
        hopeless = any(corner[attribute] >= high for attribute, _, high in wanted)
        with self._lock:
            parts, newcomers = self._view
            events = Occurrences.from_events([corner])
            places: list[EnginePart | Newcomers] = [*parts, newcomers]
            for part in places:
                table, rows = part.live() if hopeless else part.found(events)
                for row in rows[table.interfaces[rows] == interface].tolist():
                    if sorted(table.row(row)) == wanted:
                        subscription = int(table.ids[row])
                        self._remove(subscription)
                        return subscription
        raise MatchingError("nothing like this from this interface", field="constraints", value=wanted)

    def _remove(self, subscription: int) -> None:
        parts, newcomers = self._view
        if not newcomers.remove(subscription):
            for part in parts:
                row = part.place(subscription)
                if row is not None:
                    part.remove(row)
                    if part.removed > len(part):
                        kept = tuple(each for each in parts if each is not part)
                        rest = ConstraintTable.joined([part.table(), newcomers.table()])
                        self._view = self._joined(kept, rest)
                    break
            else:
                raise MatchingError("there is none with this number", field="subscription", value=subscription)
        self._size -= 1

    def _join(self, table: ConstraintTable) -> None:
        self._view = self._joined(self._view.parts, table)

    def _joined(self, parts: tuple[EnginePart, ...], table: ConstraintTable) -> EngineView:
        """The view of these parts and a table, which is joined with the smallest parts where they are small enough."""
        joined, size = [table], len(table)
        while parts and len(parts[-1]) < MIN_SIZE_RATIO * size:
            size += len(parts[-1])
            joined.append(parts[-1].table())
            parts = parts[:-1]
        if size:
            parts += (EnginePart.of(ConstraintTable.joined(joined) if len(joined) > 1 else table, self._structure),)
        ordered = tuple(sorted(parts, key=len, reverse=True))
        return EngineView(ordered, Newcomers(self._young))

    def match(self, event: Assignments) -> Ints:
        return self.match_one(Occurrences.from_events([event]))

    def match_one(self, events: Occurrences) -> Ints:
        """The ids that want the first of these events."""
        return self._search(self._view, events, 0, 1).ids

    def match_batch(self, events: Occurrences, threads: int = 1) -> Matches:
        view = self._view
        if threads <= 1 or len(events) < 2:
            return self._search(view, events, 0, len(events))
        edges = np.linspace(0, len(events), min(PIECES_PER_THREAD * threads, len(events)) + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            pieces = list(pool.map(lambda a, b: self._search(view, events, a, b), edges, edges[1:]))
        starts = np.cumsum([0, *(len(piece.ids) for piece in pieces)])
        ends = [piece.ends + start for piece, start in zip(pieces, starts, strict=False)]
        return Matches(np.concatenate([piece.ids for piece in pieces]), np.concatenate(ends))

    def _search(self, view: EngineView, events: Occurrences, begin: int, end: int) -> Matches:
        found: list[tuple[Ints, MatchedRows]] = []
        for part in view.parts:
            rows = part.structure.search(events, begin, end, part.dead)
            found.append((part.structure.table.ids, rows))
        if len(view.newcomers):
            table, rows = view.newcomers.search(events, begin, end)
            found.append((table.ids, rows))
        if len(found) == 1:
            ids, rows = found[0]
            return Matches(ids[rows.rows], rows.ends)
        if not found:
            return Matches(np.empty(0, np.int64), np.zeros(end - begin, np.int64))
        ids_found = np.concatenate([ids[rows.rows] for ids, rows in found])
        ends = np.sum([rows.ends for _, rows in found], axis=0)
        if end - begin > 1:
            numbers = np.arange(end - begin)
            events_found = [np.repeat(numbers, np.diff(rows.ends, prepend=0)) for _, rows in found]
            ids_found = ids_found[np.argsort(np.concatenate(events_found), kind="stable")]
        return Matches(ids_found, ends)

    def match_interfaces(self, event: Assignments) -> list[int]:
        """The interfaces with at least one subscription that wants the event."""
        events = Occurrences.from_events([event])
        found: set[int] = set()
        parts, newcomers = self._view
        for part in parts:
            structure = part.structure
            if isinstance(structure, Tama):
                known = int(structure.table.interfaces.max(initial=0)) + 1
                found.update(np.flatnonzero(structure.search_interfaces(events, 0, part.dead, known)).tolist())
            else:
                rows = structure.search(events, 0, 1, part.dead).rows
                found.update(np.unique(structure.table.interfaces[rows]).tolist())
        if len(newcomers):
            table, rows_found = newcomers.search(events, 0, 1)
            found.update(table.interfaces[rows_found.rows].tolist())
        return sorted(found)

    def constraints(self, subscription: int) -> tuple[Constraint, ...]:
        parts, newcomers = self._view
        row = newcomers.places.get(subscription)
        if row is not None:
            return newcomers.row(row)
        for part in parts:
            row = part.place(subscription)
            if row is not None:
                return part.structure.table.row(row)
        raise MatchingError("there is none with this number", field="subscription", value=subscription)

    def explain(self, subscription: int, event: Assignments) -> list[Miss]:
        misses = []
        for constraint in self.constraints(subscription):
            value = event.get(constraint.attribute)
            if value is None or not constraint.low <= value < constraint.high:
                misses.append(Miss(constraint, value))
        return misses

    def statistics(self) -> MatcherStatistics:
        parts, newcomers = self._view
        told = tuple(part.statistics() for part in parts)
        constraints = sum(part.constraints for part in parts) + newcomers.table().constraints
        memory = sum(each.memory for each in told) + newcomers.nbytes
        return MatcherStatistics(len(self), constraints, memory, len(newcomers.places), told)
