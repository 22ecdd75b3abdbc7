"""How a client keeps its members registered: what it restores, what it dismisses, and what it leaves behind."""

import asyncio
import json
from collections import defaultdict
from functools import partial

import pytest

from pleroma.client.api import Answer
from pleroma.client.links.network_link import HostAttachment
from pleroma.client.session import registration_keeper
from pleroma.client.session.event_source import EventSource
from pleroma.client.session.lease import Lease
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.receiver import Receiver
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.registration_keeper import RegistrationKeeper
from pleroma.client.session.subscription import Subscription
from pleroma.content import Integer, Schema
from pleroma.content.filter_json import from_json
from pleroma.errors import ClientClosed, ClientError, ControllerAway, RequestRefused
from pleroma.index import GridIndex, IndexPlan
from support.client_parts import Wire, quote, wanted
from support.strategies import STOCK


def refused(status, code="no"):
    return RequestRefused("no", status=status, code=code)


class Controller:
    """Registers, finds, withdraws and renews.

    `failures` has what it answers next to a method and a kind of path instead; while `goes_on` is not set, what it has
    done is not answered.
    """

    has_streams = has_batches = False

    def __init__(self):
        self.schema, self.epoch, self.event_keys = STOCK, 1, "off"
        self.standing, self.by_key, self.reports = {}, {}, []
        self.asked, self.failures = [], defaultdict(list)
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def ask(self, method, path, body=None, *, patience=0.0, etag=None):  # noqa: ARG002
        kind, *rest = path.split("/")[2:]
        self.asked.append(f"{method} {kind}")
        if self.failures[method, kind]:
            raise self.failures[method, kind].pop(0)
        what = "registration" if kind in ("advertisements", "subscriptions") else kind
        answer = getattr(self, f"{method.lower()}_{what}")(body, *rest)
        if method in ("POST", "PUT"):
            await self.goes_on.wait()
        return Answer(200, answer, f'"{self.epoch}"')

    def get_schemas(self, _body, _name, _plan):
        plan = json.loads(IndexPlan(self.epoch, GridIndex.regular(self.schema, 16)).dumps())
        return {"epoch": self.epoch, "number": 5, "prefix": "000101", "members": 8, "plan": plan}

    def put_leases(self, body, _name):
        self.plans = (body or {}).get("plans")
        return {"seconds": 30.0, "registrations": list(self.standing), "event_keys": self.event_keys}

    def post_reports(self, body):
        self.reports.append(body)

    def post_registration(self, body):
        number = len(self.by_key)
        record = {"id": f"r{number}", "publisher": 100 + number, "epoch": self.epoch, "lease": body["lease"]}
        record |= {"schema": "stock", "host": body["host"], "filter": str(from_json(STOCK, body["boxes"]))}
        if body["key"] not in self.by_key:
            self.by_key[body["key"]] = self.standing[record["id"]] = record
        return self.by_key[body["key"]]

    def get_registration(self, _body, identity):
        if identity not in self.standing:
            raise refused(404)
        return self.standing[identity]

    def delete_registration(self, _body, identity):
        if self.standing.pop(identity, None) is None:
            raise refused(404)


class Link(Wire):
    def __init__(self, host):
        super().__init__()
        self.attachment = HostAttachment(host, ("controller", 7), 30.0)


