"""Groups: rights under a name, which any number of principals have. A change of a group is one of all its members."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.control import ChangeGroup, CreateGroup, Group, RemoveGroup
from pleroma.errors import NotFound
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.pages import Page, Paging
from pleroma.service.http.models.principals import (
    ChangedGroup,
    ChangedGroupAnswer,
    GroupAnswer,
    NewGroup,
    RemovedGroupAnswer,
)
from pleroma.service.http.paging import behind, in_turns, page_response
from pleroma.service.http.resources.principals import check_rights, withdrawn
from pleroma.service.http.resources.registrations import CONFIRM_PATIENCE_SECONDS
from pleroma.service.http.strict_route import StrictRoute


def groups(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/groups", tags=["principals"], route_class=StrictRoute)

    @router.post("", status_code=201, response_model=GroupAnswer, summary="Name a set of rights")
    async def create(request: Request, new: NewGroup) -> Response:
        me = admin(request)
        await check_rights(service, me, (new.publish, new.read))
        await service.controller.submit(CreateGroup(new.name, new.publish, new.read))
        return json_response(_shape(service, _known(service, new.name)), 201)

    @router.get("", response_model=Page[GroupAnswer], summary="List the groups")
    async def many(request: Request, at: Annotated[Paging, Query()]) -> Response:
        admin(request)
        found = behind(service.state.people.groups.values(), at.after, _name)
        members = Counter(group for each in service.state.principals.values() for group in each.groups)
        return await page_response(in_turns(found), at.limit, lambda each: _shape_with(each, members[each.name]), _name)

    @router.get("/{name}", response_model=GroupAnswer, summary="One group")
    async def one(request: Request, name: str) -> Response:
        admin(request)
        return json_response(_shape(service, _known(service, name)))

    @router.patch("/{name}", response_model=ChangedGroupAnswer, summary="Change the rights of all members")
    async def change(request: Request, name: str, changed: ChangedGroup) -> Response:
        """What is not given stays. Registrations that members may no longer have are withdrawn at once."""
        me = admin(request)
        _known(service, name)
        await check_rights(service, me, (changed.publish, changed.read))
        command = ChangeGroup(name, changed.publish, changed.read)
        done = await service.controller.submit(command, patience=CONFIRM_PATIENCE_SECONDS)
        shape = _shape(service, _known(service, name))
        return json_response(shape | {"withdrawn": withdrawn(done.value["withdrawn"])})

    @router.delete("/{name}", response_model=RemovedGroupAnswer, summary="Remove a group; its members stay")
    async def remove(request: Request, name: str) -> Response:
        """Members lose the rights that they had from it, and registrations that took them."""
        admin(request)
        _known(service, name)
        done = await service.controller.submit(RemoveGroup(name), patience=CONFIRM_PATIENCE_SECONDS)
        return json_response({"name": name, "withdrawn": withdrawn(done.value["withdrawn"])})

    return router


def _known(service: Service, name: str) -> Group:
    try:
        return service.state.people.groups[name]
    except KeyError:
        raise NotFound("there is no such group", field="name", value=name) from None


def _name(group: Group) -> str:
    return group.name


def _shape(service: Service, group: Group) -> dict[str, Any]:
    return _shape_with(group, sum(1 for _ in service.state.people.members(group.name)))


def _shape_with(group: Group, members: int) -> dict[str, Any]:
    return {
        "name": group.name,
        "publish": dict(group.rights.publish),
        "read": dict(group.rights.read),
        "members": members,
    }
