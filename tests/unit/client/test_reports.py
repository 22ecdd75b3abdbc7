import asyncio
import re

from pleroma.client.session.outbox import BufferLimits
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.reports import UnreportedCounters
from pleroma.client.session.subscription import Subscription
from pleroma.wire import EventPacket
from support.client_parts import Wire, channel, quote, wanted


async def ignore(_):
    pass


def publisher(when_full="raise"):
    registration = ClientRegistration("advertisements", "stock", wanted("true"), id="a2")
    limits, wire = BufferLimits(2, when_full=when_full), Wire()
    made = Publisher(registration, channel(), 2, wire, ignore, limits=limits)
    made.wire = wire
    return made


def subscription(id="s3"):
    registration = ClientRegistration("subscriptions", "stock", wanted("true"), id=id)
    return Subscription(registration, ignore, ignore, 2)


def deliver(to, count):
    for n in range(count):
        to.listener.inbox.put(EventPacket(1, 5, 9, n, 0, quote()))


def counted(delivered=0, dropped=0, wasted=0, duplicates=0, wanted=0, forged=0, missed=0):
    packets = {"wanted": wanted, "wasted": wasted, "forged": forged, "missed": missed}
    return {"delivered": delivered, "dropped": dropped, "duplicates": duplicates, **packets}


def sent(reports):
    """The body of a report that is accepted, without the batch that it is and losses that there are none of."""
    report = reports.write()
    reports.accepted(report)
    return {name: value for name, value in report.body.items() if name != "batch" and value != 0}


def test_reports_are_increments():
    reports, source, sink = UnreportedCounters(), publisher(), subscription()
    reports.add(source)
    reports.add(sink)
    assert reports.write() is None
    source.publish_many([quote()] * 3)
    deliver(sink, 5)
    assert sent(reports) == {"subscriptions": {"s3": counted(5, 3)}, "published": {"stock": 3}}
    assert reports.write() is None
    source.publish(quote())
    assert sent(reports) == {"subscriptions": {}, "published": {"stock": 1}}
    deliver(sink, 1)
    assert sent(reports) == {"subscriptions": {"s3": counted(1, 1)}, "published": {}}


def test_losses_of_the_client_as_a_whole_are_increments_too():
    overrun = 0
    reports, source, sink = UnreportedCounters(lambda: overrun), publisher("drop_oldest"), subscription()
    reports.add(source)
    reports.add(sink)
    source.wire.closed = True
    source.publish_many([quote()] * 5)  # 2 wait, 3 are dropped
    assert sent(reports) == {"subscriptions": {}, "published": {"stock": 5}, "unsent": 3}
    overrun = 7
    assert sent(reports) == {"subscriptions": {}, "published": {}, "overrun": 7}
    source.stop()
    reports.remove(source)
    deliver(sink, 5)
    sink.info.missed += 4
    assert reports.losses == {"overrun": 7, "unsent": 5, "dropped": 3, "missed": 4}
    assert sent(reports) == {"subscriptions": {"s3": counted(5, 3, missed=4)}, "published": {}, "unsent": 2}
    reports.remove(sink)
    assert reports.losses == {"overrun": 7, "unsent": 5, "dropped": 3, "missed": 4}
    assert reports.write() is None


def test_what_was_refused_is_said_again():
    reports, source = UnreportedCounters(), publisher()
    reports.add(source)
    source.publish(quote())
    report = reports.write()
    reports.refused(report)
    source.publish(quote())
    assert reports.write().body["batch"]["number"] > report.body["batch"]["number"]
    assert sent(reports)["published"] == {"stock": 2}


def test_what_was_not_answered_is_sent_again_as_it_was():
    reports, source, sink = UnreportedCounters(), publisher(), subscription()
    reports.add(source)
    reports.add(sink)
    source.publish(quote())
    deliver(sink, 1)
    first = reports.write()
    source.publish(quote())
    deliver(sink, 1)
    assert reports.is_sending
    assert reports.write() is first
    reports.accepted(first)
    reports.accepted(first)  # it was sent twice at once
    assert not reports.is_sending
    assert sent(reports) == {"subscriptions": {"s3": counted(1)}, "published": {"stock": 1}}
    assert first.body["batch"]["number"] == 0
    assert re.fullmatch("[0-9a-f]{16}", first.body["batch"]["sender"])


