"""What clients report, added up."""

from support.service.in_process import world
from support.waiting import run

GRID = {"kind": "grid", "order": [0, 1, 0, 1], "boundaries": {}}


def test_reports_are_added_up_for_each_subscription_and_principal(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", publish={"*": "true"}, read={"*": "true"})
            mine, hers = await api.subscribe(), await ann.subscribe()
            report = {
                "subscriptions": {hers["id"]: {"delivered": 6, "wasted": 2, "dropped": 1, "missed": 3}},
                "published": 4,
            }
            report |= {"unsent": 2, "overrun": 1}
            for _ in range(2):
                await ann.post("/v1/reports", report, 204)
            await api.post("/v1/reports", {"subscriptions": {mine["id"]: {"duplicates": 3, "wasted": 4}}}, 204)
            seen = await ann.get("/v1/statistics")
            counted = {"delivered": 12, "wanted": 12, "wasted": 4, "duplicates": 0, "dropped": 2, "forged": 0}
            counted |= {"missed": 6}
            sums = {"published": 8, "unsent": 4, "overrun": 2}
            assert seen["by_subscription"] == {hers["id"]: counted}
            assert seen["reported"] == counted | sums | {"waste_at_hosts": 0.25}
            assert (seen["advertisements"], seen["subscriptions"]) == (0, 1)
            assert "principals" not in seen
            assert "hosts" not in seen
            everything = await api.get("/v1/statistics")
            assert set(everything["by_subscription"]) == {mine["id"], hers["id"]}
            assert everything["principals"]["ann"] == counted | sums
            assert everything["reported"]["wasted"] == 8
            assert everything["subscriptions"] == 2
            assert set(everything["hosts"]) == {f"h{i}" for i in range(1, 9)}

    run(main)


def test_a_report_about_what_is_anothers_is_refused_as_a_whole(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", read={"*": "true"})
            mine, hers = await api.subscribe(), await ann.subscribe()
            both = {"subscriptions": {hers["id"]: {"delivered": 1}, mine["id"]: {"delivered": 1}}}
            error = await ann.error("POST", "/v1/reports", 404, "not_there", json=both)
            assert error["value"] == mine["id"]
            for bad in (
                {"subscriptions": {hers["id"]: {"delivered": -1}}},
                {"subscriptions": {hers["id"]: {"delivered": 1.5}}},
                {"subscriptions": {hers["id"]: {"delivered": 2**60}}},
                {"subscriptions": {hers["id"]: {"lost": 1}}},
                {"published": "1"},
                {"published": {"stock": -1}},
                {"unsent": -1},
                {"overrun": 2**60},
                [],
            ):
                await ann.error("POST", "/v1/reports", 400, "bad_request", json=bad)
            assert (await ann.get("/v1/statistics"))["reported"]["delivered"] == 0

    run(main)


def test_waste_is_unknown_before_anything_arrived(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            assert (await api.get("/v1/statistics"))["reported"]["waste_at_hosts"] is None

    run(main)


def test_a_packet_that_two_subscriptions_want_came_to_the_host_once(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            one, two = await api.subscribe(), await api.subscribe()
            counted = {one["id"]: {"delivered": 4, "wanted": 4, "wasted": 1}, two["id"]: {"delivered": 4, "wanted": 0}}
            await api.post("/v1/reports", {"subscriptions": counted}, 204)
            seen = (await api.get("/v1/statistics"))["reported"]
            assert (seen["delivered"], seen["wanted"], seen["wasted"], seen["waste_at_hosts"]) == (8, 4, 1, 0.2)

    run(main)


def test_rates_are_told_of_the_last_minute_and_since_the_plan_came(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", publish={"*": "true"}, read={"*": "true"})
            hers = await ann.subscribe()
            report = {"subscriptions": {hers["id"]: {"delivered": 6, "wasted": 2}}, "published": {"stock": 4, "no": 1}}
            await ann.post("/v1/reports", report, 204)
            seen = await ann.get("/v1/statistics")
            assert seen["reported"]["published"] == 5
            for rates in (seen["last_minute"], *map(seen["by_schema"]["stock"].get, ("last_minute", "since_plan"))):
                assert rates["waste_at_hosts"] == 0.25
                assert rates["delivered_per_s"] > rates["published_per_s"] > 0
            await api("PUT", "/v1/schemas/stock/plan", 200, json={"index": GRID, "method": "at_once"})
            seen = (await api.get("/v1/statistics"))["by_schema"]["stock"]
            assert (seen["epoch"], seen["since_plan"]["delivered_per_s"]) == (2, 0.0)
            assert (seen["since_plan"]["waste_at_hosts"], seen["last_minute"]["waste_at_hosts"]) == (None, 0.25)
            bob = await api.principal("bob", read={"*": "true"})
            assert (await bob.get("/v1/statistics"))["last_minute"]["delivered_per_s"] == 0.0

    run(main)
