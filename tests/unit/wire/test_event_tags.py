"""Tags of event packets: who can make one, and what is noticed."""

import hashlib
from dataclasses import replace

import pytest

from pleroma.content import Integer, Schema, Text
from pleroma.errors import WireError
from pleroma.wire import MAX_PACKET_BYTES, Codec, EventPacket, event_tags
from pleroma.wire.event_tags import PublisherSeal, SchemaSeals, identity, publisher_key, schema_key
from support.strategies import STOCK

SECRET = bytes(range(32))
KEY = schema_key(SECRET, 7, "stock")
CODEC = Codec(STOCK, 7)
QUOTE = STOCK.event(price=151.5, volume=300, ticker="AAPL", market="nyse")


def packet(publisher=9, sequence=65537, event=QUOTE, payload=b""):
    return EventPacket(42, 7, publisher, sequence, 1_700_000_000_123_456_789, event, payload)


def sealed(publisher=9, sequence=65537, payload=b""):
    plain = CODEC.encode(packet(publisher, sequence, payload=payload))
    return PublisherSeal(publisher_key(KEY, publisher)).sealed(plain)


def test_keys_and_tags_are_those_of_the_page():
    """As docs/wire.md describes them, step by step."""
    key = hashlib.blake2b(b"schema\0\7stock", key=SECRET, digest_size=32).digest()
    assert key == KEY
    assert key.hex() == "795c1d754463b6c00f8b35f1759c8cef1c5673d7c4f7efc6cb4516531303d40f"
    own = hashlib.blake2b(b"publisher\0\0\0\x09", key=key, digest_size=32).digest()
    assert own == publisher_key(key, 9)
    assert own.hex() == "7f99450e38b819c08694e615969ad7de84c3740048c3980bb33985045365b6b7"
    body = b"\1\2" + CODEC.encode(packet())[2:]
    tag = hashlib.blake2b(body, key=own, digest_size=8).digest()
    assert tag.hex() == "37ae3c00099c452f"
    assert sealed() == body + tag


def test_a_tagged_packet_says_the_same_as_the_plain_one():
    assert CODEC.decode(sealed()) == packet() == CODEC.decode(CODEC.encode(packet()))


def test_readers_know_the_tags_of_every_publisher_and_of_no_other_schema():
    seals = SchemaSeals(KEY)
    assert all(seals.is_genuine(sealed(publisher)) for publisher in (9, 10, 2**32 - 1, 9))
    for other in (schema_key(SECRET, 8, "stock"), schema_key(SECRET, 7, "stocks"), schema_key(bytes(32), 7, "stock")):
        assert not SchemaSeals(other).is_genuine(sealed())


def test_a_publisher_cannot_make_the_tag_of_another():
    own = PublisherSeal(publisher_key(KEY, 10))
    assert not SchemaSeals(KEY).is_genuine(own.sealed(CODEC.encode(packet(9))))
    assert SchemaSeals(KEY).is_genuine(own.sealed(CODEC.encode(packet(10))))


def test_without_a_tag_no_packet_is_genuine():
    seals, plain = SchemaSeals(KEY), CODEC.encode(packet())
    own = PublisherSeal(publisher_key(KEY, 9))
    for data in (plain, plain + own.tag(plain), b"", b"\1", b"\1\2", sealed()[:-8], sealed()[:10]):
        assert not seals.is_genuine(data)


def test_every_changed_bit_is_noticed():
    seals, genuine = SchemaSeals(KEY), sealed()
    for place in range(8 * len(genuine)):
        damaged = bytearray(genuine)
        damaged[place // 8] ^= 1 << place % 8
        assert not seals.is_genuine(bytes(damaged))
    assert not seals.is_genuine(genuine + b"\0")
    assert seals.is_genuine(genuine)


def test_what_a_reader_passes_on_has_the_same_tag():
    assert SchemaSeals(KEY).sealed(CODEC.encode(packet())) == sealed()


def test_keys_are_kept_of_genuine_publishers_only_and_not_of_too_many(monkeypatch):
    monkeypatch.setattr(event_tags, "REMEMBERED_KEYS", 3)
    seals = SchemaSeals(KEY)
    for number in range(100):
        assert not seals.is_genuine(b"\1\2" + CODEC.encode(packet(number))[2:] + bytes(8))
    assert not seals._known
    for number in range(10):
        assert seals.is_genuine(sealed(number))
    assert len(seals._known) == 3


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_key_of_another_size_is_refused(size):
    for use in (PublisherSeal, SchemaSeals, lambda key: schema_key(key, 1, "a"), lambda key: publisher_key(key, 1)):
        with pytest.raises(WireError, match=f"key: a key has 32 bytes, not {size}"):
            use(bytes(size))


def test_a_packet_has_room_for_its_tag_or_is_not_sent():
    schema = Schema("note", (Integer("a", False, 0, 255), Text("text", False)))
    codec, seal = Codec(schema, 7), PublisherSeal(bytes(32))
    room = MAX_PACKET_BYTES - 8 - 30 - 1 - 2
    fits = codec.encode(EventPacket(1, 7, 9, 1, 0, schema.event(a=1, text="x" * room)))
    assert len(seal.sealed(fits)) == MAX_PACKET_BYTES
    with pytest.raises(WireError, match="size: a packet of 1233 bytes, 1232 is the most"):
        seal.sealed(codec.encode(EventPacket(1, 7, 9, 1, 0, schema.event(a=1, text="x" * (room + 1)))))


def test_a_payload_has_what_the_event_and_a_tag_leave_of_a_datagram():
    payload = b"x" * (MAX_PACKET_BYTES - 8 - len(CODEC.encode(packet())))
    fits = sealed(payload=payload)
    assert len(fits) == MAX_PACKET_BYTES
    assert CODEC.decode(fits).payload == payload
    with pytest.raises(
        WireError, match="payload: 1177 bytes, 1176 is the most that a datagram has room for beside this event"
    ):
        CODEC.encode(packet(payload=payload + b"x"))
    long = EventPacket(1, 7, 9, 1, 0, STOCK.event(price=1, volume=1, ticker="x" * 1181))
    with pytest.raises(WireError, match="payload: 1 bytes, 0 is the most"):
        CODEC.encode(replace(long, payload=b"x"))


def test_a_tag_covers_the_payload():
    seals, data = SchemaSeals(KEY), sealed(payload=b"picture")
    assert seals.is_genuine(data)
    assert seals.sealed(CODEC.encode(packet(payload=b"picture"))) == data
    assert not seals.is_genuine(data.replace(b"picture", b"picturE"))
    assert not seals.is_genuine(data[:1] + b"\2" + data[2:])  # as if there were none
    assert len({identity(each) for each in (data, sealed(), sealed(payload=b"other"))}) == 3


def test_the_same_packet_has_one_identity_and_others_have_others():
    packets = [sealed(), sealed(sequence=1), sealed(publisher=1), sealed()[:-1] + b"?", CODEC.encode(packet())]
    packets.append(CODEC.encode(packet(event=STOCK.event(price=1, volume=300, ticker="AAPL"))))
    assert len({identity(each) for each in packets}) == len(packets)
    assert identity(sealed()) == identity(sealed())
