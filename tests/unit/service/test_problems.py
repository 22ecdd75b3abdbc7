"""One shape for whatever goes wrong."""

import json

from structlog.testing import capture_logs

from pleroma import errors
from pleroma.service.http.problems import code_of, problem_response, status_of
from support.service.in_process import ADMIN, world
from support.waiting import run

JSON = {"Content-Type": "application/json"}


def everything(kind=errors.PleromaError):
    yield kind
    for each in kind.__subclasses__():
        yield from everything(each)


def test_every_error_has_a_status_and_a_code():
    for kind in everything():
        error = kind.__new__(kind, "reason")
        assert status_of(error) in (400, 401, 403, 404, 409, 413, 429, 503, 507), kind
        assert code_of(error).islower()
    assert code_of(errors.NotAllowed.__new__(errors.NotAllowed)) == "not_allowed"


def test_whatever_the_value_the_answer_is_short_json():
    plain = [None, True, 5, 1.5, "x"]
    strange = [2**70, 10**5000, float("nan"), "x" * 10_000, "\ud800", [1] * 1000, {"a": object()}, object()]
    for value in (*plain, *strange):
        answer = problem_response(errors.ContentError("no", field="f", value=value))
        assert answer.status_code == 400
        assert len(answer.body) < 400
        shown = json.loads(answer.body)["error"]["value"]
        assert (shown == value) == (value in plain)


def test_who_leaves_in_the_middle_of_a_request_is_no_failure_of_the_service(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            come = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
            sent = []

            async def receive():
                return next(come)

            async def send(message):
                sent.append(message)

            headers = [(b"authorization", f"Bearer {ADMIN}".encode()), (b"content-type", b"application/json")]
            scope = {
                "type": "http", "method": "POST", "path": "/v1/subscriptions", "raw_path": b"/v1/subscriptions",
                "query_string": b"", "headers": headers, "client": ("127.0.0.1", 5), "scheme": "http",
            }  # fmt: skip
            with capture_logs() as lines:
                await api.app(scope, receive, send)
            assert lines == []
            assert sent[0]["status"] == 400

    run(main)


BAD_BODIES = [
    (b"", "required"),
    (b"{", "not JSON"),
    (b"null", "valid dictionary"),
    (b"[]", "valid dictionary"),
    (b"\xff", "not JSON"),
    (b'{"published": NaN}', "not JSON"),
    (b'{"published": 1e999}', "integer"),
    (b'{"published": ' + b"9" * 5000 + b"}", "not JSON"),
    (b'{"published": ' + b"9" * 400 + b"}", "less than"),
    (b"[" * 100_000, "not JSON"),
    (b'{"\\ud800": 1}', "not JSON"),
]


def test_a_body_that_is_no_good_is_a_bad_request(tmp_path):
    async def main():
        async with world(tmp_path, schema=False) as api:
            for body, reason in BAD_BODIES:
                error = await api.error("POST", "/v1/reports", 400, "bad_request", content=body, headers=JSON)
                assert reason.lower() in error["reason"].lower(), (body[:50], error)

    run(main)


def test_a_body_must_say_that_it_is_json(tmp_path):
    async def main():
        async with world(tmp_path, schema=False) as api:
            for kind in ({"Content-Type": "text/plain"}, {}):
                await api.error("POST", "/v1/reports", 400, "bad_request", content=b"{}", headers=kind)

    run(main)


def test_unknown_addresses_and_methods_have_the_shape_too(tmp_path):
    async def main():
        async with world(tmp_path, schema=False) as api:
            for path in ("/v1/nothing", "/", "/v2", "/v1/hosts/", "/v1/schemas/a/b"):
                await api.error("GET", path, 404, "not_found")
            answer = await api("PATCH", "/v1/schemas", 405)
            assert answer.json()["error"]["code"] == "method_not_allowed"
            assert answer.headers["allow"]

    run(main)


def test_an_unexpected_failure_tells_the_caller_nothing_of_the_inside(tmp_path, monkeypatch):
    async def main():
        async with world(tmp_path, schema=False) as api:

            def broken(*_):
                raise RuntimeError("a secret of the house")

            monkeypatch.setattr(api.app.state.service.controller, "report", broken)
            answer = await api.client.post("/v1/reports", json={})
            assert answer.status_code == 500
            error = answer.json()["error"]
            assert error["code"] == "internal"
            assert "secret" not in answer.text
            assert "Traceback" not in answer.text

    run(main)


def test_a_controller_that_is_closed_is_unavailable(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.app.state.service.controller.close()
            body = {"schema": "stock", "filter": "true", "host": "h1"}
            assert (await api("POST", "/v1/subscriptions", 503, json=body)).json()["error"]["code"]

    run(main)
