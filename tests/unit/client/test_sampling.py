"""Samples of what a publisher sends: as many as the plan asks for, in few requests, and never too many kept."""

import asyncio
import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session import sampling
from pleroma.client.session.event_source import EventSource
from pleroma.client.session.sampling import MAX_SAMPLES_PER_REQUEST, Sampler, send_samples
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Filter
from pleroma.errors import ControllerAway, PlanError, RequestRefused
from support.client_parts import Wire, channel, quote
from support.strategies import STOCK


def publisher(rate, **more):
    return EventSource(Filter.everything(STOCK), replace(channel(**more), sample=rate), 1, Wire())


def drawn(samples):
    """All that waits, as bodies of requests."""
    bodies = []
    while batch := samples.batch():
        bodies.append(samples.written(batch))
        samples.answered(batch)
    return bodies


def volumes(bodies):
    return [volume for body in bodies for volume in body["columns"]["volume"]]


def events(count):
    return [quote(1.0, n % 1000) for n in range(count)]


def test_at_rate_one_every_event_is_drawn_in_order():
    source = publisher(1.0)
    source.publish_many(events(700))
    assert volumes(drawn(source.samples)) == list(range(700))


def test_at_rate_zero_none_is_drawn():
    source = publisher(0.0)
    source.publish_many(events(700))
    assert drawn(source.samples) == []


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_each_event_is_drawn_with_the_same_probability(rate):
    count = 20_000
    source = publisher(rate)
    source.publish_many(events(count))
    taken = len(source.samples)
    # six standard deviations: once in a thousand million runs
    assert abs(taken - rate * count) < 6 * (rate * (1 - rate) * count) ** 0.5


def test_gaps_are_those_of_independent_choices():
    rate, count = 0.2, 30_000
    samples = Sampler(replace(channel(), sample=rate))
    gaps = Counter(samples._gap() for _ in range(count))
    for gap in range(6):
        chance = rate * (1 - rate) ** gap
        assert abs(gaps[gap] - chance * count) < 6 * (chance * count) ** 0.5


def test_the_rate_of_another_plan_counts_from_then_on():
    source = publisher(1.0)
    source.publish(quote(1.0, 1))
    source.follow(replace(channel(epoch=2), sample=0.0))
    source.publish(quote(1.0, 2))
    source.follow(replace(channel(epoch=3), sample=1.0))
    source.publish_many([quote(1.0, 3), quote(1.0, 4)])
    bodies = drawn(source.samples)
    assert [(body["epoch"], body["rate"], body["columns"]["volume"]) for body in bodies] == [
        (1, 1.0, [1]),
        (3, 1.0, [3, 4]),
    ]


def test_what_is_sent_has_values_and_ages():
    now = [100.0]
    samples = Sampler(replace(channel(epoch=7), sample=1.0), clock=lambda: now[0])
    samples.take(quote(5.5, 3, "IBM"))
    now[0] = 101.5
    samples.take(quote(6.5, 4, "AAPL", market="nyse"))
    body = samples.written(samples.batch())
    assert re.fullmatch("[0-9a-f]{16}", body["batch"].pop("sender"))
    assert body == {
        "schema": "stock",
        "epoch": 7,
        "rate": 1.0,
        "ages": [1.5, 0.0],
        "columns": {"price": [5.5, 6.5], "volume": [3, 4], "ticker": ["IBM", "AAPL"], "market": [None, "nyse"]},
        "batch": {"number": 0},
    }


def test_a_request_is_never_too_long():
    source = publisher(1.0)
    source.publish_many(events(2 * MAX_SAMPLES_PER_REQUEST + 1))
    assert [len(body["ages"]) for body in drawn(source.samples)] == [
        MAX_SAMPLES_PER_REQUEST,
        MAX_SAMPLES_PER_REQUEST,
        1,
    ]