def test_whoever_has_many_subscriptions_sends_several_reports(monkeypatch):
    monkeypatch.setattr("pleroma.client.session.reports.MAX_REPORTED_SUBSCRIPTIONS", 2)
    reports, sinks = UnreportedCounters(), [subscription(f"s{n}") for n in range(5)]
    for each in sinks:
        reports.add(each)
        deliver(each, 1)
    said = []
    while (report := reports.write()) is not None:
        reports.accepted(report)
        said.append(list(report.body["subscriptions"]))
        assert report.is_full == (len(said) < 3)
    assert said == [["s0", "s1"], ["s2", "s3"], ["s4"]]


def test_subscriptions_that_always_have_something_to_report_take_turns(monkeypatch):
    monkeypatch.setattr("pleroma.client.session.reports.MAX_REPORTED_SUBSCRIPTIONS", 2)
    reports, sinks = UnreportedCounters(), [subscription(f"s{n}") for n in range(5)]
    for each in sinks:
        reports.add(each)
    said = []
    for _ in range(3):
        for each in sinks:
            deliver(each, 1)
        said += sent(reports)["subscriptions"]
    assert said == ["s0", "s1", "s2", "s3", "s4", "s0"]


def test_an_answer_that_comes_twice_counts_once():
    reports, source = UnreportedCounters(), publisher()
    reports.add(source)
    source.publish(quote())
    first = reports.write()
    reports.accepted(first)
    source.publish(quote())
    second = reports.write()
    for late in (reports.accepted, reports.refused):
        late(first)  # it was sent twice at once
        assert reports.write() is second
    reports.accepted(second)
    assert reports.write() is None


def test_a_publisher_that_is_closed_before_the_answer_owes_what_it_published_since():
    reports, source = UnreportedCounters(), publisher()
    reports.add(source)
    source.publish_many([quote()] * 4)
    assert sent(reports)["published"] == {"stock": 4}
    source.publish_many([quote()] * 2)
    report = reports.write()
    source.publish(quote())
    reports.remove(source)
    reports.accepted(report)
    assert sent(reports)["published"] == {"stock": 1}


def test_what_happens_while_a_report_is_on_its_way_is_in_the_next():
    reports, source, sink = UnreportedCounters(), publisher(), subscription()
    reports.add(source)
    reports.add(sink)
    source.publish(quote())
    deliver(sink, 1)
    report = reports.write()
    source.publish(quote())
    deliver(sink, 1)
    reports.accepted(report)
    assert sent(reports) == {"subscriptions": {"s3": counted(1)}, "published": {"stock": 1}}


def test_a_closed_publisher_still_owes_what_it_published():
    reports, source = UnreportedCounters(), publisher()
    reports.add(source)
    source.publish_many([quote()] * 4)
    reports.remove(source)
    assert sent(reports)["published"] == {"stock": 4}
    assert reports.write() is None


def test_one_closed_while_its_report_is_on_the_way_owes_nothing_twice():
    reports, source, sink = UnreportedCounters(), publisher(), subscription()
    reports.add(source)
    reports.add(sink)
    source.publish_many([quote()] * 4)
    deliver(sink, 1)
    report = reports.write()
    source.publish(quote())
    reports.remove(source)
    reports.remove(sink)
    reports.accepted(report)
    assert sent(reports) == {"subscriptions": {}, "published": {"stock": 1}}
    assert reports.write() is None


def test_a_subscription_that_does_not_stand_is_reported_when_it_does():
    reports, sink = UnreportedCounters(), subscription(id=None)
    reports.add(sink)
    deliver(sink, 2)
    assert reports.write() is None
    sink.registration.registered({"id": "s9"}, "h1")
    assert sent(reports)["subscriptions"] == {"s9": counted(2)}


def test_an_ended_subscription_gives_what_it_has_and_then_its_failure():
    async def work():
        sink = subscription()
        deliver(sink, 1)
        sink.end()
        return [event async for event in sink]

    assert len(asyncio.run(work())) == 1
