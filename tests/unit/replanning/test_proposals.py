"""Proposals: the tree in force is grown anew in part where that wins most of what a new tree would."""

from dataclasses import replace

import numpy as np
import pytest

from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.content.numeric import Integer
from pleroma.index import GridIndex, TreeIndex, Waste
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.replanning.proposals import IN_PART, PART_WINS_SHARE, is_better, outlook, propose, propose_for_more
from pleroma.replanning.situation import NetworkSituation, PlacedFilter
from pleroma.routing import build
from pleroma.selection.traffic_summary import summarise_traffic

PLANE = Schema("plane", (Integer("x", False, 0, 9_999), Integer("y", False, 0, 9_999)))
NETWORK = build("ring:4")
SETTINGS = WatchSettings(rules=150, bits=24)


def boxes(random, count, low, high):
    found = []
    for _ in range(count):
        x, y = random.integers(low, high - 400, 2)
        found.append(Filter.parse(PLANE, f"x >= {x} and x < {x + 400} and y >= {y} and y < {y + 400}"))
    return found


def events(random, count, low, high):
    drawn = random.integers(low, high, (count, 2))
    return EventBatch.from_columns(PLANE, {"x": drawn[:, 0], "y": drawn[:, 1]})


def joined(*parts):
    return EventBatch(PLANE, tuple(np.concatenate(each) for each in zip(*(p.columns for p in parts), strict=True)))


def placed(filters):
    hosts = [host.name for host in NETWORK.hosts]
    return NetworkSituation(PLANE, tuple(PlacedFilter(hosts[i % 4], each) for i, each in enumerate(filters)), NETWORK)


def learned(filters, traffic, plan=None):
    situation = placed(filters)
    before = plan or PlanInForce(1, GridIndex.regular(PLANE, 24), 8)
    return propose(before, summarise_traffic(traffic, situation.filters), situation, SETTINGS)


@pytest.fixture(scope="module")
def drifted():
    """A tree for two hotspots, and another one after the subscriptions of the second have changed."""
    random = np.random.default_rng(3)
    first, second, other = (boxes(random, 60, *span) for span in ((0, 4000), (6000, 10_000), (6000, 10_000)))
    traffic = joined(events(random, 4_000, 0, 4000), events(random, 1_000, 6000, 10_000))
    whole = learned(first + second, traffic)
    plan = PlanInForce(2, whole.index, whole.members)
    return plan, first + other, traffic, learned(first + other, traffic, plan)


def test_a_first_tree_is_grown_as_a_whole():
    random = np.random.default_rng(1)
    found = learned(boxes(random, 40, 0, 9_999), events(random, 2_000, 0, 9_999))
    assert isinstance(found.index, TreeIndex)
    assert (found.part, found.technique) == (None, "learned")
    assert found.after.wasted < found.before.wasted
    assert max(found.rules_by_switch.values()) == found.rules <= SETTINGS.rules


def test_drift_in_one_hotspot_is_met_there_alone(drifted):
    plan, _, _, found = drifted
    assert found.technique == f"learned {IN_PART}"
    assert found.part is not None
    assert found.members == plan.members  # otherwise all regions would change
    assert found.part.traffic < 0.5
    held = [any(node.covers(dz) for node in found.part.nodes) for dz in plan.index.changed(found.index)]
    assert all(held)
    assert is_better(found.before, found.after, SETTINGS)
    assert max(found.rules_by_switch.values()) <= SETTINGS.rules


def test_a_part_wins_most_of_what_a_new_tree_would(drifted):
    _, filters, traffic, found = drifted
    situation = placed(filters)
    gathered = summarise_traffic(traffic, situation.filters)
    anew = propose(PlanInForce(2, GridIndex.regular(PLANE, 24), 8), gathered, situation, SETTINGS)
    judging = gathered.judging[1::2]
    whole = outlook(situation, anew.index, anew.members, judging).waste
    assert found.before.wasted - found.after.wasted >= PART_WINS_SHARE * (found.before.wasted - whole.wasted)


def test_where_all_has_changed_the_whole_tree_is_grown_anew(drifted):
    plan = drifted[0]
    random = np.random.default_rng(8)
    found = learned(boxes(random, 120, 0, 9_999), events(random, 4_000, 0, 9_999), plan)
    assert (found.part, found.technique) == (None, "learned")


def test_where_the_network_is_not_known_every_subscription_has_a_port():
    random = np.random.default_rng(1)
    situation = replace(placed(boxes(random, 40, 0, 9_999)), topology=None)
    gathered = summarise_traffic(events(random, 2_000, 0, 9_999), situation.filters)
    found = propose(PlanInForce(1, GridIndex.regular(PLANE, 24), 8), gathered, situation, SETTINGS)
    assert found.rules_by_switch == {}
    assert 0 < found.rules <= SETTINGS.rules
    assert found.before.wanted == sum(int(gathered.judging.matches(each).sum()) for each in situation.filters)


def test_better_means_by_the_margin_and_by_the_floor():
    settings = WatchSettings(margin=0.1, floor=0.01)
    assert is_better(Waste(1000, 500), Waste(950, 500), settings)
    assert not is_better(Waste(1000, 500), Waste(951, 500), settings)
    assert not is_better(Waste(1000, 995), Waste(996, 995), settings)
    assert not is_better(Waste(1000, 1000), Waste(1000, 1000), settings)


def test_a_tree_of_other_bits_is_not_grown_in_part(drifted):
    plan, filters, traffic, _ = drifted
    situation = placed(filters)
    gathered = summarise_traffic(traffic, situation.filters)
    found = propose(plan, gathered, situation, replace(SETTINGS, bits=20))
    assert (found.part, found.index.bits) == (None, 20)


def test_while_subscriptions_come_a_tree_is_grown_on_for_those_that_may_follow():
    random = np.random.default_rng(1)
    situation = placed(boxes(random, 40, 0, 4_000))
    gathered = summarise_traffic(events(random, 2_000, 0, 9_999), situation.filters)
    first = PlanInForce(1, GridIndex.regular(PLANE, 24), 8)
    known = propose(first, gathered, situation, SETTINGS)
    more = propose_for_more(first, gathered, situation, SETTINGS, style=None, are_more_expected=True)
    newcomer = placed(boxes(random, 20, 5_000, 9_999))
    brought = [outlook(newcomer, each.index, 256, gathered.judging).waste.wasted for each in (known, more)]
    assert brought[1] < brought[0] / 2
    assert more.rules <= SETTINGS.rules
