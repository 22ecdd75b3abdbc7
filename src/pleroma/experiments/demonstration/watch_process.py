"""Who watches the lake of a demonstration: `pleroma pipeline watch` in a process of its own."""

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

ORDERLY = 30.0
"""Seconds that stopping may take, with all of Spark."""
TRIES = 3
"""Spark gives a Python process ten seconds to begin, which on a busy machine may be too few."""
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A run of a minute on few cores is over before better code would pay."""
OPTIONS = (
    *("--master", "local[1]"),
    *("--window", "3s"),
    *("--lateness", "1s"),
    *("--threshold", "0.5"),
    *("--patience", "2"),
    *("--cool-down", "6s"),
    *("--period", "1h"),
    *("--least", "100"),
    *("--selections", ""),
    *("--splits", "regular"),
)
"""Short windows, since this is a short day. It learns a tree; techniques that take longer, and have never won here, are
left out.
"""

Words = dict[str, Any]
"""A window or a decision, as it is printed."""


@dataclass
class Onlooker:
    """What a watcher said so far."""

    windows: list[Words] = field(default_factory=list)
    decisions: list[Words] = field(default_factory=list)
    """Those to tune."""
    on_decision: Callable[[Words], None] = lambda _: None
    check: Callable[[], object] = lambda: None
    """Raises if it is not there any more."""
    starts: int = 0

    def hear(self, told: Words) -> None:
        if "window" in told:
            self.windows.append(told["window"])
        elif told["decision"]["verdict"] == "tune":
            self.decisions.append(told["decision"])
            self.on_decision(told["decision"])

    @property
    def is_awake(self) -> bool:
        """Whether it has seen a window that says something."""
        return any(each["events"] > each["unjudged"] for each in self.windows)


Watch = Callable[[str, str, str, str], AbstractAsyncContextManager[Onlooker]]
"""Begins to watch: a lake, a schema, for a controller's address, with a token."""


@asynccontextmanager
async def watcher(lake: str, schema: str, url: str, token: str) -> AsyncIterator[Onlooker]:
    """Started again if it stops by itself, as an operator would have it: it goes on where it was."""
    process = _Process(("pipeline", "watch", lake, "--schema", schema, "--url", url, *OPTIONS, "--json"), token)
    made = Onlooker(check=process.check)
    running = asyncio.create_task(process.run(made))
    try:
        yield made
    finally:
        await process.stop()
        await running


class _Process:
    def __init__(self, arguments: tuple[str, ...], token: str) -> None:
        self._arguments = arguments
        self._env = os.environ | {"PLEROMA_TOKEN": token, "SPARK_SUBMIT_OPTS": JAVA}
        self._process: asyncio.subprocess.Process | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._stopping = asyncio.Event()
        self._is_over = False

    async def run(self, onlooker: Onlooker) -> None:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "pleroma.cli", *self._arguments)
        while not self._stopping.is_set() and onlooker.starts < TRIES:
            onlooker.starts += 1
            self._process = process = await asyncio.create_subprocess_exec(
                *command, stdout=pipe, stderr=pipe, env=self._env, limit=2**24
            )
            if self._stopping.is_set():
                process.terminate()
            await asyncio.gather(self._read(process.stdout, onlooker), self._listen(process.stderr), process.wait())
        self._is_over = True

    async def _read(self, lines: asyncio.StreamReader | None, onlooker: Onlooker) -> None:
        assert lines is not None  # noqa: S101
        async for line in lines:
            try:
                told = json.loads(line)
            except ValueError:  # of Java, or of a library: no word of the watcher's
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
            async with asyncio.timeout(ORDERLY):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
