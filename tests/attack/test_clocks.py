"""A machine whose clock is set, in either direction: nothing is removed, nothing expires, and no moment is far off."""

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import pleroma
from pleroma.content.batch import EventBatch
from pleroma.service.collecting.lake_upkeep import CALM_SECONDS_BEFORE_REMOVAL, LakeUpkeep
from pleroma.service.collecting.settled_clock import BELIEVED_SECONDS, JUMP_SECONDS, SettledClock
from support.service.with_lake import COLUMNS, STOCK, collecting, landed, sample_body
from support.waiting import run

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
YEAR_SECONDS = 365 * 86_400.0
SOURCE = Path(pleroma.__file__).parent
TIMES_OF_DAY = {
    "client/session/event_source.py": "an event says when it was sent",
    "control/state/plan_origin.py": "when a plan was asked for, for people",
    "control/state_backup.py": "when a backup was made, for people",
    "pipeline/lake/lake.py": "since when a row is valid",
    "pipeline/lake/lake_table.py": "Delta remembers a sender by the time of day",
    "pipeline/lake/maintenance.py": "what is old, for a command",
    "pipeline/lake/period.py": "until now, for a command",
    "pipeline/lake_situation.py": "the situation now, for a command",
    "replanning/trial_search.py": "a search that nobody sees",
    "service/collecting/sample_intake.py": "without a lake nobody looks at the moments of samples",
    "service/collecting/settled_clock.py": "the one clock of what is landed",
    "service/replanning/planner.py": "where a clock begins that nobody can set",
}
"""The only modules of the product that look at a clock which can be set, and what for; nothing that lasts."""
FOR_PEOPLE = ("cli", "experiments", "lab")
"""Rooms with commands and demonstrations."""


class Machine:
    """Its time of day can be set, and its steady clock goes on."""

    def __init__(self):
        self.steady, self.wrong_by = 1_000.0, 0.0

    def clock(self):
        return SettledClock(lambda: NOON.timestamp() + self.steady - 1_000 + self.wrong_by, lambda: self.steady)

    def right(self):
        return NOON + timedelta(seconds=self.steady - 1_000)


@pytest.mark.parametrize("jump", [YEAR_SECONDS, -YEAR_SECONDS, 2 * JUMP_SECONDS, -2 * JUMP_SECONDS])
def test_a_jump_is_believed_when_it_has_lasted_and_one_that_is_put_right_never_was(jump):
    machine = Machine()
    clock = machine.clock()
    machine.wrong_by = jump
    for _ in range(5):
        machine.steady += BELIEVED_SECONDS / 6
        assert clock.now() == machine.right()
    machine.wrong_by = 0.0
    assert clock.now() == machine.right()
    machine.wrong_by = jump
    assert clock.now() == machine.right()
    assert not clock.is_calm(0.0)
    machine.steady += BELIEVED_SECONDS
    assert clock.now() == machine.right() + timedelta(seconds=jump)
    assert clock.is_calm(0.0)
    assert not clock.is_calm(1.0)


def test_small_corrections_are_followed_at_once_and_a_clock_that_wanders_is_not():
    machine = Machine()
    clock = machine.clock()
    for _ in range(100):
        machine.wrong_by += JUMP_SECONDS / 2
        assert clock.now() == machine.right() + timedelta(seconds=machine.wrong_by)
    settled = machine.wrong_by
    for number in range(100):
        machine.wrong_by = settled + (number % 2 + 1) * YEAR_SECONDS
        machine.steady += BELIEVED_SECONDS / 2
        assert clock.now() == machine.right() + timedelta(seconds=settled)


@pytest.mark.parametrize("years", [1, -1])
def test_a_jump_over_years_removes_nothing_from_a_lake_and_gives_samples_no_other_day(tmp_path, years):
    async def main():
        machine = Machine()
        async with collecting(tmp_path, keep_days=30) as (api, collection, lake):
            collection.clock = clock = machine.clock()
            collection.upkeep = LakeUpkeep(lake.url, 30, clock, lambda: machine.steady)
            events = EventBatch.from_columns(STOCK, COLUMNS)
            lake.land_events(events, [NOON - timedelta(days=1)] * 2, 1, 1.0)
            machine.wrong_by = years * YEAR_SECONDS
            assert collection.upkeep.begin_if_due() is None
            await api.post("/v1/samples", sample_body(ages=[0.0, 0.0]), 202)
            await collection.land(everything=True)
            assert max(row["at"] for row in landed(lake)) == NOON
            machine.wrong_by = 0.0
            await collection.upkeep.begin_if_due()  # as if nothing had been
            assert len(landed(lake)) == 4
            machine.wrong_by = years * YEAR_SECONDS
            clock.now()
            machine.steady += BELIEVED_SECONDS + 3_600
            assert collection.upkeep.begin_if_due() is None  # it is believed, and a day is left to put it right
            machine.steady += CALM_SECONDS_BEFORE_REMOVAL
            await collection.upkeep.begin_if_due()
            assert len(landed(lake)) == (0 if years > 0 else 4)

    run(main)


def test_nothing_that_lasts_is_measured_by_a_clock_that_can_be_set():
    """Leases, attachments, sessions, allowances and pauses go by a clock that nobody can set."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_read = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if is_read and (node.value.id, node.attr) in {
                ("time", "time"),
                ("time", "time_ns"),
                ("datetime", "now"),
                ("datetime", "utcnow"),
                ("datetime", "today"),
            }:
                found.add(name)
    found = {each for each in found if each.partition("/")[0] not in FOR_PEOPLE}
    assert found - TIMES_OF_DAY.keys() == set()
