import asyncio

import httpx
import pytest

from pleroma.client.api import ControllerApi, is_temporary, parsed, refusal
from pleroma.client.blocking_api import BlockingApi
from pleroma.errors import ClientClosed, ClientError, ControllerAway, RequestRefused


def events(text):
    async def lines():
        for line in text.split("\n"):
            yield line

    async def collected():
        return [each async for each in parsed(lines())]

    return asyncio.run(collected())


def test_server_sent_events():
    text = ': alive\n\nevent: plan\ndata: {"schema": "stock",\ndata:  "epoch": 2}\n\ndata: [1]\n\n'
    assert events(text) == [("plan", {"schema": "stock", "epoch": 2}), ("message", [1])]


def test_a_comment_between_two_events_belongs_to_neither():
    assert events("event: a\ndata: 1\n\n: alive\n\nevent: b\n: alive\ndata: 2\n\n") == [("a", 1), ("b", 2)]


def test_what_is_no_json_is_passed_over():
    assert events("event: plan\ndata: {oops\n\nevent: plan\ndata: 5\n\n") == [("plan", 5)]


def test_an_event_that_was_cut_off_is_none():
    assert events("event: plan\ndata: 5") == []


def test_the_controllers_error_keeps_its_fields():
    given = {"code": "not_allowed", "reason": "too much", "field": "filter", "value": "x < 9", "allowed": "x < 5"}
    error = refusal(httpx.Response(403, json={"error": given}))
    assert (error.status, error.code, error.field, error.value, error.allowed) == (
        *(403, "not_allowed", "filter", "x < 9", "x < 5"),
    )
    assert str(error) == "filter: too much"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 5}', b'{"detail": "x"}'])
def test_an_error_of_another_shape_is_still_a_refusal(body):
    error = refusal(httpx.Response(502, content=body))
    assert (error.status, error.code, str(error)) == (502, "unknown", "status 502")


@pytest.mark.parametrize(("header", "seconds"), [({}, 0.0), ({"Retry-After": "3"}, 3.0), ({"Retry-After": "Mon"}, 0.0)])
def test_how_long_the_controller_wants_one_to_wait(header, seconds):
    assert refusal(httpx.Response(429, headers=header)).retry_after == seconds


def test_only_what_may_pass_is_tried_again():
    assert is_temporary(ControllerAway("x"))
    statuses = (400, 401, 403, 404, 409, 413, 429, 500, 503, 507)
    refused = [RequestRefused("x", status=status, code="y") for status in statuses]
    assert [each.status for each in refused if is_temporary(each)] == [429, 503]


def answering(*answers):
    """An API client whose controller gives these answers, one after another: a response, or an error to raise."""
    api, asked, left = ControllerApi("http://controller", "secret"), [], list(answers)

    def handle(request):
        asked.append(request)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    api._ring.current.http._transport = httpx.MockTransport(handle)
    api._ring.current.http._mounts = {}
    return api, asked


def ask(api, **options):
    async def work():
        try:
            return await api.ask("POST", "/v1/x", {"key": "k"}, **options)
        finally:
            await api.close()

    return asyncio.run(work())


def test_a_request_is_repeated_word_for_word_until_it_is_answered():
    api, asked = answering(
        httpx.ConnectError("refused"),
        httpx.Response(503),
        httpx.ReadTimeout("slow"),
        httpx.Response(201, json={"id": 1}),
    )
    assert ask(api, patience=10).body == {"id": 1}
    assert len(asked) == 4
    assert len({each.content for each in asked}) == 1
    assert asked[0].headers["authorization"] == "Bearer secret"


def test_a_refusal_is_final():
    api, asked = answering(httpx.Response(403), httpx.Response(200, json={}))
    with pytest.raises(RequestRefused):
        ask(api, patience=10)
    assert len(asked) == 1


def test_without_patience_there_is_one_attempt():
    api, asked = answering(httpx.ConnectError("refused"), httpx.Response(200, json={}))
    with pytest.raises(ControllerAway, match=r"http://controller.*refused"):
        ask(api)
    assert len(asked) == 1


