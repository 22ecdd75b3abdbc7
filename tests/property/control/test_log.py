"""A log against a plain list, through any sequence of appends, snapshots, compactions, damage and restarts."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pleroma.control import SqliteLog
from pleroma.errors import EntriesDropped, LogError, LogLocked

bodies = st.sampled_from([b"", b"a", b"b", b"\0" * 5000])


class LogAgainstList(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.bodies = []  # all there ever were
        self.first = 1
        self.snapshots = {}  # those kept: the state by position, None where it was damaged
        self.open()

    def open(self):
        self.log = SqliteLog.open(self.folder / "log")

    def teardown(self):
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.folder)

    @rule(batch=st.lists(bodies, max_size=5))
    def append(self, batch):
        assert self.log.append(batch) == len(self.bodies) + 1
        self.bodies += batch

    @rule(data=st.data())
    def save_snapshot(self, data):
        position = data.draw(st.integers(0, len(self.bodies) + 1))
        state = b"state %d" % position
        newest = max(self.snapshots, default=0)
        if not newest <= position <= len(self.bodies):
            with pytest.raises(LogError):
                self.log.save_snapshot(position, state)
            return
        self.log.save_snapshot(position, state)
        others = [p for p, kept in self.snapshots.items() if kept is not None and p != position]
        self.snapshots = {p: self.snapshots[p] for p in sorted(others)[-1:]} | {position: state}

    @precondition(lambda self: self.snapshots)
    @rule()
    def damage_the_newest_snapshot(self):
        self.log.close()
        with closing(sqlite3.connect(self.folder / "log")) as other:
            other.execute("UPDATE snapshots SET state = x'00' WHERE position = ?", (max(self.snapshots),))
            other.commit()
        self.snapshots[max(self.snapshots)] = None
        self.open()

    @rule(most=st.integers(1, 4))
    def compact(self, most):
        while self.log.compact(most):
            pass
        if len(self.snapshots) == 2:
            older = min(self.snapshots)
            self.first = max(self.first, older + 1)

    @rule()
    def restart(self):
        with pytest.raises(LogLocked):
            SqliteLog.open(self.folder / "log")
        self.log.close()
        self.open()

    @invariant()
    def the_log_is_the_list(self):
        if not hasattr(self, "log"):
            return
        everything = list(enumerate(self.bodies, 1))
        assert self.log.head == len(self.bodies)
        for after in range(self.first - 1, len(self.bodies) + 1):
            assert list(self.log.read(after)) == everything[after:]
        if self.first > 1:
            with pytest.raises(EntriesDropped):
                self.log.read(self.first - 2)

    @invariant()
    def a_restart_finds_the_newest_intact_snapshot_and_all_that_follows(self):
        if not hasattr(self, "log"):
            return
        recovery = self.log.latest_snapshot()
        intact = [(p, state) for p, state in sorted(self.snapshots.items()) if state is not None]
        if intact:
            assert (recovery.snapshot.position, recovery.snapshot.state) == intact[-1]
            list(self.log.read(recovery.position))
        else:
            assert recovery.snapshot is None
        newer = [p for p in self.snapshots if p > recovery.position or recovery.snapshot is None]
        assert list(recovery.damaged) == sorted(newer, reverse=True)


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(stateful_step_count=30)
