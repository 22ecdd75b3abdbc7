"""`pleroma agent` at a host of a lab, as a process of its own."""

import asyncio
import json
import signal
import subprocess
import sys

from pleroma.lab import Lab
from support.waiting import LIMIT_SECONDS


class AgentProcess:
    """`pleroma agent` at a host of a lab, which asks the controller through the switches."""

    def __init__(self, lab: Lab, host: str, socket: str) -> None:
        words = [sys.executable, "-m", "pleroma.cli", "agent", "--url", "inband://", "--socket", socket, "--json"]
        self.process = lab.popen(host, words, stdout=subprocess.PIPE, text=True)

    async def ready(self) -> dict[str, str]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), LIMIT_SECONDS)
        found: dict[str, str] = json.loads(line)
        return found

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        code = self.process.wait(LIMIT_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code
