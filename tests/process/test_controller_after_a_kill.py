"""kill -9 at any moment: what was answered is there, tables are those of the log, a repetition is answered alike.

The controller under load runs in a process of its own; this one kills it, and opens what it left.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pleroma.content.filter_json import to_json
from pleroma.control import Controller, ControlState, SqliteLog, command_from_json
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state_snapshot import snapshot
from pleroma.errors import EntriesDropped
from pleroma.routing import FlowTable
from support.control_cases import LINE, SMALL, Network, fresh_tables
from support.programs import environment

WRITER = Path(__file__).with_name("controller_writer.py")
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
KILLS = 100 if THOROUGH else 6
NEVER = 10**9


def lives(folder, life, clients, every, seconds):
    """Run a controller, kill it, and return what it was about to ask and what it was answered."""
    command = [sys.executable, str(WRITER), str(folder), life, str(clients), str(every)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as writer:
        try:
            assert writer.stdout.readline().split()[:1] == ["ready"], "the controller could not start"
            time.sleep(seconds)
        finally:
            writer.kill()
        said = writer.stdout.read()
    lines = [json.loads(line) for line in said[: said.rfind("\n") + 1].splitlines()]  # the last line may be cut
    return [line for line in lines if len(line) == 2], [line for line in lines if len(line) == 3]


def folded(entries):
    """The state after all entries, from nothing."""
    state = ControlState(LINE, SMALL)
    for position, body in enumerate(entries, 1):
        state.apply(position, command_from_json(json.loads(body)["command"]))
    return state


class Witness:
    """Remembers all that the controllers of one folder said, and judges by it what the next one finds."""

    def __init__(self, folder):
        self.folder = folder
        self.registered = {}
        self.leaving = set()  # asked to be withdrawn, answered or not
        self.withdrawn = set()
        self.answers = []
        self.entries = []

    def hear(self, asked, answered):
        self.leaving |= {command["id"] for _, command in asked if command["do"] == "withdraw"}
        self.withdrawn |= {value["id"] for _, command, value in answered if command["do"] == "withdraw"}
        self.registered |= {value["id"]: command for _, command, value in answered if command["do"] == "register"}
        self.answers += answered

    async def judge(self, whole):
        with SqliteLog.open(self.folder / LOG_FILE_NAME) as log:  # the lock is free
            assert log.latest_snapshot().damaged == ()
            head = log.head
            if whole:
                self.entries += [body for _, body in log.read(len(self.entries))]
        network = Network()
        async with await Controller.open(self.folder, LINE, network, SMALL) as controller:
            assert controller.position == head
            self.judge_registrations(controller.state)
            tables = {switch: FlowTable() for switch in LINE.switches}
            for op in network.ops:
                tables[op.switch].apply(op)
            assert tables == controller.state.router.tables == fresh_tables(controller.state)
            if whole:
                again = folded(self.entries)
                assert again.router.tables == tables
                assert snapshot(again, KeptAnswers()) == snapshot(controller.state, KeptAnswers())
            for key, command, value in self.answers[-300:]:
                assert (await controller.submit(command_from_json(command), key)).value == value
            assert controller.position == head, "a repetition was taken for a new request"

    def judge_registrations(self, state):
        assert not self.withdrawn & state.registrations.keys()
        assert self.registered.keys() - self.leaving <= state.registrations.keys()
        for each in self.registered.keys() & state.registrations.keys():
            kept, command = state.registrations[each], self.registered[each]
            asked = [command["kind"], command["principal"], command["host"], command["schema"]]
            assert [kept.kind, kept.principal, kept.host, kept.schema] == asked
            assert to_json(kept.filter) == command["filter"]


@pytest.mark.parametrize("every", [25, NEVER])
def test_what_was_answered_survives_every_kill(tmp_path, every):
    chance = random.Random() if THOROUGH else random.Random(5)
    witness = Witness(tmp_path)
    for life in range(KILLS):
        clients, seconds = chance.choice([1, 8, 32]), chance.uniform(0, 0.4)
        witness.hear(*lives(tmp_path, f"life{life}", clients, every, seconds))
        asyncio.run(asyncio.wait_for(witness.judge(whole=every == NEVER), 60))
    assert len(witness.answers) > 5 * KILLS
    assert witness.withdrawn
    if every != NEVER:
        with SqliteLog.open(tmp_path / LOG_FILE_NAME) as log, pytest.raises(EntriesDropped):
            log.read()
