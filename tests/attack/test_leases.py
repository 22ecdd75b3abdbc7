"""Leases and what clients say of plans: only who may register leaves anything behind, and not without end."""

from pleroma.service.lease_keeper import MAX_EMPTY_LEASES
from support.service.in_process import world
from support.waiting import run

LEASES = 130


def leases_of(api):
    return api.app.state.service.leases


def adopted_in(api):
    return api.app.state.service.controller.plan_changes._adopted


def test_who_may_not_register_leaves_no_lease_behind(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            reader = await api.principal("reader", "subscriber", read={"stock": "price < 10"})
            wanted = {"schema": "stock", "host": "h1"}
            for number in range(LEASES):
                body = wanted | {"filter": "price > 20", "lease": f"lease {number}"}
                await reader.error("POST", "/v1/subscriptions", 403, "not_allowed", json=body)
                await reader.error("POST", "/v1/advertisements", 403, "not_allowed", json=body)
            assert not leases_of(api)._renewed_at
            await reader.error("PUT", "/v1/leases/lease%201", 404, "not_found", json={"plans": {"stock": 1}})
            assert not adopted_in(api)

    run(main)


def test_registering_and_withdrawing_under_ever_new_leases_leaves_few_behind(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            other = await api.principal("other", "both", read={"*": "true"}, publish={"*": "true"})
            kept = await other.subscribe(lease="another's")
            for number in range(LEASES):
                made = await api.subscribe(lease=f"lease {number}")
                await api("PUT", f"/v1/leases/lease%20{number}", 200, json={"plans": {"stock": 1}})
                await api("DELETE", f"/v1/subscriptions/{made['id']}", 204)
            leases = leases_of(api)
            leases.overdue()
            assert len(leases._renewed_at) == MAX_EMPTY_LEASES + 1
            assert ("admin", f"lease {LEASES - 1}") in leases._renewed_at
            assert list(leases.renew("other", "another's")) == [kept["id"]]
            assert len(adopted_in(api)) <= LEASES // 2 + 1

    run(main)


def test_plans_of_schemas_that_there_are_not_are_not_remembered_and_long_names_are_refused(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise(lease="mine")
            names = {f"{number:03}" * 60: 1 for number in range(63)} | {"stock": 1}
            await api("PUT", "/v1/leases/mine", 200, json={"plans": names})
            assert adopted_in(api) == {("admin", "mine"): {"stock": 1}}
            long = {"plans": {"x" * 500_000: 1}}
            error = await api.error("PUT", "/v1/leases/mine", 400, "bad_request", json=long)
            assert len(str(error)) < 2000
            assert adopted_in(api) == {("admin", "mine"): {"stock": 1}}

    run(main)


def test_a_lease_that_is_about_to_end_does_not_end_while_something_is_registered_under_it(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.subscribe(lease="mine")
            leases, at = leases_of(api), leases_of(api)._clock()
            leases._renewed_at["admin", "mine"] = at - leases.seconds + 5
            leases.extend("admin", "mine")
            assert leases._renewed_at["admin", "mine"] >= at
            leases.extend("admin", "nobody's")
            assert ("admin", "nobody's") not in leases._renewed_at

    run(main)