class World:
    def __init__(self):
        self.now, self.tasks, self.link = 0.0, [], Link("h1")
        self.api = Controller()
        self.lease = Lease(self.api, lambda: self.now)
        self.receiver = Receiver()
        self.keeper = RegistrationKeeper(self.api, self.lease, self.receiver, lambda: self.link, self._start)

    def _start(self, work):
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]

    async def advertise(self, text="true"):
        channel = await self.keeper.plans.channel("stock", 0.0)
        registration = ClientRegistration("advertisements", "stock", wanted(text))
        publisher = Publisher(registration, channel, 0, Wire(), self.keeper.leave)
        await self.keeper.join(publisher, 0.0)
        return publisher

    async def subscribe(self, text="true"):
        channel = await self.keeper.plans.channel("stock", 0.0)
        registration = ClientRegistration("subscriptions", "stock", wanted(text))
        update = partial(self.keeper.update, patience=0.0)
        subscription = Subscription(registration, self.keeper.leave, update)
        self.receiver.schemas.listen(channel, subscription.listener)
        await self.keeper.join(subscription, 0.0)
        return subscription

    async def both(self):
        return await self.advertise(), await self.subscribe()

    async def renewed(self, seconds=1.0):
        """The lease is renewed after so long, and what follows from that is done."""
        self.now += seconds
        await self.keeper._renew()
        await self.restored()

    async def restored(self):
        while self.keeper._restoring:
            await asyncio.gather(*self.keeper._restoring.values(), return_exceptions=True)
            await asyncio.sleep(0)

    async def staying(self, is_reached):
        """Renew the lease in the background until something is true."""
        staying = asyncio.create_task(self.keeper.stay())
        try:
            while not is_reached():
                await asyncio.sleep(0.001)
        finally:
            staying.cancel()

    def count(self, asked):
        return self.api.asked.count(asked)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(registration_keeper.Backoff, "pause", lambda *_: 0.0)


def run(work):
    async def limited():
        async with asyncio.timeout(20):
            world = World()
            await work(world)
            for task in world.tasks:
                task.cancel()
            await asyncio.gather(*world.tasks, return_exceptions=True)

    asyncio.run(limited())


def hosts(world):
    return sorted(record["host"] for record in world.api.standing.values())


async def is_dismissed(member):
    """Whether whoever uses the member gets an error that the client was not closed by."""
    try:
        member.publish(quote()) if isinstance(member, Publisher) else await asyncio.wait_for(member.receive(), 0.01)
    except ClientError as error:
        return not isinstance(error, ClientClosed)
    except TimeoutError:
        pass
    return False


def test_a_member_is_registered_under_the_lease_and_the_lease_begins():
    async def work(world):
        publisher, subscription = await world.both()
        assert [(each["host"], each["lease"]) for each in world.api.standing.values()] == [("h1", world.lease.name)] * 2
        publisher.publish(quote())
        assert publisher.number == world.api.standing[publisher.id]["publisher"]
        world.receiver.receive(world.link.packets[0])
        assert (await subscription.receive()).event == quote()
        await asyncio.wait_for(world.lease.wait(None), 5)
        assert not world.keeper._restoring

    run(work)


def test_a_registration_by_a_later_plan_has_the_client_read_that_plan():
    async def work(world):
        await world.keeper.plans.channel("stock", 0.0)
        world.api.epoch = 2
        publisher = await world.advertise()
        assert publisher.channel.epoch == 2
        await world.advertise()
        assert world.count("GET schemas") == 2

    run(work)


def test_a_member_that_joins_while_the_client_is_attached_anew_is_registered_at_the_new_host():
    async def work(world):
        await world.keeper.plans.channel("stock", 0.0)
        world.api.goes_on.clear()
        joining = asyncio.create_task(world.advertise())
        while "POST advertisements" not in world.api.asked:
            await asyncio.sleep(0)
        world.link = Link("h2")
        world.api.goes_on.set()
        publisher = await joining
        await world.restored()
        assert hosts(world) == ["h2"]
        publisher.publish(quote())
        assert len(world.link.packets) == 1

    run(work)


def test_a_request_whose_caller_is_cancelled_is_undone():
    async def work(world):
        await world.keeper.plans.channel("stock", 0.0)
        world.api.goes_on.clear()
        joining = asyncio.create_task(world.advertise())
        while not world.api.standing:
            await asyncio.sleep(0)
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        world.api.goes_on.set()
        assert await world.keeper.leave_all(0.0) == []  # it waits for what is being undone
        assert not world.api.standing
        assert not world.keeper.members

    run(work)


