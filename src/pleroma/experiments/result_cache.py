"""Results of scenarios kept in a folder as they are found, so that a long sweep, interrupted, goes on from there.

A result belongs to a task and a scenario, which must say all that it depends on, and to this very code.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pleroma
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
        named = [(self._path(task, scenario), scenario) for scenario in scenarios]
        return self.perform(_Keeping(task), named, advance)

    def _path(self, task: Callable[[S], R], scenario: S) -> Path:
        said = io.BytesIO()
        pickler = pickle.Pickler(said)
        pickler.fast = True  # whether two equal values are one object is not said, since it is not always the same
        pickler.dump((_code(), task, scenario))
        return self.folder / f"{hashlib.sha256(said.getvalue()).hexdigest()[:24]}.pickle"


@dataclass(frozen=True, slots=True)
class _Keeping:
    task: Callable[[Any], Any]

    def __call__(self, named: tuple[Path, Any]) -> Any:
        path, scenario = named
        with suppress(OSError, EOFError, pickle.UnpicklingError):  # what cannot be read is found again
            return pickle.loads(path.read_bytes())  # noqa: S301 (our own)
        result = self.task(scenario)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(result))
        part.rename(path)
        return result


@cache
def _code() -> str:
    """What tells this code from any other."""
    found = hashlib.sha256()
    for path in sorted(Path(pleroma.__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()
