"""The API through the network: the same answers, each request once, and nothing for those who prove nothing."""

import asyncio
import random
import time
from collections import Counter

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pleroma.client.inband import conversation as conversing
from pleroma.client.inband.conversation import SessionLost
from pleroma.control import CreateSchema, LearnHost, RemovePrincipal
from pleroma.errors import WireError
from pleroma.routing import Port, SwitchId, Topology
from pleroma.service.inband.host_admission import HostAdmission
from pleroma.service.inband.inband_limits import InbandLimits
from pleroma.service.inband.inband_server import InbandServer
from pleroma.service.inband.switch_carrier import SwitchCarrier
from pleroma.switches.openflow.openflow_network import Arrival
from pleroma.wire.api_call import ApiRequest
from pleroma.wire.inband_messages import MessageKind, MessagePart, MessageRefused, RefusalReason, pack, unpack
from support.control_cases import ANN, BEN, LINE, TRAFFIC, WEATHER, state_after
from support.inband_pipes import LossyNetwork, controller_of
from support.service.in_process import ADMIN, world
from support.waiting import run


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(conversing, "FIRST_RESEND_SECONDS", 0.03)
    monkeypatch.setattr(conversing, "MAX_RESEND_SECONDS", 0.1)


class Echo:
    """An application that says what it was asked, and counts."""

    def __init__(self):
        self.asked = Counter()
        self.scopes = []

    async def __call__(self, scope, receive, send):
        body = (await receive())["body"]
        self.scopes.append(scope)
        self.asked[scope["path"]] += 1
        await asyncio.sleep(0.001)
        size = int(scope["query_string"] or b"0")
        said = body + random.Random(1).randbytes(size)
        await send({"type": "http.response.start", "status": 207, "headers": [(b"ETag", b'"7"'), (b"X-No", b"1")]})
        await send({"type": "http.response.body", "body": said})


def echoing(network, *, topology=LINE, app=None, joins=False, clock=time.monotonic, **limits):
    state = state_after(CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN, topology=topology)
    limits = InbandLimits(**({"datagrams_per_s": 1e6} | limits))
    rewired = []
    controller = controller_of(state)
    network.server = InbandServer(
        app or Echo(),
        controller,
        SwitchCarrier(network.send),
        HostAdmission(controller, may_join=lambda _: joins, on_join=lambda: rewired.append(state.topology)),
        limits=limits,
        clock=clock,
    )
    network.server.rewired = rewired
    return network.server


async def asked(conversation, path="/", body=b"", method="POST", seconds=20):
    async with asyncio.timeout(seconds):
        return await conversation.ask(ApiRequest(method, path, (), body))


# -- delivery ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_each_request_is_carried_out_once_and_answered_whatever_the_network_does(seed):
    async def main():
        network = LossyNetwork(seed, loss=0.3, twice=0.3, delay=0.01)
        server = echoing(network)
        conversation = network.conversation()
        answers = await asyncio.gather(*(asked(conversation, f"/{n}", b"%d" % n) for n in range(30)))
        assert [each.body for each in answers] == [b"%d" % n for n in range(30)]
        assert {each.status for each in answers} == {207}
        assert server._app.asked == {f"/{n}": 1 for n in range(30)}
        await server.close()

    run(main)


@pytest.mark.parametrize(("question", "answer"), [(0, 300_000), (300_000, 0), (200_000, 200_000)])
def test_large_requests_and_answers_arrive_whole_over_a_lossy_network(question, answer):
    async def main():
        network = LossyNetwork(5, loss=0.1, twice=0.1, delay=0.003)
        server = echoing(network)
        body = random.Random(2).randbytes(question)
        response = await asked(network.conversation(), f"/large?{answer}", body)
        assert response.body == body + random.Random(1).randbytes(answer)
        assert server._app.asked["/large"] == 1
        assert max(map(len, network.down)) <= 1232
        await server.close()

    run(main)


def test_what_is_lost_is_sent_again_and_what_arrived_is_not(monkeypatch):
    monkeypatch.setattr(conversing, "FIRST_RESEND_SECONDS", 60.0)  # nothing is sent again for want of patience
    lost = {3, 10, 70, 200}

    class LosesSome(LossyNetwork):
        def pass_on(self, deliver, *what):
            part = unpack(what[0]) if isinstance(what[0], bytes) else None
            if isinstance(part, MessagePart) and part.part in lost:
                lost.remove(part.part)
            else:
                deliver(*what)

    async def main():
        network = LosesSome()
        server = echoing(network)
        await asked(network.conversation(), "/large?300000")
        assert not lost
        parts = [unpack(each) for each in network.down]
        sent = Counter(
            each.part for each in parts if isinstance(each, MessagePart) and each.kind is MessageKind.RESPONSE
        )
        assert len(sent) > 250
        assert {number for number, times in sent.items() if times > 1} == {3, 10, 70, 200}
        assert sent.total() == len(sent) + 4
        await server.close()

    run(main)


def test_whoever_sends_recorded_packets_again_has_nothing_carried_out():
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        conversation = network.conversation()
        for n in range(5):
            await asked(conversation, f"/{n}")
        before = server._app.asked.copy()
        for switch, port, frame in network.up * 3:
            server.arrived(Arrival(switch, port, frame))
        await asyncio.sleep(0.05)
        assert server._app.asked == before
        assert server.counts["old"] > 0
        await server.close()

    run(main)


def test_an_answer_is_kept_until_the_client_goes_on():
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        conversation = network.conversation()
        for n in range(200):
            await asked(conversation, f"/{n}?3000")
        (session,) = server.sessions
        assert len(session.requests) <= 2
        assert 0 < server.sessions.budget.used < 10_000
        await server.close()

    run(main)


