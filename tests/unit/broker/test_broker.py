"""The broker's socket: who gets an event, who may send one, and what becomes of everything else."""

import asyncio
import random
import socket
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pleroma.broker import ProgramOwner
from pleroma.content import Event, Filter
from pleroma.content.filter_json import to_json
from pleroma.control import Register, RemovePrincipal, Withdraw
from pleroma.service.planes.broker_plane import _learn
from pleroma.wire import Codec, EventPacket, attach, tunnel
from pleroma.wire.event_encryption import PublisherCipher
from pleroma.wire.event_tags import PublisherSeal, publisher_key, schema_key
from support.broker_parts import here
from support.strategies import STOCK
from support.waiting import until

ADDRESS = bytes(16)
SECRET = replace(STOCK, encrypted=True)


def run(work, seconds=60.0):
    async def limited():
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


def quote(price, volume=0, ticker="AAPL"):
    return STOCK.event(price=price, volume=volume, ticker=ticker)


class Program:
    """A bare socket that is attached to a broker, and what it registered over the API's own command."""

    def __init__(self, broker, principal="admin", lease=None):
        self.broker, self.owner = broker, ProgramOwner(principal, lease)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.connect(broker.plane.broker.address)
        self.sequence = 0

    async def attach(self):
        secret = random.randbytes(16)
        self.broker.plane.broker.admit(secret, self.owner, 60.0)
        self.socket.send(attach.pack(attach.AttachKind.ATTACH, secret))
        assert attach.unpack(await self.next()) == (attach.AttachKind.ATTACHED, secret)
        return self

    async def register(self, kind, text):
        boxes = to_json(Filter.parse(STOCK, text))
        done = await self.broker.controller.submit(
            Register(kind, self.owner.principal, "broker", "stock", boxes, self.owner.lease)
        )
        return done.value

    def publish(self, number, event, *, signer=None):
        """With the tag of the publisher, or with that of another one."""
        self.sequence += 1
        entry = self.broker.controller.state.schemas["stock"]
        packet = EventPacket(entry.epoch, entry.number, number, self.sequence, 0, event)
        key = publisher_key(
            schema_key(self.broker.running.service.keys.secret, entry.number, "stock"), signer or number
        )
        data = PublisherSeal(key).sealed(Codec(STOCK, entry.number).encode(packet))
        self.socket.send(tunnel.TUNNEL_START + ADDRESS + data)

    async def next(self):
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.socket, 2048), 20)

    async def event(self) -> Event:
        number = self.broker.controller.state.schemas["stock"].number
        return Codec(STOCK, number).decode((await self.next())[tunnel.TUNNEL_HEAD_BYTES :]).event

    def waiting(self):
        try:
            return self.socket.recv(2048)
        except BlockingIOError:
            return None


@asynccontextmanager
async def world(folder, *programs):
    async with here(folder, schemas=[STOCK]) as broker:
        made = [Program(broker, *each) for each in programs]
        try:
            yield broker, *[await each.attach() for each in made]
        finally:
            for each in made:
                each.socket.close()


def test_an_event_goes_once_to_each_program_that_wants_it_and_not_back(tmp_path):
    async def work():
        owners = [("admin", "sender"), ("admin", "twice"), ("admin", "other")]
        async with world(tmp_path, *owners) as (broker, sender, twice, other):
            number = (await sender.register("advertisement", "true"))["publisher"]
            await sender.register("subscription", "true")
            for text in ("price < 100", "volume >= 0"):
                await twice.register("subscription", text)
            await other.register("subscription", "price > 500")
            sender.publish(number, quote(10.0))
            sender.publish(number, quote(600.0))
            assert [await twice.event(), await twice.event()] == [quote(10.0), quote(600.0)]
            assert await other.event() == quote(600.0)
            assert [each.waiting() for each in (sender, twice, other)] == [None] * 3
            assert (broker.counters.published, broker.counters.delivered) == (2, 3)

    run(work())


def test_events_are_counted_by_who_sent_them_and_nothing_is_kept_of_who_is_gone(tmp_path):
    async def work():
        async with world(tmp_path, ("ann", None), ("admin", None)) as (broker, ann, admin):
            await broker.principal("ann")
            for sender, events in ((ann, 3), (admin, 1)):
                number = (await sender.register("advertisement", "true"))["publisher"]
                for _ in range(events):
                    sender.publish(number, quote(1.0))
            await until(lambda: broker.counters.published == 4)
            assert broker.plane.broker.published_by == {"ann": 3, "admin": 1}
            await broker.controller.submit(RemovePrincipal("ann"))
            assert broker.plane.broker.published_by == {"admin": 1}

    run(work())


