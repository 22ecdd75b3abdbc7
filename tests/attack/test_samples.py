"""Publishers that lie about what they sampled: about the rate, about their events, and about how many there were."""

import math

import numpy as np
import pyarrow as pa
import pytest

from pleroma.content.batch import EventBatch
from pleroma.control import Register
from pleroma.pipeline.audit.audit_pass import audit_here
from pleroma.pipeline.lake.lake_tables import EventColumns
from pleroma.pipeline.lake.landed import SampledEvents
from pleroma.pipeline.lake.period import Period
from pleroma.service.collecting import advertised_events
from pleroma.service.collecting.influence_limit import CREDIT_RATIO, FIRST_SAMPLES
from pleroma.service.collecting.landing_queue import LandingQueue
from pleroma.service.collecting.told_rates import MAX_TOLD_RATES, ToldRates
from pleroma.wire.api_terms import MAX_SAMPLE_AGE_SECONDS
from support.audited_lake import DAY, land
from support.service.with_lake import COLUMNS, STOCK, batch, collecting, landed, sample_body
from support.table_rows import append
from support.waiting import run


def test_a_rate_that_nobody_was_told_is_refused(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, _):
            for rate in (5e-324, 1e-300, 1e-7, 0.49999, 1.0):
                error = await api.error("POST", "/v1/samples", 400, "bad_request", json=sample_body(rate=rate))
                assert (error["field"], error["value"]) == ("rate", rate)
                assert "\n" not in error["reason"]
            assert collection.waiting.count == 0
            assert await api.post("/v1/samples", sample_body(rate=0.5), 202) == {"taken": 2}

    run(main)


def test_samples_may_come_after_the_rate_has_changed_and_not_before_it_was_told(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, *_):
            assert (await api.get("/v1/schemas/stock/plan"))["sample"] == 0.5
            await api.error("POST", "/v1/samples", 400, "bad_request", json=sample_body(rate=0.25))
            await api("PUT", "/v1/schemas/stock/sampling", 200, json={"rate": 0.25})
            for rate in (0.25, 0.5):
                assert await api.post("/v1/samples", sample_body(rate=rate), 202) == {"taken": 2}
            await api.error("PUT", "/v1/schemas/stock/sampling", 400, "bad_request", json={"rate": 5e-324})

    run(main)


def test_told_rates_are_few_and_are_forgotten_when_no_sample_can_be_so_old():
    told = ToldRates()
    for number in range(10 * MAX_TOLD_RATES):
        told.tell("stock", 1 / (1 + number), float(number))
    newest, now = 1 / (10 * MAX_TOLD_RATES), 10.0 * MAX_TOLD_RATES - 1
    assert told.knows("stock", newest, now + MAX_SAMPLE_AGE_SECONDS)
    assert not told.knows("stock", newest, now + MAX_SAMPLE_AGE_SECONDS + 1)
    assert not told.knows("stock", 1.0, now)  # pushed out by others
    assert not told.knows("other", newest, now)
    assert told.tell("stock", 0.0, now) == 0.0
    assert not told.knows("stock", 0.0, now)


def test_a_rate_that_is_told_again_and_again_is_not_pushed_out_by_others():
    told = ToldRates()
    told.tell("stock", 1.0, 0.0)
    for number in range(1, MAX_TOLD_RATES):
        told.tell("stock", 1 / (1 + number), 0.0)
    assert told.knows("stock", 1.0, 0.0)  # there is room for all of them
    told.tell("stock", 1.0, 0.0)
    told.tell("stock", 0.9, 0.0)
    assert told.knows("stock", 1.0, 0.0)
    assert not told.knows("stock", 0.5, 0.0)


def test_only_what_is_advertised_at_the_moment_is_taken(tmp_path):
    async def main():
        async with collecting(tmp_path, advertised=False) as (api, collection, _):
            error = await api.error("POST", "/v1/samples", 403, "not_allowed", json=sample_body())
            assert "has no advertisement" in error["reason"]
            cheap = await api.advertise("price < 100 and ticker startswith 'I'", "h1")
            other = await api.principal("other", "publisher", publish={"*": "true"})
            error = await api.error("POST", "/v1/samples", 403, "not_allowed", json=sample_body())
            assert "151.5" in error["value"]
            inside = sample_body(columns=COLUMNS | {"price": [99.0, 1.0], "ticker": ["IBM", "I"]})
            await other.error("POST", "/v1/samples", 403, "not_allowed", json=inside)  # it is another's
            assert await api.post("/v1/samples", inside, 202) == {"taken": 2}
            await api.advertise("price >= 100", "h1")
            assert await api.post("/v1/samples", sample_body(columns=COLUMNS | {"price": [100.0, 20]}), 202) == {
                "taken": 2
            }
            await api("DELETE", f"/v1/advertisements/{cheap['id']}", 204)
            await api.error("POST", "/v1/samples", 403, "not_allowed", json=inside)
            assert collection.waiting.count == 4
            await other.client.aclose()

    run(main)


