"""Leases: renewed they stand, left alone they expire, whatever else goes wrong meanwhile."""

import asyncio

import pytest

from pleroma.control import Expire
from pleroma.errors import DiskFull, NotFound
from pleroma.service import ServiceSettings
from pleroma.service.lease_keeper import LeaseKeeper
from support.service.in_process import UNLIMITED, world
from support.waiting import run, until

SHORT = ServiceSettings(requests_per_s=1e6, anonymous_per_s=1e6, lease_seconds=0.3)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def leases_of(api, clock):
    return LeaseKeeper(api.app.state.service.controller, 30.0, clock)


def registered_ids(api):
    return list(api.app.state.service.state.registrations)


def test_what_is_not_renewed_is_withdrawn_when_its_time_is_over(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            mine = await api.subscribe("price > 7", lease="mine")
            yours = await api.advertise(lease="yours")
            plain = await api.subscribe("price > 7")
            clock = Clock()
            leases = leases_of(api, clock)
            clock.now += 20
            assert list(leases.renew("admin", "yours")) == [yours["id"]]
            clock.now += 9.9
            await leases.expire()
            assert registered_ids(api) == [mine["id"], yours["id"], plain["id"]]
            clock.now += 0.1
            await leases.expire()
            assert registered_ids(api) == [yours["id"], plain["id"]]
            with pytest.raises(NotFound):
                leases.renew("admin", "mine")
            clock.now += 1000
            await leases.expire()
            assert registered_ids(api) == [plain["id"]]

    run(main)


def test_one_that_holds_nothing_is_known_for_a_period(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            clock = Clock()
            leases = leases_of(api, clock)
            leases.begin("admin", "mine")
            clock.now += 29
            await leases.expire()
            assert leases.renew("admin", "mine") == {}
            clock.now += 30
            await leases.expire()
            with pytest.raises(NotFound):
                leases.renew("admin", "mine")

    run(main)


def test_after_a_restart_every_lease_has_a_whole_period(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            made = await api.subscribe("price > 7", lease="mine")
        async with world(tmp_path) as api:
            clock = Clock()
            leases = leases_of(api, clock)
            clock.now += 29.9
            assert leases.overdue() == []
            clock.now += 0.1
            assert leases.overdue() == [("admin", "mine")]
            assert registered_ids(api) == [made["id"]]

    run(main)


def test_while_nothing_can_be_written_it_goes_on_trying(tmp_path, monkeypatch):
    async def main():
        async with world(tmp_path) as api:
            await api.subscribe("price > 7", lease="mine")
            await api.subscribe("price > 8", lease="yours")
            clock, controller = Clock(), api.app.state.service.controller
            leases, asked = leases_of(api, clock), []

            async def full(command, **_options):
                asked.append(command)
                raise DiskFull("the disk is full")

            clock.now += 30
            with monkeypatch.context() as patched:
                patched.setattr(controller, "submit", full)
                await leases.expire()
                await leases.expire()
            assert asked == [Expire("mine", "admin"), Expire("yours", "admin")] * 2
            assert len(registered_ids(api)) == 2
            leases.renew("admin", "yours")  # it came back in time
            await leases.expire()
            assert [each.lease for each in api.app.state.service.state.registrations.values()] == ["yours"]

    run(main)


def test_a_lease_is_renewed_over_http_by_its_own_principal(tmp_path):
    async def main():
        async with world(tmp_path, settings=UNLIMITED) as api:
            ann = await api.principal("ann", read={"*": "true"})
            async with ann.client:
                made = await ann.subscribe("price > 7", lease="x y/z")
                assert made["lease"] == "x y/z"
                assert (await api.get(f"/v1/subscriptions/{made['id']}"))["lease"] == "x y/z"
                answer = (await ann.client.put("/v1/leases/x%20y%2Fz")).json()
                assert answer["registrations"] == [made["id"]]
                more = await ann.subscribe("price > 8", lease="short")
                answer = (await ann("PUT", "/v1/leases/short", 200)).json()
                assert answer == {"lease": "short", "seconds": 30.0, "event_keys": None, "registrations": [more["id"]]}
                error = await api.error("PUT", "/v1/leases/short", 404, "not_found")
                assert (error["field"], error["value"]) == ("lease", "short")
                for bad in ("", "x" * 65, "two\nlines"):
                    body = {"schema": "stock", "filter": "true", "host": "h1", "lease": bad}
                    error = await ann.error("POST", "/v1/subscriptions", 400, error_code(bad), json=body)
                    assert error["field"] == "lease"

    def error_code(lease):
        return "bad_request" if len(lease) != 9 else "control_error"

    run(main)


def test_the_service_withdraws_by_itself_what_nobody_renews(tmp_path):
    async def main():
        async with world(tmp_path, settings=SHORT) as api, api.app.state.service.leases:
            kept = await api.subscribe("price > 7", lease="kept")
            await api.subscribe("price > 7", lease="lost")

            async def renew():
                while True:
                    await api("PUT", "/v1/leases/kept", 200)
                    await asyncio.sleep(0.02)

            renewing = asyncio.create_task(renew())
            await until(lambda: registered_ids(api) == [kept["id"]])
            await asyncio.sleep(0.5)
            assert registered_ids(api) == [kept["id"]]
            renewing.cancel()
            await until(lambda: registered_ids(api) == [])

    run(main)