def test_who_leaves_reports_first_and_is_withdrawn_once():
    async def work(world):
        publisher, subscription = await world.both()
        publisher.publish(quote())
        await publisher.close()
        with pytest.raises(ClientClosed):
            publisher.publish(quote())
        await publisher.close()
        assert [each["published"] for each in world.api.reports] == [{"stock": 1}]
        assert world.count("DELETE advertisements") == 1
        assert (publisher.id, list(world.api.standing)) == (None, [subscription.id])
        world.api.failures["POST", "reports"].append(ControllerAway("away"))
        await subscription.close()
        assert subscription.is_over
        assert not world.api.standing
        assert len(world.receiver.schemas) == 0

    run(work)


def test_when_all_leave_those_are_named_that_still_stand():
    async def work(world):
        publisher, subscription = await world.both()
        publisher.publish(quote())
        stands = subscription.id
        world.api.failures["DELETE", "subscriptions"].append(refused(500))
        assert await world.keeper.leave_all(0.0) == [stands]
        assert list(world.api.standing) == [stands]
        assert len(world.api.reports) == 1
        assert not world.keeper.members

    run(work)


def test_what_was_withdrawn_under_an_unbroken_lease_is_dismissed_and_nothing_else():
    async def work(world):
        publisher, subscription = await world.both()
        publisher.publish(quote())
        world.receiver.receive(world.link.packets[0])
        assert (await subscription.receive()).event == quote()
        await world.renewed()
        world.api.standing.pop(publisher.id)
        await world.renewed()
        assert await is_dismissed(publisher)
        assert not await is_dismissed(subscription)
        assert list(world.keeper.members) == [subscription]
        world.api.standing.pop(subscription.id)
        await world.renewed()
        assert await is_dismissed(subscription)
        await world.keeper.report()
        assert [each["subscriptions"] for each in world.api.reports] == [{}], "the controller does not know it any more"
        await publisher.close()
        assert world.count("DELETE advertisements") == 0

    run(work)


def test_a_publisher_that_leaves_publishes_nothing_more_while_it_reports():
    async def work(world):
        publisher = await world.advertise()
        publisher.publish(quote())
        world.api.goes_on.clear()
        closing = asyncio.create_task(publisher.close())
        while not world.api.reports:
            await asyncio.sleep(0)
        with pytest.raises(ClientClosed):
            publisher.publish(quote())
        world.api.goes_on.set()
        await closing

    run(work)


def test_what_is_missing_after_the_lease_may_have_expired_is_registered_again():
    async def work(world):
        publisher, subscription = await world.both()
        before = publisher.id
        await world.renewed()
        world.api.standing.pop(publisher.id)
        await world.renewed(seconds=31.0)
        assert publisher.id != before
        assert sorted(world.api.standing) == sorted([publisher.id, subscription.id])
        assert publisher.number == world.api.standing[publisher.id]["publisher"]
        assert world.count("POST subscriptions") == 1
        assert not await is_dismissed(publisher)

    run(work)


def test_after_a_lease_has_expired_everything_is_registered_again():
    async def work(world):
        publisher, subscription = await world.both()
        world.api.standing.clear()
        world.api.failures["PUT", "leases"].append(refused(404))
        await world.renewed()
        assert sorted(world.api.standing) == sorted([publisher.id, subscription.id])

    run(work)


def test_other_keys_of_events_are_asked_for_and_only_then():
    async def work(world):
        await world.both()
        for keys, finds in (("off", 0), ("off", 0), ("first", 1), ("first", 1), ("second", 2)):
            world.api.event_keys = keys
            await world.renewed()
            assert world.count("GET advertisements") == world.count("GET subscriptions") == finds
        assert len(world.api.by_key) == 2, "all of them stand"

    run(work)


def test_a_client_that_is_removed_loses_all_members_and_one_that_is_refused_for_now_none():
    async def work(world):
        publisher, subscription = await world.both()
        world.api.failures["PUT", "leases"] += [refused(503), ControllerAway("away")]
        await world.staying(lambda: world.count("PUT leases") == 3)
        assert not await is_dismissed(publisher)
        world.api.failures["PUT", "leases"].append(refused(401))
        world.lease.hurry()
        await world.staying(lambda: not world.keeper.members)
        assert await is_dismissed(publisher)
        assert await is_dismissed(subscription)

    run(work)


