"""Plans change on real switches while hosts publish all the time: every event comes, and comes once."""

import asyncio
import os
import threading
from collections import Counter
from dataclasses import replace
from itertools import cycle
from random import Random

import pytest

from pleroma.content import Filter
from pleroma.control import AdoptPlan, ChangePlan, ControlSettings, ControlState, Done, Register
from pleroma.control.state.command import ChooseTrees
from pleroma.index import Dz, GridIndex, SelectiveIndex, TreeIndex
from pleroma.index.selective_index import Rectangle, SelectiveRegion
from pleroma.index.tree_walk import LEAF
from pleroma.routing import build
from pleroma.switches.openflow.change_order import MAX_BUNDLE_CHANGES
from support.control_cases import boxes
from support.network.sent_events import SentEvents
from support.network.weather_requests import BEGINNING, WEATHER, random_event, random_filter, subscribe
from support.network.world import world
from support.waiting import LIMIT_SECONDS

LONG = os.environ.get("PLEROMA_LONG") == "1"
CHANGES = 200 if LONG else 6
TESTBED = build("testbed")
HOSTS = [host.name for host in TESTBED.hosts]
THIRDS = ("temperature < 0", "temperature between 0 and 20", "temperature >= 20")


def grid(bits, *dimensions):
    return GridIndex.regular(WEATHER, bits, dimensions)


WARM = Rectangle(((10.0, 40.0), (0.0, 64.0), (0.0, 4.0)))
PLANS = [
    grid(8, "temperature"),
    grid(9, "wind", "sky"),
    GridIndex(WEATHER, (0, 0, 1), {0: (-5.0, 3.0, 30.0)}),
    SelectiveIndex(
        WEATHER,
        (
            SelectiveRegion(Dz.parse("0"), WARM, grid(6, "temperature", "wind")),
            SelectiveRegion(Dz.parse("1"), None, grid(4, "wind")),
        ),
    ),
    grid(12, "sky", "wind", "temperature"),
]


class Publisher(threading.Thread):
    """Sends numbered events by the plan it has. It adopts a new one between two events, and says so afterwards."""

    def __init__(self, events, host, interests, seed, offer):
        super().__init__(name=f"publisher at {host}")
        self.made, self.events, self.host, self.interests, self.offer = events.made, events, host, interests, offer
        self.lease = f"{host}-lease"
        self.expected = Counter()
        self.sent = 0
        self._draw = Random(seed)
        self._over = threading.Event()
        self._patience = 0
        self.plan = self.made.run(self._look())
        self._say()

    def _say(self):
        epoch, controller = self.plan[0], self.made.controller
        self.made._loop.call_soon_threadsafe(controller.plan_changes.adopted, "root", self.lease, {"weather": epoch})

    async def _look(self):
        entry = self.made.controller.state.schemas["weather"]
        self.events.note_rules()
        return entry.epoch, entry.prefix, entry.index

    def run(self):
        while not self._over.wait(0.005):
            event = self._event()
            payload = f"{self.host} {self.sent}".encode()
            epoch, prefix, index = self.plan
            (dz,) = index.dzs(event)
            wanting = {host for host, wanted in self.interests if host != self.host and wanted.matches(event)}
            self.expected.update((host, payload) for host in wanting)
            self.events.send(self.host, prefix.then(dz), payload, epoch)
            self.sent += 1
            if self._patience:
                self._patience -= 1
            elif self.sent % 3 == 0:
                now = self.made.run(self._look())
                if now[0] != self.plan[0]:
                    self.plan = now
                    self._patience = self._draw.randrange(20)
                self._say()

    def _event(self):
        while not self.offer.matches(event := random_event(self._draw)):
            pass
        return event

    def end(self):
        self._over.set()
        self.join()


def peopled(made, draw):
    wishes = [subscribe(draw.choice(HOSTS), random_filter(draw, 0.3)) for _ in range(14)]
    return publishers_for(made, wishes, ("h1", "h4", "h7"))


def publishers_for(made, wishes, hosts, offers=("true",)):
    """Make these subscriptions, and have publishers at these hosts, of one of the offers each in turn."""
    standing = [made.controller.state.registrations[each["id"]] for each in made.submit(*wishes)]
    heard = [(each.host, each.filter) for each in standing]
    offered = dict(zip(hosts, cycle(offers), strict=False))
    made.submit(*(publishes(host, offer) for host, offer in offered.items()))
    parsed = {host: Filter.parse(WEATHER, offer) for host, offer in offered.items()}
    events = SentEvents(made)
    return [Publisher(events, host, heard, number, parsed[host]) for number, host in enumerate(hosts)]


