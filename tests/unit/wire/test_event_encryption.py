"""Encrypted packets: who can read one, what an observer sees, and what is noticed."""

import hashlib
import sys
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from pleroma.content import Schema
from pleroma.errors import SchemaError, SetupError, WireError
from pleroma.wire import MAX_PACKET_BYTES, Codec, EventPacket, peek
from pleroma.wire.event_encryption import PublisherCipher, seal_of
from pleroma.wire.event_tags import PublisherSeal, SchemaSeals, identity, publisher_key, schema_key
from support.strategies import STOCK

SECRET_STOCK = replace(STOCK, encrypted=True)
KEY = schema_key(bytes(range(32)), 7, "stock")
OWN = publisher_key(KEY, 9)
CODEC = Codec(SECRET_STOCK, 7)
QUOTE = SECRET_STOCK.event(price=151.5, volume=300, ticker="AAPL", market="nyse")
PACKET = EventPacket(42, 7, 9, 65537, 1_700_000_000_123_456_789, QUOTE, b"picture")
PLAIN = CODEC.encode(PACKET)
SENT = PublisherCipher(OWN).sealed(PLAIN)


def test_a_packet_is_encrypted_as_the_page_says():
    key = hashlib.blake2b(b"encryption", key=OWN, digest_size=32).digest()
    header = b"\1\6" + PLAIN[2:30]
    assert header + AESGCMSIV(key).encrypt(header[12:24], PLAIN[30:], header) == SENT
    assert len(SENT) == len(PLAIN) + 16
    without = CODEC.encode(replace(PACKET, payload=b""))
    assert PublisherCipher(OWN).sealed(without)[:2] == b"\1\5"


def test_an_observer_sees_the_header_alone():
    assert peek(SENT) == peek(PLAIN)
    assert b"AAPL" in PLAIN
    assert not any(part in SENT for part in (b"AAPL", b"picture", PLAIN[31:39]))
    with pytest.raises(WireError, match="kind: the packet is encrypted"):
        CODEC.decode(SENT)


def test_readers_open_the_packets_of_every_publisher_and_a_publisher_only_its_own():
    readers = SchemaSeals(KEY, seal_of(SECRET_STOCK))
    assert CODEC.decode(readers.opened(SENT)) == PACKET
    assert readers.sealed(PLAIN) == SENT
    assert PublisherCipher(publisher_key(KEY, 8)).opened(SENT) is None
    assert SchemaSeals(schema_key(bytes(32), 7, "stock"), PublisherCipher).opened(SENT) is None


def test_every_changed_or_missing_byte_is_noticed():
    readers = SchemaSeals(KEY, PublisherCipher)
    for place in range(len(SENT)):
        assert readers.opened(SENT[:place] + bytes([SENT[place] ^ 1]) + SENT[place + 1 :]) is None
        assert readers.opened(SENT[:place]) is None


def test_neither_a_plain_packet_nor_one_with_a_tag_passes_for_an_encrypted_one():
    readers = SchemaSeals(KEY, PublisherCipher)
    assert readers.opened(PLAIN) is None
    assert readers.opened(PublisherSeal(OWN).sealed(PLAIN)) is None
    assert SchemaSeals(KEY).opened(SENT) is None


def test_the_same_packet_has_one_identity():
    other = PublisherCipher(OWN).sealed(CODEC.encode(replace(PACKET, payload=b"other")))
    assert len({identity(each) for each in (SENT, SENT, other, PLAIN)}) == 3


def test_a_payload_leaves_room_for_what_encryption_adds():
    room = MAX_PACKET_BYTES - 16 - (len(PLAIN) - len(PACKET.payload))
    fits = CODEC.encode(replace(PACKET, payload=b"x" * room))
    assert len(PublisherCipher(OWN).sealed(fits)) == MAX_PACKET_BYTES
    with pytest.raises(WireError, match=f"payload: {room + 1} bytes, {room} is the most"):
        CODEC.encode(replace(PACKET, payload=b"x" * (room + 1)))
    text = SECRET_STOCK.event(price=1, volume=1, ticker="x" * 1180)
    with pytest.raises(WireError, match="size: a packet of 1239 bytes, 1232 is the most"):
        PublisherCipher(OWN).sealed(CODEC.encode(replace(PACKET, event=text, payload=b"")))


def test_a_schema_says_whether_its_events_are_encrypted():
    definition = SECRET_STOCK.to_json()
    assert definition["encrypted"] is True
    assert Schema.from_json(definition) == SECRET_STOCK != STOCK
    assert "encrypted" not in STOCK.to_json()
    assert CODEC.fingerprint != Codec(STOCK, 7).fingerprint
    with pytest.raises(SchemaError, match="encrypted: encrypted is true or false, not 'yes'"):
        Schema.from_json(definition | {"encrypted": "yes"})


def test_without_the_library_it_is_one_line_and_other_schemas_go_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert seal_of(STOCK) is PublisherSeal
    with pytest.raises(SetupError, match=r"take the library cryptography: pleroma\[encryption\]$"):
        seal_of(SECRET_STOCK)
