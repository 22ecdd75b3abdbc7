"""A batch that is sent again counts once: at the same controller, at the next one, and at two at the same time."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pytest

from pleroma.content.batch import EventBatch
from pleroma.control.accepted_batches import AcceptedBatches
from pleroma.pipeline.lake.event_rows import sender_key
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import BatchId, ReportedCounters, ReportRow, SampledEvents
from pleroma.service.collecting.sender_allowance import SenderAllowance
from support.service.in_process import world
from support.service.with_lake import COLUMNS, STOCK, batch, collecting, landed, sample_body
from support.waiting import run


def test_a_sender_is_remembered_for_as_long_as_its_principal_has_few_others():
    accepted = AcceptedBatches(max_senders=2)
    accepted.add("me", "a", 3)
    assert [accepted.has("me", "a", number) for number in (2, 3, 4)] == [True, True, False]
    accepted.add("me", "b", 0)
    accepted.add("me", "a", 1)  # comes late, and changes nothing
    accepted.add("me", "c", 0)
    assert [accepted.has("me", *each) for each in (("a", 3), ("b", 0), ("c", 0))] == [True, False, True]
    for name in "abcdef":
        accepted.add("you", name, 9)
    assert [accepted.has("me", *each) for each in (("a", 3), ("a", 4), ("c", 0))] == [True, False, True]


def test_whoever_takes_ever_new_senders_is_not_remembered():
    now = [0.0]
    allowance = SenderAllowance(max_new=2, clock=lambda: now[0])
    batches = [BatchId(f"me/{name}", 7) for name in "abc"]
    own = allowance.within(None)
    assert [allowance.within(each) for each in batches] == [*batches[:2], own._replace(number=own.number + 1)]
    assert allowance.within(None) == own._replace(number=own.number + 2)
    assert SenderAllowance().within(None).sender != own.sender  # another controller's numbers are others
    assert allowance.within(BatchId("you/c", 7)) == BatchId("you/c", 7)  # another's senders count for the other
    assert allowance.within(batches[0]._replace(number=8)) == batches[0]._replace(number=8)
    now[0] = 3600.0
    assert allowance.within(batches[2]) == batches[2]


def test_samples_of_too_many_senders_are_landed_without_their_numbers(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            collection._allowance = SenderAllowance(max_new=1)
            for _ in range(2):
                for sender in ("a", "b"):
                    body = sample_body(batch=batch(0, sender))
                    assert await api.post("/v1/samples", body, 202) == {"taken": 2}
            await collection.land(everything=True)
            assert len(landed(lake)) == 4  # repeated batches are known here nevertheless
            table = lake.event_table("stock")
            assert [table.landed(sender_key(f"admin/{sender}")) for sender in ("a", "b")] == [0, -1]

    run(main)


def test_samples_that_are_sent_again_are_answered_as_before_and_landed_once(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            for number in (0, 0, 1):
                assert await api.post("/v1/samples", sample_body(batch=batch(number)), 202) == {"taken": 2}
            await collection.land(everything=True)
            assert await api.post("/v1/samples", sample_body(batch=batch(1)), 202) == {"taken": 2}
            await collection.land(everything=True)
            assert len(landed(lake)) == 4
            assert api.app.state.service.samples.recent.counts["stock"] == 4
            text = (await api("GET", "/metrics")).text
            assert 'pleroma_samples_total{fate="landed"} 4.0' in text
            assert 'pleroma_samples_total{fate="repeated"} 4.0' in text

    run(main)


def test_what_there_was_no_room_for_may_be_sent_again(tmp_path):
    async def main():
        async with collecting(tmp_path, max_waiting=2) as (api, collection, lake):
            await api.post("/v1/samples", sample_body(), 202)
            assert await api.post("/v1/samples", sample_body(batch=batch(0)), 202) == {"taken": 0}
            await collection.land(everything=True)
            assert await api.post("/v1/samples", sample_body(batch=batch(0)), 202) == {"taken": 2}
            await collection.land(everything=True)
            assert len(landed(lake)) == 4

    run(main)


def test_reports_that_are_sent_again_count_once_in_the_counters_and_in_the_lake(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            one = await api.subscribe("price < 5", "h1")
            body = {"subscriptions": {one["id"]: {"delivered": 7}}, "published": 3}
            for number in (0, 0, 1):
                await api.post("/v1/reports", body | {"batch": batch(number)}, 204)
            await api("DELETE", f"/v1/subscriptions/{one['id']}", 204)
            await api.post("/v1/reports", body | {"batch": batch(1)}, 204)  # what was accepted is answered so again
            await api.error("POST", "/v1/reports", 404, "not_there", json=body | {"batch": batch(2)})
            reported = (await api.get("/v1/statistics"))["reported"]
            assert (reported["delivered"], reported["published"]) == (14, 6)
            await collection.land(everything=True)
            assert [row["delivered"] for row in landed(lake, "reports")] == [7, 7]

    run(main)


def test_without_a_lake_too_a_report_counts_once(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:2") as api:
            for _ in range(2):
                await api.post("/v1/reports", {"published": 3, "batch": batch(0)}, 204)
            assert (await api.get("/v1/statistics"))["reported"]["published"] == 3

    run(main)


def test_nobody_swallows_the_batches_of_another(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            for who in (api, await api.principal("other", publish={"*": "true"}, read={"*": "true"})):
                one = await who.subscribe("price < 5", "h1")
                await who.advertise("true", "h1")
                assert await who.post("/v1/samples", sample_body(batch=batch(5)), 202) == {"taken": 2}
                counted = {one["id"]: {"delivered": 7}}
                await who.post("/v1/reports", {"subscriptions": counted, "batch": batch(5)}, 204)
            await who.client.aclose()
            await collection.land(everything=True)
            assert (len(landed(lake)), len(landed(lake, "reports"))) == (4, 2)

    run(main)


def test_a_report_on_two_schemas_is_one_batch(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            await api.post("/v1/schemas", {"schema": STOCK.to_json() | {"name": "other"}})
            ids = [
                (await api.post("/v1/subscriptions", {"schema": name, "filter": "true", "host": "h1"}))["id"]
                for name in ("stock", "other")
            ]
            for _ in range(2):
                body = {"subscriptions": {each: {"delivered": 1} for each in ids}, "batch": batch(0)}
                await api.post("/v1/reports", body, 204)
                await collection.land(everything=True)
            assert sorted(row["schema"] for row in landed(lake, "reports")) == ["other", "stock"]

    run(main)


def test_the_controller_after_the_next_start_knows_what_is_landed(tmp_path):
    async def main():
        for _ in range(2):
            async with collecting(tmp_path) as (api, collection, lake):
                standing = (await api.get("/v1/subscriptions"))["items"] or [await api.subscribe("price < 5", "h1")]
                assert await api.post("/v1/samples", sample_body(batch=batch(0)), 202) == {"taken": 2}
                counted = {standing[0]["id"]: {"delivered": 7}}
                await api.post("/v1/reports", {"subscriptions": counted, "batch": batch(0)}, 204)
                await collection.land(everything=True)
                assert (len(landed(lake)), len(landed(lake, "reports"))) == (2, 1)
        assert collection.waiting.event_counts.repeated == 2

    run(main)


def test_two_controllers_that_are_given_the_same_batches_at_once_land_them_once(tmp_path):
    """Two controllers of one system, each with a lake object of its own, as in two processes."""
    lakes = [Lake.at(str(tmp_path / "lake")) for _ in range(2)]
    lakes[0].check()
    lakes[0].land_schema(STOCK)
    events, at = EventBatch.from_columns(STOCK, COLUMNS), np.zeros(2, "datetime64[us]")

    def land(lake):
        rows = 0
        for number in range(10):
            known = BatchId("admin/sender", number)
            rows += lake.land_samples([SampledEvents(events, at, 1, 1.0, known)])
            rows += lake.land_reports([ReportedCounters("stock", datetime.now(UTC), (ReportRow("s1", "me"),), known)])
        return rows

    with ThreadPoolExecutor(2) as both:
        assert sum(both.map(land, lakes)) == 10 * 3
    assert (len(landed(lakes[0])), len(landed(lakes[0], "reports"))) == (20, 10)
    assert len({row["id"] for row in landed(lakes[0])}) == 20


def test_two_collections_on_one_lake_land_a_batch_once(tmp_path):
    async def main():
        async with (
            collecting(tmp_path / "a", lake=tmp_path / "lake") as (one, first, lake),
            collecting(tmp_path / "b", lake=tmp_path / "lake") as (two, second, _),
        ):
            for number in range(5):
                for api in (one, two):
                    assert await api.post("/v1/samples", sample_body(batch=batch(number)), 202) == {"taken": 2}
                await asyncio.gather(first.land(everything=True), second.land(everything=True))
            assert len(landed(lake)) == 10
            assert first.waiting.event_counts.landed + second.waiting.event_counts.landed == 10

    run(main)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"sender": "", "number": 0}, "batch.sender"),
        ({"sender": "a" * 65, "number": 0}, "batch.sender"),
        ({"sender": "a/b", "number": 0}, "batch.sender"),
        ({"sender": "a\n", "number": 0}, "batch.sender"),
        ({"sender": "a", "number": -1}, "batch.number"),
        ({"sender": "a", "number": 2**53}, "batch.number"),
        ({"sender": "a", "number": 1.5}, "batch.number"),
        ({"sender": "a"}, "batch.number"),
        ({"sender": "a", "number": 0, "more": 1}, "batch.more"),
        ("a", "batch"),
    ],
)
def test_what_is_no_batch_is_refused(tmp_path, wrong, field):
    async def main():
        async with collecting(tmp_path) as (api, collection, _):
            for path, body in (("/v1/samples", sample_body()), ("/v1/reports", {"published": 1})):
                error = await api.error("POST", path, 400, "bad_request", json=body | {"batch": wrong})
                assert error["field"] == field
            assert collection.waiting.count == 0
            assert (await api.get("/v1/statistics"))["reported"]["published"] == 0

    run(main)
