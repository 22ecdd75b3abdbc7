"""Registrations by number, and what is counted and kept of them."""

import pytest

from pleroma.content import Filter
from pleroma.content.filter_json import to_json
from pleroma.control import ControlState, CreatePrincipal, CreateSchema, Done, Register, RemovePrincipal, Withdraw
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state import records
from pleroma.control.state.records import box_count
from pleroma.control.state.regions import known_region
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import ContentError, ControlError, LimitReached
from support.control_cases import DIGEST, LINE, SMALL, WEATHER, advertise, subscribe


def peopled(**limits):
    state = ControlState(LINE, SMALL)
    everything = {"*": "true"}, {"*": "true"}
    for position, command in enumerate(
        (CreateSchema(WEATHER), *(CreatePrincipal(name, "both", DIGEST, *everything, **limits) for name in "ab")), 1
    ):
        assert isinstance(state.apply(position, command), Done)
    return state


def numbers(found):
    return [int(each.id[1:]) for each in found]


def test_those_behind_a_number_are_found_whoever_came_and_went():
    state = peopled()
    for position in range(10, 3010):
        state.apply(position, (subscribe if position % 3 else advertise)("ab"[position % 2], "true"))
    registrations = state.registrations
    assert numbers(registrations.behind(2999)) == list(range(3000, 3010))
    assert numbers(registrations.behind(2999, "a")) == list(range(3000, 3010, 2))
    assert numbers(registrations.behind(2999, "nobody")) == []
    looking = registrations.behind(0)
    assert numbers([next(looking)]) == [10]
    for position in range(11, 2990):
        state.apply(5000 + position, Withdraw(("a" if position % 3 == 0 else "s") + str(position), "ab"[position % 2]))
    state.apply(9000, subscribe("a", "true"))
    assert numbers(looking)[:20] == list(range(2990, 3010))
    assert numbers(registrations.behind(0)) == [10, *range(2990, 3010), 9000]
    assert len(registrations._order) < 1100


def test_boxes_are_counted_by_principal_and_after_a_restart_too():
    state = peopled(boxes=5)
    state.apply(10, subscribe("a", "wind < 2 or wind > 5 or temperature < 3"))
    state.apply(11, advertise("a", "true"))
    refused = state.check(subscribe("a", "wind < 2 or temperature < 3"))
    assert isinstance(refused, LimitReached)
    assert (refused.field, refused.value) == ("boxes", 2)
    assert state.registrations.boxes_of("a") == 4
    assert state.check(subscribe("a", "wind < 2")) is None
    assert state.check(subscribe("b", "wind < 2 or temperature < 3")) is None
    restored, _ = restore(snapshot(state, KeptAnswers()), LINE, SMALL)
    assert restored.registrations.boxes_of("a") == 4
    assert restored.principals["a"].boxes == 5
    state.apply(12, Withdraw("s10", "a"))
    assert state.registrations.boxes_of("a") == 1
    state.apply(13, RemovePrincipal("a"))
    assert state.registrations.boxes_of("a") == 0


def test_a_principal_of_an_earlier_version_has_no_limit_of_boxes():
    assert "boxes" not in CreatePrincipal("a", "both", DIGEST).to_json()
    assert peopled().principals["a"].boxes is None


@pytest.mark.parametrize("boxes", [-1, True, 1.5, "3"])
def test_a_limit_of_boxes_is_a_number(boxes):
    refused = ControlState(LINE, SMALL).check(CreatePrincipal("a", "both", DIGEST, boxes=boxes))
    assert isinstance(refused, ControlError)
    assert refused.field == "boxes"


@pytest.mark.parametrize(
    ("text", "count"),
    [("[{}]", 1), ("{}", 1), ('[{"a":{"==":1}},{}]', 2), ('[{"a":{"==":"},{"}}]', 1), ('{"a":{"==":"},{"}}', 1)],
)
def test_boxes_are_counted_in_the_text_of_their_json(text, count):
    assert box_count(text) == count


def test_the_text_of_a_filter_is_what_the_filter_says_long_or_short(monkeypatch):
    monkeypatch.setattr(records, "MAX_UNPACKED_CHARACTERS", 800)
    state = peopled()
    long = " or ".join(f"(wind = {i % 8} and temperature = {i // 8})" for i in range(0, 120, 3))
    for position, text in enumerate(("wind < 2", long), 10):
        wanted = Filter.parse(WEATHER, text)
        given = Register("subscription", "a", "h1", "weather", to_json(wanted), None, wanted, None, str(wanted))
        for number, command in ((position, given), (position + 10, subscribe("b", text))):
            state.apply(number, command)
            registered = state.registrations[f"s{number}"]
            assert registered.has_text == (command is given)
            assert registered.text == str(wanted)
            assert registered.has_text
    assert len(state.registrations["s11"].text) > 800 > len(state.registrations["s11"]._text)


def test_a_region_that_was_found_beforehand_is_taken_only_if_the_plan_is_still_in_force():
    state = peopled()
    entry = state.schemas["weather"]
    wanted, other = Filter.parse(WEATHER, "wind < 2"), Filter.parse(WEATHER, "temperature < 3")
    known = known_region(entry, "subscription", other)  # of another filter, to tell the two apart
    fresh = known_region(entry, "subscription", wanted).found[1]
    assert known.found[1] != fresh
    assert state.plans.cover(entry, "subscription", wanted, known)[0] == known.found[1]
    assert state.plans.cover(entry, "advertisement", wanted, known)[0] == fresh
    stale = known._replace(plan=known.plan.__class__(9, known.plan.index, known.plan.members))
    assert state.plans.cover(entry, "subscription", wanted, stale)[0] == fresh
    assert state.plans.cover(entry, "subscription", wanted)[0] == fresh


def test_a_filter_outside_of_a_limit_is_refused_unless_it_is_known_to_lie_within_that_limit():
    state = peopled()
    state.apply(5, CreatePrincipal("c", "subscriber", DIGEST, {}, {"weather": "wind < 2"}))
    wanted = [{}]
    assert state.check(Register("subscription", "c", "h1", "weather", wanted)) is not None
    assert state.check(Register("subscription", "c", "h1", "weather", wanted, within="wind < 3")) is not None
    assert state.check(Register("subscription", "c", "h1", "weather", wanted, within="wind < 2")) is None
    assert isinstance(state.check(Register("subscription", "c", "h1", "weather", [])), ContentError)
