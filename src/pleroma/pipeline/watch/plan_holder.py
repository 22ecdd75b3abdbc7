"""A better plan, and how the controller gets it.

Better is said by events that the tuner has not seen, and by a margin, for every change costs something. The plan is
handed over as the one to follow a certain epoch: if another has come into force meanwhile, by hand or by another
watcher, the controller refuses it, and a request that is sent twice has its effect once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self
from urllib.parse import quote

from pleroma.content import Filter
from pleroma.errors import ControllerAway, LakeError, PlanChanging, PlanMoved, RequestRefused
from pleroma.evaluation.outcome import judge
from pleroma.index import Index, IndexPlan, Waste
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.watch.decisions import WatchSettings
from pleroma.selection.advice import advise_from
from pleroma.selection.traffic_summary import TrafficSummary

PLAN_CHANGE_SECONDS = 150.0
"""How long a plan change may take: it waits for publishers up to a minute, and then for switches."""


@dataclass(frozen=True, slots=True)
class PlanInForce:
    epoch: int
    index: Index
    members: int | None
    """The limit on dz per subscription."""


class PlanHolder(Protocol):
    """Where a better plan goes."""

    def current(self) -> PlanInForce: ...

    def put(self, index: Index, epoch: int) -> int:
        """Have an index follow the plan of an epoch; returns the new epoch. PlanMoved if another plan is in force."""


@dataclass(frozen=True, slots=True)
class Proposal:
    technique: str
    index: Index
    before: Waste
    """Of the plan in force, on held-out events."""
    after: Waste
    rules: int


def proposal(
    in_force: PlanInForce, gathered: TrafficSummary, subscriptions: Sequence[Filter], settings: WatchSettings
) -> Proposal:
    """The best plan that the tuner finds, beside the one in force."""
    bits = settings.bits or in_force.index.bits
    limits: dict[str, Any] = {"max_members": in_force.members, "rules": settings.rules}
    limits |= {"selections": settings.selections, "splits": settings.splits}
    best = advise_from(gathered, subscriptions, bits, **limits, seed=settings.seed)[0]
    before = judge(in_force.index, subscriptions, gathered.judging, in_force.members)
    return Proposal(best.technique, best.index, before.waste, best.outcome.waste, best.outcome.rules)


def is_better(before: Waste, after: Waste, settings: WatchSettings) -> bool:
    """By the margin, and by more than the floor."""
    saved = before.wasted - after.wasted
    return saved > 0 and saved >= settings.margin * before.wasted and before.rate - after.rate >= settings.floor


class LakePlanHolder:
    """The plan in force as the lake knows it, for those who only want to know what would be done."""

    def __init__(self, lake: Lake, schema: str) -> None:
        self._lake = lake
        self._schema = schema

    def current(self) -> PlanInForce:
        plans = self._lake.plans(self._schema)
        if not plans:
            raise LakeError("there is no plan in the lake", field="schema", value=self._schema)
        return PlanInForce(plans[-1].epoch, plans[-1].plan.index, plans[-1].members)

    def put(self, index: Index, epoch: int) -> int:
        raise LakeError(f"a lake takes no plan to follow {epoch}", field="schema", value=index.schema.name)


class ControllerPlanHolder:
    """The controller at `url`, asked with a token of the role `tuner`."""

    def __init__(self, url: str, token: str, schema: str) -> None:
        from pleroma.client.blocking_api import BlockingApi  # brings httpx, which takes a while to load

        self._path = f"/v1/schemas/{quote(schema, safe='')}/plan"
        self._api = BlockingApi(url, token, seconds=PLAN_CHANGE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._api.close()

    def current(self) -> PlanInForce:
        answer = self._ask("GET")
        try:
            given, members = answer["plan"], answer["members"]
        except (KeyError, TypeError):
            raise self._not_a_controller() from None
        plan = IndexPlan.loads(json.dumps(given))
        return PlanInForce(plan.epoch, plan.index, members)

    def put(self, index: Index, epoch: int) -> int:
        try:
            return int(self._ask("PUT", {"index": index.to_json(), "epoch": epoch})["epoch"])
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