def test_without_members_no_lease_is_renewed():
    async def work(world):
        staying = asyncio.create_task(world.keeper.stay())
        world.lease.hurry()
        await asyncio.sleep(0.02)
        assert not world.api.asked
        staying.cancel()

    run(work)


def test_a_client_whose_plan_is_too_old_reads_it_and_renews_again():
    async def work(world):
        publisher = await world.advertise()
        world.api.epoch = 3
        world.api.failures["PUT", "leases"].append(refused(409, "plan_too_old"))
        await world.staying(lambda: world.count("PUT leases") >= 2)
        assert publisher.channel.epoch == 3
        assert world.api.plans == {"stock": 3}
        world.api.failures["PUT", "leases"].append(refused(409))
        with pytest.raises(RequestRefused):
            await world.renewed()

    run(work)


@pytest.mark.parametrize("publishes", [True, False])
def test_a_new_plan_is_adopted_and_the_controller_told_at_once_if_anybody_publishes(publishes):
    async def work(world):
        member = await (world.advertise() if publishes else world.subscribe())
        await world.lease.wait(0.0)  # the first renewal was due
        await world.keeper.plans.read("stock")
        assert not world.lease._due.is_set(), "it is the same plan"
        world.api.epoch = 2
        await world.keeper.plans.read("stock")
        assert world.lease._due.is_set() == publishes
        if publishes:
            assert member.channel.epoch == 2
        assert not await is_dismissed(member)

    run(work)


def test_another_schema_of_the_same_name_ends_its_members():
    async def work(world):
        publisher, subscription = await world.both()
        world.api.schema, world.api.epoch = Schema("stock", (Integer("other", False, 0, 9),)), 2
        await world.keeper.plans.read("stock")
        assert await is_dismissed(publisher)
        assert await is_dismissed(subscription)

    run(work)


def test_after_the_controller_was_away_what_stands_is_found_and_the_rest_registered_again():
    async def work(world):
        publisher, subscription = await world.both()
        stands, world.link = subscription.id, Link("h1")
        await world.renewed()
        world.api.standing.pop(publisher.id)
        await world.keeper.come_back()
        await world.restored()
        assert subscription.id == stands
        assert sorted(world.api.standing) == sorted([publisher.id, stands])
        publisher.publish(quote())
        assert len(world.link.packets) == 1, "it sends through the link of now"
        assert not (await world.lease.renew()).is_unbroken

    run(work)


def test_a_publisher_that_stands_sends_through_the_new_link():
    async def work(world):
        publisher = await world.advertise()
        world.link = Link("h1")
        await world.keeper.come_back()
        await world.restored()
        publisher.publish(quote())
        assert len(world.link.packets) == 1
        assert world.count("POST advertisements") == 1

    run(work)


def test_at_another_host_members_are_registered_there_and_withdrawn_here():
    async def work(world):
        await world.both()
        world.link = Link("h2")
        await world.keeper.come_back()
        await world.restored()
        assert hosts(world) == ["h2", "h2"]

    run(work)


def test_restoring_goes_on_until_it_succeeds_and_ends_with_a_refusal_for_good():
    async def work(world):
        publisher, subscription = await world.both()
        world.api.standing.clear()
        world.api.failures["POST", "advertisements"] += [refused(503), ControllerAway("away"), refused(429)]
        world.api.failures["POST", "subscriptions"].append(refused(403))
        await world.keeper.come_back()
        await world.restored()
        assert list(world.api.standing) == [publisher.id]
        assert await is_dismissed(subscription)
        assert not await is_dismissed(publisher)

    run(work)