def test_a_page_of_something_else_is_no_controller():
    api, _ = answering(httpx.Response(200, content=b"<html>"))
    with pytest.raises(ControllerAway, match="like a controller"):
        ask(api)


def test_an_answer_may_be_empty_and_have_a_tag():
    api, asked = answering(httpx.Response(304, headers={"ETag": '"7"'}))
    answer = ask(api, etag='"7"')
    assert (answer.status, answer.body, answer.etag) == (304, None, '"7"')
    assert asked[0].headers["if-none-match"] == '"7"'


@pytest.mark.parametrize("url", ["", "controller", "ftp://controller", "http://", "http://a:b:c", 5])
def test_addresses_of_no_controller(url):
    with pytest.raises(ClientError, match="address of a controller"):
        ControllerApi(url, None)


def test_a_closed_one_says_so():
    api, asked = answering(httpx.Response(200))
    asyncio.run(api.close())
    with pytest.raises(ClientClosed):
        asyncio.run(api.ask("GET", "/v1/x"))
    assert asked == []


def test_a_token_with_letters_that_no_header_takes_is_refused_and_not_repeated():
    for token in ("tökén", "to\nken"):
        with pytest.raises(ClientError, match="no token") as caught:
            ControllerApi("http://controller", token)
        assert token not in str(caught.value)


def test_an_answer_that_cannot_be_decoded_is_no_controllers():
    api, _ = answering(httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"not gzip")))
    with pytest.raises(ControllerAway, match="http://controller"):
        ask(api)


def test_a_list_is_read_page_by_page():
    api, asked = answering(
        httpx.Response(200, json={"items": [{"n": 1}, {"n": 2}], "next": "b"}),
        httpx.Response(200, json={"items": [{"n": 3}], "next": None}),
    )

    async def work():
        return [page async for page in api.pages("/v1/x", kind="y")]

    assert asyncio.run(work()) == [[{"n": 1}, {"n": 2}], [{"n": 3}]]
    assert [dict(each.url.params) for each in asked] == [
        {"kind": "y", "limit": "1000"},
        {"kind": "y", "limit": "1000", "after": "b"},
    ]


def blocking(monkeypatch, *answers):
    api, asked = answering(*answers)
    monkeypatch.setattr("pleroma.client.blocking_api.ControllerApi", lambda *_, **__: api)
    return BlockingApi("http://controller", "secret", seconds=5.0), asked


def test_the_blocking_form_asks_once_and_says_the_same(monkeypatch):
    api, asked = blocking(monkeypatch, httpx.Response(200, json={"a": 1}), httpx.Response(503), httpx.Response(404))
    with api:
        assert api.get("/v1/x", b=2) == {"a": 1}
        assert dict(asked[0].url.params) == {"b": "2"}
        for status in (503, 404):
            with pytest.raises(RequestRefused) as caught:
                api.ask("PUT", "/v1/x", {})
            assert caught.value.status == status
    assert len(asked) == 3
    api.close()
    with pytest.raises(ClientClosed):
        api.get("/v1/x")


def test_the_blocking_form_reads_no_page_before_it_is_needed(monkeypatch):
    pages = [{"items": [1, 2], "next": "b"}, {"items": [3], "next": None}]
    api, asked = blocking(monkeypatch, *(httpx.Response(200, json=each) for each in pages))
    with api:
        items = api.items("/v1/x")
        assert [next(items), next(items)] == [1, 2]
        assert len(asked) == 1
        assert list(items) == [3]


def test_a_stream_that_is_refused_says_why():
    async def content():
        yield b'{"error": {"code": "not_allowed", "reason": "not yours"}}'

    async def work():
        api, _ = answering(httpx.Response(403, content=content()))
        with pytest.raises(RequestRefused, match="not yours"):
            async with api.stream("/v1/stream"):
                pass
        await api.close()

    asyncio.run(work())
