"""Programs at hosts of a lab that publish and receive all the time, and tell at the end what came of each event."""

import json
import subprocess
import sys
import threading
from typing import Any

from pleroma.lab import Lab
from support.waiting import LIMIT_SECONDS, wait_until

PUBLISHING = """
import asyncio, json, sys, time
import pleroma

async def main(url, token, pause):
    async with pleroma.connect(url, token=token, host="any", principal="admin", patience=60) as client:
        publisher = await client.advertise("weather")
        print(client.host, flush=True)
        end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        times = []
        while not end.done():
            publisher.publish({"temperature": 20.0, "wind": len(times) % 64}, payload=str(len(times)).encode())
            times.append(time.monotonic())
            await asyncio.sleep(float(pause))
        print(json.dumps({"times": times, "info": client.info}), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""
RECEIVING = """
import asyncio, json, sys, time
import pleroma

async def main(url, token, text):
    async with pleroma.connect(url, token=token, host="any", principal="admin", patience=60) as client:
        async with await client.subscribe("weather", text) as subscription:
            print(client.host, flush=True)
            end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            numbers = []
            async def receive():
                async for packet in subscription.packets():
                    numbers.append(int(packet.payload))
                    print(len(numbers), flush=True)
            receiving = asyncio.create_task(receive())
            await end
            receiving.cancel()
            print(json.dumps({"numbers": numbers, "info": client.info, "id": subscription.id}), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


class SteadyProgram:
    """Made when it has said where it is. `last` is the last line that it printed."""

    def __init__(self, lab: Lab, host: str, code: str, *words: str) -> None:
        self._process = lab.popen(
            host,
            [sys.executable, "-c", code, f"inband://?host={host}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.last = ""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        try:
            wait_until(lambda: self.last or self._process.poll() is not None, f"the program at {host}")
            assert self._process.poll() is None, f"the program at {host} ended"
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.last = line.strip()

    def end(self) -> dict[str, Any]:
        """Have it stop, and return what it tells."""
        assert self._process.stdin is not None
        self._process.stdin.write("end\n")
        self._process.stdin.flush()
        assert self._process.wait(LIMIT_SECONDS) == 0
        self._reading.join(LIMIT_SECONDS)
        told: dict[str, Any] = json.loads(self.last)
        return told

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join(LIMIT_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
