"""The plan in force as a tree, for people who want to see where bits and rules go and what they bring."""

from __future__ import annotations

import asyncio
from itertools import dropwhile
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.control import SchemaEntry
from pleroma.index import Dz, TreeIndex
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.plan_tree import TreeAnswer, TreePaging
from pleroma.service.http.models.problems import ErrorAnswer
from pleroma.service.http.paging import page
from pleroma.service.http.strict_route import StrictRoute
from pleroma.service.http.tree_costs import (
    DeliverySums,
    HostSubscription,
    PlanNode,
    delivery_sums,
    dz_key,
    node_answer,
    plan_nodes,
)


def plan_tree(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/schemas/{name}", tags=["plans"], route_class=StrictRoute)
    known: dict[str, tuple[tuple[int, int], DeliverySums | None]] = {}

    async def seen(entry: SchemaEntry) -> DeliverySums | None:
        """What the recent samples say; worked out anew when there are others, or other registrations."""
        now = service.controller.position, 0 if service.collection is None else service.collection.recent.count
        if entry.name not in known or known[entry.name][0] != now:
            events = None if service.collection is None else service.collection.recent.of(entry.name)
            wishes = [
                each
                for each in service.state.registrations.values()
                if each.entry is entry and each.kind == "subscription"
            ]
            index, prefix = entry.index, entry.prefix
            found = None
            if events is not None:
                listed = (HostSubscription(each.host, each.region, each.filter) for each in wishes)
                found = await asyncio.to_thread(delivery_sums, index, prefix, events, listed)
            known[entry.name] = now, found
            return found  # and not what another request found meanwhile, by another plan
        return known[entry.name][1]

    @router.get(
        "/plan/tree",
        response_model=TreeAnswer,
        summary="The plan in force as a tree, with what it costs",
        responses={409: {"model": ErrorAnswer, "description": "The plan in force is no tree: `value` says what it is"}},
    )
    async def tree(request: Request, name: str, asked: Annotated[TreePaging, Query()]) -> Response:
        """From the node `at` down to `depth` levels below it, a node before its parts, in pages.

        `rules` are those at or below the node in the tables of all switches, `fullest` those in the table that has most
        of them. `deliveries` and `wasted` are what the regions in force make of the events sampled of late, as they
        would come to the hosts; null where nothing was sampled. Grids are answered as the trees that they are.
        """
        admin(request)
        entry = service.schema(name)
        index, prefix, epoch = entry.index, entry.prefix, entry.epoch
        found = plan_nodes(index, Dz.parse(asked.at), asked.depth)
        if asked.after is not None:
            last = dz_key(Dz.parse(asked.after))
            found = dropwhile(lambda node: dz_key(node.dz) <= last, found)
        first = next(plan_nodes(index, depth=0))
        tables = {switch: [flow.dz for flow in table] for switch, table in service.state.router.tables.items()}
        judgement = await seen(entry)
        rules = await asyncio.to_thread(
            lambda: {s: sorted(dz_key(dz) for dz in each if prefix.covers(dz)) for s, each in tables.items()}
        )

        def shown(node: PlanNode) -> dict[str, object]:
            made: dict[str, object] = node_answer(node, entry.schema.names, prefix, rules, judgement)
            return made

        answer = {
            "schema": entry.name,
            "epoch": epoch,
            "kind": "tree" if isinstance(index, TreeIndex) else "grid",
            "bits": index.bits,
            "leaves": first.leaves,
            "events": None if judgement is None else len(judgement.keys),
        }
        return json_response(answer | page(found, asked.limit, shown, lambda node: str(node.dz)))

    return router
