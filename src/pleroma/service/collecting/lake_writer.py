"""Writing to the lake in one thread of its own, so that nobody in the event loop waits for a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from pleroma.errors import LakeError

log = structlog.get_logger("pleroma.service")


class LakeWriter:
    def __init__(self, lake_name: str) -> None:
        self.failures = 0
        """How often the lake could not be written."""
        self._lake_name = lake_name
        self._is_failing = False
        self._thread = ThreadPoolExecutor(1, "lake")

    async def write(self, work: Callable[..., Any], *given: Any) -> None:
        """Do some work in the thread; raises what it raises."""
        await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    async def try_write(self, work: Callable[..., Any], *given: Any) -> bool:
        """Do some work in the thread; False if it failed. The first of several failures in a row is logged."""
        try:
            await self.write(work, *given)
        except Exception as error:  # whatever it is, the rest is landed
            self.failures += 1
            if not self._is_failing:
                reason = str(error) if isinstance(error, LakeError) else repr(error)
                log.error("the lake cannot be written", lake=self._lake_name, reason=reason)
            self._is_failing = True
            return False
        if self._is_failing:
            log.info("the lake can be written again", lake=self._lake_name)
        self._is_failing = False
        return True

    def close(self) -> None:
        """Take no more work; what the thread does now it still ends."""
        self._thread.shutdown(wait=False, cancel_futures=True)
