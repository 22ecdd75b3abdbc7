"""What the agent learns from the controller's answers, and what makes it forget."""

import json

import httpx
import pytest

from pleroma.client.links.network_link import HostAttachment
from pleroma.errors import ClientError, ControllerAway
from pleroma.host_agent.controller_calls import MAX_CONVERSATIONS, ControllerCalls
from pleroma.host_agent.local_exchange import LocalExchange
from pleroma.host_agent.local_programs import FIRST_LAPSE_SECONDS, Credentials, LocalPrograms
from pleroma.host_agent.relayed_calls import AWAY_SECONDS, FRESH_PLAN_SECONDS, RelayedCalls
from pleroma.host_agent.unix_sockets import LocalUser
from pleroma.wire.api_call import ApiRequest
from support.agent_parts import ScriptedCalls, StubLink
from support.client_parts import channel
from support.waiting import run

ME, OTHER = Credentials("plr_me"), Credentials("plr_other")
USER = LocalUser(1, 2, 3)
KEY = "5f" * 32
ATTACHMENT = {"host": "h1", "address": "fd00::1", "range": "ff0e::/16", "seconds": 30.0, "network": "native", "port": 1}


class Agent:
    def __init__(self, max_programs=10):
        self.now = 0.0
        self.calls = ScriptedCalls()
        self.exchange = LocalExchange(StubLink)
        self.programs = LocalPrograms(max_programs, lambda each: self.exchange.withdraw(each, each.registered))
        self.relayed = RelayedCalls(self.calls, self.programs, self.exchange, lambda: self.now)
        self.says("GET", "/v1/schemas/stock/plan", 200, plan(1))
        self.says("POST", "/v1/hosts/h1/attachments", 201, ATTACHMENT)

    def says(self, method, path, status, body=None):
        self.calls.answers[method, path] = status, body

    def is_away(self, method, path):
        self.calls.answers.pop((method, path), None)

    async def ask(self, method, path, who=ME, **headers):
        given = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        answer = await self.relayed.answer(ApiRequest(method, path, given), who, USER)
        return answer.status, json.loads(answer.body) if answer.body else None

    async def attached(self, who=ME, lease="mine"):
        status, told = await self.ask("POST", f"/v1/hosts/h1/attachments?lease={lease}&tags=true", who)
        assert (status, told["network"]) == (201, "agent")
        return self.programs.with_secret(bytes.fromhex(told["secret"]))


def plan(epoch):
    made = channel(epoch=epoch)
    return {"number": 5, "prefix": str(made.prefix), "plan": json.loads(made.plan.dumps())}


def subscription(id="s1", lease="mine", host="h1", epoch=1, text="price < 50.0"):
    return {
        "id": id, "schema": "stock", "host": host, "lease": lease, "epoch": epoch, "filter": text, "event_key": KEY,
    }  # fmt: skip


def test_a_registration_counts_when_it_is_answered_or_found_by_its_own_program_alone():
    async def main():
        agent = Agent()
        mine, others = await agent.attached(), await agent.attached(OTHER)
        for who, told in (
            (ME, subscription()),
            (ME, subscription("s2", lease="another program's")),
            (ME, subscription("s3", host="h2")),
            (ME, subscription("s4", lease=None)),
        ):
            agent.says("POST", "/v1/subscriptions", 201, told)
            assert (await agent.ask("POST", "/v1/subscriptions", who))[0] == 201
        agent.says("GET", "/v1/advertisements/a6", 200, subscription("a6") | {"publisher": 6})
        await agent.ask("GET", "/v1/advertisements/a6")
        agent.says("POST", "/v1/subscriptions", 403, {"error": {}})
        assert (await agent.ask("POST", "/v1/subscriptions", OTHER))[0] == 403
        agent.says("GET", "/v1/subscriptions", 200, {"items": [], "next": None})
        await agent.ask("GET", "/v1/subscriptions")
        assert mine.registered == {"s1", "a6"}
        assert (str(mine.subscriptions["s1"].filter), mine.publishers[6].id) == ("price < 50", "a6")
        assert others.registered == frozenset()
        asked = [each for each in agent.calls.asked if each[1].endswith("/plan")]
        assert asked == [("GET", "/v1/schemas/stock/plan", "plr_me")]

    run(main)


