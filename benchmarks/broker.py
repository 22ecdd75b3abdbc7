"""Events through one broker with 1,000 and with 100,000 subscriptions, beside a program that only passes them on.

One program gets every event, and ten others what a ten-thousandth of the events is to each of their boxes in four
attributes. The rate is the highest at which all of them arrive, with a window of events under way; times are from
sending to arriving, at half that rate. What the broker's process works for an event is beside it: on a busy machine
that says more.
"""

from __future__ import annotations

import importlib.util
import json
import random
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from pleroma.content import Event
from pleroma.wire import Codec, EventPacket, attach, tunnel

HERE = Path(__file__).parent
SIZES = (1_000, 100_000)
STEPS = 1 + len(SIZES)
MAX_EVENTS_IN_FLIGHT = 64
MEASURED_SECONDS = 5.0
ARRIVAL_SECONDS = 5.0
_TIME = slice(tunnel.TUNNEL_HEAD_BYTES + 16, tunnel.TUNNEL_HEAD_BYTES + 24)


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    process = _load("_broker")
    frames = _frames(process)
    with _started(0) as (port, _), _attached(port, [b""]) as (probe,):
        relay, _ = _measure(port, probe, probe, frames)
    advance(1)
    figures: dict[str, Any] = {"relay_events_per_s": round(relay)}
    for size in SIZES:
        start, used = time.perf_counter(), dict[str, float]()
        with _started(size, used) as (port, secrets):
            loaded = time.perf_counter() - start
            hellos = [attach.pack(attach.AttachKind.ATTACH, each) for each in secrets]
            with _attached(port, hellos) as (sender, probe, *_others):
                rate, times = _measure(port, sender, probe, frames)
        figures[f"at_{size}"] = {
            "events_per_s": round(rate),
            "p50_us": round(times[len(times) // 2] * 1e6),
            "p99_us": round(times[len(times) * 99 // 100] * 1e6),
            "cpu_us_an_event": used["cpu"] / used["published"] * 1e6,
            "deliveries_an_event": used["delivered"] / used["published"],
            "ratio_to_relay": rate / relay,
            "load_s": loaded,
        }
        advance(1)
    return figures


def _frames(process: ModuleType) -> list[bytearray]:
    codec, chance = Codec(process.SCHEMA, 0), random.Random(2)
    made = []
    for number in range(4096):
        event = Event(process.SCHEMA, tuple(chance.random() for _ in process.SCHEMA.attributes))
        packet = codec.encode(EventPacket(1, 0, process.PUBLISHER, number, 0, event))
        made.append(bytearray(tunnel.TUNNEL_START + bytes(16) + packet))
    return made


@contextmanager
def _started(size: int, used: dict[str, float] | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """`used` gets what the process says at its end."""
    command = [sys.executable, str(HERE / "_broker.py"), str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdin is not None
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        try:
            yield said["port"], [bytes.fromhex(each) for each in said["secrets"]]
        finally:
            process.stdin.close()
            if used is not None:
                used |= json.loads(process.stdout.readline())
                used["cpu"] -= said["cpu"]
            if not said["secrets"]:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                    last.sendto(b"", ("127.0.0.1", said["port"]))
            process.wait(30)


@contextmanager
def _attached(port: int, hellos: list[bytes]) -> Iterator[list[socket.socket]]:
    """A socket for each; those of others than the probe are never read, so their kernels drop what is too much."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in hellos]
    try:
        for each, hello in zip(sockets, hellos, strict=True):
            each.connect(("127.0.0.1", port))
            each.send(hello or b"first")
            if hello:
                each.settimeout(ARRIVAL_SECONDS)
                assert attach.unpack(each.recv(2048))[0] is attach.AttachKind.ATTACHED
            each.setblocking(False)
        yield sockets
    finally:
        for each in sockets:
            each.close()


def _measure(
    port: int, sender: socket.socket, probe: socket.socket, frames: list[bytearray]
) -> tuple[float, list[float]]:
    """Events a second with a window, and then the times at half of that, sorted."""
    if sender is probe:  # what is passed on comes from another socket than it goes to
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.connect(("127.0.0.1", port))
            return _measure_with(other, probe, frames)
    return _measure_with(sender, probe, frames)


def _measure_with(sender: socket.socket, probe: socket.socket, frames: list[bytearray]) -> tuple[float, list[float]]:
    _flow(sender, probe, frames, 0.5, None)  # to warm up
    count, seconds, _ = _flow(sender, probe, frames, MEASURED_SECONDS, None)
    _, _, times = _flow(sender, probe, frames, MEASURED_SECONDS, count / seconds / 2)
    return count / seconds, sorted(times)


def _flow(
    sender: socket.socket, probe: socket.socket, frames: list[bytearray], seconds: float, rate: float | None
) -> tuple[int, float, list[float]]:
    """Send for so long, as fast as the window allows or at a rate; wait for all of it."""
    sent = received = 0
    times: list[float] = []
    begin = time.perf_counter()
    while True:
        now = time.perf_counter()
        due = now - begin < seconds
        while due and sent - received < MAX_EVENTS_IN_FLIGHT and (rate is None or sent < (now - begin) * rate):
            frame = frames[sent % len(frames)]
            frame[_TIME] = time.perf_counter_ns().to_bytes(8)
            sender.send(frame)
            sent += 1
        if not due and sent == received:
            return received, time.perf_counter() - begin, times
        wait = (
            ARRIVAL_SECONDS
            if rate is None or not due or sent - received >= MAX_EVENTS_IN_FLIGHT
            else max((sent + 1) / rate - (now - begin), 0)
        )
        if not select.select([probe], [], [], wait)[0]:
            if rate is None or not due:
                raise RuntimeError(f"{sent - received} events were lost")
            continue
        while True:
            try:
                data = probe.recv(2048)
            except BlockingIOError:
                break
            received += 1
            times.append((time.perf_counter_ns() - int.from_bytes(data[_TIME])) * 1e-9)


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
