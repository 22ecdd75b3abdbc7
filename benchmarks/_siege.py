"""One attack, measured: a service, honest programs and the attacker, each a process of its own."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

HERE = Path(__file__).parent
TOPOLOGY = "testbed"
SCHEMA = {
    "name": "honest",
    "attribute": [{"name": f"x{d}", "kind": "integer", "min": 0, "max": 1023} for d in range(4)],
}
USUAL_DESCRIPTORS = 1024
"""What a system allows a process to open, unless the process asks for more."""
SETTLING_SECONDS = 6.0
"""Stalls are told for the last five seconds: after so long none of the start is among them."""
AFTER_SECONDS = 2.0
"""What an attack leads to so long after its end is still counted."""
ANSWER_SECONDS = 30.0
PREPARING_SECONDS = 120.0
LOOK_SECONDS = 0.1
END_SECONDS = 30.0
STALL_LINE = "the event loop stood still"


@dataclass(slots=True)
class Besieged:
    """A service in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    udp: str
    token: str
    log: Path
    api: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        self.api = httpx.Client(base_url=self.url, headers=headers, timeout=ANSWER_SECONDS)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return self.api.request(method, path, json=body).raise_for_status().json()

    def principal(self, name: str, role: str, **rights: object) -> str:
        token: str = self.ask("POST", "/v1/principals", {"name": name, "role": role, **rights})["token"]
        return token

    def stalls_ms(self, within: str = "5s") -> tuple[float, float]:
        """The longest stall of late, and the most processor time at a stretch."""
        text = self.api.get("/metrics").raise_for_status().text
        found = dict(re.findall(rf'^pleroma_loop_(stall|busy)_seconds{{within="{within}"}} (\S+)$', text, re.MULTILINE))
        return float(found["stall"]) * 1000, float(found["busy"]) * 1000

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def stood_still_in(self, since: int) -> str:
        """Where it stood still for longest, by the lines of its log from a place on."""
        lines = [line for line in self.log.read_text(encoding="utf-8")[since:].splitlines() if STALL_LINE in line]
        told = [json.loads(line) for line in lines]
        if not told:
            return ""
        longest = max(told, key=lambda each: each["ms"])
        ours = [each for each in longest["where"].split(" < ") if each.startswith("pleroma.")] or [longest["where"]]
        beside = f", beside {longest['beside']}" if "beside" in longest else ""
        return f"{ours[0]}{beside}"


@contextmanager
def service(kind: str, folder: Path) -> Iterator[Besieged]:
    """`up` or `broker`, with a lake, in a folder."""
    more = (
        ["--listen", "127.0.0.1:0"] if kind == "broker" else ["--port", "0", "--topology", TOPOLOGY, "--replan", "off"]
    )
    command = [sys.executable, "-m", "pleroma.cli", kind, "--folder", str(folder / "state"), "--json", *more]
    command += ["--lake", str(folder / "lake")]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    log = folder / "log"
    with log.open("w", encoding="utf-8") as errors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(USUAL_DESCRIPTORS, hard), hard))
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)  # noqa: S603
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the service did not start: {log.read_text(encoding='utf-8')}")
        said = json.loads(line)
        token = Path(said["token_file"]).read_text(encoding="ascii").strip()
        made = Besieged(process, said["url"], said.get("udp", ""), token, log)
        with made.api:
            yield made
    finally:
        _end(process)