def test_what_is_withdrawn_or_no_longer_listed_with_the_lease_is_gone_here_too():
    async def main():
        agent = Agent()
        mine, twin = await agent.attached(), await agent.attached(lease="twin")
        for each, lease in (("s1", "mine"), ("s2", "mine"), ("s3", "mine"), ("s4", "twin")):
            agent.says("POST", "/v1/subscriptions", 201, subscription(each, lease))
            await agent.ask("POST", "/v1/subscriptions")
        agent.says("DELETE", "/v1/subscriptions/s1", 204)
        await agent.ask("DELETE", "/v1/subscriptions/s1", OTHER)
        assert "s1" in mine.subscriptions
        await agent.ask("DELETE", "/v1/subscriptions/s1")
        assert mine.registered == {"s2", "s3"}
        agent.says("PUT", "/v1/leases/mine", 200, {"registrations": ["s2"], "seconds": 30})
        await agent.ask("PUT", "/v1/leases/mine", OTHER)
        assert mine.registered == {"s2", "s3"}
        await agent.ask("PUT", "/v1/leases/mine")
        assert (mine.registered, twin.registered) == ({"s2"}, {"s4"})
        for status in (401, 403, 404):
            agent.says("POST", "/v1/subscriptions", 201, subscription("s2"))
            await agent.ask("POST", "/v1/subscriptions")
            agent.says("PUT", "/v1/leases/mine", status, {"error": {}})
            assert (await agent.ask("PUT", "/v1/leases/mine"))[0] == status
            assert mine.registered == frozenset()
        assert twin.registered == {"s4"}

    run(main)


def test_a_program_that_does_not_renew_gets_nothing_more_but_an_absent_controller_is_not_its_fault():
    async def main():
        agent = Agent()
        mine = await agent.attached()
        mine.connection = object()
        agent.says("POST", "/v1/subscriptions", 201, subscription())
        await agent.ask("POST", "/v1/subscriptions")
        agent.now = FIRST_LAPSE_SECONDS
        agent.relayed.expire()
        assert mine.registered
        assert (await agent.ask("PUT", "/v1/leases/mine"))[0] == 502
        agent.now += FIRST_LAPSE_SECONDS
        agent.relayed.expire()
        assert mine.registered
        agent.says("PUT", "/v1/leases/mine", 503, {"error": {}})
        await agent.ask("PUT", "/v1/leases/mine")
        agent.now += FIRST_LAPSE_SECONDS
        agent.relayed.expire()
        assert mine.registered
        agent.says("PUT", "/v1/leases/mine", 200, {"registrations": ["s1"], "seconds": 9})
        await agent.ask("PUT", "/v1/leases/mine")
        agent.now += 9
        agent.relayed.expire()
        assert mine.registered
        assert agent.exchange.channels
        agent.now += 0.1
        agent.relayed.expire()
        assert not mine.registered
        agent.relayed.expire()
        assert not agent.exchange.channels

    run(main)


def test_a_right_that_went_ends_though_its_program_asks_for_another_registration_all_the_time():
    async def main():
        agent = Agent()
        mine = await agent.attached()
        mine.connection = object()
        for each in ("s1", "s2"):
            agent.says("POST", "/v1/subscriptions", 201, subscription(each))
            await agent.ask("POST", "/v1/subscriptions")
        agent.says("GET", "/v1/subscriptions/s2", 200, subscription("s2"))
        for _ in range(3):
            agent.now += FIRST_LAPSE_SECONDS / 2
            await agent.ask("GET", "/v1/subscriptions/s2")
            agent.relayed.expire()
        assert mine.registered == {"s2"}

    run(main)


