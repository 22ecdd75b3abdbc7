"""Requests that come again: found by their keys as the log is followed, and answered as the first time."""

import asyncio
import sqlite3
from contextlib import closing
from hashlib import sha256

import pytest

from pleroma.control import CommandRefused, Controller, ControlState, CreateSchema, Done
from pleroma.control.kept_answers import (
    DIGEST_BYTES,
    MAX_KEY_CHARACTERS,
    KeptAnswers,
    check_key,
    request_digest,
    with_digests,
)
from pleroma.control.log_fold import LogFold, entry_of, log_body, read_body
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state.command import Begin
from pleroma.errors import ControlError, KeyConflict, NotThere, OtherControl
from support.control_cases import ANN, LINE, SMALL, WEATHER, Network, subscribe


def kept(*keys, remember=3):
    answers = KeptAnswers(remember)
    for position, key in enumerate(keys, 1):
        answers.forget(position)
        answers.keep(position, key, key.encode(), Done({"at": position}))
    return answers


def test_a_repetition_is_told_from_a_new_request_and_from_a_conflict():
    answers = kept("a", "b")
    assert answers.repeated("a", b"a").position == 1
    assert answers.repeated("b", b"b").result == Done({"at": 2})
    assert answers.repeated("c", b"c") is None
    with pytest.raises(KeyConflict, match="the key belongs to another request") as caught:
        answers.repeated("a", b"other")
    assert (caught.value.field, caught.value.value) == ("key", "a")


def test_keys_are_compared_exactly():
    keys = ["k", "K", "k ", "k\0", "é", "e\u0301", "x" * MAX_KEY_CHARACTERS]
    answers = kept(*keys, remember=10)
    assert [answers.repeated(key, key.encode()).position for key in keys] == list(range(1, 8))


def test_a_refusal_is_kept_like_an_answer():
    answers = KeptAnswers()
    answers.keep(1, "k", b"", CommandRefused(NotThere("is not there", field="id", value="s9")))
    result = answers.repeated("k", b"").result
    assert isinstance(result.error, NotThere)
    assert (result.error.reason, result.error.field, result.error.value) == ("is not there", "id", "s9")


def test_answers_are_kept_for_so_many_positions():
    answers = kept("a", "b", "c")
    answers.forget(3)
    assert [each.position for each in answers.items()] == [1, 2, 3]
    answers.forget(4)
    assert [each.position for each in answers.items()] == [2, 3]
    assert answers.repeated("a", b"anything") is None
    answers.forget(100)
    assert len(answers) == 0


def test_answers_are_written_and_read():
    answers = kept("a", "tab\tand\nline")
    again = KeptAnswers.read(each.line for each in answers.items())
    assert again.items() == answers.items()


def test_lines_of_an_earlier_version_get_their_digests_or_are_left_out():
    lines = ['1\t"a"\t{"done":{}}', '2\t"b"\t{"done":{}}']
    upgraded = with_digests(lines, {1: b"x" * 32})
    assert upgraded == [f'1\t"a"\t{(b"x" * DIGEST_BYTES).hex()}\t{{"done":{{}}}}']
    assert with_digests(upgraded, {}) == upgraded


@pytest.mark.parametrize("key", ["", "x" * (MAX_KEY_CHARACTERS + 1), "\ud800"])
def test_a_bad_key_is_refused(key):
    with pytest.raises(ControlError, match=r"^key: ") as caught:
        check_key(key)
    assert (caught.value.field, caught.value.value) == ("key", key)
    check_key("x" * MAX_KEY_CHARACTERS)


