"""Samples over HTTP: which ones a controller with a lake takes, and the rate that it asks publishers for."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from pleroma.service.http.models.samples import MAX_ACCEPTED_SAMPLES
from pleroma.service.http.resources import samples
from support.service.in_process import world
from support.service.with_lake import COLUMNS, STOCK, batch, collecting, landed, sample_body
from support.waiting import run, until


def test_samples_are_landed_with_the_controllers_time(tmp_path):
    async def main():
        async with collecting(tmp_path, running=True) as (api, _, lake):
            before = datetime.now(UTC)
            assert await api.post("/v1/samples", sample_body(), 202) == {"taken": 2}
            await until(lambda: len(landed(lake)) == 2, 20)
            after = datetime.now(UTC)
            old, new = sorted(landed(lake), key=lambda row: row["at"])
            assert before <= new["at"] + timedelta(seconds=0.5) <= after
            assert before <= old["at"] + timedelta(hours=2) <= after
            assert (new["price"], new["volume"], new["ticker"], new["market"]) == (151.5, 300, "AAPL", "nyse")
            assert (old["market"], old["epoch"], old["rate"]) == (None, 1, 0.5)

    run(main)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"schema": "flock"}, "schema"),
        ({"epoch": 2}, "epoch"),
        ({"epoch": 0}, "epoch"),
        ({"rate": 0}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"ages": [1.0]}, "ages"),
        ({"ages": [1.0, -1.0]}, "ages.1"),
        ({"ages": [1.0, 1e6]}, "ages.1"),
        ({"ages": [0.0] * (MAX_ACCEPTED_SAMPLES + 1)}, "ages"),
        ({"columns": COLUMNS | {"price": [1.0, 5000.0]}}, "price"),
        ({"columns": COLUMNS | {"price": ["1", 2]}}, "price"),
        ({"columns": COLUMNS | {"price": [1.0]}}, "volume"),
        ({"columns": COLUMNS | {"colour": [1, 2]}}, None),
        ({"columns": COLUMNS | {"volume": [2**70, 1]}}, "volume"),
        ({"columns": {}}, "price"),
        ({"columns": COLUMNS | {"ticker": ["IBM", "\ud800"]}}, "body"),
        ({"columns": COLUMNS | {"ticker": ["IBM", None]}}, "ticker"),
        ({"columns": COLUMNS | {"ticker": ["IBM", {"a": [[]]}]}}, "ticker"),
        ({"columns": COLUMNS | {"market": ["nyse", "../../plans"]}}, "market"),
        ({"schema": "../reports"}, "schema"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_samples_are_refused_whole(tmp_path, changed, field):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            status, code = (404, "not_found") if "schema" in changed else (400, None)
            text, headers = json.dumps(sample_body(**changed)), {"Content-Type": "application/json"}
            answer = await api("POST", "/v1/samples", status, content=text, headers=headers)
            error = answer.json()["error"]
            assert error["field"] == field
            assert code in (None, error["code"])
            assert collection.waiting.count == 0
            await collection.land(everything=True)
            assert landed(lake) == []

    run(main)


def test_nothing_waits_of_a_request_without_events(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, _):
            body = sample_body(ages=[], columns={name: [] for name in COLUMNS}, batch=batch(0))
            assert await api.post("/v1/samples", body, 202) == {"taken": 0}
            assert (collection.waiting.events, api.app.state.service.samples.recent.of("stock")) == ({}, None)

    run(main)


def test_many_values_are_checked_too(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "MAX_VALUES_IN_LOOP", 3)

    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            bad = sample_body(columns=COLUMNS | {"price": [1.0, 5000.0]})
            assert (await api("POST", "/v1/samples", 400, json=bad)).json()["error"]["field"] == "price"
            assert await api.post("/v1/samples", sample_body(), 202) == {"taken": 2}
            await collection.land(everything=True)
            assert len(landed(lake)) == 2

    run(main)


def test_only_what_a_principal_may_publish_is_taken(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, _):
            cheap = await api.principal("cheap", "publisher", publish={"stock": "price < 100"})
            error = await cheap.error("POST", "/v1/samples", 403, "not_allowed", json=sample_body())
            assert error["allowed"] == "price < 100"
            assert "151.5" in error["value"]
            reader = await api.principal("reader", "subscriber", read={"*": "true"})
            await reader.error("POST", "/v1/samples", 403, "not_allowed", json=sample_body())
            other = await api.principal("other", "publisher", publish={})
            await other.error("POST", "/v1/samples", 403, "not_allowed", json=sample_body())
            assert collection.waiting.count == 0
            allowed = sample_body(columns=COLUMNS | {"price": [99.0, 1.0]})
            await cheap.advertise("price < 100", "h1")
            assert await cheap.post("/v1/samples", allowed, 202) == {"taken": 2}
            for each in (cheap, reader, other):
                await each.client.aclose()

    run(main)


def test_the_rate_is_part_of_the_plans_answer_and_of_its_etag(tmp_path):
    async def main():
        async with collecting(tmp_path, sample=0.25) as (api, _, lake):
            first = await api("GET", "/v1/schemas/stock/plan", 200)
            assert first.json()["sample"] == 0.25
            known = {"If-None-Match": first.headers["etag"]}
            await api("GET", "/v1/schemas/stock/plan", 304, headers=known)
            assert (await api("PUT", "/v1/schemas/stock/sampling", 200, json={"rate": 0})).json()["rate"] == 0
            again = await api("GET", "/v1/schemas/stock/plan", 200, headers=known)
            assert again.json()["sample"] == 0
            assert lake.sampling("stock") == 0
            other = await api.principal("other")
            await other.error("PUT", "/v1/schemas/stock/sampling", 403, "not_allowed", json={"rate": 1})
            await other.client.aclose()
            await api.error("PUT", "/v1/schemas/flock/sampling", 404, "not_found", json={"rate": 1})
            await api.error("PUT", "/v1/schemas/stock/sampling", 400, "bad_request", json={"rate": 1.1})
        async with collecting(tmp_path, sample=0.25) as (api, *_):  # what was chosen has stayed
            assert (await api.get("/v1/schemas/stock/plan"))["sample"] == 0

    run(main)


def test_the_rate_of_a_schema_that_was_just_made_can_be_chosen(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, _, lake):
            await api.post("/v1/schemas", {"schema": STOCK.to_json() | {"name": "other"}})
            await api("PUT", "/v1/schemas/other/sampling", 200, json={"rate": 0.5})
            assert lake.sampling("other") == 0.5

    run(main)


def test_without_a_lake_nothing_is_sampled(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:2") as api:
            assert (await api.get("/v1/schemas/stock/plan"))["sample"] == 0
            await api.error("POST", "/v1/samples", 404, "not_found", json=sample_body())
            await api.error("PUT", "/v1/schemas/stock/sampling", 404, "not_found", json={"rate": 1})
            assert "pleroma_samples_total" not in (await api("GET", "/metrics")).text

    run(main)
