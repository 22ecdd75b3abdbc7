"""Hosts: where programs join the network. An attachment lets a program join; it lapses unless it is repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.control import ForgetHost, LearnHost
from pleroma.errors import AlreadyThere, BadRequest, NotAllowed, NotFound, PleromaError, UnknownName
from pleroma.routing import HostId
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin, caller, host_of, shown_token
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.hosts import AttachmentAnswer, AttachmentQuestion, HostAnswer, NewHost
from pleroma.service.http.strict_route import StrictRoute
from pleroma.wire.api_terms import ANY_HOST


def hosts(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/hosts", tags=["hosts"], route_class=StrictRoute)

    @router.get("", response_model=list[HostAnswer], summary="All hosts")
    async def many() -> Response:
        listed = service.state.topology.hosts
        return json_response([{"name": h.name, "switch": h.switch, "address": h.address} for h in listed])

    @router.post("", status_code=201, response_model=HostAnswer, summary="Make a host known")
    async def learn(request: Request, new: NewHost) -> Response:
        """On a network that finds its switches by itself; elsewhere hosts are what the topology says."""
        admin(request)
        _check_learning(service)
        network = service.plane.topology()
        if new.switch not in network.switches:
            raise UnknownName("switch", new.switch, network.switches, field="switch")
        if any((new.switch, new.port) in link.ends for link in network.links):
            raise AlreadyThere("the port leads to another switch", field="port", value=new.port)
        done = await service.controller.submit(LearnHost(new.name, new.switch, new.port, new.address, new.mac))
        return json_response({field: done.value[field] for field in ("name", "switch", "address")}, 201)

    @router.delete("/{host}", status_code=204, summary="Forget a host at which nothing is registered")
    async def forget(request: Request, host: str) -> Response:
        admin(request)
        _check_learning(service)
        await service.controller.submit(ForgetHost(host))
        return Response(status_code=204)

    @router.post(
        "/{host}/attachments",
        status_code=201,
        response_model=AttachmentAnswer,
        summary="Join the network at a host",
        description="`any` chooses the host that asks, or of a simulated network the one with the fewest attachments.",
    )
    async def attach(request: Request, host: str, asked: Annotated[AttachmentQuestion, Query()]) -> Response:
        if service.keys is not None and not asked.tags:
            reason = (
                "events have tags here: a program must say that it makes and checks them, and this one may be too old"
            )
            raise BadRequest(reason, field="tags", value=asked.tags)
        used = service.plane.attached()
        there = service.state.topology.host[_any(service, request, used) if host == ANY_HOST else _known(service, host)]
        seconds, principal = service.settings.attachment_seconds, caller(request).name
        give_back = service.attachments.take(principal)
        try:
            known = service.plane.attach(there, seconds, principal, asked.lease, shown_token(request), give_back)
        except PleromaError:
            give_back()
            raise
        answer = {
            "host": there.name,
            "address": there.address,
            "range": str(service.plane.addresses.base),
            "seconds": seconds,
            "tags": service.keys is not None,
            **known,
        }
        return json_response(answer, 201)

    return router


def _check_learning(service: Service) -> None:
    if not service.plane.learns:
        reason = "the hosts of this network are those of its topology"
        raise NotAllowed(reason, field="host", value=None, allowed="a network that discovers its switches")


def _any(service: Service, request: Request, used: Mapping[HostId, int]) -> HostId:
    asking = host_of(request.scope) or _at(service, request.client.host if request.client else "")
    return asking or _least_used(used)


def _at(service: Service, address: str) -> HostId | None:
    """The host that has this IP address."""
    return next((each.name for each in service.state.topology.hosts if each.address == address), None)


def _known(service: Service, host: str) -> HostId:
    try:
        return service.state.topology.find_host(host).name
    except PleromaError as error:
        raise NotFound(error.reason, field="host", value=host) from None


def _least_used(used: Mapping[HostId, int]) -> HostId:
    if not used:
        raise BadRequest("say at which host: nobody can tell from here", field="host", value=ANY_HOST)
    return min(used, key=lambda name: used[name])