def test_a_controller_that_answers_others_is_not_away_though_it_is_silent_to_a_token():
    async def main():
        agent = Agent()
        mine, others = await agent.attached(), await agent.attached(OTHER)
        mine.connection = others.connection = object()
        for who in (ME, OTHER):
            agent.says("POST", "/v1/subscriptions", 201, subscription())
            await agent.ask("POST", "/v1/subscriptions", who)
        asked = agent.calls.ask

        async def silent_to_me(request, who):
            if who == ME:
                raise ControllerAway("nobody answers but to say that the principal is not known")
            return await asked(request, who)

        agent.calls.ask = silent_to_me
        agent.says("PUT", "/v1/leases/mine", 200, {"registrations": ["s1"], "seconds": FIRST_LAPSE_SECONDS})
        for _ in range(30):
            agent.now += AWAY_SECONDS - 1
            assert (await agent.ask("PUT", "/v1/leases/mine", OTHER))[0] == 200
            assert (await agent.ask("PUT", "/v1/leases/mine"))[0] == 502
            agent.relayed.expire()
        assert (mine.registered, others.registered) == (frozenset(), {"s1"})

    run(main)


def test_what_lapsed_here_and_stands_at_the_controller_is_learned_again_with_the_next_renewal():
    async def main():
        agent = Agent()
        mine = await agent.attached()
        agent.says("POST", "/v1/subscriptions", 201, subscription())
        await agent.ask("POST", "/v1/subscriptions")
        agent.says("POST", "/v1/advertisements", 201, subscription("a6") | {"publisher": 6})
        await agent.ask("POST", "/v1/advertisements")
        mine.connection = object()
        agent.now += FIRST_LAPSE_SECONDS + 1
        agent.relayed.expire()
        assert not mine.registered
        agent.says("PUT", "/v1/leases/mine", 200, {"registrations": ["a6", "s1", "gone"], "seconds": 30})
        agent.says("GET", "/v1/subscriptions/s1", 200, subscription())
        agent.says("GET", "/v1/advertisements/a6", 200, subscription("a6") | {"publisher": 6})
        for path in ("subscriptions/a6", "subscriptions/gone", "advertisements/gone"):
            agent.says("GET", f"/v1/{path}", 404, {"error": {}})
        assert (await agent.ask("PUT", "/v1/leases/mine"))[0] == 200
        assert mine.registered == {"s1", "a6"}
        assert set(mine.publishers) == {6}

    run(main)


def test_a_program_that_leaves_while_it_registers_leaves_nothing_behind():
    async def main():
        agent = Agent()
        mine = await agent.attached()
        asked = agent.calls.ask

        async def slow(request, who):
            if request.path.endswith("/plan"):
                agent.programs.end(mine)
            return await asked(request, who)

        agent.calls.ask = slow
        agent.says("POST", "/v1/subscriptions", 201, subscription())
        await agent.ask("POST", "/v1/subscriptions")
        agent.says("POST", "/v1/advertisements", 201, subscription("a6") | {"publisher": 6})
        await agent.ask("POST", "/v1/advertisements")
        assert (mine.registered, len(agent.exchange.schemas)) == (frozenset(), 0)

    run(main)


def test_a_program_cannot_take_the_event_socket_away_by_attaching_at_another_host():
    def opened(attachment, receive):
        if attachment.host == "h9":
            raise ClientError("this machine does not have that address, so it is another host", field="host")
        return StubLink(attachment, receive)

    async def main():
        agent = Agent()
        agent.exchange._open_link = opened
        elsewhere = ATTACHMENT | {"host": "h9", "address": "fd00::9"}
        agent.says("POST", "/v1/hosts/h9/attachments", 201, elsewhere)
        assert (await agent.ask("POST", "/v1/hosts/h9/attachments"))[0] == 503
        assert agent.exchange.attachment is None
        await agent.attached()
        there = agent.exchange._link
        for host, address in (("h9", "fd00::9"), ("h2", "fd00::2")):
            agent.says("POST", f"/v1/hosts/{host}/attachments", 201, ATTACHMENT | {"host": host, "address": address})
            status, told = await agent.ask("POST", f"/v1/hosts/{host}/attachments?lease=x", OTHER)
            assert (status, "at host 'h1'" in told["error"]["reason"]) == (503, True)
            assert (agent.exchange._link, there.is_closed) == (there, False)
        agent.says("POST", "/v1/hosts/h9/attachments", 201, elsewhere | {"host": "h1"})
        assert (await agent.ask("POST", "/v1/hosts/h9/attachments?lease=x", OTHER))[0] == 201  # it has another address
        assert there.is_closed
        there = agent.exchange._link
        with pytest.raises(ClientError):
            agent.exchange.use(HostAttachment.from_json(elsewhere | {"address": "fd00::8"}))
        assert (agent.exchange._link, there.is_closed) == (there, False)

    run(main)


