"""The planning process as the controller sees it: started when there is a schema, stopped by its pid.

It is a process and not a thread, because a search computes for seconds and requests must not wait for it. If it dies,
it is started anew, and everything is told to it again. It has a session of its own, so that Ctrl-C in a terminal
reaches the controller alone, and takes no modules from the folder that the controller was started in.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
from asyncio.subprocess import PIPE, Process

from pleroma.errors import ServiceError
from pleroma.replanning.live_replanner import Look, PlanForecast
from pleroma.replanning.planning_worker import LENGTH_BYTES, Ask, LookFailed, framed


class PlanningProcess:
    """One look at a time."""

    def __init__(self, max_search_seconds: float) -> None:
        self.incarnation = 0
        """Counts how often the process was started: what an earlier one knew has to be told again."""
        self._max_search_seconds = max_search_seconds
        self._process: Process | None = None
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process if it does not run."""
        if self._is_closed:
            raise ServiceError("the controller is closing")
        if self.is_running:
            return
        command = (sys.executable, "-P", "-m", "pleroma.replanning.planning_worker")
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        except OSError as error:
            raise ServiceError(f"the planning process cannot be started: {error.strerror or error}") from None
        self.incarnation += 1

    async def ask(self, ask: Ask) -> Look | PlanForecast:
        """Have the process look at a schema. It is stopped if it takes too long or says something else."""
        try:
            async with asyncio.timeout(self._max_search_seconds):
                answer = await self._exchange(await asyncio.to_thread(framed, ask))  # it may be large
        except BaseException as error:
            await self.stop()
            if isinstance(error, TimeoutError):
                raise ServiceError(f"a search took more than {self._max_search_seconds:g} s") from None
            if isinstance(error, (OSError, EOFError, pickle.PickleError)):
                raise ServiceError("the planning process has died") from None
            raise
        if isinstance(answer, LookFailed):
            raise answer.error
        return answer

    async def _exchange(self, message: bytes) -> Look | PlanForecast | LookFailed:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise EOFError
        process.stdin.write(message)
        await process.stdin.drain()
        length = await process.stdout.readexactly(LENGTH_BYTES)
        body = await process.stdout.readexactly(int.from_bytes(length, "big"))
        answer: Look | PlanForecast | LookFailed = pickle.loads(body)  # noqa: S301  # our own process wrote it
        return answer

    async def close(self) -> None:
        """Stop the process, and start none any more."""
        self._is_closed = True
        await self.stop()

    async def stop(self) -> None:
        """Stop the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