@contextmanager
def program(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A script beside this one, once it has said that it is ready."""
    command = [sys.executable, str(HERE / script), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        if _line(process, PREPARING_SECONDS) != "ready":
            raise RuntimeError(f"{script} {arguments[0]} did not start")
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        _end(process)


def measured(name: str, seconds: float, settling: float = SETTLING_SECONDS) -> dict[str, Any]:
    """The figures of one attack."""
    kind = "broker" if name == "hello" else "up"
    with (
        tempfile.TemporaryDirectory(prefix="pleroma-", ignore_cleanup_errors=True) as folder,
        service(kind, Path(folder)) as besieged,
    ):
        return attacked(besieged, name, seconds, settling)


def attacked(besieged: Besieged, name: str, seconds: float, settling: float) -> dict[str, Any]:
    """The figures of one attack on a service that nobody has used yet."""
    tokens = _principals(besieged)
    given = {"port": besieged.port, "url": besieged.url, "udp": besieged.udp, "tokens": tokens, "seconds": seconds}
    with (
        _honest(besieged, tokens["honest"]) as honest,
        program("_attacks.py", name, json.dumps(given)) as attacker,
    ):
        time.sleep(settling)
        return _during(besieged, honest, attacker, seconds)


def _during(
    besieged: Besieged, honest: subprocess.Popen[str], attacker: subprocess.Popen[str], seconds: float
) -> dict[str, Any]:
    log_before = len(besieged.log.read_text(encoding="utf-8"))
    with Lookout(besieged) as lookout:
        _say(honest, "begin")
        _tell(attacker, "begin")
        time.sleep(seconds)
        _say(honest, "end")
        result = json.loads(_line(attacker, END_SECONDS) or '{"tried": 0, "refused": 0}')
        time.sleep(AFTER_SECONDS)
    told = _say(honest, "tell")
    if told["broken"]:
        raise RuntimeError(f"the honest programs failed: {told['broken']}")
    return {
        "longest_stall_ms": round(lookout.stall_ms, 1),
        "longest_busy_ms": round(lookout.busy_ms, 1),
        "rss_growth_mb": round(lookout.growth_mb, 1),
        "honest_share": {
            "events": round(told["arrived"] / max(told["wanted"], 1), 4),
            "requests": round(told["answered"] / max(told["asked"], 1), 4),
        },
        "rejected_per_s": round(result["refused"] / seconds, 1),
        "tried_per_s": round(result["tried"] / seconds, 1),
        "forged": told["forged"],
        "failed_requests": told["failed"],
        "stood_still_in": besieged.stood_still_in(log_before),
    }


class Lookout:
    """Looks at the memory of a service and at its longest stall while it is entered, from a thread."""

    def __init__(self, besieged: Besieged) -> None:
        self.stall_ms = self.busy_ms = self.growth_mb = 0.0
        self._besieged = besieged
        self._memory_mb = besieged.memory_mb()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._look_at_memory, self._look_at_stalls)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in self._threads:
            each.join()

    def _look_at_memory(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.growth_mb = max(self.growth_mb, self._besieged.memory_mb() - self._memory_mb)

    def _look_at_stalls(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(1.0)  # once more after the end
            begin = time.monotonic()
            try:
                stall, busy = self._besieged.stalls_ms()
            except httpx.HTTPError:  # the service did not answer at all for so long
                stall = busy = (time.monotonic() - begin) * 1000
            self.stall_ms, self.busy_ms = max(self.stall_ms, stall), max(self.busy_ms, busy)


def _principals(besieged: Besieged) -> dict[str, str]:
    """The tokens of everybody; there is one schema."""
    everything = {"publish": {"*": "true"}, "read": {"*": "true"}}
    besieged.ask("POST", "/v1/schemas", {"schema": SCHEMA})
    return {
        "honest": besieged.principal("honest", "both", **everything),
        "attacker": besieged.principal("attacker", "both", **everything),
        "outsider": besieged.principal("outsider", "both"),
        "tuner": besieged.principal("tuner", "tuner"),
    }


def _honest(besieged: Besieged, token: str) -> Any:
    hosts: Sequence[str] = ["broker"] * 3 if besieged.udp else ["h1", "h2", "h3"]
    given = {"url": besieged.udp or besieged.url, "port": besieged.port, "token": token, "hosts": hosts}
    return program("_honest.py", json.dumps(given | {"principal": "honest"}))


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def _line(process: subprocess.Popen[str], seconds: float) -> str:
    """The next line that a process says; if it does not in time, it is killed, and the line is empty."""
    assert process.stdout is not None
    killer = threading.Timer(seconds, process.kill)
    killer.start()
    try:
        return process.stdout.readline().strip()
    finally:
        killer.cancel()


def _say(process: subprocess.Popen[str], line: str) -> Any:
    """Say something to the honest programs; returns their answer."""
    _tell(process, line)
    return json.loads(_line(process, END_SECONDS))


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
