"""Changes of plans, step by step: what each step tells the switches, and what the driver waits for."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from itertools import groupby, pairwise
from types import SimpleNamespace

import pytest

from pleroma.control import (
    AdoptPlan,
    Advance,
    ChangePlan,
    CommandRefused,
    Controller,
    ControlSettings,
    ControlState,
    CreateSchema,
    Expire,
    PlanChangeTiming,
    Withdraw,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.command import command_from_json
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.control.transition import plan_change_runner
from pleroma.errors import (
    ControlError,
    ControllerClosed,
    LimitReached,
    NotInstalled,
    PlanChanging,
    PlanError,
    PlanTooOld,
    UnknownName,
)
from pleroma.index import Dz, DzSet, GridIndex, TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.routing import AdmitOp, Change, DetourOp, FlowOp, build
from support.control_cases import (
    ANN,
    BEN,
    LINE,
    SMALL,
    TRAFFIC,
    WEATHER,
    Network,
    advertise,
    fresh_tables,
    peopled,
    state_after,
    subscribe,
)
from support.plan_change_cases import Mirror

BY_WIND = GridIndex.regular(WEATHER, 3, ["wind"])
BY_TEMPERATURE = GridIndex.regular(WEATHER, 4, ["temperature"])
LIVELY = (
    advertise("ben", "true"),
    subscribe("ben", "wind < 4"),
    subscribe("ben", "temperature < 3", "h2"),
    advertise("ben", "true", "h2", TRAFFIC),
    subscribe("ben", "speed > 5", "h3", TRAFFIC),
)


def after(state, *commands):
    """The results of these, which are all accepted."""
    results = [state.apply(100 + n, command) for n, command in enumerate(commands)]
    assert not [each for each in results if isinstance(each, CommandRefused)]
    return results


def kinds(ops):
    return {type(op) for op in ops}


def change(index=BY_WIND, method="lightweight", schema="weather"):
    return ChangePlan(schema, index, method)


SWAP, CLEAR = Advance("weather", "swap"), Advance("weather", "clear")


class TestLightweight:
    def test_first_there_are_detours_and_nothing_else_moves(self):
        state = peopled(*LIVELY)
        before = fresh_tables(state)
        (prepared,) = after(state, change())
        assert prepared.value == {"schema": "weather", "epoch": 1, "phase": "prepared", "registrations": 3}
        assert prepared.flows == []
        detours = [op for op in prepared.guards if isinstance(op, DetourOp)]
        assert {op.switch for op in detours} == set(LINE.switches)
        assert len(detours) == len(LINE.switches)
        assert {op.flow.dz for op in detours} == {state.schemas["weather"].prefix}
        assert all(op.change is Change.ADD for op in prepared.guards)
        assert state.router.tables == before

    def test_the_swap_exchanges_rules_under_them(self):
        state = peopled(*LIVELY)
        _, swapped = after(state, change(), SWAP)
        assert swapped.value == {"schema": "weather", "epoch": 2, "phase": "swapped"}
        assert kinds(swapped.switch_ops) == {FlowOp}
        assert state.schemas["weather"].index == BY_WIND
        assert state.router.tables == fresh_tables(state)

    def test_in_the_end_detours_and_old_admissions_go(self):
        state = peopled(*LIVELY)
        *_, cleared = after(state, change(), SWAP, CLEAR)
        assert cleared.value == {"schema": "weather", "epoch": 2, "phase": "done"}
        assert cleared.flows == []
        assert {op.change for op in cleared.switch_ops} == {Change.DELETE}
        assert state.plans.change is None

    def test_what_both_plans_have_in_common_stays(self):
        state = state_after(CreateSchema(WEATHER), ANN, advertise("ann", "true"), subscribe("ann", "true"))
        _, swapped, _ = after(state, change(), SWAP, CLEAR)
        assert swapped.switch_ops == []

    def test_another_schema_is_not_touched(self):
        state = peopled(*LIVELY)
        traffic = state.schemas["traffic"].prefix
        for result in after(state, change(), SWAP, CLEAR):
            touched = [op.dz if isinstance(op, AdmitOp) else op.flow.dz for op in result.switch_ops]
            assert not any(traffic.covers(dz) for dz in touched)

    def test_a_table_for_a_single_rule_has_no_room_for_it(self):
        state = state_after(CreateSchema(WEATHER), ANN, topology=LINE.with_limit(1))
        refused = state.apply(9, change())
        assert isinstance(refused.error, LimitReached)
        assert state.plans.change is None


class TestVersioning:
    def test_first_there_are_both_versions(self):
        state = peopled(*LIVELY)
        (prepared,) = after(state, change(method="versioning"))
        assert {op.change for op in prepared.switch_ops} == {Change.ADD}
        assert kinds(prepared.switch_ops) == {FlowOp, AdmitOp}
        added = [op.flow.dz for op in prepared.flows]
        assert all(state.plans.change.prefix.covers(dz) for dz in added)

    def test_the_swap_is_for_publishers_and_moves_no_rule(self):
        state = peopled(*LIVELY)
        old = state.schemas["weather"].prefix
        _, swapped = after(state, change(method="versioning"), SWAP)
        assert swapped.switch_ops == []
        assert state.schemas["weather"].prefix != old

    def test_in_the_end_only_the_new_version_is_left(self):
        state = peopled(*LIVELY)
        *_, cleared = after(state, change(method="versioning"), SWAP, CLEAR)
        assert {op.change for op in cleared.switch_ops} == {Change.DELETE}
        assert state.router.tables == fresh_tables(state)

    def test_the_next_change_goes_back_to_the_first_prefix(self):
        state = peopled(*LIVELY)
        first = state.schemas["weather"].prefix
        versions = change(method="versioning"), change(BY_TEMPERATURE, "versioning")
        after(state, versions[0], SWAP, CLEAR, versions[1], SWAP, CLEAR)
        assert state.schemas["weather"].prefix == first

    def test_no_schema_gets_a_prefix_that_is_in_use(self):
        further = [CreateSchema(type(WEATHER)(name, WEATHER.attributes)) for name in ("third", "fourth")]
        state = peopled()
        after(state, change(method="versioning"), further[0])
        assert isinstance(state.apply(200, further[1]).error, LimitReached)
        after(state, SWAP)
        assert isinstance(state.apply(201, further[1]).error, LimitReached)

    def test_without_a_spare_prefix_it_is_refused(self):
        state = state_after(
            CreateSchema(WEATHER), ANN, settings=ControlSettings(schema_bits=0, default_bits=7, max_length=20)
        )
        assert isinstance(state.apply(9, change(method="versioning")).error, LimitReached)


# temperature below 8: by wind; from 8 on: by temperature
COLD_AND_WARM = TreeIndex(WEATHER, 8, (0, 1, LEAF, LEAF, 0, LEAF, LEAF), (8.0, 4.0, 12.0))
WARM = Dz.parse("1")
BY_WIND_WHEN_WARM = COLD_AND_WARM.regrown(WARM, TreeIndex(WEATHER, 7, (1, LEAF, 1, LEAF, LEAF), (2.0, 5.0)))
IN_PARTS = (
    AdoptPlan("weather", COLD_AND_WARM),
    advertise("ben", "temperature < 8", lease="cold"),
    advertise("ben", "true", "h2", lease="any"),
    subscribe("ben", "temperature < 3 and wind < 4", "h1"),
    subscribe("ben", "temperature > 9 and wind < 2", "h3"),
)
METHODS = pytest.mark.parametrize("method", ["lightweight", "versioning"])


class TestPartsOfTrees:
    @METHODS
    def test_only_rules_in_that_part_are_touched(self, method):
        state = peopled(*IN_PARTS)
        part = state.schemas["weather"].prefix.then(WARM)
        for result in after(state, change(BY_WIND_WHEN_WARM, method), SWAP, CLEAR):
            touched = [op.dz if isinstance(op, AdmitOp) else op.flow.dz for op in result.switch_ops]
            assert all(part.covers(dz) for dz in touched)
        assert state.router.tables == fresh_tables(state)
        assert state.schemas["weather"].index == BY_WIND_WHEN_WARM

    def test_the_detour_is_for_that_part_and_where_somebody_wants_something_of_it(self):
        state = peopled(*IN_PARTS)
        (prepared,) = after(state, change(BY_WIND_WHEN_WARM))
        detours = [op for op in prepared.switch_ops if isinstance(op, DetourOp)]
        assert {op.flow.dz for op in detours} == {state.schemas["weather"].prefix.then(WARM)}
        assert {op.switch for op in detours} == {LINE.host["h2"].switch, LINE.host["h3"].switch}

    @METHODS
    def test_who_has_nothing_there_keeps_its_region(self, method):
        state = peopled(*IN_PARTS)
        before = {each.id: each.region for each in state.registrations.values()}
        (prepared,) = after(state, change(BY_WIND_WHEN_WARM, method))
        assert prepared.value["registrations"] == 2
        assert set(state.plans.change.other) == {"a9", "s11"}
        after(state, SWAP, CLEAR)
        assert {id_ for id_, old in before.items() if state.registrations[id_].region == old} == {"a8", "s10", "a9"}

    def test_versions_stand_under_the_one_prefix(self):
        state = peopled(*IN_PARTS)
        prefix = state.schemas["weather"].prefix
        _, swapped, _ = after(state, change(BY_WIND_WHEN_WARM, "versioning"), SWAP, CLEAR)
        assert state.schemas["weather"].prefix == prefix
        assert swapped.switch_ops == []

    def test_as_a_whole_versions_have_prefixes_of_their_own(self):
        state = peopled(*IN_PARTS)
        prefix = state.schemas["weather"].prefix
        whole = replace(change(BY_WIND_WHEN_WARM, "versioning"), whole=True)
        after(state, command_from_json(whole.to_json()), SWAP, CLEAR)
        assert state.schemas["weather"].prefix != prefix
        assert state.router.tables == fresh_tables(state)
        assert state.schemas["weather"].index == BY_WIND_WHEN_WARM

    def test_versions_need_no_spare_prefix_then(self):
        settings = ControlSettings(schema_bits=0, default_bits=7, max_length=20)
        state = state_after(CreateSchema(WEATHER), ANN, AdoptPlan("weather", COLD_AND_WARM), settings=settings)
        after(state, change(BY_WIND_WHEN_WARM, "versioning"), SWAP, CLEAR)
        assert state.schemas["weather"].epoch == 3

    @METHODS
    @pytest.mark.parametrize("first", [0, 1])
    def test_who_comes_between_two_steps_has_a_region_in_both_plans(self, method, first):
        state = peopled(*IN_PARTS)
        after(state, change(BY_WIND_WHEN_WARM, method), *[SWAP][:first])
        after(state, subscribe("ben", "temperature > 9 and wind < 5", "h3"))
        made = state.registrations[f"s{100}"]
        plans = [COLD_AND_WARM, BY_WIND_WHEN_WARM]
        in_force, other = (plans[(first + n) % 2].cover(made.filter) for n in (0, 1))
        prefix = state.schemas["weather"].prefix
        assert made.region == in_force.under(prefix)
        if method == "versioning" or not first:
            assert state.plans.change.other[made.id] == other.under(prefix)
        else:  # nobody sends it anything by the plan before
            assert made.id not in state.plans.change.other

    @METHODS
    @pytest.mark.parametrize("steps", [0, 1])
    def test_who_goes_between_two_steps_leaves_no_region_behind(self, method, steps):
        state = peopled(*IN_PARTS)
        after(state, change(BY_WIND_WHEN_WARM, method), *[SWAP][:steps])
        assert "s11" in state.plans.change.other
        after(state, Withdraw("s11", "ben"))
        assert set(state.plans.change.other) == {"a9"}

    @METHODS
    @pytest.mark.parametrize("steps", [0, 1])
    def test_a_snapshot_between_two_steps_has_it_all(self, method, steps):
        state = peopled(*IN_PARTS)
        after(state, change(BY_WIND_WHEN_WARM, method), *[SWAP][:steps])
        again, _ = restore(snapshot(state, KeptAnswers()), LINE, SMALL)
        assert again.plans.change == state.plans.change
        assert again.rules.detours.tables == state.rules.detours.tables
        assert again.router.tables == state.router.tables

    def test_a_plan_that_differs_in_many_places_has_few_detours(self):
        even = TreeIndex(WEATHER, 8, *even_tree(5))
        other = even
        for code in range(16):
            other = other.regrown(Dz(1 << 5 | 2 * code), TreeIndex(WEATHER, 3, (1, LEAF, LEAF), (3.0,)))
        state = peopled(AdoptPlan("weather", even), *IN_PARTS[1:])
        after(state, change(other))
        assert 1 < len(state.plans.change.area) <= 8
        assert state.plans.change.area.covers(even.changed(other).under(state.schemas["weather"].prefix))

    def test_a_small_table_has_room_for_one(self):
        state = state_after(CreateSchema(WEATHER), ANN, AdoptPlan("weather", TWO_PLACES), topology=LINE.with_limit(9))
        after(state, change(COLD_AND_WARM))
        assert state.plans.change.area == DzSet([state.schemas["weather"].prefix])

    @METHODS
    def test_there_and_back_again_comes_to_the_same(self, method):
        state = peopled(*IN_PARTS)
        regions = {each.id: each.region for each in state.registrations.values()}
        for index in (BY_WIND_WHEN_WARM, COLD_AND_WARM):
            after(state, change(index, method), SWAP, CLEAR)
        assert {each.id: each.region for each in state.registrations.values()} == regions


def even_tree(depth):
    dims, cuts, todo = [], [], [0]
    while todo:
        at = todo.pop()
        dims.append(LEAF if at == depth else at % 2)
        if at < depth:
            cuts.append(float(2 + at))
            todo += [at + 1, at + 1]
    return tuple(dims), tuple(cuts)


TWO_PLACES = COLD_AND_WARM.regrown(Dz.parse("00"), TreeIndex(WEATHER, 6, (0, LEAF, LEAF), (3.0,))).regrown(
    Dz.parse("11"), TreeIndex(WEATHER, 6, (1, LEAF, LEAF), (3.0,))
)


class TestRefusals:
    def test_one_change_at_a_time(self):
        state = peopled(*LIVELY)
        after(state, change())
        grid = GridIndex.regular(TRAFFIC, 2)
        for command in (change(BY_TEMPERATURE), change(grid, schema="traffic"), AdoptPlan("weather", BY_TEMPERATURE)):
            assert isinstance(state.apply(200, command).error, PlanChanging)

    def test_steps_come_in_their_order(self):
        state = peopled(*LIVELY)
        for command in (SWAP, CLEAR):
            assert isinstance(state.apply(200, command).error, ControlError)
        after(state, change())
        assert isinstance(state.apply(201, CLEAR).error, ControlError)
        assert isinstance(state.apply(202, Advance("traffic", "swap")).error, ControlError)
        after(state, SWAP)
        assert isinstance(state.apply(203, SWAP).error, ControlError)

    def test_a_method_that_is_none(self):
        assert isinstance(peopled().apply(200, change(method="hope")).error, UnknownName)

    def test_an_index_of_another_schema(self):
        assert isinstance(peopled().apply(200, change(GridIndex.regular(TRAFFIC, 2))).error, PlanError)

    @pytest.mark.parametrize("method", ["lightweight", "versioning"])
    def test_the_same_plan_again_is_no_change(self, method):
        state = peopled(*LIVELY)
        (same,) = after(state, change(state.schemas["weather"].index, method))
        assert same.value == {"schema": "weather", "epoch": 1, "unchanged": True}
        assert same.switch_ops == []
        assert state.plans.change is None


@pytest.mark.parametrize(("method", "kept_free"), [("lightweight", 1), ("versioning", 0)])
def test_places_are_kept_free_in_tables_while_there_are_detours(method, kept_free):
    state = state_after(*PEOPLE, *LIVELY, topology=LINE.with_limit(30))
    limits = [set(state.router.topology.limits.values())]
    for command in (change(method=method), SWAP, CLEAR):
        after(state, command)
        limits.append(set(state.router.topology.limits.values()))
    assert limits == [{30}, {30 - kept_free}, {30 - kept_free}, {30}]


def test_the_phase_of_a_schema_is_that_of_its_own_change():
    state, seen = peopled(*LIVELY), []
    for command in (change(), SWAP, CLEAR):
        after(state, command)
        seen.append((state.plans.phase("weather"), state.plans.phase("traffic")))
    assert seen == [("prepared", "settled"), ("swapped", "settled"), ("settled", "settled")]


RING = build("ring:4")


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
@pytest.mark.parametrize("cut", RING.links, ids=str)
def test_events_keep_to_one_tree_after_a_link_was_away(method, cut):
    people = (advertise("ann", "true", host.name) for host in RING.hosts)
    interests = (subscribe("ann", "wind < 4", host.name) for host in RING.hosts)
    state = state_after(CreateSchema(WEATHER), ANN, *people, *interests, topology=RING)
    mirror = Mirror(RING)
    mirror.take(state.rules.everything())
    for now in (RING.without(links=[cut]), RING):
        ops, more = state.rules.route_on(now)
        mirror.take([*ops, *more])
    trees = [family.tree for family in state.router.families]
    for command in (change(method=method), SWAP, CLEAR):
        (result,) = after(state, command)
        mirror.take(result.switch_ops)
        assert [family.tree for family in state.router.families] == trees
        assert [family.tree for family in state.rules.detours.families] == trees
        assert mirror.rules() == state.router.tables


def test_a_link_that_goes_during_a_change_takes_the_detours_along():
    people = (advertise("ann", "true", host.name) for host in RING.hosts)
    interests = (subscribe("ann", "wind < 4", host.name) for host in RING.hosts)
    state = state_after(CreateSchema(WEATHER), ANN, *people, *interests, change(), topology=RING)
    mirror = Mirror(RING)
    mirror.take(state.rules.everything())
    used = state.router.families[0].tree.links[0]
    ops, more = state.rules.route_on(RING.without(links=[used]))
    mirror.take([*ops, *more])
    assert used not in state.router.families[0].tree.links
    assert mirror.detours() == state.rules.detours.tables
    assert state.rules.detours.families[0].tree == state.router.families[0].tree
    for command in (SWAP, CLEAR):
        (result,) = after(state, command)
        mirror.take(result.switch_ops)
    assert mirror.rules() == state.router.tables
    assert not any(mirror.detours().values())


# -- the driver ------------------------------------------------------------------------------------------------------


def ran(test):
    """The test in a loop of its own."""

    @wraps(test)
    def run(*arguments, **named):
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 60))

    return run


class Held(Network):
    """Takes operations only while it is open, and knows what it took when."""

    def __init__(self):
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()
        self.batches = []
        self._single = False

    async def install(self, ops):
        await self.open.wait()
        if self._single:
            self._single = False
            self.open.clear()
        self.batches.append(list(ops))
        await super().install(ops)

    async def let_one_pass(self):
        self._single = True
        self.open.set()

    @property
    def words(self):
        """What batches were about, one after the other; those of several switches that were alike count as one."""
        words = ["".join(sorted({type(op).__name__[0] for op in batch})) for batch in self.batches]
        return [word for word, _ in groupby(words)]


AT_ONCE = {"in_flight_seconds": 0.0, "unleased_seconds": 0.0}


@asynccontextmanager
async def controlled(folder, network, *commands, **timing):
    timing = PlanChangeTiming(**AT_ONCE | timing)
    async with await Controller.open(folder, LINE, network, SMALL, timing=timing) as controller:
        for command in commands:
            await controller.submit(command)
        network.batches.clear()
        yield controller


PEOPLE = (CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN)


async def until(true, seconds=20):
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


@ran
async def test_a_change_goes_from_the_first_step_to_the_last(tmp_path):
    network = Held()
    async with controlled(tmp_path, network, *PEOPLE, *LIVELY) as controller:
        done = await controller.plan_changes.change(change())
        assert done["epoch"] == 2
        assert network.words == ["D", "F", "D"]
        assert controller.state.plans.change is None
        assert controller.plan_changes.stragglers == ["a6"]


@ran
async def test_no_step_begins_before_every_switch_has_the_one_before(tmp_path):
    network = Held()
    async with controlled(tmp_path, network, *PEOPLE, *LIVELY) as controller:
        network.open.clear()
        task = asyncio.create_task(controller.plan_changes.change(change()))
        for phase in ("prepared", "swapped"):
            await until(lambda phase=phase: getattr(controller.state.plans.change, "phase", None) == phase)
            await asyncio.sleep(0.05)
            assert controller.state.plans.change.phase == phase
            await network.let_one_pass()
        await until(lambda: controller.state.plans.change is None)
        await asyncio.sleep(0.05)
        assert not task.done()
        network.open.set()
        await task


@pytest.mark.parametrize("people", [LIVELY, LIVELY[1:]])
@ran
async def test_each_step_after_the_first_waits_for_packets_under_way_if_anybody_publishes(tmp_path, people):
    waits, go_on = [], asyncio.Semaphore(0)

    async def sleep(seconds):
        waits.append((seconds, controller.state.plans.change.phase))
        await go_on.acquire()

    async with controlled(tmp_path, Held(), *PEOPLE, *people, in_flight_seconds=0.7, sleep=sleep) as controller:
        task = asyncio.create_task(controller.plan_changes.change(change()))
        if people is LIVELY:
            for phase in ("prepared", "swapped"):
                await until(lambda phase=phase: (0.7, phase) in waits)
                assert controller.state.plans.change.phase == phase
                go_on.release()
        await asyncio.wait_for(task, 20)
        assert len(waits) == (2 if people is LIVELY else 0)


@ran
async def test_a_step_that_fails_is_tried_again_after_a_pause_until_it_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_change_runner, "STEP_RETRY_SECONDS", 0.1)
    async with controlled(tmp_path, Held(), *PEOPLE, *LIVELY) as controller:
        runner, failed, confirmed = controller.plan_changes, [], controller.confirmed

        async def behind(_cells):
            failed.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0)
            raise NotInstalled("the network is behind")

        runner._confirmed = behind
        task = asyncio.create_task(runner.change(change()))
        await until(lambda: len(failed) >= 4)
        runner._confirmed = confirmed
        assert (await asyncio.wait_for(task, 20))["epoch"] == 2
        assert min(after - before for before, after in pairwise(failed)) > 0.05


@ran
async def test_the_same_plan_again_tells_nobody_anything(tmp_path):
    network = Held()
    async with controlled(tmp_path, network, *PEOPLE, *LIVELY) as controller:
        await controller.plan_changes.change(change())
        network.batches.clear()
        done = await controller.plan_changes.change(change())
        assert done == {"schema": "weather", "epoch": 2, "unchanged": True}
        assert network.batches == []


@ran
async def test_it_waits_for_publishers_with_a_lease(tmp_path):
    network = Held()
    leased = [advertise("ben", "true", lease="one"), advertise("ann", "true", "h2", lease="one"), LIVELY[1]]
    async with controlled(tmp_path, network, *PEOPLE, *leased) as controller:
        task = asyncio.create_task(controller.plan_changes.change(change()))
        await until(lambda: controller.state.schemas["weather"].epoch == 2)
        controller.plan_changes.adopted("ben", "one", {"weather": 1, "traffic": 1})
        controller.plan_changes.adopted("ben", "two", {"weather": 2})
        await asyncio.sleep(0.05)
        controller.plan_changes.adopted("ben", "one", {"weather": 2})
        await asyncio.sleep(0.05)
        assert controller.state.plans.change.phase == "swapped"
        assert not task.done()
        controller.plan_changes.adopted("ann", "one", {"weather": 2})
        await asyncio.wait_for(task, 20)
        assert controller.plan_changes.stragglers == []


@ran
async def test_a_publisher_that_adopts_the_plan_ends_the_wait_by_itself(tmp_path, monkeypatch):
    without_timeouts = SimpleNamespace(**vars(asyncio) | {"timeout": lambda _: asyncio.timeout(None)})
    monkeypatch.setattr(plan_change_runner, "asyncio", without_timeouts)
    async with controlled(tmp_path, Held(), *PEOPLE, advertise("ben", "true", lease="one")) as controller:
        task = asyncio.create_task(controller.plan_changes.change(change()))
        await until(lambda: controller.state.schemas["weather"].epoch == 2)
        await asyncio.sleep(0.05)
        controller.plan_changes.adopted("ben", "one", {"weather": 2})
        await asyncio.wait_for(task, 20)


@ran
async def test_it_does_not_wait_for_publishers_that_have_nothing_in_the_part_that_changes(tmp_path):
    network = Held()
    async with controlled(tmp_path, network, *PEOPLE, *IN_PARTS) as controller:
        task = asyncio.create_task(controller.plan_changes.change(change(BY_WIND_WHEN_WARM)))
        await until(lambda: controller.state.schemas["weather"].epoch == 3)
        assert controller.state.plans.change.phase == "swapped"
        controller.plan_changes.adopted("ben", "any", {"weather": 3})
        await asyncio.wait_for(task, 20)
        assert controller.plan_changes.stragglers == []


@ran
async def test_a_publisher_whose_lease_ends_is_waited_for_no_longer(tmp_path):
    network = Held()
    async with controlled(tmp_path, network, *PEOPLE, advertise("ben", "true", lease="one")) as controller:
        task = asyncio.create_task(controller.plan_changes.change(change()))
        await until(lambda: controller.state.schemas["weather"].epoch == 2)
        await controller.submit(Expire("one", "ben"))
        await asyncio.wait_for(task, 20)
        assert controller.plan_changes.stragglers == []


@ran
async def test_one_that_says_nothing_is_not_waited_for_for_ever(tmp_path):
    network = Held()
    people = (*PEOPLE, advertise("ben", "true", lease="one"))
    async with controlled(tmp_path, network, *people, leased_seconds=0.05) as controller:
        await asyncio.wait_for(controller.plan_changes.change(change()), 20)
        assert controller.plan_changes.stragglers == ["a6"]


@ran
async def test_a_client_that_is_two_plans_behind_is_told_so(tmp_path):
    async with controlled(tmp_path, Held(), *PEOPLE) as controller:
        for index in (BY_WIND, BY_TEMPERATURE):
            controller.plan_changes.adopted("ben", "one", {"weather": 1, "unheard": 7})
            await controller.plan_changes.change(change(index))
        controller.plan_changes.adopted("ben", "one", {"weather": 2})
        with pytest.raises(PlanTooOld, match="2 behind"):
            controller.plan_changes.adopted("ben", "one", {"weather": 1})


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
@pytest.mark.parametrize("phase", ["prepared", "swapped"])
@ran
async def test_a_restarted_controller_finishes_the_change(tmp_path, method, phase):
    network = Held()
    async with controlled(tmp_path, network, *PEOPLE, *LIVELY, unleased_seconds=3600.0) as controller:
        if phase == "prepared":
            network.open.clear()
        waiting = asyncio.create_task(controller.plan_changes.change(change(method=method)))
        await until(lambda: getattr(controller.state.plans.change, "phase", None) == phase)
        network.open.set()
        await controller.close()
        with pytest.raises((ControllerClosed, ControlError)):
            await waiting
    again = Held()
    async with await Controller.open(tmp_path, LINE, again, SMALL, timing=PlanChangeTiming(**AT_ONCE)) as controller:
        await asyncio.wait_for(controller.plan_changes.finished(), 20)
        mirror = Mirror(LINE)
        for batch in again.batches:
            mirror.take(batch)
        assert mirror.rules() == controller.state.router.tables == fresh_tables(controller.state)
        assert not any(mirror.detours().values())
        assert controller.state.schemas["weather"].epoch == 2


@ran
async def test_the_feed_tells_the_phases(tmp_path):
    async with controlled(tmp_path, Held(), *PEOPLE, *LIVELY) as controller:
        with controller.feed.subscribe() as reader:
            await controller.plan_changes.change(change())
            items = []
            async for item in reader:
                if item["type"] == "plan":
                    items.append((item["epoch"], item["phase"]))
                if items[-1:] == [(2, "done")]:
                    break
        assert items == [(1, "prepared"), (2, "swapped"), (2, "done")]


def test_a_state_without_changes_has_no_detours():
    assert not any(map(len, ControlState(LINE, SMALL).rules.detours.tables.values()))