def test_one_request_is_compared_with_few_boxes_and_those_that_are_used_stay_in_front(tmp_path, monkeypatch):
    monkeypatch.setattr(advertised_events, "MAX_CHECKED_BOXES", 20)
    monkeypatch.setattr(advertised_events, "_BOXES_AT_ONCE", 4)

    async def main():
        async with collecting(tmp_path, advertised=False) as (api, *_):
            service = api.app.state.service
            for number in range(40):
                boxes = [{"price": {">=": 10 * number, "<": 10 * number + 10}}]
                await service.controller.submit(Register("advertisement", "admin", "h1", "stock", boxes))

            async def taken(*prices):
                return await api.post("/v1/samples", sample_body(columns=COLUMNS | {"price": list(prices)}), 202)

            assert await taken(395.0, 5.0) == {"taken": 1}  # the first of forty is not compared with
            assert await taken(205.0, 395.0) == {"taken": 2}
            held = service.advertised.of("admin", "stock")
            assert [box.ranges[0].lo for box in held._boxes[:2]] == [390.0, 200.0]
            assert len(held._boxes) == 20

    run(main)


def test_who_hands_over_more_samples_than_it_published_events_does_not_count_for_more(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            service = api.app.state.service
            published_by = service.plane.network.published_by("h1")
            flood = sample_body(ages=[0.0] * 1000, columns={name: values * 500 for name, values in COLUMNS.items()})

            async def flooded(times):
                return sum([(await api.post("/v1/samples", flood, 202))["taken"] for _ in range(times)])

            assert await flooded(5) == FIRST_SAMPLES
            assert await flooded(5) == 0
            published_by["somebody else"] += 6_000
            assert await flooded(5) == 0
            published_by["admin"] += 600  # of which 300 samples are drawn at 0.5
            assert await flooded(5) == 300 * CREDIT_RATIO
            assert service.samples.recent.counts["stock"] == FIRST_SAMPLES + 450 == collection.waiting.count
            (made,) = (await api.get("/v1/advertisements"))["items"]
            await api("DELETE", f"/v1/advertisements/{made['id']}", 204)
            await api.advertise("true", "h1")  # begins with no new credit
            assert await flooded(1) == 0
            await collection.land(everything=True)
            assert {row["principal"] for row in landed(lake)} == {"admin"}
            text = (await api("GET", "/metrics")).text
            assert "pleroma_samples_beyond_share_total 20500" in text

    run(main)


def test_a_batch_that_was_cut_is_landed_once_however_often_it_is_sent(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            many = sample_body(
                ages=[0.0] * 1000, columns={name: values * 500 for name, values in COLUMNS.items()}, batch=batch(0)
            )
            assert await api.post("/v1/samples", many, 202) == {"taken": FIRST_SAMPLES}
            for _ in range(3):
                await api.post("/v1/samples", many, 202)
            await collection.land(everything=True)
            assert len(landed(lake)) == FIRST_SAMPLES

    run(main)


def test_an_audit_of_a_hostile_lake_has_finite_numbers_and_names_what_it_leaves_out(tmp_path):
    lake, data, events = land(tmp_path / "lake")
    name = data.schema.name
    before = audit_here(lake, name, Period.day("2026-11-15"))
    names = EventColumns.of(data.schema)
    table = lake.event_table(name)
    good = table.rows().slice(0, 1)
    wrong = {
        names.rate: [5e-324, 0.0, -1.0, math.nan, math.inf, 1.5, 1e-9, None],
        names.epoch: [None, -7, 2**31 - 1],
    }
    for column, values in wrong.items():
        for value in values:
            place = good.column_names.index(column)
            append(table, good.set_column(place, column, pa.array([value], good.schema.field(column).type)))
    lake.land_events(events[:2], [DAY.replace(hour=9)] * 2, 1, 5e-324)
    found = audit_here(lake, name, Period.day("2026-11-15"))
    assert found.total == before.total
    assert found.unjudged["drawn at no rate that samples are drawn at"] == len(wrong[names.rate]) + 2
    numbers = [found.of, found.total.delivered, found.total.wasted, *(each.removable for each in found.causes)]
    assert all(map(math.isfinite, numbers))
    assert "nan" not in str(found.to_json()).lower()
    assert found.events == before.events


@pytest.mark.parametrize(("hours", "files_a_day"), [(1, 1_440), (24, 24 * 1_440)])
def test_a_trickle_is_landed_once_a_minute_and_makes_a_file_for_each_hour_that_it_is_of(hours, files_a_day):
    """Forty samples a second, handed over every three seconds. Every five seconds would be 17,280 files a day."""
    now, files = [0.0], 0
    waiting = LandingQueue(200_000, lambda: now[0])
    rows = EventBatch.from_columns(STOCK, {name: values * 60 for name, values in COLUMNS.items()})
    minutes = 60
    for _ in range(minutes * 20):
        now[0] += 3.0
        at = np.datetime64("2026-11-15T00:00", "us") + np.arange(120) % hours * np.timedelta64(3600, "s")
        waiting.add_events(SampledEvents(rows, at, 1, 0.5))
        queue = waiting.events["stock"]
        if queue.is_due(5.0, 50_000):
            landing = queue.oldest(50_000)
            files += queue.landed(landing, sum(len(each.events) for each in landing))
    assert files * 24 * 60 / minutes <= files_a_day
