"""Results of scenarios kept in a folder as they are found, so that an interrupted sweep goes on where it stopped.

The name of a result's file is a hash of the task, the scenario and all of the package's code. Task and scenario must
say everything that the result depends on.
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
from typing import Any

import pleroma
from pleroma.experiments.scenarios import Performer, ResultT, ScenarioT


@dataclass(frozen=True, slots=True)
class ResultCache:
    """A performer that looks in a folder for each result first, and has another performer find the missing ones.

    Every process that performs tasks must be able to write to the folder.
    """

    folder: Path
    perform: Performer

    def __call__(
        self, task: Callable[[ScenarioT], ResultT], scenarios: Sequence[ScenarioT], advance: Callable[[float], None]
    ) -> list[ResultT]:
        self.folder.mkdir(parents=True, exist_ok=True)
        named = [(self._path(task, scenario), scenario) for scenario in scenarios]
        return self.perform(_Keeping(task), named, advance)

    def _path(self, task: Callable[[ScenarioT], ResultT], scenario: ScenarioT) -> Path:
        said = io.BytesIO()
        pickler = pickle.Pickler(said)
        pickler.fast = True  # without memo: equal values give equal bytes, whether or not they are one object
        pickler.dump((_code(), task, scenario))
        return self.folder / f"{hashlib.sha256(said.getvalue()).hexdigest()[:24]}.pickle"


@dataclass(frozen=True, slots=True)
class _Keeping:
    task: Callable[[Any], Any]

    def __call__(self, named: tuple[Path, Any]) -> Any:
        path, scenario = named
        with suppress(OSError, EOFError, pickle.UnpicklingError):  # a damaged file: the result is found again
            return pickle.loads(path.read_bytes())  # noqa: S301 (our own)
        result = self.task(scenario)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(result))
        part.rename(path)
        return result


@cache
def _code() -> str:
    """A hash of all of the package's code."""
    found = hashlib.sha256()
    for path in sorted(Path(pleroma.__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()
