"""Attacks on a running service, one after the other: how long it stands still, what it takes, what honest programs get.

Each attack meets a controller of its own (`pleroma up`, or `pleroma broker`) in a process of its own. Honest programs
publish, subscribe and ask meanwhile; the attacker runs at the lowest priority, from another address. Goals: nothing
keeps the event loop for more than 50 ms, memory grows by 64 MiB at most, within a second honest programs get 99 % of
their events and an answer to 90 % of their requests. `--full` adds a restart with 100,000 subscriptions and a
snapshot.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
STEPS = 100
ATTACKS = (
    "headers",
    "half_open",
    "half_open_spread",
    "pages",
    "boxes",
    "filters",
    "filters_without_rights",
    "wrong_tokens",
    "leases",
    "registrations",
    "attachments",
    "streams",
    "plans",
    "plan_change",
    "samples",
    "forged",
    "frames",
    "hello",
)
"""As `_attacks.py` has them."""
MAX_STALL_MS = 50.0
MAX_GROWTH_MB = 64.0
MIN_SHARES = {"events": 0.99, "requests": 0.9}
COLUMNS = ("attack", "stall ms", "busy ms", "memory MB", "events", "requests", "refused/s", "stood still in")


def run(
    advance: Callable[[float], None],
    full: bool = False,
    names: tuple[str, ...] = ATTACKS,
    seconds: float = 5.0,
    settling: float = 6.0,
) -> dict[str, Any]:
    siege, step = _module("_siege"), STEPS / (len(names) + 2 * full)
    attacks: dict[str, Any] = {}
    for name in names:
        attacks[name] = siege.measured(name, seconds, settling)
        advance(step)
    if full:
        attacks |= _module("_restarted").measured(siege, advance, step)
    return worst(attacks) | {"missed": [name for name in attacks if missed(attacks[name])], "attacks": attacks}


def worst(attacks: dict[str, Any]) -> dict[str, Any]:
    """The worst of each figure, over all attacks that have it."""
    shares = [each["honest_share"] for each in attacks.values() if "honest_share" in each]
    return {
        "longest_stall_ms": max(each["longest_stall_ms"] for each in attacks.values()),
        "rss_growth_mb": max(each["rss_growth_mb"] for each in attacks.values()),
        "honest_share": {kind: min(each[kind] for each in shares) for kind in MIN_SHARES},
        "rejected_per_s": max(each.get("rejected_per_s", 0.0) for each in attacks.values()),
    }


def missed(figures: dict[str, Any]) -> set[str]:
    """The figures of an attack that miss their goals."""
    late = {kind for kind, share in figures.get("honest_share", {}).items() if share < MIN_SHARES[kind]}
    if figures["longest_stall_ms"] > MAX_STALL_MS:
        late.add("longest_stall_ms")
    if figures["rss_growth_mb"] > MAX_GROWTH_MB:
        late.add("rss_growth_mb")
    return late


def rows(figures: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each attack; what misses its goal is marked."""
    return [_row(name, found) for name, found in figures["attacks"].items()]


def _row(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    late, flat = missed(found), found | found.get("honest_share", {})
    forms = {
        "longest_stall_ms": ".0f",
        "longest_busy_ms": ".0f",
        "rss_growth_mb": ".0f",
        "events": ".3f",
        "requests": ".2f",
        "rejected_per_s": ",.0f",
    }
    shown = [
        format(flat[figure], form) + (" !" if figure in late else "") if figure in flat else ""
        for figure, form in forms.items()
    ]
    return name, *shown, found["stood_still_in"] if late else ""


def _module(name: str) -> ModuleType:
    """A file beside this one."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
