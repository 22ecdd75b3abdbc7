"""A service that starts with 100,000 subscriptions, and then takes so many requests that it saves a snapshot."""

from __future__ import annotations

import importlib.util
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pleroma.private_file import write_private
from pleroma.service.http.tokens import digest

HERE = Path(__file__).parent
CHURN_SECONDS = 30.0
"""So long takes what a snapshot is saved after: 10,000 requests."""


def measured(siege: ModuleType, advance: Callable[[float], None], step: float) -> dict[str, Any]:
    """The figures of the start, and of a storm of registrations with a snapshot in it."""
    with tempfile.TemporaryDirectory(prefix="pleroma-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "state").mkdir(mode=0o700)
        token = secrets.token_urlsafe(32)
        write_private(folder / "state" / "admin.token", token)
        _benchmark("service")._fill(folder / "state", lambda _: None, digest(token))
        begin = time.perf_counter()
        with siege.service("up", folder) as besieged:
            seconds = time.perf_counter() - begin
            stall, busy = besieged.stalls_ms("60s")
            started = {
                "longest_stall_ms": round(stall, 1),
                "longest_busy_ms": round(busy, 1),
                "rss_growth_mb": 0.0,
                "start_s": round(seconds, 2),
                "memory_mb": round(besieged.memory_mb(), 1),
                "stood_still_in": besieged.stood_still_in(0),
            }
            advance(step)
            churned = siege.attacked(besieged, "registrations", CHURN_SECONDS, siege.SETTLING_SECONDS)
            advance(step)
    return {"restart_with_100000": started, "snapshot_of_100000": churned}


def _benchmark(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks.{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
