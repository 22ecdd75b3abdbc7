"""A restart with a hundred thousand subscriptions takes seconds. To make them takes a while: PLEROMA_LONG=1."""

import os
import subprocess
import sys
from pathlib import Path

from pleroma.content.filter_json import to_json
from pleroma.control import ControlState, CreatePrincipal, CreateSchema, Entry, Log, Register
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state.command import canonical
from pleroma.control.state.records import Registered
from pleroma.control.state_snapshot import snapshot
from pleroma.routing import build
from pleroma.workloads import Model, generate
from support.control_cases import DIGEST

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


def prepare(folder):
    """What a controller leaves behind, written without the time it takes to accept so many."""
    load = generate(Model(dimensions=8, low=0, high=1023, subscriptions=COUNT, events=1))
    state = ControlState(build("testbed"))
    hosts = [host.name for host in state.topology.hosts]
    state.apply(2, CreateSchema(load.schema))
    state.apply(3, CreatePrincipal("ann", "admin", DIGEST))
    for position, host in enumerate(hosts, 4):
        state.apply(position, Register("advertisement", "ann", host, load.schema.name, [{}]))
    entry, first = state.schemas[load.schema.name], 4 + len(hosts)
    for position, wanted in enumerate(load.subscriptions, first):
        host, text = hosts[position % len(hosts)], canonical(to_json(wanted))
        region = entry.index.cover(wanted, max_members=entry.members).under(entry.prefix)
        region.slim()
        state.registrations.add(Registered(f"s{position}", "subscription", "ann", host, entry, text, region, 0))
    with Log.open(folder / LOG_FILE_NAME) as log:
        log.append([Entry(b"{}")] * (first + COUNT - 1))
        log.save_snapshot(log.head, snapshot(state, KeptAnswers()))
    return len(state.registrations)


def test_a_restart_does_not_take_long(tmp_path):
    standing = prepare(tmp_path)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", RESTART, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": paths})
    count, seconds, megabytes = done.stdout.split()
    print(f"{standing} registrations: {float(seconds):.2f} s, {float(megabytes):.0f} MB")
    assert int(count) == standing - 1
    assert float(seconds) < SECONDS
    if LONG:
        assert float(megabytes) < 1000
