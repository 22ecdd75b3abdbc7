"""The report of an experiment: a table, the numbers behind it, and whether the papers' claims hold here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim of the papers holds."""

    claim: str
    holds: bool


class PublishedValue(NamedTuple):
    """A value that a paper states of its own curve; `at` is None where it does not say at which x."""

    label: str
    value: float
    at: int | None = None


@dataclass(frozen=True, slots=True)
class FigureReport:
    """`lines` are the curves of the figure: by label, then by x. Where x only counts, `ticks` has the words for it."""

    figure: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    lines: Mapping[str, Mapping[int, float]]
    x: str
    verdicts: Sequence[Verdict]
    y: str = "waste at subscriptions (false-positive rate)"
    ticks: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    """More numbers for `--json`."""
    panels: Mapping[str, Mapping[str, Mapping[int, float]]] = field(default_factory=dict)
    """The lines by heading, where they are too many for one picture; the last of each panel is what it is about."""
    spread: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Of lines that are means over several seeds: the standard deviation at each x."""
    published: Sequence[PublishedValue] = ()
    """What the paper says of its own curves; most it prints without numbers."""
