"""What the replanner has published, in the lake: a file for each window and for each decision to tune, named by time.

    windows/schema=NAME/20261115T160000.000000Z.json
    decisions/schema=NAME/20261115T160000.000000Z.json

A window that is there is never written again, so a job that is started again publishes each window once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake_layout import folder
from pleroma.pipeline.lake.storage import Storage
from pleroma.pipeline.watch.decisions import Decision
from pleroma.pipeline.watch.windows import TrafficWindow

_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z\.json")
T = TypeVar("T", TrafficWindow, Decision)


@dataclass(frozen=True, slots=True)
class Journal:
    """Windows and decisions of a schema. One replanner writes; anybody reads."""

    storage: Storage
    schema: str

    def publish(self, window: TrafficWindow) -> bool:
        """Write a window; False if it was published before, and then nothing has changed."""
        path = self._path("windows", window.start)
        if self.storage.exists(path):
            return False
        self.storage.write_text(path, _text(window.to_json()))
        return True

    def record(self, decision: Decision) -> None:
        """Write a decision in place of an earlier one at the same window."""
        self.storage.write_text(self._path("decisions", decision.window), _text(decision.to_json()))

    def window(self, start: datetime) -> TrafficWindow:
        return self._parsed(self._path("windows", start), TrafficWindow.from_json)

    def decision(self, window: datetime) -> Decision | None:
        path = self._path("decisions", window)
        return self._parsed(path, Decision.from_json) if self.storage.exists(path) else None

    def begun(self) -> datetime | None:
        """The start of the first window, if there is one."""
        paths = self._paths("windows")
        return datetime.strptime(_last(paths[0]), "%Y%m%dT%H%M%S.%fZ.json").replace(tzinfo=UTC) if paths else None

    def windows(self, newest: int | None = None) -> list[TrafficWindow]:
        """All windows, oldest first, or only the `newest` so many."""
        return self._all("windows", newest, TrafficWindow.from_json)

    def decisions(self, newest: int | None = None) -> list[Decision]:
        return self._all("decisions", newest, Decision.from_json)

    def _path(self, kind: str, start: datetime) -> str:
        moment = start.astimezone(UTC)
        return f"{folder(kind, self.schema)}/{moment:%Y%m%dT%H%M%S}.{moment.microsecond:06d}Z.json"

    def _all(self, kind: str, newest: int | None, read: Callable[[Any], T]) -> list[T]:
        first = None if newest is None else -newest
        return [self._parsed(path, read) for path in self._paths(kind)[first:]]

    def _paths(self, kind: str) -> list[str]:
        found = (each.path for each in self.storage.listed(folder(kind, self.schema)))
        return sorted(path for path in found if _NAME.fullmatch(_last(path)))

    def _parsed(self, path: str, read: Callable[[Any], T]) -> T:
        try:
            return read(json.loads(self.storage.read_text(path)))
        except (LakeError, ValueError) as error:
            raise LakeError(str(getattr(error, "reason", error)), field=path) from None


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False)
