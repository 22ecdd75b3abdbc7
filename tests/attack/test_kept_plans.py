"""Plans come and go without end: few are kept, large ones are refused, and a tuner takes no short cuts."""

import pytest

from pleroma.control import AdoptPlan, ControlSettings, ControlState, CreateSchema, Done
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.records import KEPT_PLANS, MAX_KEPT_INDEX_BYTES, MIN_KEPT_PLANS
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.index import GridIndex, IndexPlan, TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.service.http.resources.plans import MAX_INDEX_BYTES
from support.control_cases import ANN, LINE, SMALL, WEATHER, advertise, subscribe
from support.service.in_process import world
from support.waiting import run

PLAN = "/v1/schemas/stock/plan"
WIDE = ControlSettings()


def large_tree(depth, schema=WEATHER, shift=0.0):
    """A tree of 2 ** depth leaves."""

    def nodes(left):
        return [left % 2, *nodes(left - 1), *nodes(left - 1)] if left else [LEAF]

    return TreeIndex(schema, depth, tuple(nodes(depth)), tuple(shift + 0.5 for _ in range(2**depth - 1)))


def grid(number):
    return GridIndex(WEATHER, ((0, 1, 0), (1, 0, 1))[number % 2])


def moved(state, indexes):
    for position, index in enumerate(indexes, 100):
        assert isinstance(state.apply(position, AdoptPlan("weather", index)), Done)


def peopled(settings):
    state = ControlState(LINE, settings)
    commands = (CreateSchema(WEATHER), ANN, advertise("ann", "true"), subscribe("ann", "temperature < 9"))
    for position, command in enumerate(commands, 1):
        assert isinstance(state.apply(position, command), Done)
    return state


def test_the_last_plans_are_kept_and_a_snapshot_does_not_grow_with_those_before():
    state = peopled(SMALL)
    moved(state, map(grid, range(3 * KEPT_PLANS)))
    plans = state.schemas["weather"].plans
    assert [plan.epoch for plan in plans] == list(range(2 * KEPT_PLANS + 2, 3 * KEPT_PLANS + 2))
    before = len(snapshot(state, KeptAnswers()))
    moved(state, map(grid, range(3 * KEPT_PLANS)))
    assert len(snapshot(state, KeptAnswers())) < before + 10 * KEPT_PLANS


def test_large_plans_are_kept_in_smaller_number_and_enough_for_a_change():
    state = peopled(WIDE)
    moved(state, (large_tree(12, shift=number) for number in range(KEPT_PLANS)))
    plans = state.schemas["weather"].plans
    assert [plan.epoch for plan in plans][-1] == KEPT_PLANS + 1
    assert len(plans) >= MIN_KEPT_PLANS
    assert len(plans) == MIN_KEPT_PLANS or sum(plan.index_bytes for plan in plans) <= MAX_KEPT_INDEX_BYTES


def test_a_snapshot_of_an_earlier_version_forgets_the_plans_that_the_log_would_have_forgotten():
    state = peopled(SMALL)
    moved(state, map(grid, range(5)))
    entry = state.schemas["weather"]
    entry.plans[:0] = [IndexPlan(0, grid(1))] * (2 * KEPT_PLANS)
    restored, _ = restore(snapshot(state, KeptAnswers()), LINE, SMALL)
    assert [plan.epoch for plan in restored.schemas["weather"].plans] == [0] * (KEPT_PLANS - 6) + [1, 2, 3, 4, 5, 6]


def test_a_plan_that_is_no_longer_kept_is_not_found_and_the_answer_says_from_which_on(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            for number in range(KEPT_PLANS + 2):
                index = {"kind": "grid", "order": [number % 2, 1, 0]}
                await api("PUT", PLAN, 200, json={"index": index, "method": "at_once"})
            listed = [each["epoch"] for each in (await api.get("/v1/schemas/stock/plans"))["items"]]
            assert listed == list(range(4, KEPT_PLANS + 4))
            error = await api.error("POST", f"{PLAN}/rollback", 404, "not_found", json={"epoch": 2})
            assert "kept from plan 4 on" in str(error)
            await api("POST", f"{PLAN}/rollback", 200, json={"epoch": 4, "method": "at_once"})

    run(main)


def test_an_index_that_no_table_has_room_for_is_refused_before_it_is_read(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            schema = api.app.state.service.schema("stock").schema
            tree = large_tree(15, schema)
            assert len(IndexPlan(1, tree).dumps()) > MAX_INDEX_BYTES
            error = await api.error("PUT", PLAN, 413, "too_large", json={"index": tree.to_json()})
            assert error["field"] == "index"
            assert (await api.get(PLAN))["epoch"] == 1

    run(main)


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_a_tuner_does_not_change_plans_at_once(tmp_path, method):
    async def main():
        async with world(tmp_path) as api:
            tuner = await api.principal("watch", "tuner")
            index = {"kind": "grid", "order": [0, 1, 0]}
            await tuner.error("PUT", PLAN, 403, "not_allowed", json={"index": index, "method": "at_once"})
            assert (await api.get(PLAN))["epoch"] == 1
            await tuner("PUT", PLAN, 200, json={"index": index, "method": method})
            await api("PUT", PLAN, 200, json={"index": {"kind": "grid", "order": [1, 1]}, "method": "at_once"})

    run(main)


def test_a_large_index_is_laid_out_before_the_event_loop_meets_it(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            entry = api.app.state.service.state.schemas["stock"]
            tree = large_tree(6, entry.schema)
            await api("PUT", PLAN, 200, json={"index": tree.to_json()})
            assert entry.index == tree
            assert "tables" in vars(entry.index)

    run(main)
