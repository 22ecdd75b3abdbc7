"""A learned plan on real switches: rules and waste are exactly what was predicted when it was learned."""

import time
from random import Random

import numpy as np
import pytest

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.control import AdoptPlan, ChangePlan, ControlSettings
from pleroma.evaluation.network_judge import NetworkJudge
from pleroma.evaluation.placement import Placement, spread_of
from pleroma.evaluation.sample import Sample
from pleroma.index import Dz
from pleroma.learning.fitting import Budget, fitted
from pleroma.learning.learner import learn
from pleroma.learning.part_growth import PartGrowth
from pleroma.learning.smoothing import WeightedPoints
from pleroma.routing import build
from support.network.weather_requests import WEATHER, advertise, random_event, random_filter, subscribe
from support.network.world import world
from support.waiting import LIMIT_SECONDS

RING = build("ring:5")
PUBLISHER, *OTHERS = (host.name for host in RING.hosts)
AS_FINE_AS_THE_TREE = ControlSettings(max_members=4096)
BITS, RULES, EVENTS = 40, 120, 500
AT_ONCE = 20
"""Events on their way at a time: a switch that gets no time for a while drops what its buffers do not hold."""


@pytest.fixture(scope="module")
def traffic():
    draw = Random(11)
    texts = [random_filter(draw, 0.2) for _ in range(60)]
    wishes = [Filter.parse(WEATHER, text) for text in texts]
    homes = np.array([draw.randrange(1, len(RING.hosts)) for _ in texts])
    events = EventBatch.from_events(WEATHER, [random_event(draw) for _ in range(2_000 + EVENTS)])
    return texts, wishes, homes, events[:2_000], events[2_000:]


def measured(made, index, events, wishes, homes):
    """Deliveries to hosts, those that somebody there wanted, and the rules of every switch."""
    prefix = made.controller.state.schemas["weather"].prefix
    got, predicted, limit = [], 0, time.monotonic() + LIMIT_SECONDS
    for first in range(0, len(events), AT_ONCE):
        part = events[first : first + AT_ONCE]
        for row in range(len(part)):
            made.hosts.send(PUBLISHER, prefix.then(index.dz(part.event(row))), str(first + row).encode())
        predicted += NetworkJudge(wishes, part, Placement(homes, spread_of(RING))).outcome(index).waste.deliveries
        while len(got) < predicted and time.monotonic() < limit:
            got += made.hosts.received(0.1)
    while more := made.hosts.received(0.1):  # and nothing beyond that
        got += more
    matched = np.array([events.matches(wish) for wish in wishes])
    place = {host.name: number for number, host in enumerate(RING.hosts)}
    wanted = sum(bool(matched[homes == place[host], int(row)].any()) for host, row in got)
    assert len(set(got)) == len(got)
    made.switches.count()
    return len(got), wanted, [len(table) for table in made.switches.tables.values()]


def test_the_evaluator_says_what_real_switches_do(tmp_path, traffic):
    texts, wishes, homes, past, later = traffic
    spread = spread_of(RING)
    sample = Sample.of(past, wishes).grouped(homes)
    tree = learn(sample, BITS, Budget(rules=RULES), spread=spread, smoothing="as seen").index
    seen = WeightedPoints(sample.points, np.ones(sample.events))
    other, _ = fitted(PartGrowth(tree, [Dz.parse("01")], sample, seen, 0), Budget(rules=RULES - 10), spread)
    assert tree.changed(other)
    with world(RING, tmp_path, control=AS_FINE_AS_THE_TREE) as made:
        made.submit(AdoptPlan("weather", tree))
        made.submit(*(advertise(host.name, "true") for host in RING.hosts))
        made.submit(*(subscribe(RING.hosts[home].name, text) for home, text in zip(homes, texts, strict=True)))
        for index in (tree, other):
            predicted = NetworkJudge(wishes, later, Placement(homes, spread)).outcome(index)
            deliveries, wanted, rules = measured(made, index, later, wishes, homes)
            assert (deliveries, wanted) == (predicted.waste.deliveries, predicted.waste.wanted)
            assert max(rules) == predicted.rules
            if index is tree:
                assert 0.7 * RULES < predicted.rules <= RULES
                assert 0 < predicted.waste.wasted < deliveries
                made.run(made.controller.plan_changes.change(ChangePlan("weather", other)))
