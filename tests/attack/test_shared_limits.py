"""What callers share is not taken by one of them: attachments, streams, and the rates of those without a token."""

import hashlib
import time

import httpx
import pytest

from pleroma.content import Schema
from pleroma.control import ControlState, CreatePrincipal
from pleroma.errors import NotAuthenticated
from pleroma.routing import build
from pleroma.service import ServiceSettings
from pleroma.service.http.gate import OPEN_PATHS
from pleroma.service.http.tokens import Callers, digest
from support.service.in_process import Api, world
from support.waiting import run

PRINCIPALS = 3000


def test_one_principal_cannot_take_the_attachments_of_all(tmp_path):
    async def main():
        async with world(tmp_path, settings=ServiceSettings(max_attachments=10, requests_per_s=1e6)) as api:
            ann, ben = await api.principal("ann"), await api.principal("ben")
            for _ in range(5):
                await ann.post("/v1/hosts/h1/attachments", None)
            error = await ann.error("POST", "/v1/hosts/h1/attachments", 429, "too_fast")
            assert error["reason"].startswith("ann has 5 attachments")
            await ben.post("/v1/hosts/h1/attachments", None)

    run(main)


def test_an_attachment_that_is_refused_or_has_ended_takes_no_share(tmp_path):
    async def main():
        settings = ServiceSettings(max_attachments=2, attachment_seconds=0.3, requests_per_s=1e6)
        async with world(tmp_path, settings=settings) as api:
            await api.error("POST", "/v1/hosts/nowhere/attachments", 404, "not_found")
            await api.post("/v1/hosts/h1/attachments", None)
            await api.error("POST", "/v1/hosts/h1/attachments", 429, "too_fast")
            end = time.monotonic() + 10
            while (await api("POST", "/v1/hosts/h1/attachments")).status_code != 201:
                assert time.monotonic() < end

    run(main)


def from_address(api, address, token=None):
    """Requests to the same application from another address."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(api.app, client=(address, 1234))
    return Api(api.app, client=httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers))


def test_a_flood_of_wrong_tokens_does_not_keep_others_nor_a_probe_from_being_answered(tmp_path):
    async def main():
        async with world(tmp_path, settings=ServiceSettings(anonymous_per_s=5)) as api:
            flooder = from_address(api, "192.0.2.1", "wrong")
            statuses = {(await flooder("GET", "/v1/hosts")).status_code for _ in range(50)}
            assert statuses == {401, 429}
            await from_address(api, "192.0.2.1")("GET", "/health", 200)
            await from_address(api, "192.0.2.2", "wrong")("GET", "/v1/hosts", 401)
            await from_address(api, "192.0.2.1", api.client.headers["Authorization"].split()[1])(
                "GET", "/v1/hosts", 200
            )

    run(main)


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
def test_open_paths_have_a_rate_for_each_address_and_a_token_has_its_own(tmp_path, path):
    async def main():
        async with world(tmp_path, settings=ServiceSettings(anonymous_per_s=20)) as api:
            flooder = from_address(api, "2001:db8::1")
            answers = [await flooder.client.get(path) for _ in range(60)]
            assert answers[0].is_success
            assert 429 in {each.status_code for each in answers}
            neighbour = from_address(api, "2001:db8::2")
            assert 429 in {(await neighbour.client.get(path)).status_code for _ in range(5)}
            for other in OPEN_PATHS - {path}:
                assert (await flooder.client.get(other)).is_success
            assert (await from_address(api, "192.0.2.2").client.get(path)).is_success
            assert all([(await api.client.get(path)).is_success for _ in range(30)])

    run(main)


def test_a_wrong_token_costs_the_same_however_many_principals_there_are():
    def seconds(principals):
        state = ControlState(build("line:2"))
        for number in range(principals):
            state.apply(number + 1, CreatePrincipal(f"p{number}", "both", digest(f"plr_{number}")))
        callers = Callers(state)
        assert callers.who(b"Bearer plr_1")[0].name == "p1"
        wrong = [f"Bearer {hashlib.sha256(str(each).encode()).hexdigest()}".encode() for each in range(200)]
        best = float("inf")
        for _ in range(5):
            begin = time.perf_counter()
            for each in wrong:
                with pytest.raises(NotAuthenticated):
                    callers.who(each)
            best = min(best, time.perf_counter() - begin)
        return best

    assert seconds(PRINCIPALS) < 10 * seconds(2)  # it was a thousand times as long


def test_a_principal_that_was_made_again_does_not_get_the_answers_of_the_one_before(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", read={"*": "true"})
            before = await ann.subscribe("price > 1", key="mine")
            assert await ann.subscribe("price > 1", key="mine") == before
            await api("DELETE", "/v1/principals/ann", 204)
            again = await api.principal("ann", read={"*": "true"})
            after = await again.subscribe("price > 1", key="mine")
            assert after["id"] != before["id"]
            await again.get(f"/v1/subscriptions/{after['id']}")

    run(main)


@pytest.mark.parametrize("bounds", [(0.0, 5e-324), (0.0, 1e-310), (0.0, 1.7e308), (-8e307, 8e307), (1e308, 1.7e308)])
def test_the_tree_of_any_domain_that_is_accepted_can_be_read(tmp_path, bounds):
    low, high = bounds
    schema = Schema.from_json({"name": "odd", "attribute": [{"name": "x", "kind": "real", "min": low, "max": high}]})

    async def main():
        async with world(tmp_path) as api:
            await api.post("/v1/schemas", {"schema": schema.to_json()})
            found = await api.get("/v1/schemas/odd/plan/tree?depth=8")
            cuts = [each["cut"] for each in found["items"] if each["cut"] is not None]
            assert cuts
            assert all(low <= cut <= high for cut in cuts)

    run(main)
