"""Rates by what clients report: of the last minute, and since the plan of a schema came into force."""

import pytest

from pleroma.content import Integer, Schema
from pleroma.control import SchemaEntry
from pleroma.index import ROOT, GridIndex, IndexPlan
from pleroma.service.http.traffic_rates import REPORTED_AFTER_SECONDS, TrafficRates


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def entry(name="stock"):
    schema = Schema(name, (Integer("up", False, 0, 1),))
    return SchemaEntry(schema, 0, ROOT, [IndexPlan(1, GridIndex.regular(schema, 1))])


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stock():
    return entry()


@pytest.fixture
def rates(stock, clock):
    return TrafficRates({"stock": stock, "weather": entry("weather")}, clock)


def counted(published=0, delivered=0, wanted=0, wasted=0):
    return {"published": published, "delivered": delivered, "wanted": wanted, "wasted": wasted}


def test_what_is_older_than_a_minute_does_not_count(rates, clock):
    rates.add("ann", "stock", counted(published=600))
    clock.now += 30
    rates.add("ann", "stock", counted(published=300))
    assert rates.last_minute()["published_per_s"] == pytest.approx(900 / 30)
    clock.now += 30
    assert rates.last_minute()["published_per_s"] == pytest.approx(300 / 55)  # the first slot is too old
    assert rates.last_minute()["seconds"] == 55
    clock.now += 60
    assert rates.last_minute()["published_per_s"] == 0
    assert rates.by_schema()["stock"]["since_plan"]["published_per_s"] == pytest.approx(900 / 120)


def test_rates_are_those_of_one_principal_and_one_schema_or_of_all(rates, clock):
    rates.add("ann", "stock", counted(delivered=10, wanted=4, wasted=1))
    rates.add("ann", "weather", counted(delivered=20, wanted=4, wasted=3))
    rates.add("bob", "stock", counted(delivered=40, wanted=4, wasted=4))
    rates.add("bob", None, counted(published=70))
    clock.now += 10
    assert rates.last_minute()["delivered_per_s"] == 7.0
    assert rates.last_minute()["published_per_s"] == 7.0
    assert rates.last_minute()["waste_at_hosts"] == 8 / 20
    assert rates.last_minute("ann")["delivered_per_s"] == 3.0
    assert rates.last_minute("bob", "stock")["waste_at_hosts"] == 0.5
    assert rates.by_schema("ann")["weather"]["since_plan"]["waste_at_hosts"] == 3 / 7


def test_a_new_plan_begins_a_new_sum(rates, stock, clock):
    rates.add("ann", "stock", counted(delivered=10, wanted=1, wasted=9))
    rates.add("ann", "weather", counted(delivered=10, wanted=1, wasted=9))
    clock.now += 100
    stock.plans.append(IndexPlan(2, stock.index))
    assert rates.by_schema()["stock"]["epoch"] == 2
    clock.now += REPORTED_AFTER_SECONDS + 20
    rates.add("ann", "stock", counted(delivered=10, wanted=10))
    found = rates.by_schema()
    assert found["stock"]["since_plan"] == {
        "seconds": 20.0, "published_per_s": 0.0, "delivered_per_s": 0.5, "waste_at_hosts": 0.0,
    }  # fmt: skip
    assert found["weather"]["since_plan"]["waste_at_hosts"] == 0.9


def test_what_is_reported_right_after_a_new_plan_is_about_the_one_before(rates, stock, clock):
    rates.add("ann", "stock", counted(wanted=1, wasted=9))
    stock.plans.append(IndexPlan(2, stock.index))
    rates.add("ann", "stock", counted(wanted=1, wasted=9))  # and the new plan is noticed by this
    since = rates.by_schema()["stock"]["since_plan"]
    assert (since["waste_at_hosts"], since["seconds"]) == (None, 0.0)
    clock.now += REPORTED_AFTER_SECONDS
    rates.add("ann", "stock", counted(wanted=5, wasted=5))
    assert rates.by_schema()["stock"]["since_plan"]["waste_at_hosts"] == 0.5
    assert rates.last_minute()["waste_at_hosts"] == 23 / 30


def test_waste_is_not_known_before_anything_came(rates):
    assert rates.last_minute()["waste_at_hosts"] is None


def test_what_a_plan_did_is_known_for_as_long_as_the_plan_is_kept(rates, stock, clock):
    def move():
        stock.move_to(IndexPlan(stock.epoch + 1, stock.index))

    rates.add("ann", "stock", counted(wanted=3, wasted=1))
    rates.add("ben", "stock", counted(wanted=4))
    clock.now += 20
    assert rates.of_plan("stock", 1) == {"seconds": 20, "packets": 8, "waste_at_hosts": 1 / 8}
    move()
    assert rates.of_plan("stock", 1)["packets"] == 8
    clock.now += REPORTED_AFTER_SECONDS
    assert rates.of_plan("stock", 2) == {"seconds": 0, "packets": 0, "waste_at_hosts": None}
    rates.add("ann", "stock", counted(wasted=2))
    assert rates.of_plan("stock", 1)["packets"] == 8
    assert rates.of_plan("stock", 2)["waste_at_hosts"] == 1.0
    assert rates.of_plan("stock", 3) is None
    assert rates.of_plan("none", 1) is None
    for _ in range(20):
        move()
        rates.of_plan("stock", 1)
    assert rates.of_plan("stock", 1) is None
    assert rates.of_plan("stock", 21) is not None
