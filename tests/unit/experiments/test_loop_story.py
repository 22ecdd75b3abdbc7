"""Stretches of a run: each has what was counted of the events that were published in it, however late that was told."""

import pytest

from pleroma.experiments.demonstration.loop_story import AFTERWARDS, BEFORE, CHANGING, SHIFTED, Diary, LoopStory
from pleroma.experiments.demonstration.replay import DeliveryCounts


def counts(delivered, wasted, late=0.0):
    return DeliveryCounts(
        2 * delivered, delivered, wasted, late_us=(late * 1e6, None), by_subscription=(2 * delivered,)
    )


def test_what_is_told_late_belongs_to_the_stretch_in_which_it_was_published():
    clock = [100.0]
    diary = Diary(clock=lambda: clock[0])
    diary.begin(BEFORE, 2, 0)
    clock[0] = 110.0
    diary.note(counts(90, 10))
    diary.begin(SHIFTED, 2, 1000)
    clock[0] = 112.0
    diary.note(counts(100, 12, late=3.0))
    clock[0] = 115.0
    diary.note(counts(110, 32, late=2.0))
    diary.begin(AFTERWARDS, 3, 1500)
    clock[0] = 120.0
    first, second, third = diary.stretches(2000, counts(200, 62))
    assert (first.counts.wanted, first.counts.wasted, first.published, first.seconds) == (90, 10, 1000, 10.0)
    assert (second.counts.wanted, second.counts.wasted, second.published) == (110, 52, 500)
    assert (third.counts.wanted, third.counts.wasted, third.published) == (0, 0, 500)
    assert sum(each.counts.delivered for each in (first, second, third)) == 400


def test_the_curve_has_a_point_every_two_seconds_and_marks_where_stretches_begin():
    clock = [100.0]
    diary = Diary(clock=lambda: clock[0])
    diary.begin(BEFORE, 2, 0)
    for second, (delivered, wasted) in enumerate([(0, 0), (5, 1), (10, 2), (15, 3), (20, 4), (20, 4), (20, 4)]):
        clock[0] = 100.0 + second
        diary.note(counts(delivered, wasted))
        if second == 3:
            diary.begin(SHIFTED, 2, 30)
    shares, marks = diary.curve()
    assert shares == (pytest.approx(2 / 12), pytest.approx(2 / 12), None)
    assert marks == ((1, SHIFTED),)


def test_a_run_without_a_new_plan_says_so():
    diary = Diary(clock=lambda: 0.0)
    diary.begin(BEFORE, 2, 0)
    diary.note(counts(0, 0))
    diary.begin(SHIFTED, 2, 10)
    story = LoopStory(diary.stretches(20, counts(5, 5)), None, None, (), 3, (), 20, 5, 0, 0)
    assert story.to_json()["shift_to_plan_s"] is None
    assert story.waste_at_hosts(CHANGING) is None
    assert story.waste_at_hosts(SHIFTED) == 0.5
    assert [each["name"] for each in story.to_json()["stretches"]] == [BEFORE, SHIFTED]
