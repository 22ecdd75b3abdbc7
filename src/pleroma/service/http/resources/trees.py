"""The trees that events travel on. Their cells may show what others publish, so only administrators see them."""

from __future__ import annotations

from itertools import islice
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from pleroma.control.trees_in_use import SchemaPart, TreeInUse, trees_in_use, unused_links
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.trees import TreesAnswer
from pleroma.service.http.strict_route import StrictRoute

SHOWN_CELLS = 16
"""Dz that are listed of each schema on each tree; all are counted."""


def trees(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["network"], route_class=StrictRoute)

    @router.get("/network/trees", response_model=TreesAnswer, summary="The trees, and what travels on each")
    async def show(request: Request) -> Response:
        admin(request)
        state = service.state
        used = trees_in_use(state)
        answer = {
            "dealt": state.trees,
            "to_move": [entry.name for entry in service.controller.schemas_on_other_trees],
            "unused": [str(link) for link in unused_links(state)],
        }
        return json_response(answer | {"trees": [await _tree(service, each) for each in used]})

    return router


async def _tree(service: Service, used: TreeInUse) -> dict[str, Any]:
    cables = [str(link) for link in used.tree.links]
    return {"number": used.number, "cables": cables, "schemas": [await _part(service, part) for part in used.parts]}


async def _part(service: Service, part: SchemaPart) -> dict[str, Any]:
    """Events sampled of late have dz of the version in force."""
    entry = service.state.schemas[part.schema]
    sample = None if part.is_other else await service.traffic.of(entry)
    return {
        "name": part.schema,
        "version": "other" if part.is_other else "in_force",
        "cells": len(part.cells),
        "first_cells": [str(dz) for dz in islice(part.cells, SHOWN_CELLS)],
        "share": part.share,
        "sampled": None if sample is None else float(sample.codes.within(part.cells).mean()),
    }
