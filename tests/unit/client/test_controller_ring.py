"""Several controllers: which one is asked, and which requests go to another when one does not answer."""

import asyncio

import httpx
import pytest

from pleroma.client.api import CONNECT_SECONDS, ControllerApi
from pleroma.client.controller_ring import urls_of
from pleroma.errors import ClientError, ControllerAway, RequestRefused

A, B, C = "http://a:8470", "http://b:8470", "http://c:8470"
REFUSED = httpx.ConnectError("refused")
TOO_SLOW_TO_CONNECT = httpx.ConnectTimeout("no answer to a connection")
RESET = httpx.ReadError("reset")
SLOW = httpx.ReadTimeout("slow")
FINE = httpx.Response(200, json={})


def problem(status, code, **headers):
    return httpx.Response(status, json={"error": {"code": code, "reason": code}}, headers=headers)


class Controllers:
    """An API client of several controllers; each answers with what `answers` has for its host, or fails so."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []
        self.api = ControllerApi(",".join(f"http://{host}:8470" for host in answers), "secret")
        for each in self.api._ring._controllers:
            each.http._transport = httpx.MockTransport(self._handle)
            each.http._mounts = {}

    def _handle(self, request):
        self.asked.append(request.url.host)
        answer = self.answers[request.url.host]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, *requests, **options):
        """Make requests one after another; the answer to the last."""

        async def work():
            answer = None
            for method, body in requests:
                answer = await self.api.ask(method, "/v1/x", body, **options)
            return answer

        return asyncio.run(work())


READ, WRITE, KEYED = ("GET", None), ("POST", {"x": 1}), ("POST", {"key": "k"})


@pytest.mark.parametrize("address", [A, "inband://h1,2", "udp://broker:8470", "agent:/run/a,b.sock", f"{A}/a"])
def test_one_address_stays_one(address):
    assert urls_of(address) == [address]


def test_several_have_commas_between_them():
    assert urls_of(f"{A},https://b:8470 , {C}") == [A, "https://b:8470", C]


@pytest.mark.parametrize(
    "address", [f"{A},", f"{A},b:8470", f"{A},inband://h1", f"{A},udp://b", f"{A},{A}", f"{A},,{B}", f"inband://h1,{A}"]
)
def test_what_is_no_list_of_controllers_is_one_clear_error(address):
    with pytest.raises(ClientError) as error:
        ControllerApi(address, "t", "somebody")
    assert str(error.value).count("\n") == 0
    assert "address" in str(error.value) or "host" in str(error.value)


@pytest.mark.parametrize("failure", [REFUSED, TOO_SLOW_TO_CONNECT, RESET, SLOW])
@pytest.mark.parametrize("request_", [READ, KEYED])
def test_what_may_be_repeated_goes_to_the_next_without_patience(failure, request_):
    both = Controllers(a=failure, b=FINE)
    answer = both.ask(request_)
    assert (both.asked, answer.host, both.api.host, both.api.url) == (["a", "b"], "b", "b", B)


@pytest.mark.parametrize("code", ["controller_closed", "not_ready", "log_locked", "switch_fenced", "unknown"])
@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_controller_that_does_not_serve_is_left(status, code):
    both = Controllers(a=problem(status, code, **{"Retry-After": "60"}), b=FINE)
    both.ask(READ)
    assert both.asked == ["a", "b"]


@pytest.mark.parametrize(("status", "code"), [(503, "not_installed"), (429, "too_fast")])
def test_what_every_controller_would_say_is_waited_for_where_it_is(status, code):
    both = Controllers(a=[problem(status, code), FINE], b=FINE)
    both.ask(KEYED, patience=10)
    assert both.asked == ["a", "a"]
    both = Controllers(a=problem(status, code), b=FINE)
    with pytest.raises(RequestRefused, match=code):
        both.ask(KEYED)
    assert both.asked == ["a"]


def test_a_final_refusal_is_final():
    both = Controllers(a=problem(403, "not_allowed"), b=FINE)
    with pytest.raises(RequestRefused):
        both.ask(READ, patience=10)
    assert both.asked == ["a"]


@pytest.mark.parametrize("failure", [RESET, SLOW, problem(503, "log_error"), problem(502, "unknown")])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_may_have_been_done_is_not_done_again_elsewhere(failure, method):
    both = Controllers(a=failure, b=FINE)
    with pytest.raises((ControllerAway, RequestRefused)):
        both.ask((method, {"x": 1}))
    assert both.asked == ["a"]
    both.ask(READ)
    assert both.asked == ["a", "b"], "but the next request goes elsewhere"


@pytest.mark.parametrize(
    "failure", [REFUSED, TOO_SLOW_TO_CONNECT, problem(503, "controller_closed"), problem(503, "not_ready")]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_was_surely_not_done_goes_elsewhere(failure, method):
    both = Controllers(a=failure, b=FINE)
    both.ask((method, {"x": 1}))
    assert both.asked == ["a", "b"]


def test_who_has_patience_may_repeat():
    both = Controllers(a=RESET, b=FINE)
    both.ask(WRITE, patience=10)
    assert both.asked == ["a", "b"]


def test_the_one_that_answered_last_is_asked_first_and_then_the_others_in_turn():
    three = Controllers(a=[REFUSED, FINE], b=[FINE, FINE, RESET], c=[SLOW])
    three.ask(READ, READ, READ)
    assert three.asked == ["a", "b", "b", "b", "c", "a"]


def test_if_none_answers_the_error_names_them_all():
    three = Controllers(a=REFUSED, b=SLOW, c=RESET)
    with pytest.raises(ControllerAway) as error:
        three.ask(READ)
    assert three.asked == ["a", "b", "c"]
    for url, why in ((A, "refused"), (B, "slow"), (C, "reset")):
        assert f"{url}: {why}" in str(error.value)


def test_with_patience_they_are_tried_round_and_round():
    both = Controllers(a=[REFUSED, REFUSED, REFUSED], b=[REFUSED, REFUSED, FINE])
    both.ask(READ, patience=30)
    assert both.asked == ["a", "b", "a", "b", "a", "b"]


def test_requests_that_fail_at_the_same_time_move_on_once():
    ring = Controllers(a=FINE, b=FINE, c=FINE).api._ring
    failed = ring.current
    ring.move_on(failed)
    ring.move_on(failed)
    assert ring.current.url == B


def test_a_stream_that_breaks_or_is_refused_goes_on_elsewhere():
    async def streamed(api):
        async with api.stream("/v1/stream") as items:
            return [each async for each in items]

    stream = httpx.Response(200, text="data: 1\n\n")
    for failure in (REFUSED, RESET, problem(503, "controller_closed")):
        both = Controllers(a=failure, b=stream)
        with pytest.raises((ControllerAway, RequestRefused)):
            asyncio.run(streamed(both.api))
        assert asyncio.run(streamed(both.api)) == [("message", 1)]
        assert both.asked == ["a", "b"]
    stays = Controllers(a=[problem(401, "not_authenticated"), stream], b=stream)
    with pytest.raises(RequestRefused):
        asyncio.run(streamed(stays.api))
    asyncio.run(streamed(stays.api))
    assert stays.asked == ["a", "a"]


def test_one_of_several_has_less_time_to_accept_a_connection_than_the_only_one():
    def connecting(address, seconds):
        api = ControllerApi(address, "t", seconds=seconds)
        return [each.http.timeout.connect for each in api._ring._controllers]

    assert connecting(A, 20) == [20]
    assert connecting(f"{A},{B}", 20) == [CONNECT_SECONDS, CONNECT_SECONDS]
    assert connecting(f"{A},{B}", 1) == [1, 1]
    assert ControllerApi(f"{A},{B}", "t", seconds=20)._ring.current.http.timeout.read == 20


def test_closing_closes_them_all():
    both = Controllers(a=FINE, b=FINE)
    asyncio.run(both.api.close())
    assert [each.http.is_closed for each in both.api._ring._controllers] == [True, True]
