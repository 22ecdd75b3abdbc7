"""A restart with a hundred thousand subscriptions takes seconds. To make them takes a while: PLEROMA_LONG=1."""

import os
import subprocess
import sys
from pathlib import Path

from pleroma.workloads import Model
from support.many_registrations import write_many

LONG = os.environ.get("PLEROMA_LONG") == "1"
COUNT = 100_000 if LONG else 1_000
SECONDS = 10.0
RESTART = """
import asyncio, resource, sys, time
from support.control_cases import Network
from pleroma.control import Controller, Withdraw
from pleroma.routing import build

async def main():
    start = time.perf_counter()
    controller = await Controller.open(sys.argv[1], build("testbed"), Network())
    seconds = time.perf_counter() - start
    last = next(reversed(controller.state.registrations))
    await controller.submit(Withdraw(last, "ann"))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(len(controller.state.registrations), seconds, megabytes)
    await controller.close()

asyncio.run(main())
"""


def test_a_restart_does_not_take_long(tmp_path):
    standing = write_many(tmp_path, Model(dimensions=8, low=0, high=1023, subscriptions=COUNT, events=1))
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", RESTART, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": paths})
    count, seconds, megabytes = done.stdout.split()
    print(f"{standing} registrations: {float(seconds):.2f} s, {float(megabytes):.0f} MB")
    assert int(count) == standing - 1
    assert float(seconds) < SECONDS
    if LONG:
        assert float(megabytes) < 1000