def publishes(host, offer="true"):
    return Register("advertisement", "root", host, "weather", boxes(WEATHER, offer), f"{host}-lease")


def others(made):
    now = made.controller.state.schemas["weather"].index.to_json()
    return [each for each in PLANS if each.to_json() != now]


def changed(made, found, index, method):
    return taken_meanwhile(made, found, made.controller.plan_changes.change(ChangePlan("weather", index, method)))


def taken_meanwhile(made, found, work):
    """Until the work is done, everything that arrives is taken."""
    done = asyncio.run_coroutine_threadsafe(work, made._loop)
    while not done.done():
        found.update(made.hosts.received(0.02))
    return done


def accounted(made, publishers, found):
    for each in publishers:
        each.end()
    expected = sum((each.expected for each in publishers), Counter())
    found.update(made.hosts.gather(expected - found))
    lost = expected - found
    print(publishers[0].events.told(lost))
    twice = [each for each, count in found.items() if count > 1]
    return lost, twice


def test_changes_on_real_switches_lose_and_double_nothing(tmp_path):
    draw = Random(5)
    with world(TESTBED, tmp_path) as made:
        publishers, found = peopled(made, draw), Counter()
        for each in publishers:
            each.start()
        try:
            for number in range(CHANGES):
                method = ("lightweight", "versioning")[number % 2]
                before = made.controller.state.schemas["weather"].epoch
                result = changed(made, found, draw.choice(others(made)), method).result(LIMIT_SECONDS)
                assert result["epoch"] == before + 1
        finally:
            lost, twice = accounted(made, publishers, found)
        assert (lost, twice) == (Counter(), [])
        assert sum(each.sent for each in publishers) > 20 * CHANGES
        _, tables = made.run(made._wanted())
        assert made.switches.tables == tables  # and no detour is left


@pytest.mark.parametrize("trees", ["forest", "balanced"])
def test_changes_on_several_trees_lose_and_double_nothing_and_leave_nothing_behind(tmp_path, trees):
    draw = Random(6)
    with world(TESTBED, tmp_path, begin=(*BEGINNING, ChooseTrees(trees))) as made:
        wishes = [subscribe(draw.choice(HOSTS), random_filter(draw, 0.3)) for _ in range(14)]
        publishers, found = publishers_for(made, wishes, ("h1", "h4", "h7"), THIRDS), Counter()
        assert len({family.tree.links for family in trees_of_weather(made)}) > 1
        for each in publishers:
            each.start()
        try:
            for number in range(4):
                method = ("lightweight", "versioning")[number % 2]
                changed(made, found, draw.choice(others(made)), method).result(LIMIT_SECONDS)
        finally:
            lost, twice = accounted(made, publishers, found)
        assert (lost, twice) == (Counter(), [])
        made.run(made.controller.confirmed())
        assert made.switches.tables == made.controller.state.router.tables
        assert not any(made.controller.state.rules.detours.tables.values())


def test_schemas_move_to_other_trees_and_back_under_traffic_and_nothing_is_lost_or_doubled(tmp_path):
    draw = Random(7)
    with world(TESTBED, tmp_path) as made:
        wishes = [subscribe(draw.choice(HOSTS), random_filter(draw, 0.3)) for _ in range(14)]
        publishers, found, counts = publishers_for(made, wishes, ("h1", "h4", "h7"), THIRDS), Counter(), []
        for each in publishers:
            each.start()
        try:
            for trees in ("balanced", "forest", "single"):
                taken_meanwhile(made, found, made.controller.choose_trees(trees)).result(LIMIT_SECONDS)
                taken_meanwhile(made, found, made.controller.plan_changes.finished()).result(LIMIT_SECONDS)
                assert made.controller.schemas_on_other_trees == []
                counts.append(len({family.tree.links for family in trees_of_weather(made)}))
        finally:
            lost, twice = accounted(made, publishers, found)
        assert (lost, twice) == (Counter(), [])
        assert counts[0] > 1
        assert counts[1:] == [3, 1]
        made.run(made.controller.confirmed())
        assert made.switches.tables == made.controller.state.router.tables


