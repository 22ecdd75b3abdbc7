"""The trees over HTTP: what travels on which, what no tree uses, and what still has to move."""

from pleroma.content.batch import EventBatch
from pleroma.control.state.command import ChooseTrees
from support.service.in_process import world
from support.waiting import run

RING_CABLES = 4


def test_one_tree_has_everything(tmp_path):
    async def main():
        async with world(tmp_path, topology="ring:4") as api:
            found = await api.get("/v1/network/trees")
            assert (found["dealt"], found["to_move"]) == ("single", [])
            (tree,) = found["trees"]
            (part,) = tree["schemas"]
            assert (part["name"], part["version"], part["cells"], part["share"]) == ("stock", "in_force", 1, 1.0)
            assert part["first_cells"] == ["000000"]
            assert part["sampled"] is None
            assert len(tree["cables"]) == RING_CABLES - 1
            assert len(found["unused"]) == 1
            cables = {*tree["cables"], *found["unused"]}
            links = (await api.get("/v1/topology"))["links"]
            assert cables == {f"{each['a']} {each['a_port']} - {each['b']} {each['b_port']}" for each in links}
            assert (await api.get("/v1/statistics"))["trees"] == {"dealt": "single", "count": 1, "to_move": 0}

    run(main)


def test_a_forest_has_a_tree_for_each_publishers_events(tmp_path):
    async def main():
        async with world(tmp_path, topology="ring:4") as api:
            controller = api.app.state.service.controller
            await controller.choose_trees("forest")
            assert (await api.get("/v1/network/trees"))["trees"] == []
            await api.advertise("price < 500", host="h1")
            await api.advertise("price >= 500", host="h3")
            columns = {"price": [1.0, 2.0] + 8 * [900.0], "volume": [1] * 10, "ticker": ["A"] * 10}
            sample = EventBatch.from_columns(controller.state.schemas["stock"].schema, columns)
            api.app.state.service.samples.recent.add(sample)
            found = await api.get("/v1/network/trees")
            parts = [part for tree in found["trees"] for part in tree["schemas"]]
            assert [part["share"] for part in parts] == [0.5, 0.5]
            assert [part["sampled"] for part in parts] == [0.2, 0.8]
            assert found["trees"][0]["cables"] != found["trees"][1]["cables"]
            assert found["unused"] == []
            somebody = await api.principal("sue")
            await somebody.error("GET", "/v1/network/trees", 403, "not_allowed")
            assert (await somebody.get("/v1/statistics"))["trees"]["count"] == 2

    run(main)


def test_schemas_that_have_to_move_are_named_and_counted(tmp_path):
    async def main():
        async with world(tmp_path, topology="ring:4") as api:
            await api.advertise()
            controller = api.app.state.service.controller
            await controller.submit(ChooseTrees("balanced"))
            found = await api.get("/v1/network/trees")
            assert (found["dealt"], found["to_move"], len(found["trees"])) == ("balanced", ["stock"], 1)
            metrics = (await api("GET", "/metrics")).text
            assert "pleroma_trees 1.0" in metrics
            assert "pleroma_schemas_to_move 1.0" in metrics
            await controller.choose_trees("balanced")
            await controller.plan_changes.finished()
            found = await api.get("/v1/network/trees")
            assert (found["to_move"], found["unused"]) == ([], [])
            assert sum(part["share"] for tree in found["trees"] for part in tree["schemas"]) == 1.0
            assert f"pleroma_trees {len(found['trees'])}.0" in (await api("GET", "/metrics")).text

    run(main)
