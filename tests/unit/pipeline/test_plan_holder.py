"""Handing a plan to whoever answers at an address: what is no controller is away, and is said in a line."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pleroma.errors import ClientError, ControllerAway, LakeError, PlanChanging, PlanMoved, RequestRefused
from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder, LakePlanHolder
from pleroma.pipeline.watch.schema_claim import CLAIM_SECONDS, SchemaClaim
from support.waiting import wait_until
from support.watch_cases import BY_PRICE


@contextmanager
def answering(status, body, **headers):
    """A server that says the same to everybody; its address."""

    class Same(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_):
            pass

    with serving(Same) as url:
        yield url


@contextmanager
def serving(handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (200, b"<html>back soon</html>", {}),
        (200, b"", {}),
        (200, b"[]", {}),
        (200, b'{"colour": "red"}', {}),
        (302, b"moved", {"Location": "/login"}),
        (200, b"not gzip", {"Content-Encoding": "gzip"}),
        (502, b"<html>bad gateway</html>", {}),
    ],
)
def test_what_is_no_controller_is_away(status, body, headers):
    with answering(status, body, **headers) as url, ControllerPlanHolder(url, "token", "stock") as handover:
        for ask in (handover.current, lambda: handover.put(BY_PRICE, 8, 1)):
            with pytest.raises(ControllerAway) as caught:
                ask()
            assert "\n" not in str(caught.value)
            assert "token" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "expected"), [("plan_moved", PlanMoved), ("plan_changing", PlanChanging), ("forbidden", RequestRefused)]
)
def test_why_a_controller_takes_no_plan_is_told_apart(code, expected):
    body = json.dumps({"error": {"code": code, "reason": "not this one"}}).encode()
    with answering(409, body) as url, ControllerPlanHolder(url, "token", "stock") as holder:
        with pytest.raises(expected, match="not this one") as caught:
            holder.put(BY_PRICE, 8, 1)
        assert type(caught.value) is expected


@contextmanager
def noting_claims(status):
    """A server that notes who claims what for how long, and answers all with the same; its address and the claims."""
    claims = []

    class Claimed(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            claims.append((self.path, body["seconds"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with serving(Claimed) as url:
        yield url, claims


@pytest.mark.parametrize("status", [204, 404, 405])
def test_a_schema_is_claimed_again_and_again_until_the_watcher_ends(status):
    with noting_claims(status) as (url, claims):
        with SchemaClaim(url, "token", "stock market", seconds=0.03):
            assert claims == [("/v1/schemas/stock%20market/plan/watching", 0.03)]
            wait_until(lambda: len(claims) > 3, "renewed claims")
        assert [seconds for _, seconds in claims] == [0.03] * (len(claims) - 1) + [0]
        after = len(claims)
        with ControllerPlanHolder(url, "token", "stock"):
            assert claims[after:] == [("/v1/schemas/stock/plan/watching", CLAIM_SECONDS)]
        assert claims[after + 1 :] == [("/v1/schemas/stock/plan/watching", 0)]


def test_nobody_who_answers_a_claim_stops_no_watcher():
    with SchemaClaim("http://127.0.0.1:9", "token", "stock"):
        pass


class EmptyLake:
    def plans(self, _schema):
        return []


def test_a_lake_without_a_plan_says_so_and_takes_none():
    holder = LakePlanHolder(EmptyLake(), "stock")
    with pytest.raises(LakeError, match="there is no plan in the lake"):
        holder.current()
    with pytest.raises(LakeError, match="a lake takes no plan"):
        holder.put(BY_PRICE, 8, 1)


@pytest.mark.parametrize(
    ("url", "token"), [("http://[::1", "token"), ("http://127.0.0.1:1", "tökén"), ("x", "to\nken")]
)
def test_what_can_be_no_address_and_no_token_is_refused_at_once(url, token):
    with pytest.raises(ClientError) as caught:
        ControllerPlanHolder(url, token, "stock")
    assert token not in str(caught.value)
