"""Regions of a tree that changes in parts, and a tree whose subscriptions come and go, against every event there is."""

from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content.filter_json import to_json
from pleroma.control import AdoptPlan, CreateSchema, Register, Withdraw
from pleroma.control.transition.regrowth import Regrowth, differing
from pleroma.index import EVERYTHING, Dz, DzSet, GridIndex
from pleroma.routing import build
from pleroma.switches import EmbeddedNetwork, Packet
from support.control_cases import ANN, WEATHER, advertise, state_after
from support.plan_change_cases import regrowths, trees
from support.strategies import filters

EVENTS = [WEATHER.event({"temperature": t, "wind": w}) for t, w in product(range(16), range(8))]
PREFIX = Dz.parse("01")
wanted = filters(WEATHER, 2).filter(bool)


@st.composite
def changes(draw):
    before = draw(trees(WEATHER, most=30))
    after = draw(regrowths(before))
    area = differing(before, after, draw(st.integers(1, 4)))
    return before, after, area


@given(changes(), wanted, st.integers(1, 12))
def test_a_region_is_made_anew_in_the_area_and_nowhere_else(change, filter_, most):
    before, after, area = change
    now = before.cover(filter_, max_members=most).under(PREFIX)
    regrowth = Regrowth(after, PREFIX, area.under(PREFIX), most)
    if not regrowth.concerns(now):
        assert all(before.dz(event) == after.dz(event) for event in EVENTS if filter_.matches(event))
        return
    check_region(regrowth, now, filter_)


@settings(max_examples=200)
@given(changes(), filters(WEATHER, 4).filter(bool), st.integers(1, 3))
def test_a_region_stays_within_its_limit_where_the_area_would_take_more(change, filter_, fewer):
    before, after, area = change
    most = max(len(after.cover(filter_)) - fewer, 1)
    now = before.cover(filter_, max_members=most).under(PREFIX)
    regrowth = Regrowth(after, PREFIX, area.under(PREFIX), most)
    if regrowth.concerns(now):
        check_region(regrowth, now, filter_)


def check_region(regrowth, now, filter_):
    """Its region is the one of before outside of the area, has no more members than it may, and all that is wanted."""
    found = regrowth.region(now, filter_)
    assert found - regrowth.area == now - regrowth.area
    assert len(found) <= regrowth.max_members
    after = regrowth.index
    assert all(found.covers(PREFIX.then(after.dz(event))) for event in EVENTS if filter_.matches(event))


@given(changes(), wanted)
def test_with_room_enough_it_is_as_fine_as_the_tree(change, filter_):
    before, after, area = change
    regrowth = Regrowth(after, PREFIX, area.under(PREFIX), 4096)
    now = before.cover(filter_).under(PREFIX)
    found = regrowth.region(now, filter_) if regrowth.concerns(now) else now
    assert found == after.cover(filter_).under(PREFIX)
    just_enough = replace(regrowth, max_members=max(len(found), len(now)))
    if regrowth.concerns(now):
        assert just_enough.region(now, filter_) == found


@given(changes())
def test_outside_the_area_nothing_has_another_dz(change):
    before, after, area = change
    for event in EVENTS:
        assert before.dz(event) == after.dz(event) or (area.covers(before.dz(event)) and area.covers(after.dz(event)))


def test_between_plans_of_other_kinds_everything_may_change():
    grid = GridIndex.regular(WEATHER, 4)
    assert differing(grid, GridIndex.regular(WEATHER, 5)) == EVERYTHING
    assert DzSet([Dz(1)]) == EVERYTHING


@given(trees(WEATHER, most=30), st.lists(st.tuples(wanted, st.sampled_from(["h1", "h2", "h3"])), max_size=8), st.data())
def test_whoever_comes_or_goes_is_served_by_the_tree_that_is_there(index, coming, data):
    line = build("line:3")
    state = state_after(CreateSchema(WEATHER), ANN, AdoptPlan("weather", index), advertise("ann", "true", "h2"))
    network = EmbeddedNetwork(line)
    network.install([op for op in state.rules.everything() if hasattr(op, "flow")])
    standing = {}
    for filter_, host in coming:
        done = state.apply(100 + len(standing), Register("subscription", "ann", host, "weather", to_json(filter_)))
        network.install(done.flows)
        standing[done.value["id"]] = (filter_, host)
    for gone in data.draw(st.lists(st.sampled_from(sorted(standing)), unique=True) if standing else st.just([])):
        network.install(state.apply(200, Withdraw(gone, "ann")).flows)
        del standing[gone]
    entry = state.schemas["weather"]
    assert (entry.epoch, entry.index) == (2, index)
    for event in EVENTS[::5]:
        network.publish("h2", Packet(entry.prefix.then(index.dz(event))))
        got = {delivery.host for delivery in network.run()}
        assert {host for filter_, host in standing.values() if filter_.matches(event) and host != "h2"} <= got
