"""The gate in front of all routes: a path that is not listed as open needs a token, and each caller has a rate.

A principal has one rate, wherever its requests come from. A caller without a valid token has rates by address: one for
each open path and one for all else. So whoever tries tokens or reads the documentation without end does not keep
`/health` from answering, and an operator who shows a token is not held up by anybody. The gate does not know the
routes, so a route that is added later is guarded without further code.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pleroma.control import Principal, Token
from pleroma.errors import NotAllowed, NotAuthenticated, PleromaError, TooFast
from pleroma.routing import HostId
from pleroma.service.http.connections.caller_address import caller_address
from pleroma.service.http.connections.guarded_http import CONNECTION_SCOPE, GuardedHttp
from pleroma.service.http.limits import Buckets
from pleroma.service.http.problems import problem_response
from pleroma.service.http.tokens import Callers

OPEN_PATHS = frozenset({"/health", "/health/live", "/health/ready", "/metrics", "/docs", "/openapi.json"})
IN_BAND_SCOPE = "pleroma.in_band"
"""The key of the `InBandCaller` in the ASGI scope of a request that came through the network; no server sets it."""
_OPEN_COSTS = {"/metrics": 10.0}
"""How many requests an anonymous request counts as, where it is not one: metrics are collected anew each time."""
_TUNER = {
    "GET": re.compile("/v1/schemas(/[^/]+(/plans?|/plan/replanning)?)?|/v1/me"),
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
        if scope["type"] == "http":
            try:
                scope["caller"], scope["token"] = self._admit(scope, is_open=scope["path"] in OPEN_PATHS)
            except PleromaError as error:
                await problem_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope, *, is_open: bool) -> tuple[Principal, Token] | tuple[None, None]:
        """The principal that asks, and its token; None for an open path if it shows no valid token."""
        connection: GuardedHttp | None = scope.get(CONNECTION_SCOPE)
        try:
            principal, token = self._who(scope)
        except NotAuthenticated:
            if connection is not None:
                connection.belong_to(None)
            self._limit_anonymous(scope, is_open=is_open)
            if is_open:
                return None, None
            raise
        if connection is not None:
            connection.belong_to(principal.name)
        _keep_to(self._buckets, principal.name)
        if principal.role == "tuner" and not is_open:
            _check_tuner(scope["method"], scope["path"])
        return principal, token

    def _who(self, scope: Scope) -> tuple[Principal, Token]:
        asking: InBandCaller | None = scope.get(IN_BAND_SCOPE)
        if asking is not None:
            return self._callers.still(asking.principal, asking.digest)
        return self._callers.who(next((value for name, value in scope["headers"] if name == b"authorization"), None))

    def _limit_anonymous(self, scope: Scope, *, is_open: bool) -> None:
        address = caller_address(scope["client"][0] if scope.get("client") else "")
        path = scope["path"] if is_open else "other"
        _keep_to(self._anonymous, f"{address} {path}", _OPEN_COSTS.get(path, 1.0))


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


def _keep_to(buckets: Buckets, name: str, tokens: float = 1.0) -> None:
    seconds = buckets.take(name, tokens)
    if seconds:
        raise TooFast(f"more than {buckets.per_s:g} requests a second", seconds)


def caller(request: Request) -> Principal:
    """The principal that makes a request."""
    principal: Principal = request.scope["caller"]
    return principal


def shown_token(request: Request) -> str:
    """The digest of the token that a request was made with: a principal may have two for a while."""
    token: Token = request.scope["token"]
    return token.digest


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
