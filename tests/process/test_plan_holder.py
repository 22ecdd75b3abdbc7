"""A watcher hands a plan to a real controller, with a token that is good for nothing else."""

import pytest

from pleroma.content import Schema
from pleroma.control import ControlSettings
from pleroma.errors import ControllerAway, PlanMoved, RequestRefused
from pleroma.index import GridIndex
from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder
from support.service.process import ServiceProcess
from support.watch_cases import BY_PRICE, SCHEMA


def test_while_a_watcher_holds_on_to_a_controller_the_schema_is_left_to_it(tmp_path):
    with ServiceProcess(tmp_path / "service") as service:
        service.ask("POST", "/v1/schemas", {"schema": SCHEMA.to_json(), "bits": 6})
        token = service.principal("watch", role="tuner")

        def looking():
            return service.ask("GET", "/v1/schemas/stock/plan/replanning")["by"]

        before = looking()
        with ControllerPlanHolder(service.url, token, "stock"):
            assert looking() == "watcher"
        assert looking() == before != "watcher"


def test_a_plan_is_handed_over_once_and_nobody_elses_is_undone(tmp_path):
    with ServiceProcess(tmp_path / "service") as service:
        service.ask("POST", "/v1/schemas", {"schema": SCHEMA.to_json(), "bits": 6})
        token = service.principal("watch", role="tuner")
        with (
            ControllerPlanHolder(service.url, token, "stock") as handover,
            ControllerPlanHolder(service.url, token, "stock") as other,
            ControllerPlanHolder(service.url, "plr_wrong", "stock") as stranger,
            ControllerPlanHolder(service.url, token, "nothing") as lost,
        ):
            first = handover.current()
            assert (first.epoch, first.index.bits, first.index.schema) == (1, 6, SCHEMA)
            assert first.members == ControlSettings().max_members
            assert handover.put(BY_PRICE, None, 1) == 2
            assert other.current().index.to_json() == BY_PRICE.to_json()
            assert other.current().members == first.members
            for each in (handover, other):
                with pytest.raises(PlanMoved):  # as if the answer had been lost, and by one who judged by plan 1
                    each.put(BY_PRICE, None, 1)
            assert other.put(GridIndex(SCHEMA, (1, 0)), 300, 2) == 3
            assert handover.current().members == 300
            assert handover.current().epoch == 3
            for one, status in ((stranger, 401), (lost, 404)):
                with pytest.raises(RequestRefused) as caught:
                    one.current()
                assert caught.value.status == status
            foreign = Schema.from_json({"name": "stock", "attribute": [{"name": "a", "kind": "text"}]})
            with pytest.raises(RequestRefused) as caught:
                handover.put(GridIndex(foreign, (0,) * 40), None, 3)
            assert caught.value.status == 400
        service.kill()
        with ControllerPlanHolder(service.url, token, "stock") as gone, pytest.raises(ControllerAway):
            gone.current()
        service.start()
        with ControllerPlanHolder(service.url, token, "stock") as back:
            assert back.current().epoch == 3
