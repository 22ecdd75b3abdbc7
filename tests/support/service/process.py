"""A real service in a process of its own: where it listens, what it said, requests to it, and its end."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from support.programs import environment

PROGRAM = "support.service.program"
END_SECONDS = 30.0


class ServiceProcess:
    """Started on entering; `kill` it as often as you like, `start` brings it back to the same folder and port.

    With `broker` it is a broker: below another if that one's (url, token, principal) is given, otherwise alone. With
    `openflow` switches connect to it at this port, and if it `discovers`, it is not told which there are.
    """

    def __init__(
        self,
        folder: Path,
        topology: str = "testbed",
        *,
        collecting: Mapping[str, object] | None = None,
        broker: Sequence[str] | None = None,
        trees: str | None = None,
        log: str | None = None,
        roles: str | None = None,
        openflow: int | None = None,
        discovers: bool = False,
        **settings: object,
    ) -> None:
        self.folder = Path(folder)
        self.trees = trees
        self.said: list[str] = []
        self.url, self.port = "", 0
        self._given: dict[str, object] = {
            "topology": topology,
            "collecting": collecting,
            "broker": broker,
            "settings": settings,
        }
        self._given |= {"log": log, "roles": roles, "openflow": openflow, "discovers": discovers}
        self._errors = self.folder.with_name(f"{self.folder.name}.err")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Return when the service is ready."""
        given = json.dumps(self._given | {"folder": str(self.folder), "port": self.port, "trees": self.trees})
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, given],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(),
            )
        assert self._process.stdout is not None
        self.said = []
        for line in self._process.stdout:
            self.said.append(line.strip())
            if found := re.match(r"listening on (http://\S+:(\d+))", line):
                self.url, self.port = found[1], int(found[2])
            if line.strip() == "ready":
                return self
        raise AssertionError(f"the service ended with {self._process.wait()}: {self.said} {self.log()}")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send_signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, seconds: float = END_SECONDS) -> int:
        """The exit code, as soon as the process has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            return self._process.wait(seconds)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask the process to end, and return its exit code."""
        self.send_signal(number)
        return self.wait()

    def kill(self) -> None:
        """End the process as a failure of power would. One that has ended already stays so."""
        if self.is_running:
            self.send_signal(signal.SIGKILL)
        self.wait()

    def log(self) -> str:
        """All that the processes have written to their standard error so far."""
        return self._errors.read_text()

    @property
    def udp(self) -> str:
        return f"udp://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.folder / "admin.token").read_text().strip()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def ask(self, method: str, path: str, body: object = None, token: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        with httpx.Client(verify=False, timeout=90) as client:  # noqa: S501  (it is plain http)
            answer = client.request(method, self.url + path, json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def principal(self, name: str, **rights: object) -> str:
        """A token with these rights."""
        token: str = self.ask("POST", "/v1/principals", {"name": name, **rights})["token"]
        return token

    def registered(self) -> list[str]:
        """The ids of everything that stands."""
        return [
            each["id"]
            for kind in ("advertisements", "subscriptions")
            for each in self.ask("GET", f"/v1/{kind}")["items"]
        ]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.is_running:
            self.stop()
        else:
            self.kill()
        if error is not None:
            sys.stderr.write(self.log())  # which pytest shows beside the failure