def trees_of_weather(made):
    prefix = made.controller.state.schemas["weather"].prefix
    return [family for family in made.controller.state.router.families if family.region.overlaps(prefix)]


def test_a_part_of_a_tree_changes_on_real_switches_and_nothing_is_lost_or_doubled(tmp_path):
    tree = TreeIndex(WEATHER, 12, (0, 1, LEAF, LEAF, 1, 0, LEAF, LEAF, LEAF), (10.0, 30.0, 20.0, 25.0))
    other = tree.regrown(Dz.parse("10"), TreeIndex(WEATHER, 10, (1, LEAF, 2, LEAF, LEAF), (8.0, 2.0)))
    with world(TESTBED, tmp_path) as made:
        made.submit(AdoptPlan("weather", tree))
        publishers, found = peopled(made, Random(7)), Counter()
        for each in publishers:
            each.start()
        try:
            for index, method in ((other, "lightweight"), (tree, "versioning")):
                changed(made, found, index, method).result(LIMIT_SECONDS)
                assert made.controller.state.schemas["weather"].index == index
        finally:
            lost, twice = accounted(made, publishers, found)
        assert (lost, twice) == (Counter(), [])
        assert sum(each.sent for each in publishers) > 20
        _, tables = made.run(made._wanted())
        assert made.switches.tables == tables


LINE = build("line:2")
FINE = [grid(24, "temperature", "wind"), grid(24, "wind", "temperature")]
MEMBERS = 2048
WISHES = [
    subscribe("h2", "temperature >= -11.3 and temperature < 3.7"),
    subscribe("h2", "temperature >= 9.1 and temperature < 31.9 and wind between 5 and 50"),
]


def rules_under(index):
    """How many rules each switch of the line has, by a controller's state alone."""
    state = ControlState(LINE, ControlSettings())
    commands = [*BEGINNING, AdoptPlan("weather", index, members=MEMBERS), *WISHES, publishes("h1")]
    assert all(isinstance(state.apply(number, each), Done) for number, each in enumerate(commands, 1))
    return {switch: len(table) for switch, table in state.router.tables.items()}


def test_in_the_room_of_the_larger_table_and_the_detour_a_light_weight_change_is_refused_nothing(tmp_path):
    before, after = map(rules_under, FINE)
    room = {switch: max(before[switch], after[switch]) + 1 for switch in LINE.switches}
    assert all(MAX_BUNDLE_CHANGES < 0.9 * room[switch] < min(before[switch], after[switch]) for switch in room)
    with world(LINE, tmp_path, real=replace(LINE, limits=room)) as made:
        made.submit(AdoptPlan("weather", FINE[0], members=MEMBERS))
        publishers, found = publishers_for(made, WISHES, ("h1",)), Counter()
        for each in publishers:
            each.start()
        try:
            for index, rules in ((FINE[1], after), (FINE[0], before)):
                changed(made, found, index, "lightweight").result(LIMIT_SECONDS)
                assert {switch: len(made.switches.table(switch)) for switch in room} == rules
        finally:
            lost, twice = accounted(made, publishers, found)
        assert (lost, twice) == (Counter(), [])
        assert sum(each.sent for each in publishers) > 50 < sum(found.values())
        assert {switch: each.counts.refusals for switch, each in made.status.items()} == dict.fromkeys(room, 0)
        assert made.network.limits == {}  # so its rules were at no time coarser


def test_a_controller_that_stops_in_the_middle_loses_nothing(tmp_path):
    draw = Random(6)
    with world(TESTBED, tmp_path) as made:
        publishers, found = peopled(made, draw), Counter()
        begun = []
        for each in publishers:
            each.start()
        for _ in range(CHANGES // 3):
            work = made.controller.plan_changes.change(ChangePlan("weather", draw.choice(others(made)), "lightweight"))
            begun.append(asyncio.run_coroutine_threadsafe(work, made._loop))
            for _ in range(draw.randrange(12)):
                found.update(made.hosts.received(0.01))
            made.stop()
            found.update(made.hosts.received(0.05))
            made.start()
            waiting = asyncio.run_coroutine_threadsafe(made.controller.plan_changes.finished(), made._loop)
            while not waiting.done():
                found.update(made.hosts.received(0.02))
            waiting.result()
            made.run(made.controller.confirmed())
        lost, twice = accounted(made, publishers, found)
        assert [each for each in begun if not each.done()] == []
        assert (lost, twice) == (Counter(), [])
        assert made.controller.state.plans.change is None
