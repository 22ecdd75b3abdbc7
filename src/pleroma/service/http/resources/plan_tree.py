"""The plan in force as a tree, for people who want to see where bits and rules go and what they bring."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.control import SchemaEntry
from pleroma.index import Dz, TreeIndex
from pleroma.routing import Flow, SwitchId
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin
from pleroma.service.http.models.plan_tree import TreeAnswer, TreePaging
from pleroma.service.http.models.problems import ErrorAnswer
from pleroma.service.http.paging import in_turns, page_response
from pleroma.service.http.sampled_traffic import EncodedSample
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

_NO_TREE = {"model": ErrorAnswer, "description": "The plan in force is no tree: `value` says what it is"}


def plan_tree(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/schemas/{name}", tags=["plans"], route_class=StrictRoute)
    costs = _SampleCosts(service)

    @router.get(
        "/plan/tree",
        response_model=TreeAnswer,
        summary="The plan in force as a tree, with what it costs",
        responses={409: _NO_TREE},
    )
    async def tree(request: Request, name: str, asked: Annotated[TreePaging, Query()]) -> Response:
        """From the node `at` down to `depth` levels below it, a node before its parts, in pages.

        `rules` are those at or below the node in the tables of all switches, `fullest` those in the table that has most
        of them. `deliveries` and `wasted_at_hosts` are what the regions in force make of the events sampled of late,
        as they would come to the hosts; null where nothing was sampled. Grids are answered as the trees that they are.
        """
        admin(request)
        entry = service.schema(name)
        index, prefix, epoch = entry.index, entry.prefix, entry.epoch  # of one moment: a plan may change meanwhile
        after = None if asked.after is None else Dz.parse(asked.after)
        found = plan_nodes(index, Dz.parse(asked.at), asked.depth, after)
        root = next(plan_nodes(index, depth=0))
        tables = {switch: list(table) for switch, table in service.state.router.tables.items()}
        sums = await costs.of(entry)
        rules = await asyncio.to_thread(_sorted_keys, tables, prefix)
        answer = {
            "schema": entry.name,
            "epoch": epoch,
            "kind": "tree" if isinstance(index, TreeIndex) else "grid",
            "bits": index.bits,
            "leaves": root.leaves,
            "events": None if sums is None else sums.codes.event_count,
        }

        def shown(node: PlanNode) -> dict[str, object]:
            return node_answer(node, entry.schema.names, prefix, rules, sums)

        nodes = in_turns(found)
        return await page_response(nodes, asked.limit, shown, lambda node: str(node.dz), answer=answer)

    return router


class _SampleCosts:
    """The deliveries of the recent samples, computed anew when there are other samples or other registrations."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: dict[str, tuple[int, EncodedSample, DeliverySums]] = {}

    async def of(self, entry: SchemaEntry) -> DeliverySums | None:
        """The deliveries of a schema's samples; None where nothing was sampled."""
        position = self._service.controller.position
        sample = await self._service.traffic.of(entry)
        if sample is None:
            return None
        known = self._known.get(entry.name)
        if known is not None and known[0] == position and known[1] is sample:
            return known[2]
        sums = await asyncio.to_thread(delivery_sums, sample, self._subscriptions(entry))
        self._known[entry.name] = position, sample, sums
        return sums  # and not what another request found meanwhile, by another plan

    def _subscriptions(self, entry: SchemaEntry) -> Iterator[HostSubscription]:
        """The subscriptions of this moment; their filters are read by the thread that iterates."""
        registered = self._service.state.registrations.values()
        listed = [each for each in registered if each.entry is entry and each.kind == "subscription"]
        return (HostSubscription(each.host, each.region, each.filter) for each in listed)


def _sorted_keys(tables: Mapping[SwitchId, Sequence[Flow]], prefix: Dz) -> dict[SwitchId, list[int]]:
    """The sorted keys of each switch's rules below a schema's prefix."""
    return {
        switch: sorted(dz_key(flow.dz) for flow in table if prefix.covers(flow.dz)) for switch, table in tables.items()
    }
