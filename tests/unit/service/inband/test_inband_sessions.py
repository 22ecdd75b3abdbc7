"""Sessions of hosts that prove to have a token, and the bounds of what strangers can make the server keep."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pleroma.client.inband import conversation as conversing
from pleroma.client.inband.conversation import SessionLost
from pleroma.errors import WireError
from pleroma.routing import Port, SwitchId
from pleroma.switches.openflow.openflow_network import Arrival
from pleroma.wire.api_call import ApiRequest
from pleroma.wire.inband_messages import MessageKind, MessagePart, MessageRefused, RefusalReason, pack
from support.inband_echo import Echo, asked, echoing
from support.inband_pipes import LossyNetwork
from support.waiting import run


@pytest.mark.parametrize(
    ("who", "reason"),
    [({"token": "another"}, "forged"), ({"principal": "nobody"}, "unknown principal"), ({"principal": ""}, None)],
)
def test_who_has_no_token_gets_no_session(who, reason):
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        conversation = network.conversation(**who)
        with pytest.raises(TimeoutError):
            await asked(conversation, seconds=0.3)
        assert conversation.refusal is RefusalReason.NOT_KNOWN
        assert not conversation.is_greeted
        assert not server.sessions
        assert not server._app.asked
        assert reason is None or server.counts[reason] > 0

    run(main)


def test_the_application_is_told_who_asks_and_where_and_nothing_that_the_client_made_up():
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        async with asyncio.timeout(10):
            await network.conversation().ask(
                ApiRequest("GET", "/a%20b?x=1", (("if-none-match", '"7"'), ("authorization", "Bearer x")))
            )
        (scope,) = server._app.scopes
        assert scope["path"] == "/a b"
        assert dict(scope["headers"]) == {b"if-none-match": b'"7"', b"content-length": b"0"}
        assert scope["pleroma.in_band"][::2] == ("ann", "h1")
        assert scope["client"] == ("fd00::1", 50_000)

    run(main)


def test_only_headers_that_mean_something_come_back():
    async def main():
        network = LossyNetwork()
        echoing(network)
        assert (await asked(network.conversation())).headers == (("etag", '"7"'),)

    run(main)


def test_a_message_that_was_tampered_with_is_not_answered():
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        conversation = network.conversation()
        await asked(conversation)
        (session,) = server.sessions
        (pipe,) = network.pipes.values()
        forged = pack(
            MessagePart(MessageKind.REQUEST, session.welcome.session, 9, 0, 1, ApiRequest("POST", "/x").pack()),
            b"guess",
        )
        before = len(network.down)
        server.arrived(Arrival(SwitchId("R1"), Port(1), pipe.frame(forged)))
        await asyncio.sleep(0.02)
        assert server.counts["forged"] == 1
        assert len(network.down) == before
        assert "/x" not in server._app.asked

    run(main)


def test_a_session_holds_at_one_place_only():
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        await asked(network.conversation(), "/1")
        _, _, frame = network.up[-1]
        server.arrived(Arrival(SwitchId("R2"), Port(1), frame))
        assert server.counts["no session"] == 1

    run(main)


def test_a_controller_that_started_again_gets_the_next_request():
    async def main():
        network = LossyNetwork()
        echoing(network)
        conversation = network.conversation()
        await asked(conversation, "/1")
        server = echoing(network)
        with pytest.raises(SessionLost):
            await asked(conversation, "/2")
        assert (await asked(conversation, "/3")).status == 207
        assert server._app.asked == {"/3": 1}

    run(main)


def test_that_there_is_no_session_is_not_believed_of_one_that_works(monkeypatch):
    monkeypatch.setattr(conversing, "DOUBT_SECONDS", 60.0)  # however slow this machine is

    async def main():
        network = LossyNetwork()
        server = echoing(network)
        conversation = network.conversation()
        await asked(conversation, "/1")
        (session,) = server.sessions
        (pipe,) = network.pipes.values()
        for n in range(10):
            pipe.deliver(pack(MessageRefused(session.welcome.session + bytes(8), RefusalReason.NO_SESSION)))
            assert conversation._session.doubted_since is not None
            assert (await asked(conversation, f"/again{n}")).status == 207
            assert conversation._session.doubted_since is None
        assert len(server.sessions) == 1

    run(main)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=120) | st.binary(max_size=60).map(b"PLC\2".__add__), max_size=10))
def test_garbage_from_either_side_is_passed_over(payloads):
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        conversation = network.conversation()
        await asked(conversation, "/1")
        (pipe,) = network.pipes.values()
        for payload in payloads:
            for frame in (payload, pipe.frame(payload)):
                server.arrived(Arrival(SwitchId("R1"), Port(1), frame))
            pipe.deliver(payload)
        assert (await asked(conversation, "/2")).status == 207
        known = {"other", "malformed", "misplaced", "unknown principal", "forged", "no session"}
        assert set(server.counts) <= known

    run(main)


def test_sessions_are_bounded_and_the_longest_unused_goes():
    async def main():
        network = LossyNetwork()
        server = echoing(network, max_sessions_at_a_place=3)
        talks = [network.conversation() for _ in range(5)]
        for each in talks:
            await asked(each)
        assert len(server.sessions) == 3

    run(main)


def test_sessions_that_nobody_uses_are_forgotten():
    async def main():
        network, now = LossyNetwork(), [0.0]
        server = echoing(network, clock=lambda: now[0])
        await asked(network.conversation())
        now[0] = 1000.0
        await asked(network.conversation(port=2, address="fd00::2", switch="R2"), seconds=5)
        assert [each.place for each in server.sessions] == [("R2", 2)]

    run(main)


def test_who_sends_too_much_is_not_heard_and_hints_are_rare():
    async def main():
        network = LossyNetwork()
        server = echoing(network, datagrams_per_s=50, refusals_per_s=2)
        (pipe,) = network.opener()(lambda *_: None)
        for _ in range(500):
            server.arrived(
                Arrival(pipe.switch, pipe.port, pipe.frame(pack(MessageRefused(bytes(16), RefusalReason.NOT_KNOWN))))
            )
        assert server.counts["too fast"] >= 400
        for n in range(20):
            data = pack(MessagePart(MessageKind.REQUEST, bytes(8), n, 0, 1, b""), b"key")
            server.arrived(Arrival(SwitchId("R9"), Port(9), pipe.frame(data)))
        assert server.counts["no session"] == 20
        assert server.counts["unsent"] == 2

    run(main)


def test_no_more_requests_than_the_limit_run_at_a_time_and_the_others_have_their_turn():
    async def main():
        running, most, go_on = 0, 0, asyncio.Event()

        async def app(scope, receive, send):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await go_on.wait()
            running -= 1
            await Echo()(scope, receive, send)

        network = LossyNetwork()
        server = echoing(network, app=app, max_running=2)
        conversation = network.conversation()
        asking = [asyncio.create_task(asked(conversation)) for _ in range(3)]
        async with asyncio.timeout(20):
            while not server.counts["busy"]:
                await asyncio.sleep(0.01)
        assert running == 2
        go_on.set()
        await asyncio.gather(*asking)
        assert most == 2

    run(main)


def test_requests_that_never_become_whole_do_not_fill_the_memory():
    async def main():
        network = LossyNetwork()
        server = echoing(network, max_session_bytes=20_000)
        conversation = network.conversation()
        await asked(conversation)
        (session,) = server.sessions
        (pipe,) = network.pipes.values()
        for n in range(2, 300):
            part = MessagePart(MessageKind.REQUEST, session.welcome.session, n, 0, 900, bytes(1000))
            server.arrived(Arrival(pipe.switch, pipe.port, pipe.frame(pack(part, session.key))))
        assert len(session.requests) <= 64
        assert server.sessions.budget.used <= 20_000
        assert server.counts["no room"] > 0

    run(main)


def test_an_answer_that_is_too_large_is_an_error_of_its_own():
    async def main():
        network = LossyNetwork()
        echoing(network)
        answer = await asked(network.conversation(), "/?6000000", seconds=25)
        assert answer.status == 413

    run(main)


def test_a_request_that_is_too_large_is_not_sent():
    async def main():
        network = LossyNetwork()
        echoing(network)
        with pytest.raises(WireError, match="size"):
            await asked(network.conversation(), body=bytes(5_000_000))

    run(main)
