"""The controller's own loop: what it hands over, when it stands back, and what it does when it cannot look."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from pleroma.control import ChangePlan, Controller, CreatePrincipal, CreateSchema, Register
from pleroma.control.state.tree_choice import DealtTree, dealt_under
from pleroma.errors import ControllerClosed, LimitReached, ServiceError
from pleroma.index import ROOT, DzSet, GridIndex, TreeIndex, Waste
from pleroma.replanning.decisions import Decision
from pleroma.replanning.live_replanner import Look
from pleroma.replanning.proposals import Proposal
from pleroma.replanning.tree_balance import TreeBalance
from pleroma.replanning.windows import TrafficWindow
from pleroma.routing import Family, build
from pleroma.routing.tree import low_latency_tree
from pleroma.service.collecting.influence_limit import InfluenceLimit
from pleroma.service.collecting.sample_intake import SampleIntake
from pleroma.service.collecting.sampling_rates import SamplingRates
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.service.replanning.plan_loop import LONGEST_REST_SECONDS, PlanLoop
from pleroma.service.replanning.planner import Planner
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.service.replanning.watcher_claims import WatcherClaims
from pleroma.switches.live.live_network import LiveNetwork
from support.strategies import STOCK
from support.waiting import LIMIT_SECONDS, run, until

NOW = datetime(2026, 11, 15, tzinfo=UTC)
HALVES = [DzSet([half]) for half in ROOT.children]
TREES = tuple(DealtTree.of(Family(half, low_latency_tree(build("line:2")))) for half in HALVES)
BY_PRICE, BY_VOLUME = (GridIndex.regular(STOCK, 6, [name]) for name in ("price", "volume"))


def found(index=BY_PRICE, members=5, epoch=1):
    """A look that proposes an index to follow the plan of an epoch."""
    window = TrafficWindow.of(STOCK, NOW, timedelta(seconds=5), {})
    decision = Decision("stock", NOW, NOW, epoch, "subscriptions", "", "handing")
    proposal = Proposal("tree", index, members, Waste(10, 1), Waste(10, 9), 3, {}, trees=TREES)
    return Look(window, decision, proposal)


def to_move(outcome="handing", epoch=1):
    """A look that finds nothing but other trees."""
    window = TrafficWindow.of(STOCK, NOW, timedelta(seconds=5), {})
    balance = TreeBalance(TREES, 0.5, 0.25, 300, outcome, {"R1": 7})
    return Look(window, Decision("stock", NOW, NOW, epoch, None, ""), None, balance)


class Finds:
    """A planner whose looks find what they are told to find."""

    def __init__(self, *findings):
        self.findings, self.looks, self.outcomes, self.warmed = list(findings), 0, [], 0
        self.newcomers, self.calm = False, []
        self.room: Mapping[str, int] | None = None
        """By switch, the rules that fit beside; None if none do."""

    async def warm_up(self):
        self.warmed += 1
        raise ServiceError("the planning process has died")

    def has_work(self, _entry):
        return True

    async def has_newcomers(self, _entry):
        return self.newcomers

    def has_room_beside(self, _entry, rules):
        return self.room is not None and all(count <= self.room[switch] for switch, count in rules.items())

    async def look(self, _entry, is_calm):
        self.looks += 1
        self.calm.append(is_calm)
        finding = self.findings.pop(0) if len(self.findings) > 1 else self.findings[0]
        if isinstance(finding, Exception):
            raise finding
        return await finding() if callable(finding) else finding

    def handed(self, _entry, outcome, epoch=None):
        self.outcomes.append((outcome, epoch))


async def with_controller(folder, work):
    async with (
        LiveNetwork(build("line:2"), loopback=True) as network,
        await Controller.open(folder / "service", build("line:2"), network) as controller,
    ):
        await controller.submit(CreatePrincipal("admin", "admin", "a" * 64))
        await controller.submit(CreateSchema(STOCK))
        await work(controller, controller.state.schemas["stock"], network)


def test_the_controller_moves_to_a_better_plan_by_itself(tmp_path):
    async def work(controller, entry, network):
        for low in range(0, 100, 10):
            wanted = [{"price": {">=": low, "<": low + 2}}]
            await controller.submit(Register("subscription", "admin", "h2", "stock", wanted))
        samples = SampleIntake(
            None,
            SamplingRates(),
            lambda _: None,
            InfluenceLimit(controller.state.registrations, EmbeddedPlane(network)),
        )
        async with Planner(controller, EmbeddedPlane(network), samples, ReplanningSettings()) as planner:
            async with PlanLoop(controller, planner, WatcherClaims(), 0.01) as loop:
                await until(lambda: loop.changes["stock"], LIMIT_SECONDS)
            assert entry.epoch == 2
            assert isinstance(entry.index, TreeIndex)

    run(lambda: with_controller(tmp_path, work), LIMIT_SECONDS)


def test_a_plan_is_handed_over_with_its_members_and_counted(tmp_path):
    async def work(controller, entry, _network):
        planner = Finds(found())
        loop = PlanLoop(controller, planner, WatcherClaims(), 1)
        await loop.attempt(entry)
        assert (entry.epoch, entry.members, entry.index) == (2, 5, BY_PRICE)
        assert planner.outcomes == [("adopted", 2)]
        assert loop.changes == {"stock": 1}
        await loop.attempt(entry)  # made to follow plan 1, which is not in force any more
        assert planner.outcomes == [("adopted", 2), ("moved", None)]
        assert (entry.epoch, loop.changes["stock"]) == (2, 1)

    run(lambda: with_controller(tmp_path, work))


def trees_of(controller, entry):
    return dealt_under(controller.state.router.families, entry.prefix)


def test_where_tables_have_room_a_plan_comes_with_trees_of_its_own(tmp_path):
    async def work(controller, entry, _network):
        planner, before = Finds(found()), trees_of(controller, entry)
        planner.room = {}
        await PlanLoop(controller, planner, WatcherClaims(), 1).attempt(entry)
        assert (entry.epoch, entry.index) == (2, BY_PRICE)
        assert {tree.cells for tree in trees_of(controller, entry)} == set(HALVES)
        assert len(before) == 1

    run(lambda: with_controller(tmp_path, work))


def test_by_detours_a_plan_stays_on_the_trees_in_force(tmp_path):
    async def work(controller, entry, _network):
        before = trees_of(controller, entry)
        await PlanLoop(controller, Finds(found()), WatcherClaims(), 1).attempt(entry)
        assert (entry.epoch, trees_of(controller, entry)) == (2, before)

    run(lambda: with_controller(tmp_path, work))


def test_events_move_to_other_trees_under_the_index_in_force(tmp_path):
    async def work(controller, entry, _network):
        planner, index = Finds(to_move()), entry.index
        planner.room = {"R1": 7}
        loop = PlanLoop(controller, planner, WatcherClaims(), 1)
        with capture_logs() as logs:
            await loop.attempt(entry)
        (line,) = [each for each in logs if each["event"] == "events travel on other trees"]
        assert (line["epoch"], line["trees"]) == (2, 2)
        assert (line["busiest_cable_before"], line["busiest_cable_after"]) == (0.5, 0.25)
        assert (entry.epoch, entry.index) == (2, index)
        assert {tree.cells for tree in trees_of(controller, entry)} == set(HALVES)
        assert planner.outcomes == [("adopted", 2)]
        assert (loop.moves["stock"], loop.changes["stock"]) == (1, 0)
        assert loop.balances["stock"] == to_move("adopted").balance
        await loop.attempt(entry)  # judged under plan 1, which is not in force any more
        assert planner.outcomes[1:] == [("moved", None)]
        assert (entry.epoch, loop.moves["stock"]) == (2, 1)

    run(lambda: with_controller(tmp_path, work))


def test_events_stay_on_their_trees_where_tables_have_no_room_and_where_nothing_is_better(tmp_path):
    async def work(controller, entry, _network):
        planner = Finds(to_move(), to_move("not_better"))
        planner.room = {"R1": 6}
        loop = PlanLoop(controller, planner, WatcherClaims(), 1)
        await loop.attempt(entry)
        assert (entry.epoch, planner.outcomes, loop.balances["stock"].outcome) == (1, [("failed", None)], "failed")
        planner.room = {"R1": 7}
        await loop.attempt(entry)
        assert (entry.epoch, len(planner.outcomes), loop.balances["stock"].outcome) == (1, 1, "not_better")

    run(lambda: with_controller(tmp_path, work))


def test_a_move_that_is_refused_is_no_failure_of_the_look(tmp_path, monkeypatch):
    async def work(controller, entry, _network):
        async def refused(_command):
            raise LimitReached("all prefixes are taken", field="schema")

        monkeypatch.setattr(controller.plan_changes, "change", refused)
        planner, claims = Finds(to_move()), WatcherClaims()
        planner.room = {"R1": 7}
        loop = PlanLoop(controller, planner, claims, 1)
        with capture_logs() as logs:
            await loop.attempt(entry)
        assert any("all prefixes are taken" in each.get("reason", "") for each in logs)
        assert (planner.outcomes, loop.failures, loop.moves["stock"]) == ([("failed", None)], {}, 0)

        async def claimed_meanwhile():
            claims.claim("stock", 60)
            return to_move()

        planner.findings = [claimed_meanwhile]
        await loop.attempt(entry)
        assert planner.outcomes[1:] == [("moved", None)]

    run(lambda: with_controller(tmp_path, work))


def test_a_plan_that_somebody_changes_during_the_search_stays_theirs(tmp_path):
    async def work(controller, entry, _network):
        async def meanwhile():
            await controller.plan_changes.change(ChangePlan("stock", BY_VOLUME))
            return found()

        planner = Finds(meanwhile)
        await PlanLoop(controller, planner, WatcherClaims(), 1).attempt(entry)
        assert (entry.epoch, entry.index) == (2, BY_VOLUME)
        assert planner.outcomes == [("moved", None)]

    run(lambda: with_controller(tmp_path, work))


def test_it_stands_back_while_a_watcher_claims_the_schema(tmp_path):
    async def work(controller, entry, _network):
        claims = WatcherClaims()
        planner = Finds(found())
        loop = PlanLoop(controller, planner, claims, 1)
        claims.claim("stock", 60)
        await loop.attempt(entry)
        assert planner.looks == 0

        async def claimed_meanwhile():
            claims.claim("stock", 60)
            return found()

        claims.claim("stock", 0)
        planner.findings = [claimed_meanwhile]
        await loop.attempt(entry)
        assert (planner.looks, planner.outcomes, entry.epoch) == (1, [("moved", None)], 1)

    run(lambda: with_controller(tmp_path, work))


def test_a_plan_that_is_refused_is_no_failure_of_the_look(tmp_path, monkeypatch):
    async def work(controller, entry, _network):
        async def refused(_command):
            raise LimitReached("there is no room", field="rules")

        monkeypatch.setattr(controller.plan_changes, "change", refused)
        planner = Finds(found())
        loop = PlanLoop(controller, planner, WatcherClaims(), 1)
        await loop.attempt(entry)
        assert (planner.outcomes, loop.failures) == ([("failed", None)], {})

    run(lambda: with_controller(tmp_path, work))


def test_a_schema_that_cannot_be_looked_at_is_tried_ever_more_seldom(tmp_path):
    async def work(controller, entry, _network):
        planner = Finds(ServiceError("the planning process has died"))
        now, tried = [0.0], []
        loop = PlanLoop(controller, planner, WatcherClaims(), 5, lambda: now[0])
        for now[0] in range(0, 2000, 5):
            before = planner.looks
            await loop.attempt(entry)
            tried += [now[0]] * (planner.looks - before)
        assert tried[:5] == [0, 5, 15, 35, 75]
        assert tried[-1] - tried[-2] == LONGEST_REST_SECONDS
        assert loop.failures == {"stock": "the planning process has died"}
        planner.findings = [found()]
        now[0] += LONGEST_REST_SECONDS
        await loop.attempt(entry)
        assert loop.failures == {}
        before = planner.looks
        await loop.attempt(entry)
        assert planner.looks == before + 1

    run(lambda: with_controller(tmp_path, work))


def test_one_schema_that_fails_is_no_failure_of_another(tmp_path):
    async def work(controller, entry, _network):
        await controller.submit(CreateSchema(type(STOCK)("other", STOCK.attributes)))
        planner = Finds(ValueError("broken"), found())
        loop = PlanLoop(controller, planner, WatcherClaims(), 1)
        await loop.attempt(entry)
        await loop.attempt(controller.state.schemas["other"])
        assert loop.failures == {"stock": "broken"}

    run(lambda: with_controller(tmp_path, work))


def test_it_ends_when_the_controller_is_closed_and_at_once_when_it_is_left(tmp_path):
    async def work(controller, entry, _network):
        async with PlanLoop(controller, Finds(ControllerClosed("closed")), WatcherClaims(), 0.001) as loop:
            await until(loop._task.done)
        with pytest.raises(ControllerClosed):
            await loop.attempt(entry)

        async def for_ever():
            await asyncio.Event().wait()

        waiting = Finds(for_ever)
        async with PlanLoop(controller, waiting, WatcherClaims(), 0.001) as loop:
            await until(lambda: waiting.looks)
        assert loop._task.done()

    run(lambda: with_controller(tmp_path, work))


def test_it_gets_ready_once_while_nobody_subscribes(tmp_path):
    async def work(controller, _entry, _network):
        planner = Finds(found(epoch=9))
        async with PlanLoop(controller, planner, WatcherClaims(), 0.001):
            await until(lambda: planner.looks > 3)
        assert planner.warmed == 1

    run(lambda: with_controller(tmp_path, work))


def test_it_looks_early_when_subscriptions_have_come_and_no_more_follow(tmp_path):
    async def work(controller, _entry, _network):
        planner = Finds(found(epoch=9))
        planner.newcomers = True
        async with PlanLoop(controller, planner, WatcherClaims(), 3600):
            await until(lambda: planner.looks)
        assert planner.calm == [True]
        planner.calm.clear()
        async with PlanLoop(controller, planner, WatcherClaims(), 0.001):  # too short a time to tell
            await until(lambda: planner.calm)
        assert not planner.calm[0]

    run(lambda: with_controller(tmp_path, work))
