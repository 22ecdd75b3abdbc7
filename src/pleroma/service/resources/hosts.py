"""Hosts: where programs join the network. An attachment is the right to do so, kept alive by the program."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from fastapi import APIRouter
from starlette.responses import Response

from pleroma.errors import NotFound, PleromaError, SetupError, TooFast
from pleroma.routing import HostId
from pleroma.service.answers import json_response
from pleroma.service.context import Service
from pleroma.service.models import Attachment, HostAnswer
from pleroma.service.settings import LOOPBACK
from pleroma.service.strict_route import StrictRoute

ANY = "any"
SECRET_BYTES = 16


def hosts(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/hosts", tags=["hosts"], route_class=StrictRoute)

    @router.get("", response_model=list[HostAnswer], summary="All hosts")
    async def many() -> Response:
        listed = service.state.topology.hosts
        return json_response([{"name": h.name, "switch": h.switch, "address": h.address} for h in listed])

    @router.post(
        "/{host}/attachments",
        status_code=201,
        response_model=Attachment,
        summary="Join the network at a host",
        description="`any` chooses the host with the fewest attachments.",
    )
    async def attach(host: str) -> Response:
        network, used = service.network, service.network.sessions()
        if sum(used.values()) >= service.settings.attachments:
            reason = f"there are {service.settings.attachments} attachments, and no room for more"
            raise TooFast(reason, service.settings.attachment_seconds)
        name = _least_used(used) if host == ANY else _known(service, host)
        secret = secrets.token_bytes(SECRET_BYTES)
        seconds = service.settings.attachment_seconds
        network.admit(name, secret, seconds)
        answer = {
            "host": name,
            "address": service.state.topology.host[name].address,
            "udp_host": LOOPBACK,
            "port": network.ports[name],
            "secret": secret.hex(),
            "seconds": seconds,
        }
        return json_response(answer, 201)

    return router


def _known(service: Service, host: str) -> HostId:
    try:
        return service.state.topology.find_host(host).name
    except PleromaError as error:
        raise NotFound(error.reason, field="host", value=host) from None


def _least_used(used: Mapping[HostId, int]) -> HostId:
    if not used:
        raise SetupError("the network has no hosts", field="host")
    return min(used, key=lambda name: used[name])