def test_what_is_not_advertised_by_its_sender_goes_nowhere(tmp_path):
    async def work():
        owners = [("admin", "a"), ("admin", "b"), ("admin", "c")]
        async with world(tmp_path, *owners) as (broker, one, other, subscriber):
            await subscriber.register("subscription", "true")
            narrow = await one.register("advertisement", "price < 100")
            foreign = await other.register("advertisement", "true")
            one.publish(narrow["publisher"], quote(100.0))  # outside
            one.publish(foreign["publisher"], quote(5.0))  # another program's
            one.publish(999, quote(5.0))  # nobody's
            one.publish(narrow["publisher"], quote(99.0))
            assert await subscriber.event() == quote(99.0)
            assert (broker.counters.unadvertised, broker.counters.forged) == (2, 1)
            assert subscriber.waiting() is None

    run(work())


def test_what_has_not_the_tag_of_its_publisher_goes_nowhere_and_is_counted_with_its_sender(tmp_path):
    async def work():
        async with world(tmp_path, ("admin", "a"), ("admin", "b")) as (broker, sender, reader):
            await reader.register("subscription", "true")
            own, other = [(await sender.register("advertisement", "true"))["publisher"] for _ in range(2)]
            entry = broker.controller.state.schemas["stock"]
            plain = Codec(STOCK, entry.number).encode(EventPacket(1, entry.number, own, 7, 0, quote(1.0)))
            sender.socket.send(tunnel.TUNNEL_START + ADDRESS + plain)
            sender.publish(own, quote(2.0), signer=other)
            sender.publish(own, quote(3.0))
            assert await reader.event() == quote(3.0)
            assert broker.counters.forged == 2
            assert broker.plane.forged() == {("broker", "admin"): 2}

    run(work())


def test_of_an_encrypted_schema_only_what_opens_goes_on_and_as_it_came(tmp_path):
    async def work():
        async with here(tmp_path) as broker:
            await _learn(broker.controller, False, SECRET)  # from a broker above, to one without keys
            assert "stock" not in broker.controller.state.schemas
            await _learn(broker.controller, True, SECRET)
            sender, reader = [await Program(broker, "admin", lease).attach() for lease in "ab"]
            await reader.register("subscription", "true")
            number = (await sender.register("advertisement", "true"))["publisher"]
            entry = broker.controller.state.schemas["stock"]
            whole = schema_key(broker.running.service.keys.secret, entry.number, "stock")
            event = SECRET.event(price=1, volume=1, ticker="AAPL")
            packet = EventPacket(entry.epoch, entry.number, number, 7, 0, event, b"letter")
            plain = Codec(SECRET, entry.number).encode(packet)
            own = PublisherCipher(publisher_key(whole, number)).sealed(plain)
            forged = [plain, PublisherSeal(publisher_key(whole, number)).sealed(plain), own[:-1], own[:31]]
            forged.append(PublisherCipher(publisher_key(whole, number + 1)).sealed(plain))
            for data in (*forged, own):
                sender.socket.send(tunnel.TUNNEL_START + ADDRESS + data)
            assert await reader.next() == tunnel.TUNNEL_START + ADDRESS + own
            assert (broker.counters.forged, broker.counters.malformed) == (len(forged), 0)
            assert broker.plane.forged() == {("broker", "admin"): len(forged)}
            without_keys = replace(broker.plane.broker.match_state.schemas[entry.number], seals=None)
            broker.plane.broker.relay(without_keys, packet)
            assert (broker.counters.unclaimed, reader.waiting()) == (1, None)
            for each in (sender, reader):
                each.socket.close()

    run(work())


def test_a_withdrawn_registration_is_out_of_force_when_that_is_answered(tmp_path):
    async def work():
        async with world(tmp_path, ("admin", "a"), ("admin", "b")) as (broker, sender, reader):
            number = (await sender.register("advertisement", "true"))["publisher"]
            first = await reader.register("subscription", "price < 100")
            await broker.controller.submit(Withdraw(first["id"], "admin"))
            sender.publish(number, quote(1.0))
            await until(lambda: broker.counters.unwanted == 1)
            await reader.register("subscription", "price < 100")
            sender.publish(number, quote(2.0))
            assert await reader.event() == quote(2.0)

    run(work())


