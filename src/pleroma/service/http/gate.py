"""The one door: whatever is not listed as open needs a token and keeps to the rate of its principal.

It stands in front of the routes, so that one that is added tomorrow is guarded without a word about it.
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
"""In the scope of a request that came through the network's own switches: an `InBand`. No server sets it."""
_ANONYMOUS = "nobody"
_TUNER = {
    "GET": re.compile("/v1/schemas(/[^/]+(/plans?)?)?"),
    "PUT": re.compile("/v1/schemas/[^/]+/plan"),
}
"""All that the role `tuner` is for: a token that is left lying about on a cluster can do no more than this."""


class InBandCaller(NamedTuple):
    """Who has proved to know a token, and at which host."""

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
        reason = "a tuner reads schemas and plans and hands over a plan, and may do nothing else"
        raise NotAllowed(reason, field="role", value="tuner", allowed="GET schemas and plans, PUT plan")


def _keep_to(buckets: Buckets, name: str) -> None:
    seconds = buckets.take(name)
    if seconds:
        raise TooFast(f"more than {buckets.per_s:g} requests a second", seconds)


def caller(request: Request) -> Principal:
    """Who asks."""
    principal: Principal = request.scope["caller"]
    return principal


def admin(request: Request) -> Principal:
    """Who asks, if it is an administrator."""
    principal = caller(request)
    if principal.role != "admin":
        raise NotAllowed("only an administrator may do this", field="role", value=principal.role, allowed="admin")
    return principal


def tuner(request: Request) -> Principal:
    """Who asks, if it may hand over plans."""
    principal = caller(request)
    return principal if principal.role == "tuner" else admin(request)
