"""What a lake tells of a moment: the network of that time, who was where, and the rules that are left for a schema."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pleroma.content import Filter, Real, Schema
from pleroma.content.batch import EventBatch
from pleroma.index import GridIndex, IndexPlan
from pleroma.pipeline.lake_situation import shortcomings, situation_of
from pleroma.replanning.forecast import forecast
from pleroma.routing import build
from support.watch_cases import AN_HOUR_BEFORE, BEGIN, SCHEMA, new_lake

LINE = replace(build("line:3"), limits={"R2": 40})
FIRST, MIDDLE, LAST = (host.name for host in LINE.hosts)
OTHER = Schema("weather", (Real("heat", False, 0.0, 64.0),))
OTHER_PLAN = IndexPlan(1, GridIndex.regular(OTHER, 6), 8)
DURING = BEGIN + timedelta(minutes=1)


def rows(schema, *placed):
    return [(f"{host} {text}", "ann", host, Filter.parse(schema, text)) for host, text in placed]


@pytest.fixture
def lake(tmp_path):
    """Its network came an hour after its subscriptions."""
    made = new_lake(tmp_path, rows=rows(SCHEMA, (FIRST, "price < 5"), (LAST, "price > 7"), ("h9", "price > 9")))
    made.land_topology(LINE, {}, BEGIN)
    return made


def publish(lake, *placed, name="stock"):
    lake.registrations("advertisements").land(name, AN_HOUR_BEFORE, rows(lake.schema(name), *placed))


def add_weather(lake, *placed):
    lake.land_schema(OTHER, AN_HOUR_BEFORE)
    lake.land_plan(OTHER_PLAN, AN_HOUR_BEFORE)
    lake.land_subscriptions("weather", AN_HOUR_BEFORE, rows(OTHER, *placed))


def test_before_the_network_is_known_every_subscription_has_a_port_of_its_own(lake):
    found = situation_of(lake, "stock", BEGIN - timedelta(seconds=1))
    assert (found.topology, found.placement, len(found.subscriptions)) == (None, None, 3)
    assert ["the network" in line for line in shortcomings(found)] == [True]


def test_a_lake_that_does_not_know_who_publishes_says_so_and_every_host_may(lake):
    found = situation_of(lake, "stock", DURING)
    assert found.topology == LINE
    assert [each.host for each in found.subscriptions] == [FIRST, LAST]  # there is no h9 in this network
    assert (found.advertisements, found.sources) == (None, None)
    assert ["who publishes" in line for line in shortcomings(found)] == [True]


def test_who_publishes_decides_about_the_ways_of_events(lake):
    publish(lake, (MIDDLE, "true"))
    found = situation_of(lake, "stock", DURING)
    assert (found.sources, shortcomings(found)) == ([MIDDLE], [])
    towards_publisher = {switch: ports[1] for switch, ports in zip(LINE.switches, found.placement.spread, strict=True)}
    assert towards_publisher == dict.fromkeys(LINE.switches, -1)


def test_a_star_is_the_papers_network_whatever_the_lake_knows(lake):
    publish(lake, (MIDDLE, "true"))
    found = situation_of(lake, "stock", DURING, star=True)
    assert (found.topology, found.advertisements, len(found.subscriptions)) == (None, None, 3)


def test_a_switch_has_no_more_than_it_turned_out_to_have_room_for(lake):
    lake.land_topology(LINE, {"R2": 25, "R3": 70}, DURING)
    assert situation_of(lake, "stock", DURING - timedelta(seconds=1)).topology.limits == {"R2": 40}
    assert situation_of(lake, "stock").topology.limits == {"R2": 25, "R3": 70}


def test_what_other_schemas_use_is_not_there_for_this_one(lake):
    publish(lake, (MIDDLE, "true"))
    add_weather(lake, (FIRST, "heat < 7"), (LAST, "heat > 9 and heat < 30"))
    publish(lake, (MIDDLE, "heat < 20"), name="weather")
    others = situation_of(lake, "weather", DURING)
    nothing = EventBatch.from_events(OTHER, ())
    alone = forecast(others.on(LINE), OTHER_PLAN.index, OTHER_PLAN.members, nothing)
    assert alone.rules["R2"] > 2
    assert situation_of(lake, "stock", DURING).topology.limits == {"R2": 40 - alone.rules["R2"]}


@pytest.mark.parametrize("placed", [[], [("h9", "heat < 7")]])
def test_a_schema_that_nobody_here_subscribes_to_uses_nothing(lake, placed):
    add_weather(lake, *placed)
    assert situation_of(lake, "stock", DURING).topology.limits == {"R2": 40}


def test_a_schema_that_cannot_be_read_does_not_stop_the_others(lake):
    add_weather(lake, (FIRST, "heat < 7"))
    lake.land_schema(Schema("weather", (Real("rain", False, 0.0, 1.0),)))
    assert situation_of(lake, "stock", DURING).topology.limits == {"R2": 40}
