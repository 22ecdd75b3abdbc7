"""kill -9 while a log is opened, closed, compacted or emptied into its database: the next start never complains."""

import os
import random
import signal
import time

from pleroma.control import SqliteLog
from pleroma.control.log.log_examination import examine
from support.killed_log import found

LONG = os.environ.get("PLEROMA_LONG") == "1"
KILLS = 300 if LONG else 12


def live(path, acknowledged, chance):
    """Open, append, sometimes save a snapshot, and close, again and again; tell of each entry by one byte."""
    bodies = found(path)
    while True:
        with SqliteLog.open(path) as log:
            for _ in range(chance.randrange(4)):
                body = b"%d " % len(bodies) + bytes(chance.randrange(3000))
                log.append([body])
                bodies.append(body)
                os.write(acknowledged, b".")
            if chance.random() < 0.5:
                log.save_snapshot(len(bodies), b"\n".join(bodies))
                while log.compact(5):
                    pass
                log.checkpoint()


def killed_after(path, seconds, seed):
    """Let a process live on the log for a while, kill it, and return how many entries it was acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            live(path, writing, random.Random(seed))
        finally:
            os._exit(1)
    os.close(writing)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it could not go on by itself"
    with os.fdopen(reading, "rb") as said:
        return len(said.read())


def test_whatever_a_log_was_doing_when_it_was_killed_the_next_start_has_all_that_was_acknowledged(tmp_path):
    chance = random.Random() if LONG else random.Random(21)
    path, bodies, acknowledged = tmp_path / "log", [], 0
    for seed in range(KILLS):
        said = killed_after(path, chance.uniform(0, 0.25), seed)
        acknowledged += said
        if path.exists():
            assert examine(path).faults == ()
        now = found(path)
        assert now[: len(bodies)] == bodies
        assert len(bodies) + said <= len(now) <= len(bodies) + said + 1
        bodies = now
    assert acknowledged > KILLS, "they were killed before they did anything"
