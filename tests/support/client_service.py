"""A real service in a process of its own, for clients to talk to.

Run as a program it is that process: arguments are its folder, a topology, a port and settings as JSON.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx


class ServiceProcess:
    """Started on entering; `kill` it as often as you like, `start` brings it back to the same folder and port."""

    script = __file__

    def __init__(self, folder, topology="testbed", **settings):
        self.folder, self.topology, self.settings = Path(folder), topology, settings
        self.port, self.url, self.process = 0, "", None

    def start(self):
        arguments = [str(self.folder), self.topology, str(self.port), json.dumps(self.settings)]
        command = [sys.executable, self.script, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if found := re.match(r"listening on (http://\S+:(\d+))", line):
                self.url, self.port = found.group(1), int(found.group(2))
            if line.strip() == "ready":
                return self
        raise AssertionError(f"the service ended with {self.process.wait()}")

    def kill(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        self.process.wait(30)
        self.process.stdout.close()

    @property
    def token(self):
        return (self.folder / "admin.token").read_text().strip()

    def ask(self, method, path, body=None, token=None):
        headers = {"Authorization": f"Bearer {token or self.token}"}
        with httpx.Client(verify=False, timeout=90) as client:  # noqa: S501  (it is plain http)
            answer = client.request(method, self.url + path, json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def principal(self, name, **rights):
        """A token with these rights."""
        return self.ask("POST", "/v1/principals", {"name": name, **rights})["token"]

    def registered(self):
        """The ids of everything that stands."""
        return [
            each["id"]
            for kind in ("advertisements", "subscriptions")
            for each in self.ask("GET", f"/v1/{kind}")["items"]
        ]

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill(signal.SIGTERM)


async def until(condition, seconds=10.0):
    """Wait for something that other tasks and processes bring about."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.01)


async def until_registered(service, ids, seconds=20.0):
    """Wait for the controller to hold what `ids` returns, and nothing else."""
    end = time.monotonic() + seconds
    while (standing := sorted(await asyncio.to_thread(service.registered))) != sorted(ids(), key=str):
        assert time.monotonic() < end, f"it holds {standing}, not {ids()}"
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    from pleroma.routing import build
    from pleroma.service import CollectingSettings, Deployment, ServiceSettings, serve

    folder, topology, port, given = sys.argv[1:]
    settings = json.loads(given)
    collecting = settings.pop("collecting", None)
    with contextlib.suppress(KeyboardInterrupt):
        serve(
            Path(folder),
            build(topology),
            Deployment(
                port=int(port),
                settings=ServiceSettings(**settings),
                collecting=collecting and CollectingSettings(**collecting),
            ),
        )
