"""The watcher's process, as far as it goes without Spark."""

import asyncio

import pytest

from pleroma.errors import SetupError
from pleroma.experiments.demonstration import watch_process
from pleroma.experiments.demonstration.watch_process import WatcherOutput, watcher_process


def test_a_watcher_that_cannot_start_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(watch_process, "MAX_WATCHER_STARTS", 1)

    async def begin():
        async with watcher_process(str(tmp_path / "nothing"), "quotes", "http://127.0.0.1:9", "token") as made:
            while True:
                made.check()
                await asyncio.sleep(0.1)

    with pytest.raises(SetupError, match=r"the watcher stopped: .*there is no lake here"):
        asyncio.run(begin())


def test_a_line_that_is_no_word_of_the_watchers_does_not_make_us_deaf():
    async def listen():
        lines, made = asyncio.StreamReader(), WatcherOutput()
        for line in (b"WARNING: something of Java\n", b"\xff\n", b'{"window": {"events": 5, "unjudged": 0}}\n'):
            lines.feed_data(line)
        lines.feed_eof()
        await watch_process._Process((), "token")._read(lines, made)
        return made

    assert asyncio.run(listen()).is_awake


def test_windows_and_decisions_to_tune_are_kept_and_the_others_are_not():
    heard = []
    made = WatcherOutput(on_decision=heard.append)
    made.hear({"window": {"events": 5, "unjudged": 5}})
    assert not made.is_awake
    made.hear({"window": {"events": 5, "unjudged": 0}})
    made.hear({"decision": {"verdict": "keep"}})
    made.hear({"decision": {"verdict": "tune"}})
    assert made.is_awake
    assert heard == made.decisions == [{"verdict": "tune"}]
