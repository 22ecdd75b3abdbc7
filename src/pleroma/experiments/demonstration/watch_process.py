"""The process that watches the lake of a demonstration: `pleroma pipeline watch`, started again if it stops."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pleroma.errors import SetupError

WATCHER_STOP_SECONDS = 30.0
"""How long the watcher may take to stop, with all of Spark, before it is killed."""
MAX_WATCHER_STARTS = 3
"""Spark gives a Python process ten seconds to begin, which may be too few on a busy machine: then it starts again."""
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options for a Java process that runs for a minute on few cores: better machine code would not pay."""
WATCH_OPTIONS = (
    *("--master", "local[1]"),
    *("--window", "3s"),
    *("--lateness", "1s"),
    *("--threshold", "0.5"),
    *("--patience", "2"),
    *("--newcomers", "0"),  # the subscribers come after the plan that was made for them
    *("--cool-down", "6s"),
    *("--period", "1h"),
    *("--least", "100"),
)
"""Short windows, since the run is short."""

WatchRecord = dict[str, Any]
"""A window or a decision, as `pipeline watch --json` prints it."""


@dataclass
class WatcherOutput:
    """The windows and decisions that a watcher has printed so far."""

    windows: list[WatchRecord] = field(default_factory=list)
    decisions: list[WatchRecord] = field(default_factory=list)
    """Decisions to look for a better plan; decisions to keep the plan are left out."""
    on_decision: Callable[[WatchRecord], None] = lambda _: None
    check: Callable[[], object] = lambda: None
    """Raises `SetupError` if the watcher has stopped for good."""
    starts: int = 0

    def hear(self, told: WatchRecord) -> None:
        if "window" in told:
            self.windows.append(told["window"])
        elif told["decision"]["verdict"] == "tune":
            self.decisions.append(told["decision"])
            self.on_decision(told["decision"])

    @property
    def is_awake(self) -> bool:
        """Whether the watcher has seen a window with events whose deliveries are known."""
        return any(each["events"] > each["unjudged"] for each in self.windows)


StartWatcher = Callable[[str, str, str, str, Callable[[WatchRecord], None]], AbstractAsyncContextManager[WatcherOutput]]
"""Starts a watcher, given the lake, the schema, the controller's address, a token, and what to call with decisions."""


@asynccontextmanager
async def watcher_process(
    lake: str, schema: str, url: str, token: str, on_decision: Callable[[WatchRecord], None] = lambda _: None
) -> AsyncIterator[WatcherOutput]:
    """Run a watcher, and start it again if it stops by itself, as an operator would: it goes on where it was."""
    process = _Process(("pipeline", "watch", lake, "--schema", schema, "--url", url, *WATCH_OPTIONS, "--json"), token)
    made = WatcherOutput(on_decision=on_decision, check=process.check)
    running = asyncio.create_task(process.run(made))
    try:
        yield made
    finally:
        await process.stop()
        await running


class _Process:
    def __init__(self, arguments: tuple[str, ...], token: str) -> None:
        self._arguments = arguments
        self._env = os.environ | {"PLEROMA_TOKEN": token, "SPARK_SUBMIT_OPTS": JAVA_OPTIONS}
        self._process: asyncio.subprocess.Process | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._stopping = asyncio.Event()
        self._is_over = False

    async def run(self, onlooker: WatcherOutput) -> None:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "pleroma.cli", *self._arguments)
        while not self._stopping.is_set() and onlooker.starts < MAX_WATCHER_STARTS:
            onlooker.starts += 1
            self._process = process = await asyncio.create_subprocess_exec(
                *command, stdout=pipe, stderr=pipe, env=self._env, limit=2**24
            )
            if self._stopping.is_set():
                process.terminate()
            await asyncio.gather(self._read(process.stdout, onlooker), self._listen(process.stderr), process.wait())
        self._is_over = True

    async def _read(self, lines: asyncio.StreamReader | None, onlooker: WatcherOutput) -> None:
        assert lines is not None  # noqa: S101
        async for line in lines:
            try:
                told = json.loads(line)
            except ValueError:  # printed by Java or by a library, not by the watcher
                self._said.append(line.decode(errors="replace").strip())
            else:
                onlooker.hear(told)

    async def _listen(self, lines: asyncio.StreamReader | None) -> None:
        assert lines is not None  # noqa: S101
        async for line in lines:
            self._said.append(line.decode(errors="replace").strip())

    def check(self) -> None:
        if self._is_over:
            raise SetupError(
                f"the watcher stopped: {self._said[-1] if self._said else 'without a word'}", field="spark"
            )

    async def stop(self) -> None:
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(WATCHER_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