def test_when_nobody_takes_them_only_so_many_are_kept(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_WAITING_SAMPLES", 10)
    source = publisher(1.0)
    source.publish_many(events(12))
    assert (len(source.samples), source.samples.dropped) == (10, 2)
    source.samples.batch()  # is not answered
    source.publish_many(events(4))
    assert (len(source.samples), source.samples.dropped) == (10, 6)
    assert volumes(drawn(source.samples)) == list(range(10))


@given(st.lists(st.sampled_from(["publish", "send", "lose the request", "lose the answer"]), max_size=40))
def test_a_controller_that_goes_by_the_numbers_takes_every_event_once(steps):
    source, published = publisher(1.0), 0
    taken = {}
    for step in [*steps, "send"]:
        if step == "publish":
            source.publish(quote(1.0, published))
            published += 1
        elif batch := source.samples.batch():
            body = source.samples.written(batch)
            if step != "lose the request":
                taken.setdefault((body["batch"]["sender"], body["batch"]["number"]), body["columns"]["volume"])
            if step == "send":
                source.samples.answered(batch)
    sent = [volume for volumes in taken.values() for volume in volumes]
    assert sent + volumes(drawn(source.samples)) == list(range(published))
    assert [number for _, number in taken] == list(range(len(taken)))


def test_publishers_do_not_share_a_sender():
    senders = set()
    for source in (publisher(1.0), publisher(1.0)):
        source.publish(quote())
        senders.add(drawn(source.samples)[0]["batch"]["sender"])
    assert len(senders) == 2


class Controller:
    """Answers with these errors, one after the other, and then takes everything."""

    def __init__(self, *errors):
        self.errors, self.taken, self.numbers = list(errors), [], []

    async def ask(self, method, path, body):
        assert (method, path) == ("POST", "/v1/samples")
        self.numbers.append(body["batch"]["number"])
        if self.errors:
            raise self.errors.pop(0)
        self.taken += body["columns"]["volume"]


def refused(status):
    return RequestRefused("no", status=status, code="no")


@pytest.mark.parametrize("error", [ControllerAway("nobody answers"), refused(503), refused(429)])
def test_while_nobody_takes_them_samples_are_kept(error):
    source, controller = publisher(1.0), Controller(error)
    source.publish_many(events(MAX_SAMPLES_PER_REQUEST + 100))
    with pytest.raises(type(error)):
        asyncio.run(send_samples(controller, source.samples))
    assert (controller.taken, len(source.samples)) == ([], MAX_SAMPLES_PER_REQUEST + 100)
    source.publish(quote(1.0, 7))
    assert len(source.samples.batch().drawn) == MAX_SAMPLES_PER_REQUEST  # the same batch once more
    asyncio.run(send_samples(controller, source.samples))
    assert controller.taken == [*range(MAX_SAMPLES_PER_REQUEST + 100), 7]
    assert controller.numbers == [0, 0, 1]
    assert len(source.samples) == 0


@pytest.mark.parametrize("status", [400, 403, 404, 413])
def test_what_is_refused_for_good_is_not_sent_again(status):
    source, controller = publisher(1.0), Controller(refused(status))
    source.publish_many(events(MAX_SAMPLES_PER_REQUEST + 100))
    asyncio.run(send_samples(controller, source.samples))
    assert controller.taken == list(range(MAX_SAMPLES_PER_REQUEST, MAX_SAMPLES_PER_REQUEST + 100))
    assert len(source.samples) == 0


@pytest.mark.parametrize("wrong", [-0.1, 1.5, "1", True, [0.5]])
def test_a_plan_with_no_rate_is_refused(wrong):
    data = {"number": 5, "prefix": "000101", "members": 8, "plan": json.loads(channel().plan.dumps())}
    assert SchemaChannel.from_json(data).sample == 0.0
    assert SchemaChannel.from_json(data | {"sample": 0.5}).sample == 0.5
    with pytest.raises(PlanError, match="rate"):
        SchemaChannel.from_json(data | {"sample": wrong})
