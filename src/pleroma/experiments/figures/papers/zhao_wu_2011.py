"""TAMA's own evaluation (Zhao and Wu 2011, V): matching time, false positives, insertion, deletion and memory.

Times are of the processor, not of the clock. Siena, with which the paper compares, looks at every subscription; here
that is the compiled scan. False positives are TAMA's approximate answers against its exact ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pleroma.arrays.types import Marks
from pleroma.experiments.report import FigureReport, Verdict
from pleroma.matching.choice import STRUCTURES
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.engine import Engine
from pleroma.matching.structure import Structure
from pleroma.matching.tama.discretization import LevelCell, Separation, discretize
from pleroma.matching.tama.encoding import decode_cells, encode_cells
from pleroma.matching.tama.tama import Tama

Lines = Mapping[str, Mapping[int, float]]
Claims = Mapping[str, Callable[[Lines], bool]]
Advance = Callable[[float], None]

ATTRIBUTES, ATTRIBUTES_PER_EVENT, CONSTRAINTS = 1_000, 100, 10
RATE_ATTRIBUTES = 10
"""Fewer attributes than the paper's, and fewer levels, so that there are enough false positives to count."""
TAMA_TIMED_RUNS = 5
INTERFACES = 10


@dataclass(frozen=True, slots=True)
class TamaFigure:
    figure: str
    title: str
    x: str
    y: str
    measure: Callable[[bool, Advance], Lines]
    claims: Claims

    def run(self, quick: bool, advance: Advance) -> FigureReport:
        lines = self.measure(quick, advance)
        places = list(next(iter(lines.values())))
        return FigureReport(
            self.figure,
            self.title,
            (self.y, *(f"{x:,}" for x in places)),
            [(label, *(f"{value:.3g}" for value in line.values())) for label, line in lines.items()],
            lines,
            self.x,
            [Verdict(claim, holds(lines)) for claim, holds in self.claims.items()],
            y=self.y,
        )


def subscriptions(
    rows: int, width: float, constraints: int = CONSTRAINTS, attributes: int = ATTRIBUTES, interfaces: int = 1
) -> ConstraintTable:
    random = np.random.default_rng(rows + constraints)
    chosen = np.empty((rows, constraints), np.int32)
    for start in range(0, rows, 20_000):
        lots = random.random((min(rows - start, 20_000), attributes), np.float32)
        chosen[start : start + len(lots)] = np.argsort(lots, axis=1)[:, :constraints]
    low = random.uniform(0, 1 - width, rows * constraints)
    first = np.arange(rows + 1) * constraints
    return ConstraintTable.of(np.arange(rows), first, chosen.ravel(), low, low + width, np.arange(rows) % interfaces)


def occurrences(events: int, per_event: int = ATTRIBUTES_PER_EVENT, attributes: int = ATTRIBUTES) -> Occurrences:
    random = np.random.default_rng(events)
    chosen = np.stack([random.permutation(attributes)[:per_event] for _ in range(events)])
    return Occurrences.of(np.arange(events + 1) * per_event, chosen.ravel(), random.random(chosen.size))