def test_a_member_that_is_being_restored_is_not_restored_twice_and_not_judged_by_a_renewal():
    async def work(world):
        publisher = await world.advertise()
        await world.renewed()
        world.api.standing.clear()
        world.api.goes_on.clear()
        renewing = asyncio.create_task(world.renewed())
        while world.count("PUT leases") < 2:
            await asyncio.sleep(0)
        world.keeper._restore([publisher])
        world.keeper._restore([publisher])
        while not world.api.standing:
            await asyncio.sleep(0)
        world.api.goes_on.set()
        await renewing
        assert list(world.api.standing) == [publisher.id]
        assert world.count("POST advertisements") == 2
        assert not await is_dismissed(publisher)

    run(work)


def test_who_leaves_while_it_is_restored_leaves_nothing_behind():
    async def work(world):
        publisher = await world.advertise()
        world.api.standing.clear()
        world.api.goes_on.clear()
        await world.keeper.come_back()
        while not world.api.standing:
            await asyncio.sleep(0)
        world.keeper.dismiss(publisher, None)
        world.api.goes_on.set()
        await world.restored()
        assert not world.api.standing

    run(work)


def test_when_restoring_is_stopped_nothing_more_is_asked():
    async def work(world):
        await world.both()
        world.api.goes_on.clear()
        await world.keeper.come_back()
        await asyncio.sleep(0)
        await world.keeper.stop_restoring()
        asked = len(world.api.asked)
        world.api.goes_on.set()
        await asyncio.sleep(0.01)
        assert len(world.api.asked) == asked

    run(work)


def test_a_report_about_what_the_controller_does_not_know_has_the_lease_renewed():
    async def work(world):
        publisher = await world.advertise()
        await world.lease.wait(0.0)
        for failure, is_due in ((ControllerAway("away"), False), (refused(503), False), (refused(404), True)):
            publisher.publish(quote())
            world.api.failures["POST", "reports"].append(failure)
            with pytest.raises(ClientError):
                await world.keeper.report()
            assert world.lease._due.is_set() == is_due
        await world.keeper.report()
        assert sum(each["published"]["stock"] for each in world.api.reports) == 3

    run(work)


def test_a_report_without_an_answer_is_repeated_before_the_next_is_sent():
    async def work(world):
        publisher = await world.advertise()
        publisher.publish(quote())
        world.api.failures["POST", "reports"].append(ControllerAway("away"))
        with pytest.raises(ControllerAway):
            await world.keeper.report()
        publisher.publish(quote())
        await world.keeper.report()
        assert [each["published"] for each in world.api.reports] == [{"stock": 1}, {"stock": 1}]

    run(work)


def standing(world):
    return sorted(record["filter"] for record in world.api.standing.values())


def heard(world, subscription, *prices):
    """Which of these prices the subscription gets, if the network brings all of them."""
    wire = Wire()
    source = EventSource(wanted("true"), world.keeper.plans._channels["stock"], 7, wire)
    source.publish_many(map(quote, prices))
    for packet in wire.packets:
        world.receiver.receive(packet)
    return [subscription.listener.inbox.take().event["price"] for _ in range(subscription.waiting)]


def test_another_filter_is_registered_before_the_old_one_is_withdrawn():
    async def work(world):
        subscription = await world.subscribe("price < 10")
        old = subscription.id
        world.api.goes_on.clear()
        updating = asyncio.create_task(subscription.update("price between 5 and 20"))
        await asyncio.sleep(0.01)
        assert standing(world) == ["price < 10", "price between 5 and 20"]
        assert heard(world, subscription, 1.0, 7.0, 15.0, 30.0) == [1.0, 7.0, 15.0]
        world.api.goes_on.set()
        await updating
        assert standing(world) == [str(subscription.filter)] == ["price between 5 and 20"]
        assert subscription.id != old
        assert heard(world, subscription, 1.0, 7.0, 15.0) == [7.0, 15.0]
        asked = [each for each in world.api.asked if each.endswith("subscriptions")]
        assert asked == ["POST subscriptions", "POST subscriptions", "DELETE subscriptions"]

    run(work)


