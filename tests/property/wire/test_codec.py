"""Packets of any schema: nothing is lost, nothing has two forms, and garbage is refused by one error."""

from dataclasses import replace
from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from pleroma.content import Schema, Text
from pleroma.errors import WireError
from pleroma.wire import Codec, EventPacket, peek
from pleroma.wire.event_tags import PublisherSeal, SchemaSeals, publisher_key
from pleroma.wire.header import TAG_BYTES, TAGGED_START_OF
from support.strategies import STOCK, events, schemas

numbers = st.integers(0, 2**16 - 1)
words = st.integers(0, 2**32 - 1)
longs = st.integers(0, 2**64 - 1)


some_payloads = st.just(b"") | st.binary(max_size=20)


@st.composite
def packets(draw, most=5, schema=None, payloads=some_payloads):
    """A codec and a packet for it."""
    schema = schema or draw(schemas(most))
    number, payload = draw(numbers), draw(payloads)
    packet = EventPacket(draw(words), number, draw(words), draw(longs), draw(longs), draw(events(schema)), payload)
    return Codec(schema, number), packet


def attempt(read, data):
    """What was read, or the field for which it was refused; any other error is a fault."""
    try:
        return read(data), None
    except WireError as error:
        return None, error.field or "nothing named"


def is_canonical_or_refused(codec, data):
    packet, field = attempt(codec.decode, data)
    if packet is None:
        return field != "nothing named"
    assert codec.schema.event(packet.event) == packet.event  # so every value is one of its domain
    plain = codec.encode(packet)
    return plain == data or TAGGED_START_OF[plain[:2]] + plain[2:] == data[:-TAG_BYTES]


@given(packets(most=9))
def test_a_packet_survives_the_way(drawn):
    codec, packet = drawn
    data = codec.encode(packet)
    again = codec.decode(data)
    assert again == packet
    assert dict(again.event) == dict(packet.event)
    assert codec.encode(again) == data
    header = peek(data)
    for name in ("epoch", "schema_number", "publisher", "sequence", "time"):
        assert getattr(header, name) == getattr(packet, name)
    assert header.fingerprint == codec.fingerprint


@given(packets())
def test_any_codec_of_the_same_schema_reads_the_packet(drawn):
    codec, packet = drawn
    schema = Schema.from_json(codec.schema.to_json())
    assert Codec(schema, codec.schema_number).decode(codec.encode(packet)) == packet


@given(packets())
def test_the_size_is_what_the_page_says(drawn):
    codec, packet = drawn
    size = 30 + len(packet.payload) + -(-sum(a.optional for a in codec.schema.attributes) // 8)
    for a in codec.schema.attributes:
        value = packet.event.get(a.name)
        if value is not None:
            match a.kind:
                case "text":
                    size += 2 + len(value.encode())
                case "real":
                    size += 8
                case "integer" | "timestamp":
                    size += next(n for n in range(8) if 256**n > a.high - a.low)
                case _:
                    size += next(n for n in range(8) if 256**n >= len(a.values))
    assert len(codec.encode(packet)) == size


@given(packets(payloads=st.just(b"")))
def test_a_packet_cut_short_or_followed_by_more_is_refused(drawn):
    codec, packet = drawn
    data = codec.encode(packet)
    for wrong in (*(data[:length] for length in range(len(data))), data + b"\0", data + data):
        assert attempt(codec.decode, wrong) == (None, "size")


@given(packets(payloads=st.binary(min_size=1, max_size=20)))
def test_a_packet_with_a_payload_is_refused_without_all_of_the_event_and_a_byte_of_payload(drawn):
    codec, packet = drawn
    data = codec.encode(packet)
    end = len(data) - len(packet.payload)
    assert data[:2] + data[2:end] == b"\1\3" + codec.encode(replace(packet, payload=b""))[2:]
    assert all(attempt(codec.decode, data[:length]) == (None, "size") for length in range(end + 1))
    assert codec.decode(data[: end + 1]).payload == packet.payload[:1]


@given(packets(), st.data())
def test_a_changed_packet_is_refused_or_is_another_packet(drawn, data):
    codec, packet = drawn
    sent = codec.encode(packet)
    changed = bytearray(sent)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(sent) - 1))
        changed[place] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    received = bytes(changed)
    assert is_canonical_or_refused(codec, received)
    assert received == sent or attempt(codec.decode, received)[0] != packet


@given(packets(), st.data())
def test_any_values_behind_a_good_header_are_refused_or_have_this_one_form(drawn, data):
    codec, packet = drawn
    header = codec.encode(packet)[:30]
    rest = data.draw(st.binary(max_size=40))
    assert is_canonical_or_refused(codec, header + rest)


@given(packets(schema=Schema("texts", (Text("a", True), Text("b", False)))), st.data())
def test_texts_are_refused_or_have_this_one_form(drawn, data):
    codec, packet = drawn
    sent = codec.encode(packet)
    texts = data.draw(st.lists(st.binary(max_size=4) | st.text(max_size=2).map(str.encode), min_size=2, max_size=2))
    lengths = b"".join(len(text).to_bytes(2) for text in texts)
    received = b"\1\1" + sent[2:30] + b"\0" + lengths + b"".join(texts)
    assert is_canonical_or_refused(codec, received)
    try:
        expected = {"a": texts[0].decode(), "b": texts[1].decode()}
    except UnicodeDecodeError:
        expected = None
    got, field = attempt(codec.decode, received)
    assert (got and dict(got.event)) == expected
    assert (field is None) == (expected is not None)


@given(st.binary(max_size=80) | st.binary(max_size=60).map(b"\x01\x01".__add__))
def test_garbage_is_refused_by_one_error(data):
    assert is_canonical_or_refused(Codec(STOCK, 7), data)
    assert attempt(peek, data)[1] in (None, "version", "kind", "size")


@given(packets(), schemas())
def test_a_packet_of_another_schema_is_refused(drawn, schema):
    codec, packet = drawn
    other = Codec(schema, codec.schema_number)
    assume(other.fingerprint != codec.fingerprint)  # one in 65536 agree, and then the values must still fit
    assert attempt(other.decode, codec.encode(packet)) == (None, "fingerprint")


@given(packets(), st.binary(min_size=32, max_size=32), st.integers(0), words, st.data())
def test_a_tagged_packet_is_read_as_the_plain_one_and_only_the_whole_of_it_is_genuine(drawn, key, place, other, data):
    codec, packet = drawn
    plain, seals = codec.encode(packet), SchemaSeals(key)
    tagged = PublisherSeal(publisher_key(key, packet.publisher)).sealed(plain)
    assert codec.decode(tagged) == packet
    assert len(tagged) == len(plain) + TAG_BYTES
    assert seals.is_genuine(tagged)
    assert seals.sealed(plain) == tagged
    damaged = bytearray(tagged)
    damaged[place % len(tagged)] ^= data.draw(st.integers(1, 255))
    assert not seals.is_genuine(bytes(damaged))
    assert not seals.is_genuine(tagged[: place % len(tagged)])
    assume(other != packet.publisher)
    assert not seals.is_genuine(PublisherSeal(publisher_key(key, other)).sealed(plain))


@given(packets(schema=STOCK), st.binary(max_size=60))
def test_tagged_bytes_of_any_kind_are_canonical_or_refused(drawn, garbage):
    codec, packet = drawn
    for start, data in product(TAGGED_START_OF.values(), (garbage, codec.encode(packet)[2:] + garbage)):
        data = start + data
        assert is_canonical_or_refused(codec, data)
        SchemaSeals(bytes(32)).is_genuine(data)
