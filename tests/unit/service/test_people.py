"""Rights that change, tokens that are replaced or end, and groups, as administrators use them."""

import asyncio
import time

import httpx
import pytest

from pleroma.errors import DiskFull
from pleroma.service.http.forgery.event_keys import EventKeys
from pleroma.service.http.tokens import digest
from pleroma.service.inband.host_admission import HostAdmission
from pleroma.service.inband.inband_server import InbandServer
from pleroma.service.inband.switch_carrier import SwitchCarrier
from support.inband_pipes import LossyNetwork
from support.service.in_process import ADMIN, world
from support.waiting import run

EVERYTHING = {"*": "true"}
HOUR_SECONDS = 3600.0


class Clock:
    """Seconds since 1970 that go by when a test says so."""

    def __init__(self):
        self.now = 1_900_000_000.0

    def __call__(self):
        return self.now


def service_of(api):
    return api.app.state.service


def test_other_rights_are_in_force_at_once_and_the_answer_says_what_went(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", read={"stock": "price < 50"}, publish={"*": "true"})
            kept, lost = await ann.subscribe("price < 10"), await ann.subscribe("price < 40")
            await ann.advertise()
            answer = await api("PATCH", "/v1/principals/ann", 200, json={"read": {"stock": "price < 20"}})
            assert answer.json()["withdrawn"] == {"count": 1, "first": [lost["id"]]}
            assert answer.json()["read"] == {"stock": "price < 20"}
            assert answer.json()["publish"] == {"*": "true"}
            assert [each["id"] for each in (await ann.get("/v1/subscriptions"))["items"]] == [kept["id"]]
            body = {"schema": "stock", "filter": "price < 40", "host": "h1"}
            await ann.error("POST", "/v1/subscriptions", 403, "not_allowed", json=body)
            answer = await api("PATCH", "/v1/principals/ann", 200, json={"read": {"stock": None, "*": "true"}})
            assert answer.json()["withdrawn"] == {"count": 0, "first": []}
            await ann.subscribe("price < 40")
            answer = await api("PATCH", "/v1/principals/ann", 200, json={"subscriptions": 0, "boxes": None})
            assert (answer.json()["subscriptions"], answer.json()["boxes"]) == (0, None)
            await ann.error("POST", "/v1/subscriptions", 403, "limit_reached", json=body)

    run(main)


def test_changes_that_cannot_be_are_refused(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.principal("ann")
            for body, status in (
                ({"read": {"nix": "true"}}, 400),
                ({"read": {"stock": "prise > 1"}}, 400),
                ({"groups": {"nix": True}}, 400),
                ({"role": "king"}, 400),
                ({"name": "bob"}, 400),
                ({"boxes": -1}, 400),
            ):
                await api("PATCH", "/v1/principals/ann", status, json=body)
            await api.error("PATCH", "/v1/principals/nix", 404, "not_found", json={})
            await api.error("POST", "/v1/principals/nix/token", 404, "not_found", json={})
            error = await api.error("PATCH", "/v1/principals/admin", 403, "not_allowed", json={"role": "both"})
            assert error["allowed"] == "another administrator"
            await api("PATCH", "/v1/principals/admin", 200, json={"role": "admin"})

    run(main)


def test_everybody_can_ask_who_one_is(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.post("/v1/groups", {"name": "readers", "read": EVERYTHING})
            ann = await api.principal("ann", groups=["readers"], publish={"stock": "price < 5"})
            me = await ann.get("/v1/me")
            assert me == await api.get("/v1/principals/ann")
            assert (me["publish"], me["read"], me["groups"]) == ({"stock": "price < 5"}, {}, ["readers"])
            assert me["rights"] == {"publish": {"stock": "price < 5"}, "read": EVERYTHING}
            assert (me["expires_at"], me["expired"]) == (None, False)
            tuner = await api.principal("tom", "tuner")
            assert (await tuner.get("/v1/me"))["role"] == "tuner"

    run(main)


def test_a_group_is_made_shown_changed_for_all_its_members_and_removed(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            made = await api.post("/v1/groups", {"name": "traders", "read": {"stock": "price < 50"}})
            assert made == {"name": "traders", "publish": {}, "read": {"stock": "price < 50"}, "members": 0}
            await api.error("POST", "/v1/groups", 409, "already_there", json={"name": "traders"})
            ann, bob = [await api.principal(name, groups=["traders"]) for name in ("ann", "bob")]
            await api.principal("cid")
            hers, his = await ann.subscribe("price < 40"), await bob.subscribe("price < 10")
            listed = await api.get("/v1/principals?group=traders")
            assert [each["name"] for each in listed["items"]] == ["ann", "bob"]
            change = {"read": {"stock": "price < 20"}}
            answer = (await api("PATCH", "/v1/groups/traders", 200, json=change)).json()
            assert answer["withdrawn"] == {"count": 1, "first": [hers["id"]]}
            assert answer["members"] == 2
            assert (await api.get("/v1/groups"))["items"] == [await api.get("/v1/groups/traders")]
            gone = (await api("DELETE", "/v1/groups/traders", 200)).json()
            assert gone["withdrawn"]["first"] == [his["id"]]
            await api.error("GET", "/v1/groups/traders", 404, "not_found")
            assert (await ann.get("/v1/me"))["groups"] == []
            assert (await bob.get("/v1/subscriptions"))["items"] == []

    run(main)


def test_a_token_is_replaced_at_once_also_that_of_the_administrator(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", read=EVERYTHING)
            standing = await ann.subscribe()
            made = await api.post("/v1/principals/ann/token", {})
            assert made["withdrawn"]["count"] == 0
            assert (made["expires_at"], made["earlier_expires_at"]) == (None, None)
            await ann.error("GET", "/v1/me", 401, "not_authenticated")
            again = api.as_(made["token"])
            assert [each["id"] for each in (await again.get("/v1/subscriptions"))["items"]] == [standing["id"]]
            own = await api.post("/v1/principals/admin/token", {})
            await api.error("GET", "/v1/me", 401, "not_authenticated")
            root = api.as_(own["token"])
            leaked = await root.post("/v1/principals/ann/token", {"withdraw": True})
            assert leaked["withdrawn"] == {"count": 1, "first": [standing["id"]]}
            assert (await root.get("/v1/subscriptions"))["items"] == []

    run(main)


def test_for_a_grace_the_token_before_is_good_and_then_it_is_over_for_good(tmp_path):
    clock = Clock()

    async def main():
        async with world(tmp_path, clock=clock) as api:
            ann = await api.principal("ann", read=EVERYTHING)
            made = await api.post("/v1/principals/ann/token", {"grace": 60})
            assert made["earlier_expires_at"] == "2030-03-17T17:47:40.000Z"
            again = api.as_(made["token"])
            first = await ann.subscribe(key="k")
            assert (await ann.subscribe(key="k"))["id"] == first["id"]
            await again.get("/v1/me")
            clock.now += 60
            await ann.error("GET", "/v1/me", 401, "token_expired")
            me = await again.get("/v1/me")
            assert (me["expired"], me["earlier_expires_at"]) == (False, None)
            await service_of(api).tokens.end_due()
            clock.now -= 120
            await ann.error("GET", "/v1/me", 401, "token_expired")
            assert len((await again.get("/v1/subscriptions"))["items"]) == 1

    run(main)


def test_a_token_ends_at_its_instant_with_all_that_was_registered_and_no_clock_brings_it_back(tmp_path):
    clock = Clock()

    async def main():
        async with world(tmp_path, clock=clock) as api:
            made = await api.post(
                "/v1/principals", {"name": "ann", "role": "both", "read": EVERYTHING, "expires_in": HOUR_SECONDS}
            )
            assert made["expires_at"] == "2030-03-17T18:46:40.000Z"
            ann = api.as_(made["token"])
            await ann.subscribe()
            clock.now += HOUR_SECONDS - 1
            await service_of(api).tokens.end_due()
            await ann.get("/v1/me")
            clock.now += 1
            error = await ann.error("GET", "/v1/subscriptions", 401, "token_expired")
            assert made["token"] not in str(error)
            assert (await api.get("/v1/principals/ann"))["expired"]
            assert len((await api.get("/v1/subscriptions"))["items"]) == 1
            await service_of(api).tokens.end_due()
            assert (await api.get("/v1/subscriptions"))["items"] == []
            return made["token"]

    token = run(main)
    clock.now -= 2 * HOUR_SECONDS

    async def later():
        async with world(tmp_path, clock=clock) as api:
            await api.as_(token).error("GET", "/v1/me", 401, "token_expired")
            again = await api.post("/v1/principals/ann/token", {"expires_at": "2031-01-01T00:00:00+01:00"})
            assert again["expires_at"] == "2030-12-31T23:00:00.000Z"
            await api.as_(again["token"]).subscribe()
            await api.as_(token).error("GET", "/v1/me", 401, "not_authenticated")

    run(later)


def test_the_log_is_told_by_itself_and_again_if_it_could_not_be_told(tmp_path, monkeypatch):
    clock = Clock()

    async def main():
        async with world(tmp_path, clock=clock) as api:
            service = service_of(api)
            for name in ("ann", "bob"):
                await api.principal(name, expires_in=10)
            clock.now += 10
            submit, failed = service.controller.submit, []

            async def full(command, *more, **named):
                if command.name == "ann" and not failed:
                    failed.append(command)
                    raise DiskFull("no room", field="log")
                return await submit(command, *more, **named)

            monkeypatch.setattr(service.controller, "submit", full)
            monkeypatch.setattr(service.tokens, "_check_seconds", 0.01)
            async with service.tokens:
                while service.controller.principals.timed:
                    await asyncio.sleep(0.01)
            assert failed

    run(main)


@pytest.mark.parametrize(
    "life",
    [
        {"expires_at": "tomorrow"},
        {"expires_at": "2031-01-01T00:00:00"},
        {"expires_at": "2001-01-01T00:00:00Z"},
        {"expires_in": 0},
        {"expires_in": -1},
        {"expires_in": 1e300},
        {"expires_in": 10, "expires_at": "2031-01-01T00:00:00Z"},
        {"grace": -1},
    ],
)
def test_instants_that_are_none_are_refused(tmp_path, life):
    async def main():
        async with world(tmp_path) as api:
            await api("POST", "/v1/principals/admin/token", 400, json=life)
            await api.get("/v1/me")

    run(main)


def test_programs_that_a_token_let_in_go_with_it(tmp_path):
    """With the token replaced, its grace over, the token ended, and its principal removed."""
    clock = Clock()

    async def main():
        async with world(tmp_path, clock=clock) as api:
            service = service_of(api)

            def attached():
                return sum(service.plane.attached().values())

            ann = await api.principal("ann", read=EVERYTHING, expires_in=HOUR_SECONDS)
            await api("POST", "/v1/hosts/h1/attachments", 201)
            await ann("POST", "/v1/hosts/h1/attachments", 201)
            made = await api.post("/v1/principals/ann/token", {"grace": 60, "expires_in": 600})
            assert attached() == 2
            again = api.as_(made["token"])
            await again("POST", "/v1/hosts/h1/attachments", 201)
            clock.now += 60
            await service.tokens.end_due()
            assert (attached(), service.attachments.held_by("ann")) == (2, 1)
            clock.now += 540
            await service.tokens.end_due()
            assert attached() == 1
            other = api.as_((await api.post("/v1/principals/ann/token", {}))["token"])
            await other("POST", "/v1/hosts/h2/attachments", 201)
            await api("PATCH", "/v1/principals/ann", 200, json={"read": {"stock": "price < 5"}})
            assert attached() == 2
            await api.post("/v1/principals/ann/token", {})
            assert attached() == 1
            bob = await api.principal("bob")
            await bob("POST", "/v1/hosts/h2/attachments", 201)
            await api("DELETE", "/v1/principals/bob", 204)
            assert attached() == 1

    run(main)


def test_in_band_a_token_is_worth_what_it_is_over_http(tmp_path):
    clock = Clock()

    async def main():
        async with world(tmp_path, clock=clock) as api:
            network = LossyNetwork(3)
            controller = service_of(api).controller
            admission = HostAdmission(controller, may_join=lambda _: False)
            server = network.server = InbandServer(api.app, controller, SwitchCarrier(network.send), admission)

            def client(principal, token, at, seconds=20):
                host = controller.state.topology.host[at]
                place = {"switch": host.switch, "port": host.port, "address": host.address}
                transport = network.transport(principal, token, **place, mac=host.ethernet)
                return httpx.AsyncClient(transport=transport, base_url="http://controller", timeout=seconds)

            made = await api.post("/v1/principals", {"name": "ann", "role": "both", "expires_in": HOUR_SECONDS})
            async with client("ann", made["token"], "h1") as old:
                assert (await old.get("/v1/me")).status_code == 200
                new = (await api.post("/v1/principals/ann/token", {"grace": 60}))["token"]
                async with client("ann", new, "h2") as newer, client("ann", made["token"], "h3") as late:
                    assert [(await each.get("/v1/me")).status_code for each in (old, newer, late)] == [200] * 3
                    clock.now += 60
                    for each in (old, late):
                        refused = await each.get("/v1/me")
                        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "token_expired")
                    assert (await newer.get("/v1/me")).status_code == 200
                    assert len(server.sessions) == 3
                    server.sessions.dismiss(service_of(api).tokens._is_worthless)
                    assert [each.digest for each in server.sessions] == [digest(new)]
                    newest = (await api.post("/v1/principals/ann/token", {}))["token"]
                    assert (await newer.get("/v1/me")).status_code == 401
            async with client("ann", newest, "h4") as good:
                assert (await good.get("/v1/me")).status_code == 200
            async with client("ann", new, "h5", 0.5) as stranger:
                with pytest.raises(httpx.ConnectTimeout, match="another token"):
                    await stranger.get("/v1/me")
            async with client("admin", ADMIN, "h6") as root:  # who replaces its own token in-band gets the new one
                answer = await root.post("/v1/principals/admin/token", json={})
                assert answer.status_code == 201
                assert (await root.get("/v1/me")).status_code == 401
            await server.close()

    run(main, 60)


def test_a_stream_ends_with_the_token_that_opened_it_and_not_with_a_change_of_rights(tmp_path):
    clock = Clock()

    async def main():
        from pleroma.service.http.stream import events

        async with world(tmp_path, clock=clock) as api:
            service = service_of(api)
            made = await api.post("/v1/principals", {"name": "ann", "role": "both", "read": EVERYTHING})
            stream = events(service, digest(made["token"]), frozenset({"request"}))
            assert await anext(stream) == b": alive\n\n"
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            await api("PATCH", "/v1/principals/ann", 200, json={"read": {"stock": "true"}})
            await api.as_(made["token"]).subscribe()
            assert b'"register"' in await asyncio.wait_for(reading, 10)
            await api.post("/v1/principals/ann/token", {})
            with pytest.raises(StopAsyncIteration):
                await asyncio.wait_for(anext(stream), 10)

    run(main)


def test_the_key_of_events_is_told_no_more_when_the_right_is_gone(tmp_path):
    async def main():
        async with world(tmp_path, keys=EventKeys(bytes(32))) as api:
            ann = await api.principal("ann", read=EVERYTHING, publish=EVERYTHING)
            for kind, right, made in (
                ("subscriptions", "read", await ann.subscribe()),
                ("advertisements", "publish", await ann.advertise()),
            ):
                assert (await ann.get(f"/v1/{kind}/{made['id']}"))["event_key"]
                await api("PATCH", "/v1/principals/ann", 200, json={right: {"*": None}})
                await ann.error("GET", f"/v1/{kind}/{made['id']}", 404, "not_found")
                body = {"schema": "stock", "filter": "true", "host": "h1"}
                await ann.error("POST", f"/v1/{kind}", 403, "not_allowed", json=body)

    run(main)


def test_a_change_of_many_registrations_does_not_keep_the_loop(tmp_path, monkeypatch):
    """Filters are compared in another thread, however few there are."""
    import threading

    from pleroma.control.state import people

    threads = []

    def slowly(*given):
        threads.append(threading.current_thread())
        time.sleep(0.05)
        return still_allowed(*given)

    still_allowed = people.still_allowed
    monkeypatch.setattr(people, "still_allowed", slowly)

    async def main():
        async with world(tmp_path) as api:
            await api.post("/v1/groups", {"name": "readers", "read": {"stock": "price < 50"}})
            ann = await api.principal("ann", groups=["readers"])
            for number in range(3):
                await ann.subscribe(f"price < {10 + number}")
            for path in ("/v1/groups/readers", "/v1/principals/ann"):
                await api("PATCH", path, 200, json={"read": {"stock": "price < 49"}})
            await api("DELETE", "/v1/groups/readers", 200)
            assert len(threads) == 9
            assert threading.main_thread() not in threads

    run(main)
