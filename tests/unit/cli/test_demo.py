"""The demonstration's choice and its words; that it works is shown where its processes run."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.text import Text

from pleroma.cli import demo_display
from pleroma.cli.commands import demo as module
from pleroma.cli.demo_display import BARS, curve, summary
from pleroma.cli.pictures.figure_style import save_figure
from pleroma.cli.pictures.loop_picture import draw_loop
from pleroma.experiments.demonstration.loop_story import AFTERWARDS, BEFORE, CHANGING, SHIFTED, LoopStory, Stretch
from pleroma.experiments.demonstration.replay import DeliveryCounts
from pleroma.pipeline import spark_needs

DECISION = {"detail": "61.0% of the packets at hosts are wasted", "outcome": "adopted", "technique": "learned"}


def story(**changes):
    wasted = {BEFORE: (30, 0), SHIFTED: (60, 0), CHANGING: (60, 20), AFTERWARDS: (35, 0)}
    stretches = tuple(
        Stretch(name, 10.0, 3 if name == AFTERWARDS else 2, 100, DeliveryCounts(300, 100 - w, w, stray=stray))
        for name, (w, stray) in wasted.items()
    )
    given = {"shift_to_plan": 17.5, "shift_to_settled": 18.0, "decisions": (DECISION,), "windows": 9}
    given |= {"curve": ((1.0, 0.3), (15.0, 0.6), (35.0, 0.35)), "published": 400, "wanted": 215}
    return LoopStory(stretches, **(given | {"missed": 0, "too_many": 0} | changes))


@pytest.fixture
def printed(monkeypatch):
    written = io.StringIO()
    console = Console(file=written, width=160, highlight=False)
    monkeypatch.setattr(demo_display, "out", console)
    monkeypatch.setattr("pleroma.cli.output.out", console)
    return written


@pytest.mark.parametrize(("spark", "reason"), [(True, None), (True, "Java is missing"), (False, None)])
def test_the_loop_runs_where_spark_does_and_otherwise_it_is_said_loudly(monkeypatch, capsys, spark, reason):
    ran = []
    monkeypatch.setattr(module, "_closed_loop", lambda *_: ran.append("loop"))
    monkeypatch.setattr(module, "_halves", lambda *_: ran.append("halves"))
    monkeypatch.setattr(spark_needs, "missing", lambda: reason)
    module.demo(spark=spark)
    assert ran == (["loop"] if spark and reason is None else ["halves"])
    assert ("NO CLOSED LOOP" in capsys.readouterr().err) == (reason is not None)


def test_the_summary_says_how_long_it_took_and_that_nothing_was_lost(printed):
    summary(story())
    said = printed.getvalue()
    assert "17.5 s from the shift to the new plan in force, 18.0 s until the old one was gone" in said
    assert "30.0% before the shift, 60.0% after the shift, 66.7% while the plan changes, 35.0% by the new plan" in said
    assert "61.0% of the packets at hosts are wasted: adopted (learned)" in said
    assert "every wanted event arrived, and arrived once" in said


def test_the_summary_does_not_claim_what_was_not_so(printed):
    summary(story(shift_to_plan=None, shift_to_settled=None, missed=2))
    said = printed.getvalue()
    assert "no better plan came into force" in said
    assert "every wanted event arrived" not in said


def test_the_curve_is_a_bar_for_each_point_with_a_line_where_something_happened():
    look = SimpleNamespace(waste_at_hosts=(0.0, 0.3, None, 0.62, 1.0), marks=((3, SHIFTED),))
    assert Text.from_markup(curve(look)).plain == f"{BARS[0]}{BARS[2]} │{BARS[4]}{BARS[7]}  100%"


def test_the_picture_of_the_loop_is_drawn(tmp_path):
    save_figure(draw_loop(story()).figure, tmp_path / "loop.svg")
    drawn = (tmp_path / "loop.svg").read_text()
    assert drawn.startswith("<?xml")