@pytest.mark.parametrize("failure", [refused(403), ControllerAway("nobody answers")])
def test_a_filter_that_is_not_registered_changes_nothing(failure):
    async def work(world):
        subscription = await world.subscribe("price < 10")
        before = subscription.id
        world.api.failures["POST", "subscriptions"] = [failure]
        with pytest.raises(type(failure)):
            await subscription.update("price > 10")
        assert (subscription.id, standing(world)) == (before, ["price < 10"])
        assert heard(world, subscription, 5.0, 15.0) == [5.0]

    run(work)


def test_an_update_that_is_cancelled_is_undone():
    async def work(world):
        subscription = await world.subscribe("price < 10")
        world.api.goes_on.clear()
        updating = asyncio.create_task(subscription.update("price > 10"))
        await asyncio.sleep(0.01)
        updating.cancel()
        await asyncio.gather(updating, return_exceptions=True)
        world.api.goes_on.set()
        await asyncio.gather(*world.keeper._undoing)
        assert standing(world) == ["price < 10"]
        assert heard(world, subscription, 5.0, 15.0) == [5.0]

    run(work)


def test_a_subscription_that_is_closed_during_an_update_leaves_nothing_behind():
    async def work(world):
        subscription = await world.subscribe("price < 10")
        world.api.goes_on.clear()
        updating = asyncio.create_task(subscription.update("price > 10"))
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(subscription.close())
        await asyncio.sleep(0.01)
        world.api.goes_on.set()
        with pytest.raises(ClientClosed):
            await updating
        await closing
        await asyncio.gather(*world.keeper._undoing)
        assert standing(world) == []

    run(work)


def test_an_old_filter_that_could_not_be_withdrawn_is_withdrawn_when_the_lease_is_renewed():
    async def work(world):
        subscription = await world.subscribe("price < 10")
        world.api.failures["DELETE", "subscriptions"] = [ControllerAway("nobody answers")]
        await subscription.update("price > 10")
        assert standing(world) == ["price < 10", "price > 10"]
        await world.renewed()
        assert standing(world) == ["price > 10"]
        await world.renewed()
        assert world.count("DELETE subscriptions") == 2

    run(work)


def test_a_client_that_is_attached_anew_during_an_update_registers_the_new_filter_there():
    async def work(world):
        subscription = await world.subscribe("price < 10")
        world.api.goes_on.clear()
        updating = asyncio.create_task(subscription.update("price > 10"))
        await asyncio.sleep(0.01)
        world.link = Link("h2")
        await world.keeper.come_back()
        await asyncio.sleep(0.01)
        world.api.goes_on.set()
        await updating
        await world.restored()
        await asyncio.gather(*world.keeper._undoing)
        await world.renewed()
        assert (standing(world), hosts(world)) == (["price > 10"], ["h2"])

    run(work)


def test_two_updates_at_once_follow_each_other():
    async def work(world):
        subscription = await world.subscribe("price < 10")
        await asyncio.gather(subscription.update("price > 10"), subscription.update("price > 20"))
        assert standing(world) == [str(subscription.filter)] == ["price > 20"]

    run(work)


def test_a_publisher_that_leaves_waits_a_moment_for_the_network_and_then_counts_what_is_left(monkeypatch, caplog):
    monkeypatch.setattr(registration_keeper, "CLOSE_SECONDS", 0.05)

    async def work(world):
        publisher = await world.advertise()
        world.link.closed = True
        publisher.publish_many([quote()] * 3)
        await publisher.close()
        assert (publisher.info.unsent, world.keeper.losses["unsent"]) == (3, 3)
        assert world.api.reports[-1]["unsent"] == 3
        assert "3 events of r0 were not sent" in caplog.text
        sent = await world.advertise()
        world.link.closed = True
        sent.publish(quote())
        closing = asyncio.create_task(sent.close())
        await asyncio.sleep(0)
        world.link.closed = False
        sent.send_waiting(1)
        await closing
        assert sent.info.unsent == 0

    run(work)