def test_what_comes_while_a_renewal_is_under_way_is_not_taken_for_withdrawn():
    async def main():
        agent = Agent()
        mine = await agent.attached()
        asked = agent.calls.ask

        async def slow(request, who):
            agent.calls.ask = asked
            agent.says("POST", "/v1/subscriptions", 201, subscription())
            await agent.ask("POST", "/v1/subscriptions")
            return await asked(request, who)

        agent.says("PUT", "/v1/leases/mine", 200, {"registrations": [], "seconds": 30})
        agent.calls.ask = slow
        await agent.ask("PUT", "/v1/leases/mine")
        assert mine.registered == {"s1"}

    run(main)


def test_a_later_plan_is_taken_from_a_programs_answer_or_read_when_an_answer_names_it():
    async def main():
        agent = Agent()
        await agent.attached()
        agent.says("POST", "/v1/subscriptions", 201, subscription())
        await agent.ask("POST", "/v1/subscriptions")
        assert agent.exchange.channels["stock"].epoch == 1
        agent.says("GET", "/v1/schemas/stock/plan", 200, plan(2))
        agent.says("POST", "/v1/subscriptions", 201, subscription("s2", epoch=2))
        await agent.ask("POST", "/v1/subscriptions")
        assert agent.exchange.channels["stock"].epoch == 2
        agent.says("GET", "/v1/schemas/stock/plan", 200, plan(3))
        await agent.relayed.read_plan("stock")
        await agent.relayed.read_plan("nobody's")
        assert agent.exchange.channels["stock"].epoch == 3
        agent.is_away("GET", "/v1/schemas/stock/plan")
        agent.says("POST", "/v1/subscriptions", 201, subscription("s3", epoch=4))
        assert (await agent.ask("POST", "/v1/subscriptions"))[0] == 502  # the program asks again, with the same key

    run(main)


def test_many_programs_that_ask_for_changes_of_a_plan_are_one_to_the_controller():
    async def main():
        agent = Agent()
        path = "/v1/schemas/stock/plan"

        async def asked(etag):
            before = len(agent.calls.asked)
            status, _ = await agent.ask("GET", path, if_none_match=etag)
            return status, len(agent.calls.asked) - before

        await agent.attached()
        agent.calls.headers = (("etag", "one"),)
        agent.says("POST", "/v1/subscriptions", 201, subscription())
        await agent.ask("POST", "/v1/subscriptions")
        agent.says("GET", path, 304)
        assert await asked("one") == (304, 1)
        assert await asked("one") == (304, 0)
        assert await asked("an older one") == (304, 1)
        agent.now += FRESH_PLAN_SECONDS
        assert await asked("one") == (304, 1)
        agent.calls.headers = (("etag", "two"),)
        agent.says("GET", path, 200, plan(2))
        await agent.relayed.read_plan("stock")  # somebody publishes by a later plan
        assert agent.exchange.channels["stock"].epoch == 2
        assert await asked("one") == (200, 1)
        assert await asked("two") == (304, 0)
        agent.now += FRESH_PLAN_SECONDS
        agent.relayed.expire()
        assert agent.relayed._fresh == {}

    run(main)


