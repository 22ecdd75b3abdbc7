"""kill -9 at any moment: what was acknowledged is in the log, once and in order, and the next controller can go on.

A kill does not lose what the operating system has taken; that commits are also synced is pinned in the unit tests.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from pleroma.control import SqliteLog
from support.programs import environment

WRITER = Path(__file__).with_name("log_writer.py")
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
KILLS = 200 if THOROUGH else 15


def lives(path, life, clients, seconds):
    """Run a writer, kill it, and return what it said."""
    command = [sys.executable, str(WRITER), str(path), life, str(clients)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as writer:
        try:
            ready = writer.stdout.readline().split()
            assert ready[:1] == ["ready"], "the writer could not start"
            time.sleep(seconds)
        finally:
            writer.kill()
        said = writer.stdout.read()
    complete = said[: said.rfind("\n") + 1]  # the last line may be cut
    return int(ready[1]), [(key, int(position)) for key, position in map(str.split, complete.splitlines())]


def contents(log):
    """All bodies from the first on, as a restart finds them."""
    recovery = log.latest_snapshot()
    assert recovery.damaged == ()
    bodies = recovery.snapshot.state.decode().split() if recovery.snapshot else []
    assert len(bodies) == recovery.position
    for position, body in log.read(recovery.position):
        assert position == len(bodies) + 1
        bodies.append(body.decode())
    return bodies, recovery.position


def test_what_was_acknowledged_survives_every_kill(tmp_path):
    path = tmp_path / "log"
    chance = random.Random() if THOROUGH else random.Random(7)
    before, acknowledged, snapshot = [], 0, 0
    for life in range(KILLS):
        clients = chance.choice([1, 8, 32])
        found, said = lives(path, f"life{life}", clients, chance.uniform(0, 0.15))
        assert found == len(before)
        with SqliteLog.open(path) as log:  # the lock is free
            bodies, snapshot = contents(log)
            assert bodies[: len(before)] == before
            mine = bodies[len(before) :]
            assert len(set(mine)) == len(mine)
            for key, position in said:
                assert bodies[position - 1] == key
            assert len(said) <= len(mine) <= len(said) + 256
            order = [int(key.removeprefix(f"life{life}-")) for key in mine]
            assert order == list(range(1, len(mine) + 1)), "not in the order of the calls"
            assert log.append([b"between"]) == len(bodies) + 1
        before = [*bodies, "between"]
        acknowledged += len(said)
    assert acknowledged > 10 * KILLS
    assert snapshot > 40, "no life was long enough for a snapshot"
