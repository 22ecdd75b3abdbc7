"""What a client counted and drew reaches the controller once, whatever becomes of requests and answers."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pleroma.client.session import registration_keeper, reports
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.registration_keeper import RegistrationKeeper
from pleroma.client.session.subscription import Subscription
from pleroma.errors import ControllerAway, RequestRefused
from pleroma.wire import EventPacket
from support.client_parts import Wire, channel, quote, wanted


async def ignore(_):
    pass


class Controller:
    """Counts each batch once, and answers what the test says: None for an answer that is lost, or a refusal."""

    has_batches = False

    def __init__(self):
        self.answers, self.asked, self.known = [], [], set()
        self.counted = {"published": 0, "sampled": 0}
        self.on_request = lambda: None

    async def ask(self, method, path, body):
        assert method == "POST"
        self.asked.append((path, body["batch"]["number"]))
        self.on_request()
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else 204
        if answer in (404, 429, 503):
            raise RequestRefused("no", status=answer, code="no")
        key = path, body["batch"]["sender"], body["batch"]["number"]
        if key not in self.known:
            self.known.add(key)
            self.counted["published"] += sum(body.get("published", {}).values())
            self.counted["sampled"] += len(body.get("ages", ()))
            for each, counters in body.get("subscriptions", {}).items():
                self.counted[each] = self.counted.get(each, 0) + counters["delivered"]
        if answer is None:
            raise ControllerAway("no answer")


def client(*members):
    """A client with these members, its controller, and how often it was in a hurry to renew its lease."""
    controller, hurried = Controller(), []
    lease = SimpleNamespace(name="lease", hurry=lambda: hurried.append(1))
    keeper = RegistrationKeeper(controller, lease, None, None, None)
    for each in members:
        keeper.members[each] = None
        keeper._unreported.add(each)
    return keeper, controller, hurried


def publisher(sample=0.0):
    registration = ClientRegistration("advertisements", "stock", wanted("true"), id="a2")
    return Publisher(registration, replace(channel(), sample=sample), 2, Wire(), ignore)


def subscription(id="s3"):
    return Subscription(ClientRegistration("subscriptions", "stock", wanted("true"), id=id), ignore, ignore, 100)


def deliver(to, count):
    for n in range(count):
        to.listener.inbox.put(EventPacket(1, 5, 9, n, 0, quote()))


@pytest.mark.parametrize("answer", [None, 429, 503])
def test_what_was_counted_meanwhile_follows_a_report_that_is_sent_again(answer):
    source, sink = publisher(), subscription()
    keeper, controller, _ = client(source, sink)
    source.publish_many([quote()] * 3)
    deliver(sink, 2)
    controller.answers = [answer]
    with pytest.raises((ControllerAway, RequestRefused)):
        asyncio.run(keeper.report())
    source.publish(quote())
    deliver(sink, 1)
    asyncio.run(keeper.report())
    assert controller.asked == [("/v1/reports", number) for number in (0, 0, 1)]
    assert controller.counted == {"published": 4, "sampled": 0, "s3": 3}


def test_what_is_in_a_refused_report_is_in_the_next_under_another_number():
    source = publisher()
    keeper, controller, hurried = client(source)
    source.publish(quote())
    controller.answers = [404]
    with pytest.raises(RequestRefused):
        asyncio.run(keeper.report())
    assert hurried == [1]
    asyncio.run(keeper.report())
    assert controller.asked == [("/v1/reports", 0), ("/v1/reports", 1)]
    assert controller.counted["published"] == 1


def test_two_who_report_at_once_send_the_same():
    source = publisher(sample=1.0)
    keeper, controller, _ = client(source)
    source.publish_many([quote()] * 3)

    async def both():
        await asyncio.gather(keeper.report(), keeper.report())

    asyncio.run(both())
    assert controller.counted == {"published": 3, "sampled": 3}
    assert len(source.samples) == 0


def test_a_publisher_that_is_closed_while_nobody_answers_is_counted_once():
    source = publisher()
    keeper, controller, _ = client(source)
    source.publish_many([quote()] * 3)
    controller.answers = [None]
    with pytest.raises(ControllerAway):
        asyncio.run(keeper.report())
    source.publish(quote())
    keeper.dismiss(source, None)
    asyncio.run(keeper.report())
    assert controller.counted["published"] == 4


def test_samples_that_got_no_answer_are_sent_again_before_others():
    source = publisher(sample=1.0)
    keeper, controller, _ = client(source)
    source.publish_many([quote()] * 3)
    controller.answers = [204, None]
    with pytest.raises(ControllerAway):
        asyncio.run(keeper.report())
    source.publish(quote())
    asyncio.run(keeper.report())
    assert [number for path, number in controller.asked if path == "/v1/samples"] == [0, 0, 1]
    assert controller.counted == {"published": 4, "sampled": 4}


def test_reporting_ends_also_while_every_subscription_goes_on_counting(monkeypatch):
    for module in (reports, registration_keeper):
        monkeypatch.setattr(module, "MAX_REPORTED_SUBSCRIPTIONS", 2)
    sinks = [subscription(f"s{n}") for n in range(5)]
    keeper, controller, _ = client(*sinks)

    def count():
        for each in sinks:
            deliver(each, 1)

    controller.on_request = count
    count()
    asyncio.run(asyncio.wait_for(keeper.report(), 20))
    assert {f"s{n}" for n in range(5)} <= set(controller.counted)
    assert len(controller.asked) <= 4