def test_an_answer_that_cannot_be_used_and_a_full_agent_are_errors_with_a_reason():
    async def main():
        agent = Agent(max_programs=2)
        await agent.attached()
        agent.says("POST", "/v1/subscriptions", 201, subscription(text="no filter"))
        status, told = await agent.ask("POST", "/v1/subscriptions")
        assert (status, told["error"]["code"]) == (502, "bad_answer")
        status, told = await agent.ask("POST", "/v1/hosts/h1/attachments?lease=more")
        assert (status, told["error"]["code"]) == (503, "limit_reached")

        def taken(*_):
            raise ClientError("another program on this host receives events already", field="host")

        agent = Agent()
        agent.exchange = LocalExchange(taken)
        agent.relayed = RelayedCalls(agent.calls, agent.programs, agent.exchange, lambda: 0.0)
        status, told = await agent.ask("POST", "/v1/hosts/h1/attachments?lease=mine")
        assert status == 503
        assert "another program" in told["error"]["reason"]

    run(main)


def test_a_tunnel_needs_no_agent_and_is_told_as_it_is():
    async def main():
        agent = Agent()
        agent.calls.host = "controller.example"
        tunnel = ATTACHMENT | {"network": "tunnel", "secret": "00" * 16, "udp_host": None}
        agent.says("POST", "/v1/hosts/h1/attachments", 201, tunnel)
        _, told = await agent.ask("POST", "/v1/hosts/h1/attachments?lease=mine")
        assert told == tunnel | {"udp_host": "controller.example"}
        assert len(agent.programs) == 0

    run(main)


def test_in_band_each_principal_has_a_conversation_of_its_own_and_they_are_bounded():
    async def main():
        calls = ControllerCalls("inband://", "kiosk")
        with pytest.raises(ClientError, match="principal"):
            await calls.ask(ApiRequest("GET", "/health"), ME)
        first = await calls._conversation(Credentials("plr_0", "p0"))
        assert await calls._conversation(Credentials("plr_0", "p0")) is first
        for n in range(1, MAX_CONVERSATIONS):
            await calls._conversation(Credentials(f"plr_{n}", f"p{n}"))
        first.running = 1
        await calls._conversation(Credentials("plr_more", "more"))
        assert len(calls._conversations) == MAX_CONVERSATIONS
        assert Credentials("plr_0", "p0") in calls._conversations
        assert Credentials("plr_1", "p1") not in calls._conversations
        await calls.close()
        for wrong in ("ftp://x", "unix:/x", "http://"):
            with pytest.raises(ClientError):
                ControllerCalls(wrong)

    run(main)


def test_a_batch_is_refused_since_the_agent_would_not_know_what_it_registered():
    async def main():
        agent = Agent()
        for path in ("/v1/subscriptions:batch", "/v1/advertisements:withdraw"):
            agent.says("POST", path, 200, {"results": []})
            status, body = await agent.ask("POST", path)
            assert (status, body["error"]["code"]) == (404, "not_found")

    run(main)


def test_of_several_controllers_another_is_asked_after_one_that_did_not_serve():
    async def main():
        calls = ControllerCalls("http://a:1,http://b:2")
        asked, answers = [], {}

        def answer(request):
            asked.append(request.url.host)
            given = answers[request.url.host]
            if isinstance(given, Exception):
                raise given
            return given

        for each in calls._ring._controllers:
            each.http._transport = httpx.MockTransport(answer)
            each.http._mounts = {}
        answers |= {"a": httpx.ConnectError("refused"), "b": httpx.Response(200, json={})}
        assert calls.host == "a"
        with pytest.raises(ControllerAway, match="http://a:1: refused"):
            await calls.ask(ApiRequest("GET", "/health"), ME)
        assert (await calls.ask(ApiRequest("GET", "/health"), ME)).status == 200
        assert calls.host == "b"
        answers["b"] = httpx.Response(503, json={"error": {"code": "not_installed"}})
        for _ in range(2):
            assert (await calls.ask(ApiRequest("GET", "/health"), ME)).status == 503
        answers |= {"b": httpx.Response(503, json={"error": {"code": "controller_closed"}})}
        answers["a"] = httpx.Response(200, json={})
        for _ in range(2):
            await calls.ask(ApiRequest("GET", "/health"), ME)
        assert asked == ["a", "b", "b", "b", "b", "a"]
        await calls.close()
        assert all(each.http.is_closed for each in calls._ring._controllers)

    run(main)
