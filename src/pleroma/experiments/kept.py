"""Results of scenarios kept in a folder as they are found, so that a long sweep, interrupted, goes on from there.

What is kept belongs to a task and a scenario as they print, which must say all that the result depends on.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pleroma.experiments.scenarios import Performer

S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Kept:
    """Performs as another performer does. The folder is one that all who perform tasks can write to."""

    folder: Path
    perform: Performer

    def __call__(self, task: Callable[[S], R], scenarios: Sequence[S], advance: Callable[[float], None]) -> list[R]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.perform(_Keeping(self.folder, task), scenarios, advance)


@dataclass(frozen=True, slots=True)
class _Keeping:
    folder: Path
    task: Callable[[Any], Any]

    def __call__(self, scenario: Any) -> Any:
        name = hashlib.sha256(repr((self.task, scenario)).encode()).hexdigest()[:24]
        path = self.folder / f"{name}.pickle"
        if path.exists():
            return pickle.loads(path.read_bytes())  # noqa: S301 (our own)
        result = self.task(scenario)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(result))
        part.rename(path)
        return result