def test_a_socket_that_is_not_attached_is_not_heard(tmp_path):
    async def work():
        async with world(tmp_path, ("admin", "a")) as (broker, reader):
            await reader.register("subscription", "true")
            stranger = Program(broker, "admin", "a")
            number = (await stranger.register("advertisement", "true"))["publisher"]
            stranger.publish(number, quote(1.0))
            await until(lambda: broker.counters.unattached == 1)
            stranger.socket.send(attach.pack(attach.AttachKind.ATTACH, bytes(16)))
            assert attach.unpack(await stranger.next())[0] is attach.AttachKind.REFUSED
            stranger.socket.close()
            assert reader.waiting() is None

    run(work())


def test_what_nobody_is_there_for_is_counted(tmp_path):
    async def work():
        async with world(tmp_path, ("admin", "a")) as (broker, sender):
            number = (await sender.register("advertisement", "true"))["publisher"]
            away = Program(broker, "admin", "away")
            await away.register("subscription", "true")
            away.socket.close()
            sender.publish(number, quote(1.0))
            await until(lambda: broker.counters.unclaimed == 1)

    run(work())


def test_after_a_restart_everything_stands_as_before(tmp_path):
    async def work():
        async with world(tmp_path, ("admin", "a"), ("admin", "b")) as (_, sender, reader):
            number = (await sender.register("advertisement", "price < 100"))["publisher"]
            await reader.register("subscription", "price < 50")
        async with here(tmp_path) as broker:
            sender, reader = (Program(broker, "admin", lease) for lease in "ab")
            await sender.attach()
            await reader.attach()
            for price in (99.0, 100.0, 49.0):
                sender.publish(number, quote(price))
            assert await reader.event() == quote(49.0)
            assert (broker.counters.unwanted, broker.counters.unadvertised) == (1, 1)
            for each in (sender, reader):
                each.socket.close()

    run(work())


def test_an_event_of_another_edition_of_the_schema_is_malformed(tmp_path):
    async def work():
        async with world(tmp_path, ("admin", "a")) as (broker, sender):
            number = (await sender.register("advertisement", "true"))["publisher"]
            entry = broker.controller.state.schemas["stock"]
            packet = EventPacket(1, entry.number, number, 1, 0, quote(1.0))
            data = bytearray(Codec(STOCK, entry.number).encode(packet))
            data[28] ^= 1  # of the fingerprint
            sender.socket.send(tunnel.TUNNEL_START + ADDRESS + data)
            await until(lambda: broker.counters.malformed == 1)
            packet = EventPacket(1, 9, number, 1, 0, quote(1.0))
            sender.socket.send(tunnel.TUNNEL_START + ADDRESS + Codec(STOCK, 9).encode(packet))
            await until(lambda: broker.counters.unadvertised == 1)

    run(work())


@pytest.mark.parametrize("seed", range(3))
def test_no_bytes_at_the_port_raise_anything_and_all_are_counted(tmp_path, seed):
    chance = random.Random(seed)

    async def work():
        async with world(tmp_path, ("admin", "a")) as (broker, sender):
            number = (await sender.register("advertisement", "true"))["publisher"]
            entry = broker.controller.state.schemas["stock"]
            whole = tunnel.TUNNEL_START + ADDRESS
            plain = Codec(STOCK, entry.number).encode(EventPacket(1, entry.number, number, 1, 0, quote(1.0)))
            whole += broker.plane.broker.match_state.schemas[entry.number].seals.sealed(plain)
            taken, address = broker.plane.broker, sender.socket.getsockname()
            before, many = total(broker), 3000
            for _ in range(many):
                start = chance.choice([b"", b"PLT\1", b"PLA\1", b"PLC\1", whole[: chance.randrange(len(whole) + 1)]])
                data = bytearray(start + chance.randbytes(chance.choice([0, 1, 16, 17, 40, 1400])))
                if chance.random() < 0.3:
                    data = bytearray(whole)
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                taken.take(bytes(data), chance.choice([address, ("127.0.0.1", 9)]))
            assert total(broker) == before + many
            assert len(taken.programs.sessions) == 1

    run(work())


def total(broker):
    """Datagrams, by whatever became of them: an event that was taken counts as published, and as such alone."""
    counters, requests = broker.counters, broker.plane.requests
    fates = ("published", "unattached", "malformed", "refused", "unadvertised", "forged")
    return sum(getattr(counters, each) for each in fates) + sum(
        count for reason, count in requests.counts.items() if reason != "unsent"
    )