def _seconds(work: Callable[[], object]) -> float:
    """The least of a few runs."""
    times = []
    for _ in range(TAMA_TIMED_RUNS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def _found(structure: Structure, events: Occurrences) -> int:
    return len(structure.search(events, 0, len(events), np.zeros(len(structure.table), np.bool_)).rows)


def _matching_time(quick: bool, advance: Advance) -> Lines:
    sizes = (200, 2_000, 20_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    lines: dict[str, dict[int, float]] = {"TAMA, exact": {}, "each subscription": {}, "chosen by the engine": {}}
    for size in sizes:
        table, events = subscriptions(size, 0.01), occurrences(20 if quick else 50)
        place = 2 * table.constraints
        for label, name in zip(lines, ("tama", "scan", "pivots"), strict=True):
            structure = STRUCTURES[name].build(table)
            _found(structure, events)
            lines[label][place] = 1000 * _seconds(lambda s=structure, e=events: _found(s, e)) / len(events)  # type: ignore[misc]
        advance(1 / len(sizes))
    return lines


def _interface_time(quick: bool, advance: Advance) -> Lines:
    """Few constraints for the wide ones, or hardly any would match."""
    rows = 4_000 if quick else 20_000
    events = occurrences(30 if quick else 100)
    lines: dict[str, dict[int, float]] = {}
    for width, constraints in ((0.01, CONSTRAINTS), (0.5, 1)):
        line = lines.setdefault(f"width {width}", {})
        for interfaces in (10, 100, 1_000, rows):
            structure = Tama.build(subscriptions(rows, width, constraints, interfaces=interfaces))
            dead = np.zeros(rows, np.bool_)

            def ask(structure: Tama = structure, interfaces: int = interfaces, dead: Marks = dead) -> None:
                for event in range(len(events)):
                    structure.search_interfaces(events, event, dead, interfaces)

            ask()
            line[rows // interfaces] = 1000 * _seconds(ask) / len(events)
            advance(1 / 8)
    return lines


def _rates(quick: bool, advance: Advance, of_interfaces: bool) -> Lines:
    rows, count, level, widths = (2_000, 600, 8, (10, 20, 40)) if quick else (20_000, 5_000, 12, (2, 5, 10))
    events = occurrences(count, RATE_ATTRIBUTES, RATE_ATTRIBUTES)
    lines: dict[str, dict[int, float]] = {}
    for constraints in (1, 2, 3):
        line = lines.setdefault(f"{constraints} constraints", {})
        for percent in widths:
            table = subscriptions(rows, percent / 100, constraints, RATE_ATTRIBUTES, INTERFACES)
            exact, approximate = (Tama.build(table, level, exact=each) for each in (True, False))
            if of_interfaces:
                true, told = (_interfaces_found(each, events) for each in (exact, approximate))
            else:
                true, told = (_found(each, events) for each in (exact, approximate))
            line[percent] = 1 - true / told if told else 0.0
            advance(1 / 9)
    return lines


def _interfaces_found(structure: Tama, events: Occurrences) -> int:
    dead = np.zeros(len(structure.table), np.bool_)
    return sum(int(structure.search_interfaces(events, event, dead, INTERFACES).sum()) for event in range(len(events)))


def _insertion_time(quick: bool, advance: Advance) -> Lines:
    """Into a table of dictionaries, from ranges, from cells, and from cells sent as bits; skewed values."""
    sizes = (100, 400) if quick else (1_000, 2_000, 4_000)
    level = 16
    values = np.random.default_rng(1).pareto(2.0, 40_000)
    separation = Separation.fitted(values.tolist())
    lines: dict[str, dict[int, float]] = {"direct": {}, "cached": {}, "coded": {}}
    for size in sizes:
        lows = np.random.default_rng(size).permutation(values)[: size * CONSTRAINTS].tolist()
        ranges = [(low, low * 1.01 + 0.001) for low in lows]

        def cells(low: float, high: float) -> list[LevelCell]:
            return discretize(separation.cell(low, level), separation.cell(high, level), level)

        known = [cells(*each) for each in ranges]
        sent = [encode_cells(each, level) for each in known]
        ways: dict[str, Callable[[int], list[LevelCell]]] = {
            "direct": lambda i, ranges=ranges, cells=cells: cells(*ranges[i]),  # type: ignore[misc]
            "cached": lambda i, known=known: known[i],  # type: ignore[misc]
            "coded": lambda i, sent=sent: decode_cells(sent[i]),  # type: ignore[misc]
        }
        for label, way in ways.items():
            lines[label][2 * size * CONSTRAINTS] = _seconds(lambda way=way, size=size: _insert(way, size))  # type: ignore[misc]
        advance(1 / len(sizes))
    return lines


def _insert(way: Callable[[int], list[LevelCell]], size: int) -> None:
    table: dict[tuple[int, LevelCell], list[int]] = {}
    for i in range(size * CONSTRAINTS):
        for cell in way(i):
            table.setdefault((i % ATTRIBUTES, cell), []).append(i // CONSTRAINTS)


def _deletion_time(quick: bool, advance: Advance) -> Lines:
    sizes = (500, 2_000) if quick else (2_000, 10_000, 50_000)
    line: dict[int, float] = {}
    for size in sizes:
        engine = Engine("tama")
        engine.add_all(subscriptions(size, 0.01))
        start = time.process_time()
        for number in range(size):
            engine.remove(number)
        line[2 * size * CONSTRAINTS] = time.process_time() - start
        advance(1 / len(sizes))
    return {"deleted by number": line}


def _memory(quick: bool, advance: Advance) -> Lines:
    """As the paper counts: four bytes for every subscription's number in a cell, and four for every cell."""
    sizes = (500, 1_000, 2_000) if quick else (5_000, 10_000, 20_000)
    lines: dict[str, dict[int, float]] = {"raw": {}}
    for width in (0.01, 0.1):
        line = lines.setdefault(f"width {width}", {})
        alone = lines.setdefault(f"width {width}, subscriptions alone", {})
        for size in sizes:
            table = subscriptions(size, width)
            structure = Tama.build(table, 20)
            lines["raw"][2 * table.constraints] = 16 * table.constraints / 1e6
            line[2 * table.constraints] = structure.id_bytes / 1e6
            alone[2 * table.constraints] = 4 * len(structure.counting.entries) / 1e6
            advance(1 / 2 / len(sizes))
    return lines


def _last(line: Mapping[int, float]) -> float:
    return list(line.values())[-1]


def _first(line: Mapping[int, float]) -> float:
    return next(iter(line.values()))


def _saved(line: Mapping[int, float]) -> float:
    """The part of the time without interfaces that is saved where they are few."""
    return 1 - _first(line) / _last(line)


def _proportional(line: Mapping[int, float], most: float = 3.0) -> bool:
    """Per constraint no more than `most` times as much at the end as at the beginning, or the other way round."""
    (x, y), *_, (u, v) = line.items()
    return 1 / most < (v / u) / (y / x) < most


def _rises(lines: Lines) -> bool:
    """Three narrow constraints match too seldom to count what they match falsely."""
    one, two, three = (lines[f"{n} constraints"] for n in (1, 2, 3))
    return all(one[x] < two[x] for x in one) and _last(two) < _last(three)


TAMA_FIGURES = (
    TamaFigure(
        "tama-fig6",
        "TAMA, figure 6: matching time per message, every match returned",
        "primitive constraints",
        "milliseconds",
        _matching_time,
        {
            "TAMA leaves a look at every subscription behind as there are more of them": lambda lines: (
                _last(lines["each subscription"]) > 3 * _last(lines["TAMA, exact"])
                and _last(lines["each subscription"]) / _first(lines["each subscription"])
                > _last(lines["TAMA, exact"]) / _first(lines["TAMA, exact"])
            ),
        },
    ),
    TamaFigure(
        "tama-fig7",
        "TAMA, figure 7: interface matching time with dynamic matching",
        "subscriptions an interface",
        "milliseconds",
        _interface_time,
        {
            "with wide constraints, more subscriptions an interface save time, and more than with narrow ones": (
                lambda lines: _saved(lines["width 0.5"]) > max(0.3, _saved(lines["width 0.01"]))
            ),
        },
    ),
    TamaFigure(
        "tama-fig8",
        "TAMA, figure 8: false positives of subscription matching",
        "width of a constraint, percent",
        "false-positive rate",
        lambda quick, advance: _rates(quick, advance, of_interfaces=False),
        {
            "wider constraints have fewer": lambda lines: all(_last(line) < _first(line) for line in lines.values()),
            "more constraints have more": _rises,
        },
    ),
    TamaFigure(
        "tama-fig9",
        "TAMA, figure 9: false positives of interface matching",
        "width of a constraint, percent",
        "false-positive rate",
        lambda quick, advance: _rates(quick, advance, of_interfaces=True),
        {
            "where many subscriptions match, hardly an interface is matched falsely": lambda lines: (
                _last(lines["1 constraints"]) < 1e-4
            ),
        },
    ),
    TamaFigure(
        "tama-fig10",
        "TAMA, figure 10: insertion time, skewed values",
        "primitive constraints",
        "seconds",
        _insertion_time,
        {
            "insertion time grows in proportion": lambda lines: all(map(_proportional, lines.values())),
            "cached cells are inserted fastest": lambda lines: (
                _last(lines["cached"]) < min(_last(lines["direct"]), _last(lines["coded"]))
            ),
            "coded cells are not inserted slower than ranges (the paper: in half the time)": lambda lines: (
                _last(lines["coded"]) < 1.25 * _last(lines["direct"])
            ),
        },
    ),
    TamaFigure(
        "tama-fig11",
        "TAMA, figure 11: deletion time",
        "primitive constraints",
        "seconds",
        _deletion_time,
        {"deletion time grows in proportion": lambda lines: _proportional(lines["deleted by number"], 5.0)},
    ),
    TamaFigure(
        "tama-fig12",
        "TAMA, figure 12: memory",
        "primitive constraints",
        "megabytes",
        _memory,
        {
            "memory grows in proportion": lambda lines: all(_proportional(line, 1.5) for line in lines.values()),
            "cells and subscriptions take three to four times the raw constraints": lambda lines: all(
                2.5 < _last(lines[label]) / _last(lines["raw"]) < 4.5 for label in ("width 0.01", "width 0.1")
            ),
            "subscriptions alone do": lambda lines: all(
                2.5 < _last(line) / _last(lines["raw"]) < 4.5 for label, line in lines.items() if "alone" in label
            ),
        },
    ),
)
