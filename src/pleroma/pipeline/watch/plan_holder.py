"""Who holds the plan in force and takes its successor: the controller, or for a dry run the lake.

A plan is handed over as the successor of a certain epoch. If another plan has come into force meanwhile, by hand or by
another replanner, the controller refuses it; a request that is sent twice has its effect once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote

from pleroma.errors import ControllerAway, LakeError, PlanChanging, PlanMoved, RequestRefused
from pleroma.index import Index, IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.watch.schema_claim import SchemaClaim
from pleroma.replanning.plan_in_force import PlanInForce

PLAN_CHANGE_SECONDS = 150.0
"""How long a plan change may take: it waits for publishers up to a minute, and then for switches."""


class LakePlanHolder:
    """The plan in force as the lake knows it, for a dry run: it takes no other plan."""

    def __init__(self, lake: Lake, schema: str) -> None:
        self._lake = lake
        self._schema = schema

    def current(self) -> PlanInForce:
        plans = self._lake.plans(self._schema)
        if not plans:
            raise LakeError("there is no plan in the lake", field="schema", value=self._schema)
        return PlanInForce(plans[-1].epoch, plans[-1].plan.index, plans[-1].members)

    def put(
        self,
        index: Index,
        members: int | None,  # noqa: ARG002
        epoch: int,
        predicted: Mapping[str, float] | None = None,  # noqa: ARG002
    ) -> int:
        raise LakeError(f"a lake takes no plan to follow {epoch}", field="schema", value=index.schema.name)


class ControllerPlanHolder:
    """The controller at `url`, asked with a token of the role `tuner`. As `with`, it claims the schema."""

    def __init__(self, url: str, token: str, schema: str) -> None:
        from pleroma.client.blocking_api import BlockingApi  # brings httpx, which takes a while to load

        self._path = f"/v1/schemas/{quote(schema, safe='')}/plan"
        self._api = BlockingApi(url, token, seconds=PLAN_CHANGE_SECONDS)
        self._claim = SchemaClaim(url, token, schema)

    def __enter__(self) -> Self:
        self._claim.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._claim.__exit__()
        self.close()

    def close(self) -> None:
        self._claim.close()
        self._api.close()

    def current(self) -> PlanInForce:
        answer = self._ask("GET")
        try:
            given = answer["plan"]
        except (KeyError, TypeError):
            raise self._not_a_controller() from None
        plan = IndexPlan.loads(json.dumps(given))
        return PlanInForce(plan.epoch, plan.index, plan.members)

    def put(self, index: Index, members: int | None, epoch: int, predicted: Mapping[str, float] | None = None) -> int:
        body = {"index": index.to_json(), "members": members, "epoch": epoch, "predicted": dict(predicted or {})}
        try:
            return int(self._ask("PUT", body)["epoch"])
        except (KeyError, TypeError):
            raise self._not_a_controller() from None
        except RequestRefused as error:
            if error.code == "plan_moved":
                raise PlanMoved(error.reason, field="epoch", value=epoch) from None
            if error.code == "plan_changing":
                raise PlanChanging(error.reason, field="epoch", value=epoch) from None
            raise

    def _ask(self, method: str, body: Any = None) -> Any:
        """The answer's body. A controller that has an error of its own (a status of 500 or more) counts as away."""
        try:
            return self._api.ask(method, self._path, body)
        except RequestRefused as error:
            if error.status >= 500:
                raise ControllerAway(f"the controller cannot do it now: {error.reason}", field="url") from None
            raise

    def _not_a_controller(self) -> ControllerAway:
        return ControllerAway(f"{self._api.url} does not answer like a controller", field="url")
