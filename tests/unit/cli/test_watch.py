"""`pleroma pipeline watch`: what it is asked for, checked before anything is started, and what it says."""

from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.cli.commands.watch import _decision_line, _window_line, seconds
from pleroma.errors import PleromaError, SetupError
from pleroma.index import Waste
from pleroma.replanning.decisions import Decision
from pleroma.replanning.reported_counts import ReportedCounts
from pleroma.replanning.windows import MetricKey, TrafficWindow
from support.watch_cases import BEGIN, SCHEMA, WINDOW, new_lake


@pytest.mark.parametrize(
    ("text", "value"),
    [("60s", 60), ("500ms", 0.5), ("5m", 300), ("1h", 3600), ("2", 2), ("1.5 h", 5400), ("1d", 86400)],
)
def test_times_are_written_with_a_unit(text, value):
    assert seconds("--window", text) == value


@pytest.mark.parametrize("text", ["", "s", "-1s", "1x", "1 s s", "nan", "1e3"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(SetupError, match="no time such as"):
        seconds("--window", text)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["--window", "soon"], "--window"),
        (["--window", "0s"], "window"),
        (["--threshold", "30"], "threshold"),
        (["--schema", "nothing"], "nothing"),
        (["--splits", "regular"], "--splits"),
        ([], "--url"),
        (["--url", "http://127.0.0.1:9", "--token", ""], "--token-file"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_started(tmp_path, monkeypatch, options, field):
    for name in ("PLEROMA_URL", "PLEROMA_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    new_lake(tmp_path)
    outcome = CliRunner().invoke(app, ["pipeline", "watch", str(tmp_path), *options])
    assert outcome.exit_code != 0
    assert isinstance(outcome.exception, (PleromaError, SystemExit))
    assert field in str(outcome.exception) + outcome.output


def test_a_lake_without_a_schema_has_nothing_to_watch(tmp_path):
    outcome = CliRunner().invoke(app, ["pipeline", "watch", str(tmp_path / "empty"), "--dry-run"])
    assert "which schema" in str(outcome.exception) + outcome.output


def test_a_window_and_a_decision_are_a_line_each():
    cells = {
        MetricKey("events"): 1500,
        MetricKey("epoch", 3): 1500,
        MetricKey("deliveries"): 100,
        MetricKey("wanted"): 60,
    }
    window = TrafficWindow.of(SCHEMA, BEGIN, WINDOW, cells)
    assert _window_line(window) == "12:00:00    1,500 events  waste at hosts  40.0%  plan 3"
    full = replace(window, refused=2, unjudged=3, empty_before=4, drift=0.123, reported=ReportedCounts(7, 3, 1))
    assert _window_line(full).endswith(
        "reported  25.0%  drift 0.12  plan 3  2 refused  3 unjudged  4 empty windows before"
    )
    kept = Decision("stock", BEGIN, BEGIN + WINDOW, 3, None, "all is well")
    assert _decision_line(kept) == "12:00:00  keep: all is well"
    tuned = replace(kept, reason="waste", detail="40.0% are wasted", outcome="adopted", technique="evs", new_epoch=4)
    tuned = replace(tuned, before=Waste(10, 5), after=Waste(8, 6), seconds=timedelta(seconds=3) / timedelta(seconds=1))
    why = "12:00:00  tuned (waste: 40.0% are wasted): adopted, evs: waste at"
    share = "50.0% -> 25.0% of held-out events"
    assert _decision_line(tuned) == f"{why} subscriptions {share}, plan 4, 3.0 s"
    placed = replace(tuned, rules=1200, rules_by_switch={"R1": 1200})
    assert _decision_line(placed) == f"{why} hosts {share}, at most 1,200 rules, plan 4, 3.0 s"
