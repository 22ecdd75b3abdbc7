"""A controller that starts, says how long that took, and stops: run as a process of its own."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pleroma.control import Controller
from pleroma.routing import SwitchOp, build


class AcceptingNetwork:
    """Switches that take whatever they are told."""

    rules = 0

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        self.rules += len(ops)


async def main(folder: Path) -> None:
    network, start = AcceptingNetwork(), time.perf_counter()
    async with await Controller.open(folder, build("testbed"), network) as controller:
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps([seconds, len(controller.state.registrations), memory, network.rules]))


asyncio.run(main(Path(sys.argv[1])))
