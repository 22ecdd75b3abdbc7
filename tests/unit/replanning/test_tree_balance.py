"""Trees of a schema by recent events: what another index gets, and whether events should move to others."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.control.state.tree_choice import DealtTree, SchemaTrees, check_trees, dealt
from pleroma.errors import TopologyError
from pleroma.index import EVERYTHING, GridIndex
from pleroma.replanning.decisions import FREE_CHANGES, WatchSettings
from pleroma.replanning.forecast import forecast
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.replanning.situation import NetworkSituation, PlacedFilter
from pleroma.replanning.tree_balance import (
    CLEARLY_BUSIER,
    MAX_DEALT_EVENTS,
    PAUSE_PER_EFFORT,
    TreeBalance,
    TreeMoves,
    judged_balance,
    next_version,
    traffic,
)
from pleroma.routing import Family, build
from pleroma.routing.balancing import BalancedTrees, predict
from pleroma.routing.tree import low_latency_tree

SPACE = Schema("space", tuple(Integer(name, False, 0, 255) for name in "xy"))
INDEX = GridIndex.regular(SPACE, 10)
PLAN = PlanInForce(3, INDEX, 64)
NETWORK = build("fat-tree:4")
HOSTS = [host.name for host in NETWORK.hosts]
SETTINGS = WatchSettings(window=5.0, cool_down=5.0, period=600.0)
ONE_TREE = (DealtTree.of(Family(EVERYTHING, low_latency_tree(NETWORK))),)
NOW = datetime(2026, 11, 15, tzinfo=UTC)


def strip(host, low, high):
    return PlacedFilter(host, Filter.parse(SPACE, f"x >= {low} and x <= {min(high, 256) - 1}"))


WANTED = tuple(strip(host, 16 * n, 16 * n + 48) for n, host in enumerate(HOSTS))
PROMISED = tuple(strip(host, 0, 256) for host in HOSTS[::5])


def situation(dealt=ONE_TREE, choice="balanced", network=NETWORK):
    return NetworkSituation(SPACE, WANTED, network, PROMISED, SchemaTrees(choice, tuple(dealt)))


def points(count=2000, seed=1, low=0, high=256):
    draw = np.random.default_rng(seed)
    return EventBatch.from_columns(SPACE, {"x": draw.integers(low, high, count), "y": draw.integers(0, 256, count)})


def covers(of=WANTED):
    return [(each.host, INDEX.cover(each.filter, max_members=64)) for each in of]


def busiest(where, events):
    return predict(NETWORK, traffic(where, INDEX, covers(), events), where.families).busiest


def test_a_host_receives_what_its_covers_hold_and_not_what_it_sent_itself():
    where = NetworkSituation(SPACE, (strip("h1", 0, 64), strip("h2", 32, 96)), NETWORK, (strip("h1", 0, 256),))
    events = EventBatch.from_columns(SPACE, {"x": [10, 40, 80, 200], "y": [0, 0, 0, 0]})
    sent = traffic(where, INDEX, covers(where.subscriptions), events)
    assert [each.origin for each in sent] == ["h1"] * 4
    assert [set(each.receivers) for each in sent] == [set(), {"h2"}, {"h2"}, set()]
    with pytest.raises(TopologyError, match="not known"):
        traffic(replace(where, topology=None), INDEX, covers(), events)


def test_no_more_than_the_most_recent_events_count():
    old, new = points(MAX_DEALT_EVENTS, low=0, high=16), points(MAX_DEALT_EVENTS, low=240)
    both = EventBatch.joined(SPACE, [old, new])
    assert traffic(situation(), INDEX, covers(), both) == traffic(situation(), INDEX, covers(), new)


def test_another_index_keeps_one_tree_and_gets_the_others_anew():
    assert next_version(situation(choice="single"), INDEX, 64, points()) == situation(choice="single")
    assert next_version(situation(choice="forest"), INDEX, 64, points()) == situation((), "forest")
    anew = next_version(situation(), INDEX, 64, points())
    check_trees(anew.trees.dealt)
    assert anew.trees.choice == "balanced"
    assert busiest(anew, points(seed=2)) < 0.7 * busiest(situation(), points(seed=2))
    assert next_version(situation(network=None), INDEX, 64, points()) == situation(network=None)


def test_where_nobody_receives_anything_trees_are_dealt_as_the_policy_does():
    quiet = replace(situation(), subscriptions=(strip("h1", 0, 1),), advertisements=(strip("h1", 0, 256),))
    even = dealt(BalancedTrees().opened((), NETWORK, INDEX.cover(Filter.everything(SPACE)).members[0]))
    assert next_version(quiet, INDEX, 64, points()).trees.dealt == tuple(even)


def test_events_should_move_if_the_busiest_cable_is_clearly_busier_than_on_other_trees():
    found = judged_balance(situation(), PLAN, covers(), points(), SETTINGS)
    assert found.outcome == "handing"
    assert found.before >= CLEARLY_BUSIER * found.after > 0
    assert found.events == 1000  # the others dealt
    check_trees(found.trees)
    held_out = points()[1::2]
    origin = traffic(situation(), INDEX, covers(), points())[1::2]
    assert found.before == predict(NETWORK, origin, situation().families).busiest / len(held_out)
    assert found.rules_by_switch == {}


def test_events_stay_where_other_trees_are_hardly_better_and_where_nothing_crosses_a_cable():
    first = judged_balance(situation(), PLAN, covers(), points(), SETTINGS)
    again = judged_balance(situation(first.trees), PLAN, covers(), points(seed=7), SETTINGS)
    assert (again.outcome, again.events) == ("not_better", 1000)
    assert again.before < CLEARLY_BUSIER * again.after
    nobody = [(host, INDEX.cover(each.filter)) for host, each in zip(["h1"], PROMISED, strict=False)]
    alone = replace(situation(), advertisements=PROMISED[:1])
    assert judged_balance(alone, PLAN, nobody, points(), SETTINGS) is None
    assert judged_balance(situation(()), PLAN, covers(), points(), SETTINGS) is None
    assert judged_balance(situation(network=None), PLAN, covers(), points(), SETTINGS) is None


def test_when_the_hot_content_shifts_events_should_move_again():
    first = judged_balance(situation(), PLAN, covers(), points(low=0, high=40), SETTINGS)
    moved = situation(first.trees)
    shifted = judged_balance(moved, PLAN, covers(), points(low=180, high=256), SETTINGS)
    assert shifted.outcome == "handing"
    assert judged_balance(situation(shifted.trees), PLAN, covers(), points(low=180), SETTINGS).outcome == "not_better"


def test_trees_are_dealt_on_what_is_left_of_the_network():
    first = judged_balance(situation(), PLAN, covers(), points(), SETTINGS)
    cut = NETWORK.without(links=[NETWORK.links[0], NETWORK.links[5]])
    found = judged_balance(situation(first.trees, network=cut), PLAN, covers(), points(), SETTINGS)
    known = {tuple(sorted(link.ends)) for link in cut.links}
    assert all(set(tree.cables) <= known for tree in found.trees)


def test_where_tables_have_limits_the_rules_on_the_other_trees_are_told():
    roomy = NETWORK.with_limit(500)
    found = judged_balance(situation(network=roomy), PLAN, covers(), points(), SETTINGS)
    there = forecast(situation(found.trees, network=roomy), INDEX, 64, points())
    assert (found.outcome, found.rules_by_switch) == ("handing", there.rules)


def test_events_stay_if_tables_are_so_small_that_more_trees_would_waste_more():
    settings, outcomes = replace(SETTINGS, floor=0.0), {}
    for limit in (16, 24, 32):
        tight = NETWORK.with_limit(limit)
        found = judged_balance(situation(network=tight), PLAN, covers(), points(), settings)
        now, then = (forecast(situation(each, network=tight), INDEX, 64, points()) for each in (ONE_TREE, found.trees))
        assert found.before > CLEARLY_BUSIER * found.after
        assert found.rules_by_switch == then.rules
        assert max(then.rules.values()) <= limit
        outcomes[limit] = found.outcome, then.at_hosts.wasted > now.at_hosts.wasted
    assert outcomes == {16: ("handing", False), 24: ("not_better", True), 32: ("handing", False)}
    tight = NETWORK.with_limit(24)
    generous = judged_balance(situation(network=tight), PLAN, covers(), points(), replace(SETTINGS, floor=0.1))
    assert generous.outcome == "handing"


def handing():
    return TreeBalance((), 0.4, 0.2, 100, "handing")


def test_trees_are_judged_again_after_a_pause_that_grows_with_failures_and_with_moves():
    for outcome, free in (("failed", 1), ("adopted", FREE_CHANGES)):
        moves, now, gaps = TreeMoves(), NOW, []
        for number in range(free + 2):
            moves.judged(handing(), now, 0.0)
            assert moves.is_handing
            moves.handed(outcome, number if outcome == "adopted" else None)
            assert not moves.is_handing
            since = now
            while not moves.is_due(now, SETTINGS):
                now += timedelta(seconds=1)
            gaps.append((now - since).seconds)
        assert gaps == [5] * free + [10, 20]
        assert moves.own_epoch == (free + 1 if outcome == "adopted" else None)


def test_judging_takes_a_small_part_of_the_time():
    moves = TreeMoves()
    assert moves.is_due(NOW, SETTINGS)
    moves.judged(None, NOW, 3.0)
    assert not moves.is_handing
    rest = timedelta(seconds=3.0 * PAUSE_PER_EFFORT)
    assert not moves.is_due(NOW + rest - timedelta(seconds=1), SETTINGS)
    assert moves.is_due(NOW + rest, SETTINGS)


def test_a_clock_that_is_set_back_prolongs_no_pause():
    moves = TreeMoves()
    moves.set_back(timedelta(hours=1))
    moves.judged(handing(), NOW, 1.0)
    moves.handed("failed", None)
    moves.set_back(timedelta(hours=1))
    assert not moves.is_due(NOW - timedelta(hours=1), SETTINGS)
    assert moves.is_due(NOW - timedelta(hours=1) + timedelta(seconds=PAUSE_PER_EFFORT), SETTINGS)
