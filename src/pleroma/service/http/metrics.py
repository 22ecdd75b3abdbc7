"""What Prometheus reads: requests as they are counted, and the state of the controller and the network at the moment.

Each application has a registry of its own, so that two in one process do not add up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKET_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    def __init__(self, state: Callable[[], Iterable[Metric]]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "pleroma_requests", "Requests answered", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "pleroma_request_seconds",
            "Time to answer a request",
            ("route",),
            buckets=_BUCKET_SECONDS,
            registry=self.registry,
        )
        self._counted: dict[tuple[str, str, int], Counter] = {}
        self._timed: dict[str, Histogram] = {}
        self.registry.register(_StateCollector(state))
        ProcessCollector(registry=self.registry)

    def count(self, method: str, route: str, status: int) -> None:
        """A request was answered."""
        known = self._counted.get((method, route, status))
        if known is None:
            known = self._counted[method, route, status] = self.requests.labels(method, route, str(status))
        known.inc()

    def time(self, route: str, seconds: float) -> None:
        """A request was answered; the answer began `seconds` after the request."""
        known = self._timed.get(route)
        if known is None:
            known = self._timed[route] = self.seconds.labels(route)
        known.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _StateCollector(Collector):
    """Collects the metrics of the state whenever Prometheus asks."""

    def __init__(self, state: Callable[[], Iterable[Metric]]) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        return self._state()

    def describe(self) -> Iterable[Metric]:
        return ()  # or the registry would collect the state before there is one


class RequestMeter:
    """Counts and times every request by its route, never by its path: paths are endless, and hold what people type."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                route = getattr(scope.get("route"), "path", "none")
                self._metrics.time(route, time.perf_counter() - begin)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.count(method, route, status)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
