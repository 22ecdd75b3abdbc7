"""The gate in front of all routes: a path that is not listed as open needs a token, and each principal has a rate.

The gate does not know the routes, so a route that is added later is guarded without further code.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pleroma.control import Principal
from pleroma.errors import NotAllowed, NotAuthenticated, PleromaError, TooFast
from pleroma.routing import HostId
from pleroma.service.http.limits import Buckets
from pleroma.service.http.problems import problem_response
from pleroma.service.http.tokens import Callers

OPEN_PATHS = frozenset({"/health", "/metrics", "/docs", "/openapi.json"})
IN_BAND_SCOPE = "pleroma.in_band"
"""The key of the `InBandCaller` in the ASGI scope of a request that came through the network; no server sets it."""
_ANONYMOUS = "nobody"
_TUNER = {
    "GET": re.compile("/v1/schemas(/[^/]+(/plans?|/plan/replanning)?)?"),
    "PUT": re.compile("/v1/schemas/[^/]+/plan"),
    "POST": re.compile("/v1/schemas/[^/]+/plan/(watching|forecast)"),
}
"""All requests that the role `tuner` may make: its token lies on a cluster, and is good for nothing else."""


class InBandCaller(NamedTuple):
    """A principal that has proved to know its token, and the host that it is at."""

    principal: str
    digest: str
    host: HostId


class Gate:
    def __init__(self, app: ASGIApp, callers: Callers, buckets: Buckets, anonymous: Buckets) -> None:
        self._app = app
        self._callers = callers
        self._buckets = buckets
        self._anonymous = anonymous

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            try:
                scope["caller"] = self._admit(scope)
            except PleromaError as error:
                await problem_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> Principal:
        principal = self._known(scope[IN_BAND_SCOPE]) if IN_BAND_SCOPE in scope else self._bearer(scope)
        if principal.role == "tuner":
            _check_tuner(scope["method"], scope["path"])
        return principal

    def _bearer(self, scope: Scope) -> Principal:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        try:
            principal = self._callers.who(given)
        except NotAuthenticated:
            _keep_to(self._anonymous, _ANONYMOUS)
            raise
        _keep_to(self._buckets, principal.name)
        return principal

    def _known(self, asking: InBandCaller) -> Principal:
        principal = self._callers.still(asking.principal, asking.digest)
        _keep_to(self._buckets, principal.name)
        return principal


def host_of(scope: Scope) -> HostId | None:
    """The host that a request comes from, where the network itself brought it."""
    known: InBandCaller | None = scope.get(IN_BAND_SCOPE)
    return known.host if known else None


def _check_tuner(method: str, path: str) -> None:
    allowed = _TUNER.get(method)
    if allowed is None or not allowed.fullmatch(path):
        reason = "a tuner reads schemas and plans, tries and hands over plans, and may do nothing else"
        raise NotAllowed(
            reason,
            field="role",
            value="tuner",
            allowed="GET schemas and plans, PUT plan, POST plan/forecast and plan/watching",
        )


def _keep_to(buckets: Buckets, name: str) -> None:
    seconds = buckets.take(name)
    if seconds:
        raise TooFast(f"more than {buckets.per_s:g} requests a second", seconds)


def caller(request: Request) -> Principal:
    """The principal that makes a request."""
    principal: Principal = request.scope["caller"]
    return principal


def admin(request: Request) -> Principal:
    """The principal that makes a request; raises `NotAllowed` unless it is an administrator."""
    principal = caller(request)
    if principal.role != "admin":
        raise NotAllowed("only an administrator may do this", field="role", value=principal.role, allowed="admin")
    return principal


def tuner(request: Request) -> Principal:
    """The principal that makes a request; raises `NotAllowed` unless it may hand over plans."""
    principal = caller(request)
    return principal if principal.role == "tuner" else admin(request)
