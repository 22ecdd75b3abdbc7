"""Hosts that are made known and forgotten over the API, and which one `any` is."""

from contextlib import asynccontextmanager

import httpx
import pytest

from support.service.in_process import ADMIN, Api, world
from support.waiting import run

KIOSK = {"name": "kiosk", "switch": "R7", "port": 40, "address": "fd00::77", "mac": "02:00:00:00:00:77"}


@asynccontextmanager
async def learning(folder):
    """A service whose network takes hosts in, and the hosts that it routes to."""
    async with world(folder) as api:
        api.app.state.service.plane.learns = True
        yield api, lambda: list(api.app.state.service.state.router.topology.host)


def test_a_host_that_was_made_known_can_be_registered_at_and_outlives_a_restart(tmp_path):
    async def main():
        async with learning(tmp_path) as (api, routed):
            before = len(await api.get("/v1/hosts"))
            assert await api.post("/v1/hosts", KIOSK) == {"name": "kiosk", "switch": "R7", "address": "fd00::77"}
            assert await api.post("/v1/hosts", KIOSK) == {"name": "kiosk", "switch": "R7", "address": "fd00::77"}
            assert len(routed()) == before + 1
            made = await api.subscribe(host="kiosk")
            error = await api.error("DELETE", "/v1/hosts/kiosk", 409, "already_there")
            assert "1 registrations" in error["reason"]
        async with learning(tmp_path) as (api, routed):
            assert [each["name"] for each in await api.get("/v1/hosts")][-1] == "kiosk"
            await api("DELETE", f"/v1/subscriptions/{made['id']}", 204)
            await api("DELETE", "/v1/hosts/kiosk", 204)
            assert len(routed()) == before
            await api.error("DELETE", "/v1/hosts/kiosk", 404, "not_there")
            await api.error("DELETE", "/v1/hosts/h1", 403, "not_allowed")

    run(main)


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"name": "h1"}, 409, "name"),
        ({"address": "fd00::1"}, 409, "address"),
        ({"port": 1}, 409, "port"),
        ({"switch": "nowhere"}, 400, "switch"),
        ({"address": "nowhere"}, 400, "address"),
        ({"address": "ff0e::1"}, 400, "kiosk"),
        ({"mac": "me"}, 400, "mac"),
        ({"port": 0}, 400, "port"),
        ({"port": "7"}, 400, "port"),
        ({"name": "a/b"}, 400, "name"),
        ({"name": "any"}, 400, "name"),
        ({"port": 3}, 409, "port"),
        ({"more": 1}, 400, "more"),
    ],
)
def test_what_is_no_host_or_belongs_to_another_is_refused(tmp_path, change, status, field):
    async def main():
        async with learning(tmp_path) as (api, routed):
            error = (await api("POST", "/v1/hosts", status, json=KIOSK | change)).json()["error"]
            assert error["field"] == field
            assert "kiosk" not in routed()

    run(main)


def test_hosts_of_a_network_with_a_topology_are_fixed(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            error = await api.error("POST", "/v1/hosts", 403, "not_allowed", json=KIOSK)
            assert "those of its topology" in error["reason"]
            await api.error("DELETE", "/v1/hosts/h1", 403, "not_allowed")

    run(main)


def test_only_administrators_say_which_hosts_there_are(tmp_path):
    async def main():
        async with learning(tmp_path) as (api, routed):
            someone = await api.principal("someone", publish={"*": "true"})
            async with someone.client:
                await someone.error("POST", "/v1/hosts", 403, "not_allowed", json=KIOSK)
                await someone.error("DELETE", "/v1/hosts/kiosk", 403, "not_allowed")
            assert "kiosk" not in routed()

    run(main)


def test_any_host_is_the_one_that_asks_if_that_is_one(tmp_path):
    async def main():
        async with learning(tmp_path) as (api, _):
            host = api.app.state.service.state.topology.host["h5"]
            transport = httpx.ASGITransport(api.app, client=(host.address, 50_000))
            headers = {"Authorization": f"Bearer {ADMIN}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
                there = Api(api.app, client=client)
                assert (await there.post("/v1/hosts/any/attachments", None))["host"] == "h5"

    run(main)
