"""Watching: windows of event time that equal those counted slowly, each published once, whatever happens to the job."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from pleroma.errors import LakeError
from pleroma.index import IndexPlan, index_from_json
from pleroma.pipeline.lake.lake_table import LANDING, Landing
from pleroma.pipeline.watch.journal import Journal
from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder
from pleroma.pipeline.watch.streaming_job import MAX_FAILURES, StreamingJob, start_watching
from pleroma.replanning.decisions import Decision, WatchSettings
from pleroma.replanning.windows import TrafficWindow
from support.watch_cases import (
    BEGIN,
    BY_PRICE,
    MEMBERS,
    SCHEMA,
    WINDOW,
    Recorded,
    land,
    moments,
    new_lake,
    slow_counts,
    subscriptions,
    traffic,
)

QUICK = {"draw": 2000}
SETTINGS = WatchSettings(window=10, lateness=2, threshold=0.3, patience=2, cool_down=20, least=50, newcomers=0, **QUICK)
COUNT = 120
LONG = 120


def watched(spark, lake, controller, told, settings=SETTINGS, **more):
    """Once through all that is there."""
    running = start_watching(spark, lake, "stock", settings, controller, told.append, once=True, **more)
    try:
        assert running.wait(LONG)
    finally:
        running.query.stop()
    return running


def counted(number, events=None, refused=0):
    """A window by the definitions."""
    given = list(traffic(COUNT, number >= 4, number) if events is None else events)
    cells = slow_counts(given, BY_PRICE, subscriptions())
    window = TrafficWindow.of(SCHEMA, BEGIN + number * WINDOW, WINDOW, cells)
    return facts(window) | {"refused": refused}


def facts(window):
    """Without what follows from windows before."""
    return {name: value for name, value in window.to_json().items() if name not in ("drift", "empty_before")}


def said(told, kind):
    return [each for each in told if isinstance(each, kind)]


def spoil(lake):
    """What a lake may hold besides: events that no schema allows, and a file of which half is missing."""
    table = lake.event_table("stock")
    rows = table.rows().sort_by("at").slice(0, 3)
    outside = {"price": pa.array([1e6] * 3, pa.float64()), "landing": pa.array([table.landed(LANDING) + 1] * 3)}
    for name, column in outside.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    table.land(lambda state: Landing(rows, {LANDING: state.next_landing}))
    known = set(table.files())
    lake.land_events(traffic(5, False), [BEGIN] * 5, 1, 1.0)
    (half,) = set(table.files()) - known
    path = Path(table.url, half.path)
    path.write_bytes(path.read_bytes()[:500])
    return len(rows), half.path


def test_windows_are_those_counted_slowly_and_published_once(spark, tmp_path):
    lake, told = new_lake(tmp_path / "lake"), []
    for number in range(5):
        land(lake, number, count=COUNT, shifted=number >= 4)
    refused, half = spoil(lake)
    controller = Recorded()
    watched(spark, lake, controller, told)
    # nothing lies beyond the fifth yet, so it is open
    assert list(map(facts, said(told, TrafficWindow))) == [
        counted(0, refused=refused),
        *(counted(n) for n in (1, 2, 3)),
    ]
    assert controller.taken == []
    assert [each.path for each in lake.refused()] == [half]

    # one more event of the fifth in time, many of the first too late, then others, with a gap
    again = []
    more, late = traffic(1, True, 99), traffic(50, False, 98)
    lake.land_events(more, [BEGIN + 4 * WINDOW], 1, 1.0)
    lake.land_events(late, moments(BEGIN, WINDOW, 50), 1, 1.0)
    for number in (5, 6, 9, 10):
        land(lake, number, count=COUNT, shifted=True)
    assert watched(spark, lake, controller, again).late > 0
    fifth = [*traffic(COUNT, True, 4), *more]
    windows = said(again, TrafficWindow)
    assert list(map(facts, windows)) == [counted(4, fifth), *(counted(n) for n in (5, 6, 9))]
    assert [each.empty_before for each in windows] == [0, 0, 0, 2]
    assert [each.drift > 0.8 for each in windows] == [True] * 4
    (decision,) = said(again, Decision)
    assert (decision.window, decision.outcome, decision.new_epoch) == (BEGIN + 9 * WINDOW, "adopted", 2)
    assert (decision.learned.start, decision.learned.events) == (BEGIN + 4 * WINDOW, 4 * COUNT + 1)
    assert decision.after.rate < 0.2 < 0.6 < decision.before.rate
    assert [epoch for epoch, _ in controller.taken] == [1]

    with pytest.raises(LakeError, match="choose another"):
        start_watching(spark, lake, "stock", WatchSettings(window=20), controller)


def test_a_running_job_closes_windows_as_they_land_and_stops_in_good_order(spark, tmp_path):
    lake, told = new_lake(tmp_path / "lake"), []
    land(lake, 0, count=COUNT)
    settings = WatchSettings(window=10, lateness=0, least=50, trigger=0.1)
    running = start_watching(spark, lake, "stock", settings, None, told.append, checkpoint=str(tmp_path / "checkpoint"))
    try:
        for number in (1, 2):
            land(lake, number, count=COUNT)
            for _ in range(LONG * 10):
                if len(said(told, TrafficWindow)) >= number:
                    break
                assert not running.wait(0.1)
        assert list(map(facts, said(told, TrafficWindow))) == [counted(0), counted(1)]
    finally:
        running.stop()
    assert not running.query.isActive
    assert running.query.exception() is None
    assert not (tmp_path / "lake" / "checkpoints").exists()


class Controller(ThreadingHTTPServer):
    """One plan over HTTP. `adopting` is called when it has adopted another and not said so yet."""

    daemon_threads = True

    def __init__(self, adopting):
        super().__init__(("127.0.0.1", 0), _Answering)
        self.plan, self.adopted, self.adopting = IndexPlan(1, BY_PRICE, MEMBERS), [], adopting
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer(200, {"epoch": self.server.plan.epoch, "members": self.server.plan.members, "plan": self._plan()})

    def do_PUT(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["epoch"] != self.server.plan.epoch:
            error = {"code": "plan_moved", "reason": "another is in force", "field": "epoch", "value": asked["epoch"]}
            return self._answer(409, {"error": error})
        self.server.plan = IndexPlan(asked["epoch"] + 1, index_from_json(SCHEMA, asked["index"]), asked["members"])
        self.server.adopted.append(self.headers["Authorization"])
        if self.server.adopting():
            return self._answer(200, {"schema": "stock", "epoch": self.server.plan.epoch, "phase": "settled"})
        return None

    def _plan(self):
        return json.loads(self.server.plan.dumps())

    def _answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@contextmanager
def serving(adopting):
    server = Controller(adopting)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_driver_that_is_killed_in_the_middle_of_a_batch_leaves_nothing_done_twice(spark, tmp_path):
    """It is killed when the controller has adopted its plan, and before it can hear so."""
    lake = new_lake(tmp_path / "lake")
    for number in range(8):
        land(lake, number, count=COUNT, shifted=number >= 4)
    (tmp_path / "token").write_text("plr_tuner\n")
    killed = []

    def kill():
        os.killpg(job.pid, signal.SIGKILL)  # with its Java
        killed.append(job.wait())
        return False

    command = [sys.executable, "-m", "pleroma.cli", "pipeline", "watch", str(tmp_path / "lake"), "--json"]
    limits = ["--window", "10s", "--lateness", "2s", "--least", "50", "--cool-down", "20s", "--once"]
    with serving(kill) as controller:
        where = ["--url", controller.url, "--token-file", str(tmp_path / "token"), "--master", "local[1]"]
        environment = os.environ | {"JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
        job = subprocess.Popen(
            [*command, *limits, *where], stdout=subprocess.PIPE, start_new_session=True, env=environment
        )
        with job.stdout:
            printed = [json.loads(line) for line in job.stdout]
        job.wait()
        assert (killed, controller.adopted) == ([-signal.SIGKILL], ["Bearer plr_tuner"])
        assert len([each for each in printed if "window" in each]) == 7
        (pending,) = Journal(lake, "stock").decisions()
        assert pending.outcome == "handing"

        controller.adopting = lambda: True
        told = []
        with ControllerPlanHolder(controller.url, "plr_tuner", "stock") as handover:
            watched(spark, lake, handover, told)
        assert len(controller.adopted) == 1
        assert said(told, TrafficWindow) == []
        (decision,) = said(told, Decision)
        assert (decision.outcome, decision.new_epoch) == ("adopted", 2)

    journal = Journal(lake, "stock")
    assert list(map(facts, journal.windows())) == [counted(number) for number in range(7)]
    assert [each.outcome for each in journal.decisions()] == ["adopted"]


def test_an_interrupted_stream_of_many_small_batches_ends_with_the_same_windows(spark, tmp_path):
    """Stopped without waiting, wherever it was, again and again."""
    lake, told = new_lake(tmp_path / "lake"), []
    for number in range(2):
        land(lake, number, count=COUNT, parts=3)
        running = start_watching(spark, lake, "stock", SETTINGS, None, told.append)
        while "Initializing" in running.query.status["message"]:
            assert not running.wait(0.1)
        running.wait(0.5 * number)
        running.query.stop()
    land(lake, 2, count=COUNT)
    watched(spark, lake, None, told)
    assert list(map(facts, said(told, TrafficWindow))) == [counted(number) for number in range(2)]


def test_a_job_that_died_before_its_first_step_begins_anew(spark, tmp_path):
    lake, told = new_lake(tmp_path / "lake"), []
    land(lake, 0, count=COUNT)
    land(lake, 1, count=COUNT)
    for name in ("offsets/.0.4cf3.tmp", "state/0/0/.1.delta.tmp"):
        left = tmp_path / "checkpoint" / name
        left.parent.mkdir(parents=True)
        left.write_text("half")
    watched(spark, lake, None, told, checkpoint=str(tmp_path / "checkpoint"))
    assert list(map(facts, said(told, TrafficWindow))) == [counted(0)]


class Failing:
    """A query that fails as often as it is told, and then is over."""

    def __init__(self, failures):
        self.failures, self.begun = failures, 0

    def begin(self):
        self.begun += 1
        return self

    def awaitTermination(self, _):  # noqa: N802
        from pyspark.errors import StreamingQueryException

        if self.begun <= self.failures:
            raise StreamingQueryException("it failed\npleroma.errors.LakeError: the disk is full\n at line 3")
        return True


def test_a_job_that_fails_is_begun_again_but_not_for_ever():
    query = Failing(MAX_FAILURES)
    assert StreamingJob(query.begin).wait(LONG)
    assert query.begun == MAX_FAILURES + 1
    query = Failing(MAX_FAILURES + 1)
    with pytest.raises(LakeError, match="the job failed: the disk is full"):
        StreamingJob(query.begin).wait(LONG)
    assert query.begun == MAX_FAILURES + 1