class TestFold:
    """Two processes may append the same request: the log has it twice, and it is carried out once."""

    @pytest.fixture
    def fold(self):
        made = LogFold(ControlState(LINE, SMALL), KeptAnswers())
        for position, command in enumerate((Begin(SMALL.to_json(), made.state.network), CreateSchema(WEATHER), ANN), 1):
            assert isinstance(made.fold(position, log_body(command)).result, Done)
        return made

    def test_an_entry_that_repeats_another_changes_nothing_and_gets_its_answer(self, fold):
        body = log_body(subscribe("ann", "temperature < 2"), "k")
        first = fold.fold(4, body)
        assert (first.position, first.result.value["id"]) == (4, "s4")
        again = fold.fold(5, body)
        assert (again.position, again.result.value) == (4, first.result.value)
        assert list(fold.state.registrations) == ["s4"]

    def test_another_request_under_the_same_key_is_refused(self, fold):
        fold.fold(4, log_body(subscribe("ann", "temperature < 2"), "k"))
        other = fold.fold(5, log_body(subscribe("ann", "temperature < 3"), "k"))
        assert isinstance(other.result.error, KeyConflict)
        assert list(fold.state.registrations) == ["s4"]
        assert fold.answers.repeated("k", log_body(subscribe("ann", "temperature < 2"), "k")).position == 4

    def test_a_request_whose_answer_is_forgotten_is_a_new_one(self, fold):
        fold.answers._remember = 2
        body = log_body(subscribe("ann", "temperature < 2"), "k")
        fold.fold(4, body)
        assert fold.fold(5, body).position == 4
        assert fold.fold(6, body).position == 6
        assert list(fold.state.registrations) == ["s4", "s6"]

    def test_what_was_read_before_need_not_be_read_again(self, fold):
        command = subscribe("ann", "temperature < 2")
        given = fold.fold(4, b"not read", entry_of(command, "k"))
        assert given.result.value["id"] == "s4"
        assert fold.answers.items()[-1].digest == request_digest(log_body(command, "k"))

    def test_a_log_of_another_network_is_not_followed_but_who_begins_it_late_is_only_refused(self, fold):
        strange = log_body(Begin({**SMALL.to_json(), "max_length": 9}, fold.state.network))
        assert isinstance(fold.fold(4, strange).result, CommandRefused)
        with pytest.raises(OtherControl):
            LogFold(ControlState(LINE, SMALL), KeptAnswers()).fold(1, strange)


def test_a_log_of_the_format_before_keeps_its_keys(tmp_path):
    """Format 2 had a table of keys, and snapshots without digests."""

    async def scenario(*, is_first):
        async with await Controller.open(tmp_path, LINE, Network(), SMALL) as controller:
            if is_first:
                for command in (CreateSchema(WEATHER), ANN):
                    await controller.submit(command)
                await controller.submit(asked, "before")  # in the snapshot
                await controller.save_snapshot()
                await controller.submit(later, "behind")
            else:
                assert (await controller.submit(asked, "before")).value["id"] == "s4"
                assert (await controller.submit(later, "behind")).value["id"] == "s5"
                with pytest.raises(KeyConflict):
                    await controller.submit(subscribe("ann", "temperature < 9"), "before")
                assert list(controller.state.registrations) == ["s4", "s5"]

    asked, later = subscribe("ann", "temperature < 2"), subscribe("ann", "temperature < 3")
    asyncio.run(scenario(is_first=True))
    with closing(sqlite3.connect(tmp_path / LOG_FILE_NAME)) as log:
        log.execute("CREATE TABLE keys (position INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, digest BLOB NOT NULL)")
        bodies = {4: log_body(asked, "before"), 5: log_body(later, "behind")}
        for position, body in bodies.items():
            log.execute("INSERT INTO keys VALUES (?, ?, ?)", (position, read_body(body).key, sha256(body).digest()))
        for position, state in log.execute("SELECT position, state FROM snapshots").fetchall():
            earlier = state
            for body in bodies.values():
                earlier = earlier.replace(b"\t" + request_digest(body).hex().encode(), b"")
            assert len(earlier) < len(state)
            row = (sha256(b"%d " % position + earlier).digest(), earlier, position)
            log.execute("UPDATE snapshots SET digest = ?, state = ? WHERE position = ?", row)
        log.execute("PRAGMA user_version = 2")
        log.commit()
    asyncio.run(scenario(is_first=False))
    asyncio.run(scenario(is_first=False))
