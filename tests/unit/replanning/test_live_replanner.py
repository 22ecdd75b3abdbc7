"""A running controller's schema: plans from subscriptions alone, from traffic, and none where none is better."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from pleroma.content import Category, Filter, Schema
from pleroma.content.filter_json import to_json
from pleroma.control.state.command import canonical
from pleroma.control.state.tree_choice import SchemaTrees, check_trees, dealt
from pleroma.errors import TuningError
from pleroma.index import GridIndex, TreeIndex
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.live_replanner import LiveReplanner, RegistrationNews, SchemaNews
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.replanning.proposals import IMAGINED_FLOOR
from pleroma.replanning.tree_balance import CLEARLY_BUSIER
from pleroma.routing import OneTree, build
from pleroma.routing.tree import cable_of
from support.watch_cases import BEGIN, BY_PRICE, BY_VOLUME, SCHEMA, subscriptions, traffic

NETWORK = build("line:3")
LOOKING = WatchSettings(window=5.0, cool_down=5.0, least=100, newcomers=0.1, patience=1, threshold=0.2, rules=200)
FIRST = PlanInForce(1, GridIndex.regular(SCHEMA, 12), 8)


def come(rows):
    return RegistrationNews({row.id: (f"h{1 + i % 3}", canonical(to_json(row.filter))) for i, row in enumerate(rows)})


class Told:
    """A replanner that is told of something every ten seconds."""

    step = timedelta(seconds=10)

    def __init__(self, plan=FIRST, settings=LOOKING, **first):
        self.now = BEGIN
        self.made = LiveReplanner(SCHEMA, settings, SchemaNews(self.now, plan=plan, topology=NETWORK))
        self.first = first

    def look(self, **news):
        self.now += self.step
        return self.made.look(SchemaNews(self.now, **news))


def test_without_any_traffic_a_plan_is_grown_from_the_subscriptions():
    found = Told().look(subscriptions=come(subscriptions(12)))
    assert found.decision.reason == "subscriptions"
    assert found.decision.outcome == "handing"
    assert isinstance(found.proposal.index, TreeIndex)
    assert found.proposal.after.wasted < found.proposal.before.wasted
    assert found.window.events == 0


def test_without_subscriptions_there_is_nothing_to_plan_for():
    told = Told()
    for _ in range(3):
        found = told.look(events=(traffic(300, False),))
        assert (found.proposal, found.decision.reason) == (None, None)


def test_a_plan_for_the_traffic_follows_when_it_has_come():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8))
    found = told.look(subscriptions=come(subscriptions(24)), events=(traffic(400, False),))
    assert found.decision.outcome == "handing"
    assert found.decision.epoch == 4
    assert found.window.events == 400
    assert found.window.waste.rate > found.proposal.after.rate
    assert 0 < found.proposal.rules <= LOOKING.rules


def test_where_tables_have_limits_the_rules_of_every_switch_are_told():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8))
    limited = replace(NETWORK, limits=dict.fromkeys(NETWORK.switches, 60))
    found = told.look(subscriptions=come(subscriptions(24)), events=(traffic(400, False),), topology=limited)
    assert max(found.proposal.rules_by_switch.values()) == found.proposal.rules <= 60


def test_newcomers_under_a_plan_are_looked_at_again_when_no_more_come():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8), settings=replace(LOOKING, newcomers=0.5, floor=0.0))
    rows = subscriptions(24)
    first = told.look(subscriptions=come(rows[:20]), events=(traffic(400, False),))
    plan = PlanInForce(5, first.proposal.index, first.proposal.members)
    kept = told.look(plan=plan, handed=("adopted", 5), subscriptions=come(rows[20:]), events=(traffic(400, False, 1),))
    assert kept.decision.reason is None
    calm = told.look(events=(traffic(400, False, 2),), is_calm=True)
    assert calm.decision.reason == "subscriptions"


def test_after_it_was_adopted_there_is_no_reason_until_something_changes():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8))
    first = told.look(subscriptions=come(subscriptions(24)), events=(traffic(400, False),))
    plan = PlanInForce(5, first.proposal.index, first.proposal.members)
    kept = told.look(plan=plan, handed=("adopted", 5), events=(traffic(400, False, 1),))
    assert kept.decision.reason is None
    assert kept.window.waste.rate < first.window.waste.rate
    for number in (2, 3):
        kept = told.look(events=(traffic(400, False, number),))
        assert (kept.decision.reason, kept.proposal) == (None, None)


def test_many_new_subscriptions_are_a_reason_and_a_few_are_not():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8), settings=replace(LOOKING, threshold=1.0))
    rows = subscriptions(60)
    first = told.look(subscriptions=come(rows[:40]), events=(traffic(400, False),))
    told.look(plan=PlanInForce(5, BY_VOLUME, 8), handed=("adopted", 5), events=(traffic(400, False, 1),))
    assert first.decision.outcome == "handing"
    few = told.look(subscriptions=come(rows[40:42]), events=(traffic(400, False, 2),))
    assert few.decision.reason is None
    many = told.look(subscriptions=come(rows[42:50]), events=(traffic(400, False, 3),))
    assert many.decision.reason == "subscriptions"


def test_who_goes_is_forgotten():
    told = Told()
    rows = subscriptions(12)
    told.look(subscriptions=come(rows))
    left = told.look(subscriptions=RegistrationNews({}, [row.id for row in rows]), events=(traffic(300, False),))
    assert (left.window.deliveries, left.window.pairs, left.proposal) == (0, 0, None)


def test_a_schema_whose_attributes_have_one_value_needs_no_plan_and_is_no_failure():
    schema = Schema("one", (Category("kind", False, ("only",)),))
    boxes = canonical(to_json(Filter.everything(schema)))
    news = SchemaNews(BEGIN, plan=PlanInForce(1, GridIndex.regular(schema, 12), 8), topology=NETWORK)
    made = LiveReplanner(schema, LOOKING, news)
    later = BEGIN + timedelta(seconds=10)
    found = made.look(SchemaNews(later, subscriptions=RegistrationNews({"s": ("h1", boxes)})))
    assert (found.decision.reason, found.decision.outcome) == ("subscriptions", "not_better")


def test_a_plan_that_is_hardly_better_is_not_proposed():
    told = Told(settings=replace(LOOKING, floor=1.0))
    found = told.look(subscriptions=come(subscriptions(12)), events=(traffic(400, False),))
    assert (found.decision.outcome, found.proposal) == ("not_better", None)


def test_a_refused_plan_leaves_the_subscriptions_unplanned_for():
    told = Told()
    told.look(subscriptions=come(subscriptions(12)))
    told.look(handed=("moved", None), events=(traffic(300, False),))  # too soon
    again = told.look(events=(traffic(300, False),))
    assert (again.decision.reason, again.decision.outcome) == ("subscriptions", "handing")


def test_a_plan_that_is_always_refused_is_searched_for_less_and_less_often():
    told = Told(settings=replace(LOOKING, period=400.0))
    searched = []
    told.look(subscriptions=come(subscriptions(4)))
    for number in range(112):
        found = told.look(handed=("failed", None))
        searched += [number] if found.decision.reason else []
    assert searched == [1, 3, 6, 11, 20, 37, 70, 111]  # looks, every 10 s: at last one more than the period apart


def test_without_traffic_a_tree_is_not_exchanged_for_one_that_is_a_little_better():
    rows = subscriptions(60)
    told = Told(settings=replace(LOOKING, floor=0.0, margin=0.0))
    first = told.look(subscriptions=come(rows[:20]))
    told.look(plan=PlanInForce(2, first.proposal.index, first.proposal.members), handed=("adopted", 2))
    later = told.look(subscriptions=come(rows[20:26]))
    assert (first.decision.outcome, later.decision.outcome) == ("handing", "not_better")
    assert 0 < later.decision.before.rate - later.decision.after.rate < IMAGINED_FLOOR


def test_the_waste_of_a_look_is_at_hosts_whether_or_not_rules_are_limited():
    for limits in ({}, {"R2": 50}):
        told = Told()
        found = told.look(subscriptions=come(subscriptions(12)), topology=replace(NETWORK, limits=limits))
        assert found.decision.to_json()["waste_at"] == "hosts"


def test_a_clock_that_is_set_back_stops_nothing():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8))
    first = told.look(subscriptions=come(subscriptions(12)), events=(traffic(300, False),))
    told.now -= timedelta(hours=3)
    told.look(handed=("moved", None), events=(traffic(300, False, 1),))  # too soon, and so is the next one
    told.look()
    again = told.look()
    assert (first.decision.outcome, again.decision.outcome) == ("handing", "handing")
    assert again.decision.learned.events == 600


def test_a_period_ends_also_if_the_clock_is_set_back_in_it():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8), settings=replace(LOOKING, period=30.0, newcomers=0.0, threshold=1.0))
    told.look(subscriptions=come(subscriptions(12)), events=(traffic(300, False),))
    told.now -= timedelta(hours=3)
    reasons = [told.look(events=(traffic(300, False, number),)).decision.reason for number in range(3)]
    assert reasons == [None, None, "period"]


def test_where_every_subscriber_is_away_nothing_is_searched_for_until_one_is_back():
    told = Told()
    away = {row.id: ("nowhere", canonical(to_json(row.filter))) for row in subscriptions(3)}
    found = told.look(subscriptions=RegistrationNews(away))
    assert (found.decision.reason, found.decision.detail) == (None, "no host that subscribes is there")
    assert told.look(subscriptions=come(subscriptions(3))).decision.reason == "subscriptions"


def test_a_forecast_is_of_recent_events_and_closes_no_window():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8))
    told.look(subscriptions=come(subscriptions(24)), events=(traffic(400, False),))
    found = told.made.forecast(SchemaNews(told.now), BY_PRICE, 8, traffic(50, True))
    assert (found.events, found.subscriptions) == (400, 24)
    assert found.planned.waste.rate < found.in_force.waste.rate
    assert set(found.planned.by_switch) == set(NETWORK.switches)
    with pytest.raises(TuningError, match="nobody subscribes"):
        Told().made.forecast(SchemaNews(BEGIN), BY_PRICE, 8, None)
    imagined = Told()
    imagined.look(subscriptions=come(subscriptions(5)))
    assert imagined.made.forecast(SchemaNews(imagined.now), BY_PRICE, 8, None).events == 0
    assert imagined.made.forecast(SchemaNews(imagined.now), BY_PRICE, 8, traffic(60, False)).events == 60


def test_what_nobody_advertises_is_not_forecast_to_be_sent():
    told, events = Told(), traffic(400, False)
    anything = told.made.forecast(SchemaNews(BEGIN, subscriptions=come(subscriptions(12))), BY_PRICE, 8, events)
    cheap = RegistrationNews({"a1": ("h1", canonical(to_json(Filter.parse(SCHEMA, "price < 20"))))})
    some = told.made.forecast(SchemaNews(BEGIN, advertisements=cheap), BY_PRICE, 8, events)
    assert 0 < some.planned.waste.deliveries < anything.planned.waste.deliveries / 2


def test_a_plan_of_somebody_else_is_left_alone_until_subscriptions_or_traffic_change():
    told = Told(plan=PlanInForce(4, BY_VOLUME, 8))
    rows = subscriptions(30)
    first = told.look(subscriptions=come(rows[:24]), events=(traffic(400, False),))
    good = PlanInForce(5, first.proposal.index, first.proposal.members)
    told.look(plan=good, handed=("adopted", 5), events=(traffic(400, False, 1),))
    told.look(events=(traffic(400, False, 2),))
    for number in range(3, 7):  # rolled back by hand
        plan = PlanInForce(6, BY_VOLUME, 8) if number == 3 else None
        kept = told.look(plan=plan, events=(traffic(400, False, number),))
        assert (kept.decision.reason, kept.proposal) == (None, None), kept.decision.detail
        assert kept.window.waste.rate > LOOKING.threshold
    assert kept.decision.detail.endswith("somebody else has put plan 6 into force")
    many = told.look(subscriptions=come(rows[24:]), events=(traffic(400, False, 7),))
    assert many.decision.reason == "subscriptions"


def test_a_plan_of_somebody_else_gives_way_when_the_traffic_has_changed():
    told = Told(plan=PlanInForce(4, BY_PRICE, 8))
    told.look(subscriptions=come(subscriptions(24)), events=(traffic(400, False),))
    told.look(plan=PlanInForce(9, BY_PRICE, 8), handed=("moved", None), events=(traffic(400, False, 1),))
    assert told.look(events=(traffic(400, False, 2),)).decision.reason is None
    assert told.look(events=(traffic(400, True, 3),)).decision.reason == "waste"


def test_a_plan_that_is_refused_again_and_again_is_searched_for_ever_more_seldom():
    told, searched = Told(settings=replace(LOOKING, period=100.0)), []
    told.look(subscriptions=come(subscriptions(12)))
    for number in range(1, 60):
        handed = ("failed", None) if number - 1 in {0, *searched} else None
        if told.look(handed=handed).decision.reason is not None:
            searched.append(number)
    gaps = [b - a for a, b in zip([0, *searched], searched, strict=False)]
    assert gaps[:4] == [2, 2, 3, 5]
    assert set(gaps[5:]) == {11}  # a look every ten seconds, and never more seldom than the period


FABRIC = build("fat-tree:4")
ONE_TREE = SchemaTrees("balanced", tuple(dealt(OneTree().start(FABRIC))))


class Balanced(Told):
    """On a fabric whose trees are balanced, where no other index is good enough. Judging trees may take a while."""

    step = timedelta(minutes=1)

    def __init__(self, trees=ONE_TREE, **other):
        super().__init__(PlanInForce(4, BY_PRICE, 8), replace(LOOKING, cool_down=30.0, floor=1.0, **other))
        rows = {row.id: (f"h{1 + i % 16}", canonical(to_json(row.filter))) for i, row in enumerate(subscriptions(48))}
        self.look(topology=FABRIC, trees=trees, subscriptions=RegistrationNews(rows))

    def sent(self, number, shifted=False, **news):
        return self.look(events=(traffic(400, shifted, number),), **news)


def test_events_on_trees_that_load_one_cable_are_to_move_and_stay_then():
    told = Balanced()
    found = told.sent(1)
    assert (found.proposal, found.balance.outcome, found.balance.events) == (None, "handing", 200)
    assert found.balance.before > CLEARLY_BUSIER * found.balance.after
    plan, trees = PlanInForce(5, BY_PRICE, 8), SchemaTrees("balanced", found.balance.trees)
    after = told.sent(2, plan=plan, trees=trees, handed=("adopted", 5))
    assert after.balance.outcome == "not_better"
    assert after.balance.before < found.balance.before
    assert "somebody else" not in after.decision.detail  # it was our own doing


def test_a_move_that_is_told_of_late_is_our_own_nevertheless():
    told = Balanced(threshold=0.0)
    trees = SchemaTrees("balanced", told.sent(1).balance.trees)
    told.sent(2, plan=PlanInForce(5, BY_PRICE, 8), trees=trees)
    late = told.sent(3, handed=("adopted", 5))
    assert "somebody else" not in late.decision.detail


def test_a_move_that_is_refused_is_proposed_ever_more_seldom():
    told, proposed = Balanced(period=2400.0), []
    for number in range(1, 40):
        found = told.sent(1, handed=("failed", None) if number > 1 else None)
        proposed += [number] if found.balance is not None else []
    assert [b - a for a, b in pairwise(proposed)][:4] == [1, 1, 2, 4]


def test_trees_are_left_alone_if_they_are_not_balanced_or_next_to_nothing_was_sent():
    for choice in ("single", "forest"):
        assert Balanced(replace(ONE_TREE, choice=choice)).sent(1).balance is None
    few = Balanced()
    assert few.look(events=(traffic(2 * LOOKING.least - 1, False),)).balance is None
    assert few.look(events=(traffic(1, False),)).balance is not None


def test_after_a_link_has_failed_or_come_back_events_are_balanced_again():
    told, cut = Balanced(), FABRIC.without(links=FABRIC.links[:3])
    trees = told.sent(1).balance.trees
    epoch = 5
    told.sent(2, plan=PlanInForce(epoch, BY_PRICE, 8), trees=SchemaTrees("balanced", trees), handed=("adopted", epoch))
    for number, network in enumerate((cut, FABRIC), 3):
        lamed = tuple(dealt(OneTree().start(network)))  # as a repair might have left them
        found = told.sent(number, topology=network, trees=SchemaTrees("balanced", lamed))
        assert found.balance.outcome == "handing"
        there = {cable_of(link) for link in network.links}
        assert all(set(tree.cables) <= there for tree in found.balance.trees)
        epoch += 1
        now = SchemaTrees("balanced", found.balance.trees)
        told.sent(9, plan=PlanInForce(epoch, BY_PRICE, 8), trees=now, handed=("adopted", epoch))


def test_another_index_comes_with_trees_dealt_by_the_same_events():
    for choice in ("balanced", "single"):
        told = Told(plan=PlanInForce(4, BY_VOLUME, 8))
        found = told.look(
            topology=FABRIC,
            trees=replace(ONE_TREE, choice=choice),
            subscriptions=come(subscriptions(24)),
            events=(traffic(400, False),),
        )
        assert found.decision.outcome == "handing"
        assert found.balance is None
        if choice == "balanced":
            check_trees(found.proposal.trees)
            assert len(found.proposal.trees) > 1
        else:
            assert found.proposal.trees is None