# -- who asks ----------------------------------------------------------------------------------------------------------


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
@given(st.lists(st.binary(max_size=120) | st.binary(max_size=60).map(b"PLC\1".__add__), max_size=10))
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


# -- bounds ------------------------------------------------------------------------------------------------------------


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


# -- hosts -------------------------------------------------------------------------------------------------------------

NEW = {"switch": "R2", "port": 9, "address": "fd00::99", "mac": "02:00:00:00:00:99"}


def test_an_unknown_host_joins_where_the_network_learns():
    async def main():
        network = LossyNetwork()
        server = echoing(network, joins=True)
        await asked(network.conversation(host="kiosk", **NEW))
        (scope,) = server._app.scopes
        assert scope["pleroma.in_band"].host == "kiosk"
        host = server._controller.state.topology.host["kiosk"]
        assert (host.switch, host.port, host.address, host.mac) == tuple(NEW.values())
        assert server.rewired[-1].host["kiosk"] == host
        await asked(network.conversation(host="kiosk", **NEW))
        assert len(server.rewired) == 1

    run(main)


def test_a_host_that_wants_no_name_is_called_by_its_address():
    async def main():
        network = LossyNetwork()
        server = echoing(network, joins=True, topology=Topology((), (), ()))
        await asked(network.conversation(**NEW | {"address": "10.0.0.9"}))
        assert list(server._controller.state.topology.host) == ["10.0.0.9"]

    run(main)


@pytest.mark.parametrize(
    ("host", "place", "joins", "status"),
    [
        ("", NEW, False, 403),
        ("", {"address": "fd00::99"}, True, 403),
        ("", {"address": "fd00::99"}, False, 403),
        ("", {"mac": "02:00:00:00:00:99"}, True, 403),
        ("", {"mac": "02:00:00:00:00:99"}, False, 403),
        ("h1", NEW, True, 409),
        ("any", NEW, True, 400),
        ("", NEW | {"address": "fd00::1"}, True, 409),
    ],
)
def test_a_place_or_a_name_that_is_not_ones_own_is_refused(host, place, joins, status):
    async def main():
        network = LossyNetwork()
        server = echoing(network, joins=joins)
        before = server._controller.state.topology
        answer = await asked(network.conversation(host=host, **place))
        assert answer.status == status
        assert not server._app.asked
        assert server._controller.state.topology is before

    run(main)


def test_a_hello_alone_changes_nothing():
    """It may be a recorded one; only who makes a request of the new session has the token."""

    async def main():
        network = LossyNetwork()
        server = echoing(network, joins=True)
        conversation = network.conversation(host="kiosk", **NEW)
        async with asyncio.timeout(5):
            await conversation._begin_session()
        assert "kiosk" not in server._controller.state.topology.host

    run(main)


# -- the real application ------------------------------------------------------------------------------------------


def test_rights_limits_and_errors_are_those_of_http(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            network = LossyNetwork(3, loss=0.2, twice=0.2, delay=0.005)
            controller = api.app.state.service.controller
            admission = HostAdmission(controller, may_join=lambda _: False, on_join=lambda: None)
            network.server = InbandServer(api.app, controller, SwitchCarrier(network.send), admission)
            made = await api.post(
                "/v1/principals", {"name": "sue", "role": "subscriber", "read": {"stock": "price < 50"}}
            )
            host = controller.state.topology.host["h1"]
            place = {"switch": host.switch, "port": host.port, "address": host.address}

            def client(principal, token):
                transport = network.transport(principal, token, **place)
                return httpx.AsyncClient(transport=transport, base_url="http://controller", timeout=20)

            async with client("admin", ADMIN) as admin:
                assert (await admin.get("/v1/schemas/stock")).json()["number"] == 0
                plan = await admin.get("/v1/schemas/stock/plan")
                again = await admin.get("/v1/schemas/stock/plan", headers={"If-None-Match": plan.headers["etag"]})
                assert (plan.status_code, again.status_code) == (200, 304)
                assert (await admin.get("/v1/stream")).status_code == 400
                attached = await admin.post("/v1/hosts/any/attachments")
                assert attached.json()["host"] == "h1"
            async with client("sue", made["token"]) as sue:
                wanted = {"schema": "stock", "filter": "price < 10", "host": "h1"}
                answers = await asyncio.gather(*(sue.post("/v1/subscriptions", json=wanted) for _ in range(10)))
                assert {each.status_code for each in answers} == {201}
                assert controller.state.registrations.subscriptions_of("sue") == 10
                refused = await sue.post("/v1/subscriptions", json=wanted | {"filter": "price > 10"})
                assert refused.status_code == 403
                assert refused.json()["error"]["allowed"] == "price < 50"
                assert (await sue.get("/v1/principals")).status_code == 403
                await controller.submit(RemovePrincipal("sue"))
                assert (await sue.get("/v1/schemas")).status_code == 401
            await network.server.close()

    run(main, 60)


def test_silence_is_an_error_that_says_what_may_be_wrong():
    async def main():
        network = LossyNetwork()
        async with httpx.AsyncClient(transport=network.transport(), base_url="http://c", timeout=0.2) as client:
            with pytest.raises(httpx.ConnectTimeout, match="no controller answers"):
                await client.get("/")
            echoing(network)
            assert (await client.get("/")).status_code == 207
        async with httpx.AsyncClient(
            transport=network.transport("ann", "wrong"), base_url="http://c", timeout=0.2
        ) as client:
            with pytest.raises(httpx.ConnectTimeout, match="another token"):
                await client.get("/")

    run(main)


def test_learning_is_the_command_that_administrators_use():
    assert LearnHost("kiosk", *NEW.values()).to_json()["do"] == "learn_host"
