"""When to look for a better plan: threshold, patience, hysteresis, cool-down and period."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import LakeError, SetupError
from pleroma.index import Waste
from pleroma.replanning.decisions import (
    CALM_SHARE,
    FREE_CHANGES,
    MAX_CREDIT,
    Decision,
    WatchSettings,
    decide,
    pause_after,
    reference,
)
from pleroma.replanning.drift import drift
from pleroma.replanning.windows import MetricKey, TrafficWindow
from support.watch_cases import BEGIN, SCHEMA, WINDOW

SETTINGS = WatchSettings(window=10, threshold=0.3, hysteresis=0.2, patience=2, cool_down=20, period=10_000, least=100)


def window(number, rate, epoch=1, events=1000, spot=0, unjudged=0):
    """`spot` is where its prices are."""
    cells = {
        MetricKey("events"): events,
        MetricKey("epoch", epoch): events,
        MetricKey("unjudged"): unjudged,
        MetricKey("deliveries"): 1000,
        MetricKey("wanted"): 1000 - round(rate * 1000),
        MetricKey("histogram", 0, spot): events,
        MetricKey("histogram", 1, 0): events,
        MetricKey("histogram", 2, 0): events,
    }
    return TrafficWindow.of(SCHEMA, BEGIN + number * WINDOW, WINDOW, cells)


def history(*rates, epoch=1):
    return [window(number, rate, epoch) for number, rate in enumerate(rates)]


def looked(at, outcome="not_better", **more):
    return Decision("stock", at.start, at.end, at.epoch, "waste", "", outcome, learned=at, **more)


def verdicts(windows, outcome="not_better", settings=SETTINGS, **more):
    """One after the other, as they close; every look ends the same way."""
    decisions, said = [], []
    for count in range(1, len(windows) + 1):
        found = decide(windows[:count], decisions, settings)
        said.append(found.verdict)
        if found.reason is not None:
            decisions.append(replace(found, outcome=outcome, learned=windows[count - 1], **more))
    return said


def test_waste_has_to_stay_above_the_threshold_for_two_windows():
    assert verdicts(history(0.1, 0.5, 0.1, 0.5, 0.4)) == ["keep", "keep", "keep", "keep", "tune"]
    assert verdicts(history(0.5), settings=replace(SETTINGS, patience=1)) == ["tune"]


def test_waste_at_the_threshold_in_a_window_of_just_enough_events_is_a_reason():
    assert verdicts([window(number, 0.3, events=SETTINGS.least) for number in (0, 1)]) == ["keep", "tune"]


def test_where_nothing_better_was_found_it_is_not_looked_for_again():
    assert verdicts(history(*[0.5] * 30)).count("tune") == 1


def test_why_nothing_is_looked_for_is_told_and_of_a_foreign_plan_what_was_said_of_it():
    windows = history(*[0.5] * 8)
    own = looked(windows[1])
    foreign = replace(own, reason=None, detail="ann has put plan 2 into force", outcome="adopted")
    for last, why in ((own, "the traffic is as it was at the last search"), (foreign, foreign.detail)):
        assert decide(windows, [last], SETTINGS).detail == f"50.0% of the packets at hosts are wasted, but {why}"


def test_waste_around_the_threshold_swings_nothing():
    rates = [0.31, 0.32] + [0.29, 0.31, 0.32] * 10  # never below 0.24
    assert verdicts(history(*rates)).count("tune") == 1


def test_below_the_lower_mark_it_is_armed_again():
    assert verdicts(history(0.5, 0.5, 0.5, 0.2, 0.5, 0.5)) == ["keep", "tune", "keep", "keep", "keep", "tune"]


def test_the_window_right_after_a_look_arms_it_and_those_before_do_not():
    assert verdicts(history(0.5, 0.5, 0.2, 0.5, 0.5)) == ["keep", "tune", "keep", "keep", "tune"]
    windows = history(0.2, 0.5, 0.5, 0.5, 0.5, 0.5)
    assert decide(windows, [looked(windows[2])], SETTINGS).verdict == "keep"


def test_only_waste_below_the_lower_mark_in_a_window_of_enough_events_arms_it_again():
    settings = replace(SETTINGS, threshold=0.4, hysteresis=0.5)
    for low, verdict in ((window(2, 0.2), "keep"), (window(2, 0.199), "tune"), (window(2, 0.1, events=99), "keep")):
        windows = [*history(0.5, 0.5), low, window(3, 0.5), window(4, 0.5)]
        assert decide(windows, [looked(windows[1])], settings).verdict == verdict
    assert decide([*windows[:2], window(2, 0.1, events=100), *windows[3:]], [looked(windows[1])], settings).reason


def test_traffic_that_has_drifted_by_the_limit_arms_it_again():
    before, now = history(0.5, 0.5), [window(number, 0.5, spot=20) for number in (4, 5)]
    distance = drift(before[1], now[-1])
    for limit, verdict in ((distance, "tune"), (distance + 1e-9, "keep")):
        assert decide([*before, *now], [looked(before[1])], replace(SETTINGS, drift=limit)).verdict == verdict


def test_the_pause_doubles_with_each_failure_in_a_row_and_each_plan_above_those_that_are_free():
    settings = replace(SETTINGS, cool_down=20, period=1000)
    now, pause = BEGIN + timedelta(seconds=1000), settings.pause

    def after(*outcomes, end=now):
        return pause_after([(end, each) for each in outcomes], now, settings)

    assert [after(*["failed"] * n) for n in range(4)] == [pause, pause, 2 * pause, 4 * pause]
    assert after("failed", "failed", "not_better") == pause
    assert after("not_better", "failed", "failed") == 2 * pause
    many = ["adopted"] * (FREE_CHANGES + 2)
    assert [after(*many[:n]) for n in (FREE_CHANGES, FREE_CHANGES + 1, FREE_CHANGES + 2)] == [
        pause,
        2 * pause,
        4 * pause,
    ]
    assert after(*many, end=BEGIN) == pause, "they are a period old"
    assert after(*["failed"] * 40) == timedelta(seconds=1000)


def test_traffic_that_lies_elsewhere_arms_it_again():
    windows = [*history(*[0.5] * 6), window(6, 0.5, spot=20), window(7, 0.5, spot=20)]
    assert verdicts(windows) == ["keep", "tune", *["keep"] * 4, "tune", "keep"]


def test_after_a_look_there_is_a_rest():
    windows = [*history(0.5, 0.5), *(window(n, 0.5, spot=20) for n in (2, 3, 4, 5))]
    assert verdicts(windows)[:5] == ["keep", "tune", "keep", "keep", "tune"]
    none = replace(SETTINGS, cool_down=0)
    assert verdicts(windows, settings=none)[:3] == ["keep", "tune", "tune"]


def test_when_the_period_is_over_it_looks_whatever_the_waste():
    settings = replace(SETTINGS, period=50)
    assert verdicts(history(*[0.0] * 11), settings=settings) == [
        "tune" if number in (4, 9) else "keep" for number in range(11)
    ]


def test_events_sent_by_the_old_plan_say_nothing_about_the_new():
    windows = history(*[0.5] * 5) + [window(number, 0.5, epoch=2) for number in range(5, 10)]
    assert verdicts(windows, "adopted", new_epoch=2).count("tune") == 1
    found = decide(windows[:4], [looked(windows[1], "adopted", new_epoch=2)], SETTINGS)
    assert "before plan 2" in found.detail


@pytest.mark.parametrize("outcome", ["moved", "away", "failed"])
def test_a_look_that_came_to_nothing_is_repeated_after_the_rest(outcome):
    assert verdicts(history(*[0.5] * 8), outcome)[:6] == ["keep", "tune", "keep", "keep", "tune", "keep"]


def test_a_network_that_never_stops_to_change_gets_few_plans_in_a_period():
    settings = replace(SETTINGS, newcomers=0.1, cool_down=5, period=600)
    windows, decisions = history(*[0.5] * 120), []
    for now in range(120):  # twenty minutes
        found = decide(windows[: now + 1], decisions, settings, newcomers=0.5, is_calm=True)
        decisions += [replace(found, outcome="adopted")] if found.reason else []
    first = sum(each.end <= BEGIN + timedelta(seconds=600) for each in decisions)
    assert FREE_CHANGES < first <= FREE_CHANGES + 7
    assert FREE_CHANGES < len(decisions) - first <= FREE_CHANGES + 7


@pytest.mark.parametrize(("epoch", "verdict"), [(1, "keep"), (2, "tune")])
def test_after_a_change_only_low_waste_by_the_new_plan_is_a_change_of_traffic(epoch, verdict):
    before, low = window(0, 0.5), window(3, 0.0, epoch=epoch)
    again = [window(number, 0.5, epoch=2) for number in (4, 5)]
    decided = [looked(before, "adopted", new_epoch=2)]
    assert decide([before, low, *again], decided, SETTINGS).verdict == verdict


def test_when_it_is_calm_a_search_or_two_need_not_wait_and_then_they_do():
    windows, decisions = history(*[0.1] * 60), []
    for now in range(60):  # of 10 s, with a pause of 20 s
        found = decide(windows[: now + 1], decisions, SETTINGS, newcomers=0.1, is_calm=True)
        decisions += [replace(found, outcome="not_better")] if found.reason else []
    searched = [round((each.window - BEGIN) / WINDOW) for each in decisions]
    assert searched[:3] == [0, 1, 2]
    assert len(searched) <= MAX_CREDIT + 60 / 2


def test_windows_with_few_events_or_none_decide_nothing():
    empty = TrafficWindow.of(SCHEMA, BEGIN + 3 * WINDOW, WINDOW, {MetricKey("refused"): 500})
    for last, why in ((empty, "there was no event"), (window(3, 0.9, events=99), "99 events say too little")):
        found = decide([*history(0.5, 0.5, 0.5), last], [], SETTINGS)
        assert (found.verdict, found.outcome, found.detail) == ("keep", None, why)
    # they do not interrupt a row either
    assert decide([window(0, 0.5), window(1, 0.0, events=5), window(2, 0.5)], [], SETTINGS).verdict == "tune"


def test_what_could_not_be_judged_is_no_reason():
    found = decide([window(0, 0.5, unjudged=600), window(1, 0.5, unjudged=600)], [], SETTINGS)
    assert found.verdict == "keep"
    assert "could not be judged" in found.detail
    assert decide([window(0, 0.5), window(1, 0.5, unjudged=500)], [], SETTINGS).verdict == "tune"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 4), st.integers(0, 60))
def test_looks_keep_the_rest_and_follow_rows_above_the_threshold(rates, patience, rest):
    settings = replace(SETTINGS, patience=patience, cool_down=rest)
    windows = history(*rates)
    tuned = [number for number, said in enumerate(verdicts(windows, settings=settings)) if said == "tune"]
    for number in tuned:
        assert number + 1 >= patience
        assert all(each.waste.rate >= 0.3 for each in windows[number + 1 - patience : number + 1])
    for before, after in pairwise(tuned):
        assert windows[after].start - windows[before].end >= timedelta(seconds=rest)
        assert any(each.waste.rate < 0.24 for each in windows[before + 1 : after])


def test_a_plan_is_compared_with_what_it_was_made_from():
    windows = [*history(0.1, 0.2, 0.3), window(3, 0.1, epoch=2), window(4, 0.1, epoch=2, events=3)]
    adopted = looked(windows[2], "adopted", new_epoch=2)
    assert reference(windows, [adopted], 2, SETTINGS) == windows[2]
    assert reference(windows, [], 2, SETTINGS) == windows[3]  # it came from elsewhere
    assert reference(windows, [], 1, SETTINGS) == windows[0]
    assert reference(windows, [], 3, SETTINGS) is None
    just_enough = window(5, 0.1, epoch=3, events=SETTINGS.least)
    assert reference([*windows, just_enough], [], 3, SETTINGS) == just_enough
    assert reference(windows, [looked(windows[0])], None, SETTINGS) is None


def test_decisions_survive_being_written():
    kept = decide(history(0.1), [], SETTINGS)
    full = looked(window(0, 0.5), "handing", before=Waste(9, 5), after=Waste(6, 5), index={"kind": "grid"}, seconds=1.5)
    for each in (kept, full):
        assert Decision.from_json(each.to_json()) == each
    without = {name: value for name, value in full.to_json().items() if name != "members"}  # by an earlier version
    assert Decision.from_json(without) == full
    for broken in ({}, None, kept.to_json() | {"window": 3}):
        with pytest.raises(LakeError, match="no decision"):
            Decision.from_json(broken)


def test_what_a_plan_is_expected_to_do_says_where_waste_was_counted():
    found = looked(window(0, 0.5), after=Waste(8, 6))
    assert found.predicted == {"waste_at_subscriptions": 0.25}
    assert replace(found, rules=7, rules_by_switch={}).predicted == {"waste_at_hosts": 0.25, "rules": 7}
    assert replace(found, after=None).predicted == {}


@pytest.mark.parametrize(
    "wrong", [{"window": 0}, {"threshold": 1.5}, {"margin": -0.1}, {"lateness": -1}, {"patience": 0}, {"period": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SetupError) as caught:
        WatchSettings(**wrong)
    assert caught.value.field == next(iter(wrong))


def test_shares_may_be_nothing_or_everything_and_times_nothing():
    assert WatchSettings(hysteresis=0.0, margin=1.0, lateness=0.0, cool_down=0.0).pause == timedelta()


def test_a_period_that_is_longer_than_what_is_remembered_ends_too():
    settings = replace(SETTINGS, period=1000)
    assert decide(history(0.0, 0.0), [], settings).verdict == "keep"
    assert decide(history(0.0, 0.0), [], settings, BEGIN - timedelta(seconds=990)).reason == "period"


def arriving(newcomers, decisions=(), at=0, is_calm=True, settings=SETTINGS):
    """What is decided at a window of so many newcomers, of which all are there if it is calm."""
    return decide([window(at, 0.5)], list(decisions), settings, None, newcomers, is_calm)


def test_when_no_more_subscriptions_come_a_few_are_a_reason_at_once():
    settings = replace(SETTINGS, newcomers=0.2)
    before = [looked(window(0, 0.5))]
    assert arriving(0.05, before, 1, settings=settings).reason == "subscriptions"
    assert arriving(0.05, before, 1, is_calm=False, settings=settings).reason is None
    assert arriving(settings.newcomers * CALM_SHARE, before, 1, settings=settings).reason is None
    assert arriving(0.001, before, 1, settings=settings).reason is None
    assert arriving(0.0, before, 1, settings=settings).reason is None


def test_calm_moments_do_not_make_searches_more_frequent_than_the_pause_allows():
    settings, decisions = replace(SETTINGS, newcomers=0.2), []
    for number in range(60):
        found = arriving(0.1, decisions, number, settings=settings)
        if found.reason is not None:
            decisions.append(replace(found, outcome="adopted"))
    assert len(decisions) <= 60 * WINDOW / settings.pause + 2
    assert decisions[1].end - decisions[0].end < settings.pause


def test_a_search_by_imagined_events_does_not_keep_real_waste_from_being_a_reason():
    imagined = replace(looked(window(0, 0.5, events=0)), reason="subscriptions")
    windows = [window(0, 0.5, events=0), *(window(number, 0.8) for number in range(3, 6))]
    assert decide(windows, [imagined], SETTINGS).reason == "waste"
    by_traffic = replace(looked(window(0, 0.8)), reason="subscriptions")
    assert decide([window(0, 0.8), *windows[1:]], [by_traffic], SETTINGS).reason is None
