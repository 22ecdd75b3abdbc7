"""Statistics: what the controller holds, and what its clients report. A principal sees its own counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import islice
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from pleroma.control import Principal
from pleroma.control.client_counters import CLIENT_COUNTER_NAMES, CLIENT_SUM_NAMES
from pleroma.control.trees_in_use import trees_in_use
from pleroma.service.http.context import Service
from pleroma.service.http.gate import caller
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.statistics import NewCounters, NewReport, StatisticsAnswer
from pleroma.service.http.strict_route import StrictRoute
from pleroma.service.http.traffic_rates import waste_at_hosts

MAX_LISTED_SUBSCRIPTIONS = 1000
"""Counters are listed of so many subscriptions; the sums are of all."""


def statistics(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["statistics"], route_class=StrictRoute)

    @router.get("/statistics", response_model=StatisticsAnswer, summary="Counts and counters")
    async def summary(request: Request) -> Response:
        """Counters are since the controller started; rates are of the last minute, and since each plan is in force.

        `waste_at_hosts` is the part of the packets that came to hosts and nobody there wanted, as clients count them:
        a packet that comes to two clients at one host is counted by both.
        """
        principal = caller(request)
        state, reported = service.state, service.controller.client_counters
        everything = principal.role == "admin"
        own = state.registrations.by_principal.get(principal.name, {})
        registered = state.registrations
        count = len(registered) if everything else len(own)
        subscribed = registered.subscriptions if everything else registered.subscriptions_of(principal.name)
        listed = reported.subscriptions if everything else [each for each in own if each in reported.subscriptions]
        shown = list(islice(listed, MAX_LISTED_SUBSCRIPTIONS))
        answer: dict[str, Any] = {
            "position": service.controller.position,
            "schemas": len(state.schemas),
            "advertisements": count - subscribed,
            "subscriptions": subscribed,
            "rules": sum(map(len, state.router.tables.values())),
            "trees": {
                "dealt": state.trees,
                "count": len(trees_in_use(state)),
                "to_move": len(service.controller.schemas_on_other_trees),
            },
            "loop_stall_seconds": round(service.watch.longest(), 4),
            "reported": _totals(service, principal),
            "last_minute": service.rates.last_minute(None if everything else principal.name),
            "by_schema": service.rates.by_schema(None if everything else principal.name),
            "by_subscription": {each: _all(CLIENT_COUNTER_NAMES, reported.subscriptions[each]) for each in shown},
        }
        if everything:
            answer["principals"] = {name: _all(_NAMES, counted) for name, counted in reported.principals.items()}
            answer["hosts"] = service.plane.hosts()
            entered = service.plane.forged()
            answer["forged"] = {
                "entered": [{"host": host, "principal": who, "events": n} for (host, who), n in entered.items()],
                "reported": service.forged.shown(),
            }
        return json_response(answer)

    @router.post("/reports", status_code=204, summary="Say what a client counted since its last report")
    async def report(request: Request, said: NewReport) -> Response:
        """Numbers are added to those of before. A report about a subscription that is not the caller's is refused.

        A report that comes again as the same batch counts once.
        """
        counted = {each: _complete(counters) for each, counters in said.subscriptions.items()}
        principal = caller(request).name
        batch = None if said.batch is None else (said.batch.sender, said.batch.number)
        published = said.published if isinstance(said.published, dict) else {None: said.published}
        sums = {"published": sum(published.values()), "unsent": said.unsent, "overrun": said.overrun}
        if not service.controller.report(principal, counted, sums, batch):
            return Response(status_code=204)
        by_schema: dict[str | None, Counter[str]] = defaultdict(Counter)
        for schema, count in published.items():
            by_schema[schema if schema in service.state.schemas else None]["published"] += count
        for each, counters in counted.items():
            subscription = service.state.registrations[each]
            by_schema[subscription.schema].update(counters)
            service.forged.add(service.state, subscription, counters.get("forged", 0))
        for schema, sums in by_schema.items():
            service.rates.add(principal, schema, sums)
        if service.collection is not None:
            service.collection.add_report(principal, counted, batch)
        return Response(status_code=204)

    return router


_NAMES = (*CLIENT_SUM_NAMES, *CLIENT_COUNTER_NAMES)


def _all(names: tuple[str, ...], counted: Mapping[str, int]) -> dict[str, int]:
    return {name: counted.get(name, 0) for name in names}


def _complete(counters: NewCounters) -> dict[str, int]:
    """All counters. A client that does not count packets has one subscription for each."""
    counted: dict[str, int] = counters.model_dump(exclude_none=True)
    return {"wanted": counted["delivered"]} | counted


def _totals(service: Service, principal: Principal) -> dict[str, Any]:
    reported = service.controller.client_counters
    counted = reported.totals if principal.role == "admin" else reported.principals.get(principal.name, {})
    totals: dict[str, Any] = _all(_NAMES, counted)
    return totals | {"waste_at_hosts": waste_at_hosts(totals)}
