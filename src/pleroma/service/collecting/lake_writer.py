"""Work on the lake in a thread of its own, so that nobody in the event loop waits for a file; and what fails there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import structlog

from pleroma.errors import LakeError

SILENT_SECONDS = 20.0
"""A lake that something takes longer with does not answer."""

log = structlog.get_logger("pleroma.service")


class Written(NamedTuple):
    result: Any


class LakeWriter:
    def __init__(self, lake_name: str, thread_name: str = "lake", silent_seconds: float | None = None) -> None:
        """What takes longer than `silent_seconds` is a lake that does not answer; `SILENT_SECONDS` if not given."""
        self.failures = 0
        """How often something could not be done."""
        self._lake_name = lake_name
        self._silent_seconds = silent_seconds
        self._failing: dict[str, str] = {}
        """What could not be done the last time it was tried, and why."""
        self._thread = ThreadPoolExecutor(1, thread_name)
        self._begun: float | None = None
        """When the thread began what it does now."""

    @property
    def failure(self) -> str | None:
        """Why the lake cannot be written, in one line, while that is so."""
        if self._failing:
            return next(iter(self._failing.values()))
        begun, longest = self._begun, SILENT_SECONDS if self._silent_seconds is None else self._silent_seconds
        if begun is None or (silent := time.monotonic() - begun) < longest:
            return None
        return f"the lake has not answered for {silent:.0f} s"

    async def write(self, work: Callable[..., Any], *given: Any) -> Any:
        """Do some work in the thread, and return what it returns; raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work, given)

    async def try_write(self, what: str, work: Callable[..., Any], *given: Any) -> Written | None:
        """Do some work in the thread; None if it failed. The first of several failures is logged."""
        try:
            result = await self.write(work, *given)
        except Exception as error:  # whatever it is, the rest is landed
            self.failures += 1
            reason = str(error) if isinstance(error, LakeError) else f"{what}: {error!r}"
            if not self._failing:
                log.error("the lake cannot be written", lake=self._lake_name, reason=reason)
            self._failing[what] = reason
            return None
        if self._failing.pop(what, None) is not None and not self._failing:
            log.info("the lake can be written again", lake=self._lake_name)
        return Written(result)

    def close(self) -> None:
        """Take no more work; what the thread does now it still ends."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _do(self, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        self._begun = time.monotonic()
        try:
            return work(*given)
        except Exception:
            raise
        except BaseException as error:  # the library's panic is no Exception, and would end collecting without a word
            raise LakeError(f"the library has failed: {error!r}", field="lake") from None
        finally:
            self._begun = None
