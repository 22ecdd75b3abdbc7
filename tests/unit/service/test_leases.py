"""Leases: renewed they stand, left alone they expire, whatever else goes wrong meanwhile."""

import asyncio

import pytest
from structlog.testing import capture_logs

from pleroma.control import Expire
from pleroma.errors import DiskFull, NotFound
from pleroma.service import ServiceSettings
from pleroma.service.lease_keeper import MAX_EMPTY_LEASES, LeaseKeeper
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


def test_only_a_lease_that_there_is_can_be_extended(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            clock = Clock()
            leases = leases_of(api, clock)
            leases.begin("admin", "mine")
            clock.now += 29
            leases.extend("admin", "mine")
            leases.extend("admin", "unheard")
            clock.now += 29
            await leases.expire()
            assert leases.renew("admin", "mine") == {}
            with pytest.raises(NotFound):
                leases.renew("admin", "unheard")

    run(main)


def test_of_leases_that_hold_nothing_a_principal_has_a_few_and_others_do_not_suffer(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            clock = Clock()
            leases = leases_of(api, clock)
            leases.begin("another", "mine")
            for number in range(MAX_EMPTY_LEASES + 1):
                clock.now += 0.001
                leases.begin("admin", f"lease {number}")
            await leases.expire()
            assert leases.renew("another", "mine") == {}
            with pytest.raises(NotFound):
                leases.renew("admin", "lease 0")
            for number in range(1, MAX_EMPTY_LEASES + 1):
                assert leases.renew("admin", f"lease {number}") == {}

    run(main)


@pytest.mark.parametrize("fails", [False, True])
def test_leases_look_at_the_state_only_when_it_is_settled(tmp_path, monkeypatch, fails):
    async def main():
        async with world(tmp_path) as api:
            for name in ("mine", "yours"):
                await api.subscribe("price > 7", lease=name)
            clock, controller = Clock(), api.app.state.service.controller
            leases, settled, submit, looked = leases_of(api, clock), controller.settled, controller.submit, []
            is_settled = False

            async def noted_settled():
                nonlocal is_settled
                await settled()
                is_settled = True

            async def noted_submit(command, **options):
                nonlocal is_settled
                is_settled = False
                if fails:
                    raise DiskFull("the disk is full")
                await submit(command, **options)
                is_settled = False  # somebody else's large command has begun

            def held(_keeper):
                looked.append(is_settled)
                return controller.state.registrations.by_lease

            clock.now += 30
            with monkeypatch.context() as patched:
                patched.setattr(controller, "settled", noted_settled)
                patched.setattr(controller, "submit", noted_submit)
                patched.setattr(LeaseKeeper, "_held", property(held))
                await leases.expire()
            assert looked
            assert all(looked)

    run(main)


def test_who_is_done_with_leases_watches_them_no_longer(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            before = asyncio.all_tasks()
            async with leases_of(api, Clock()):
                assert [task.get_name() for task in asyncio.all_tasks() - before] == ["leases"]
            assert asyncio.all_tasks() == before

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


def test_a_lease_that_cannot_expire_is_said_once_until_it_was_renewed(tmp_path, monkeypatch):
    async def main():
        async with world(tmp_path) as api:
            await api.subscribe("price > 7", lease="mine")
            clock, controller = Clock(), api.app.state.service.controller
            leases = leases_of(api, clock)

            async def full(_command, **_options):
                raise DiskFull("the disk is full")

            async def said(times):
                with capture_logs() as logged:
                    for _ in range(times):
                        await leases.expire()
                return [(each["event"], each["lease"], each["reason"]) for each in logged]

            line = ("a lease cannot expire now", "mine", "the disk is full")
            with monkeypatch.context() as patched:
                patched.setattr(controller, "submit", full)
                clock.now += 30
                assert await said(3) == [line]
                leases.renew("admin", "mine")
                assert await said(1) == []
                clock.now += 30
                assert await said(2) == [line]
            with capture_logs() as logged:
                await leases.expire()
            assert [(each["event"], each["lease"], each["withdrawn"]) for each in logged] == [
                ("a lease expired", "mine", 1)
            ]

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
