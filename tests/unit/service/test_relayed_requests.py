"""Requests that a gate passes on, with a leading process that says what a test wants it to."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from pleroma.control.state.command import Lead
from pleroma.service.gates.relayed_requests import RelayedRequests
from support.waiting import run

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ndate: then\r\npleroma-position: 9\r\n\r\n{}"


class Talk:
    """What one request came to: what the leading process was sent, and what the caller got."""

    def __init__(self):
        self.sent = b""
        self.messages = []
        self.reached = []

    @property
    def status(self):
        return self.messages[0]["status"]

    @property
    def headers(self):
        return dict(self.messages[0]["headers"])

    @property
    def body(self):
        return b"".join(each.get("body", b"") for each in self.messages[1:])

    @property
    def code(self):
        return json.loads(self.body)["error"]["code"]


@asynccontextmanager
async def lead_that_says(answer, talk):
    async def serve(reader, writer):
        talk.sent += await reader.readuntil(b"\r\n\r\n")
        if length := talk.sent.lower().partition(b"content-length: ")[2]:
            talk.sent += await reader.readexactly(int(length.split(b"\r\n")[0]))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield "http://{}:{}".format(*server.sockets[0].getsockname())


def relayed(answer=OK, method="GET", path="/v1/x", headers=(), parts=(b"",), *, gone=False):
    """Relay a request whose body comes in parts; its caller may be gone before the last of them."""
    talk = Talk()

    async def main():
        events = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        if not gone:
            events[-1]["more_body"] = False

        async def receive():
            if events:
                return events.pop(0)
            if not gone:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message):
            talk.messages.append(message)

        async def reached(position):
            talk.reached.append(position)

        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
        async with lead_that_says(answer, talk) as url:
            requests = RelayedRequests(lambda: Lead("it", url), 100, reached)
            await requests(scope | {"headers": list(headers)}, receive, send)
            await requests.close()

    run(main)
    return talk


def test_a_request_and_its_answer_pass():
    talk = relayed(path="//evil/x", headers=[(b"authorization", b"Bearer t"), (b"connection", b"x")])
    assert talk.sent.startswith(b"GET //evil/x HTTP/1.1\r\n")
    assert b"authorization: bearer t\r\n" in talk.sent.lower()
    assert (talk.status, talk.body, talk.reached) == (200, b"{}", [])
    assert talk.headers == {b"content-length": b"2"}


def test_an_answer_to_a_change_is_passed_on_when_the_gate_knows_of_it():
    assert relayed(method="POST", parts=[b"a", b"b"]).reached == [9]


def test_a_body_has_the_length_that_it_has():
    talk = relayed(
        method="POST",
        headers=[(b"content-length", b"3"), (b"transfer-encoding", b"chunked")],
        parts=[b"GET /evil", b" HTTP/1.1\r\n\r\n"],
    )
    assert b"content-length: 22\r\n" in talk.sent.lower()
    assert b"transfer-encoding" not in talk.sent.lower()
    assert talk.sent.endswith(b"\r\n\r\nGET /evil HTTP/1.1\r\n\r\n")


def test_of_a_caller_that_has_gone_nothing_is_passed_on():
    talk = relayed(method="POST", parts=[b"half"], gone=True)
    assert (talk.sent, talk.messages) == (b"", [])


def test_a_body_that_is_too_large_is_not_passed_on():
    talk = relayed(method="POST", parts=[b"x" * 60, b"x" * 60])
    assert (talk.sent, talk.status) == (b"", 413)


def test_what_a_gate_has_passed_on_no_gate_passes_on_again():
    once = relayed()
    header = next(line for line in once.sent.splitlines() if line.startswith(b"pleroma-relayed"))
    name, _, value = header.partition(b": ")
    talk = relayed(headers=[(name, value)])
    assert (talk.sent, talk.status, talk.code) == (b"", 503, "not_ready")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 2"])
def test_a_request_without_an_answer_may_have_been_carried_out(answer):
    talk = relayed(answer, method="POST")
    assert talk.sent
    assert (talk.status, talk.code) == (503, "controller_away")


def test_where_nobody_listens_nothing_was_done(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    async def main():
        async with lead_that_says(OK, Talk()) as url:
            pass
        got = []

        async def send(message):
            got.append(message)

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        requests = RelayedRequests(lambda: Lead("it", url), 100, asyncio.sleep)
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
        await requests(scope, receive, send)
        await requests.close()
        assert (got[0]["status"], json.loads(got[1]["body"])["error"]["code"]) == (503, "not_ready")

    run(main)


def test_no_proxy_of_the_surroundings_sees_tokens(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert relayed().status == 200


def test_an_answer_to_head_has_no_body():
    talk = relayed(b"HTTP/1.1 200 OK\r\ncontent-length: 77\r\n\r\n", method="HEAD")
    assert (talk.headers, talk.body) == ({b"content-length": b"77"}, b"")
