"""Event packets byte for byte, and what is refused."""

import math
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pleroma.content import Attribute, Category, Event, Integer, Real, Schema, Text
from pleroma.errors import PleromaError, WireError
from pleroma.wire import MAX_PACKET_BYTES, Codec, EventPacket, fingerprint
from support.strategies import STOCK

CODEC = Codec(STOCK, 7)
QUOTE = STOCK.event(price=151.5, volume=300, ticker="AAPL", market="nyse")
TIME = 1_700_000_000_123_456_789
PACKET = EventPacket(epoch=42, schema_number=7, publisher=9, sequence=65537, time=TIME, event=QUOTE)
HEADER = "01 01 0007 0000002a 0000000000010001 17979cfe3d85cd15 00000009 ea18"
GOLDEN = bytes.fromhex(HEADER + "00 4062f00000000000 012c 0004 02 4141504c")
ABSENCES, PRICE, VOLUME, LENGTH, MARKET, TICKER = 30, 31, 39, 41, 43, 44


def with_event(event, number=7):
    return replace(PACKET, schema_number=number, event=event)


def patched(place, new):
    return GOLDEN[:place] + new + GOLDEN[place + len(new) :]


def refused(data, codec=CODEC):
    with pytest.raises(WireError) as error:
        codec.decode(data)
    return str(error.value)


def not_sent(packet, codec=CODEC):
    with pytest.raises(WireError) as error:
        codec.encode(packet)
    return str(error.value)


def body(schema, values):
    """What follows the header, in hexadecimal; decoding gives the event back."""
    codec = Codec(schema, 7)
    packet = with_event(schema.event(values))
    data = codec.encode(packet)
    assert codec.decode(data) == packet
    return data[30:].hex()


# -- the format ------------------------------------------------------------------------------------------------------


def test_a_packet_is_these_bytes():
    assert CODEC.encode(PACKET) == GOLDEN
    assert CODEC.decode(GOLDEN) == PACKET


def test_an_absent_value_takes_one_bit():
    event = STOCK.event(price=151.5, volume=300, ticker="AAPL")
    data = bytes.fromhex(HEADER + "01 4062f00000000000 012c 0004 4141504c")
    assert CODEC.encode(with_event(event)) == data
    assert CODEC.decode(data) == with_event(event)


def test_the_absence_bits_count_optional_attributes_from_the_lowest_bit_of_the_first_byte():
    schema = Schema("s", (Integer("must", False, 0, 9), *(Integer(f"a{i}", True, 0, 9) for i in range(10))))
    values = {"must": 5} | {f"a{i}": i for i in range(10)}
    assert body(schema, values) == "0000" + "05" + "00010203040506070809"
    del values["a0"], values["a2"], values["a9"]
    assert body(schema, values) == "0502" + "05" + "01030405060708"
    assert body(schema, {"must": 5}) == "ff03" + "05"


@pytest.mark.parametrize(
    ("low", "high", "value", "data"),
    [
        (5, 5, 5, ""),
        (0, 255, 255, "ff"),
        (-128, 127, -128, "00"),
        (-128, 127, 127, "ff"),
        (0, 256, 256, "0100"),
        (1000, 1000 + 2**16, 1000 + 2**16, "010000"),
        (0, 2**16 - 1, 2**16 - 1, "ffff"),
        (0, 2**32 - 1, 1, "00000001"),
        (0, 2**32 - 1, 2**32 - 1, "ffffffff"),
        (0, 2**32, 2**32, "0100000000"),
        (0, 2**48 - 1, 2, "000000000002"),
        (1 - 2**53, 2**53 - 1, 2**53 - 1, "3ffffffffffffe"),
    ],
)
def test_an_integer_takes_as_few_bytes_as_its_domain_needs(low, high, value, data):
    assert body(Schema("s", (Integer("a", False, low, high),)), {"a": value}) == data


def test_a_category_is_its_place_in_the_list():
    assert body(Schema("s", (Category("a", False, ("x", "y", "z")),)), {"a": "z"}) == "02"
    assert body(Schema("s", (Category("a", False, ("x",)),)), {"a": "x"}) == ""
    assert body(Schema("s", (Category("a", False, tuple(map(str, range(300)))),)), {"a": "299"}) == "012b"


def test_texts_come_last_in_the_order_of_the_schema():
    schema = Schema("s", (Text("a", False), Integer("b", False, 0, 9), Text("c", False), Text("d", True)))
    assert body(schema, {"a": "é", "b": 4, "c": "", "d": "z"}) == "00" + "0002" + "04" + "0000" + "0001" + "c3a9" + "7a"


def test_there_is_one_zero():
    schema = Schema("s", (Real("a", False, -1, 1),))
    codec = Codec(schema, 7)
    data = codec.encode(with_event(schema.event(a=0)))
    assert data.endswith(bytes(8))
    assert codec.encode(with_event(Event(schema, (-0.0,)))) == data
    assert refused(data[:-8] + b"\x80" + bytes(7), codec) == "a: zero has no sign"


def test_an_absent_real_has_no_second_form():
    schema = Schema("s", (Real("a", True, -1, 1),))
    codec = Codec(schema, 7)
    data = codec.encode(with_event(schema.event()))
    assert data.endswith(b"\x01")
    assert refused(data[:-1] + b"\0" + struct.pack("!d", -math.inf), codec) == "a: -inf is outside [-1, 1]"


def test_the_papers_events_are_small():
    ten = Schema("ten", tuple(Integer(f"a{i}", False, 0, 1023) for i in range(10)))
    assert len(body(ten, dict.fromkeys(ten.names, 512))) == 2 * 20
    quotes = Schema("quotes", (Text("ticker", False), *(Real(f"r{i}", False, 0, 1000) for i in range(6))))
    assert len(body(quotes, {"ticker": "AAPL"} | {f"r{i}": 0.1 for i in range(6)})) == 2 * (2 + 4 + 6 * 8)


@pytest.mark.parametrize(
    ("field", "most"),
    [("epoch", 2**32 - 1), ("publisher", 2**32 - 1), ("sequence", 2**64 - 1), ("time", 2**64 - 1)],
)
def test_a_field_of_the_header_has_its_limit(field, most):
    packet = replace(PACKET, **{field: most})
    assert CODEC.decode(CODEC.encode(packet)) == packet
    for wrong in (most + 1, -1, 1.0, None, "1"):
        assert not_sent(replace(PACKET, **{field: wrong})).startswith(f"{field}: {wrong!r} is not a whole number of ")


@pytest.mark.parametrize("number", [-1, 2**16, 1.5, None])
def test_a_schema_number_has_sixteen_bits(number):
    assert Codec(STOCK, 2**16 - 1).schema_number == 2**16 - 1
    with pytest.raises(WireError, match=r"schema_number: .* is not a whole number of 16 bits"):
        Codec(STOCK, number)


# -- the fingerprint -------------------------------------------------------------------------------------------------


def test_the_fingerprint_changes_with_anything_in_the_schema():
    a, b = Integer("a", False, 0, 9), Text("b", False)
    alike = [
        Schema("s", (a, b)),
        Schema("t", (a, b)),
        Schema("s", (b, a)),
        Schema("s", (a,)),
        Schema("s", (Integer("a", True, 0, 9), b)),
        Schema("s", (Integer("a", False, 1, 9), b)),
        Schema("s", (Real("a", False, 0, 9), b)),
        Schema("s", (Integer("c", False, 0, 9), b)),
        Schema("\ud800", (a, b)),
    ]
    assert len({fingerprint(schema) for schema in alike}) == len(alike)


def test_a_packet_of_another_edition_of_the_schema_is_refused():
    assert refused(patched(28, b"\xea\x19")) == f"fingerprint: {0xEA19} is not {0xEA18}, of schema stock"
    wider = Schema(STOCK.name, (Real("price", False, 0, 2000), *STOCK.attributes[1:]))
    assert refused(GOLDEN, Codec(wider, 7)).startswith("fingerprint: ")


def test_a_packet_of_another_schema_is_refused_whatever_its_size():
    assert refused(patched(2, b"\0\x08")) == "schema_number: 8 is not 7, of schema stock"
    short = Schema("short", (Integer("a", False, 0, 0),))
    assert refused(Codec(short, 8).encode(with_event(short.event(a=0), 8))).startswith("schema_number: ")
    assert refused(Codec(short, 7).encode(with_event(short.event(a=0)))).startswith("fingerprint: ")


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "size: cut short: 0 bytes of at least 30"),
        (b"\x02", "version: 2 is not known, only 1 is"),
        (b"\x01\x07", "kind: 7 is not known, only 1 to 6 are"),
        (patched(0, b"\0"), "version: 0 is not known, only 1 is"),
        (patched(1, b"\xff"), "kind: 255 is not known, only 1 to 6 are"),
        (GOLDEN[:1], "size: cut short: 1 bytes of at least 30"),
        (GOLDEN[:29], "size: cut short: 29 bytes of at least 30"),
        (GOLDEN[:30], "size: cut short: 30 bytes of at least 31"),
        (GOLDEN[:31], "size: cut short: 31 bytes of at least 44"),
        (GOLDEN[:43], "size: cut short: 43 bytes of at least 44"),
        (GOLDEN[:47], "size: cut short: 47 bytes of at least 48"),
        (GOLDEN + b"\0", "size: 1 bytes behind the end of the packet"),
        (patched(1, b"\3"), "size: cut short: no payload"),
        (patched(1, b"\5"), "kind: the packet is encrypted"),
        (
            GOLDEN + bytes(MAX_PACKET_BYTES),
            f"size: a packet of {len(GOLDEN) + MAX_PACKET_BYTES} bytes, {MAX_PACKET_BYTES} is the most",
        ),
        (patched(ABSENCES, b"\x02"), "absences: marks more than the 1 optional attributes"),
        (patched(ABSENCES, b"\x80"), "absences: marks more than the 1 optional attributes"),
        (patched(PRICE, struct.pack("!d", math.nan)), "price: nan is outside [0, 1000]"),
        (patched(PRICE, struct.pack("!d", math.inf)), "price: inf is outside [0, 1000]"),
        (patched(PRICE, struct.pack("!d", -math.inf)), "price: a value is required"),
        (patched(PRICE, struct.pack("!d", -5e-324)), "price: -5e-324 is outside [0, 1000]"),
        (patched(PRICE, bytes.fromhex("408f400000000001")), "price: 1000.0000000000001 is outside [0, 1000]"),
        (patched(PRICE, struct.pack("!d", -0.0)), "price: zero has no sign"),
        (patched(VOLUME, b"\x04\x00"), "volume: 1024 is outside [0, 1023]"),
        (patched(LENGTH, b"\x00\x05"), "size: cut short: 48 bytes of at least 49"),
        (patched(LENGTH, b"\xff\xff"), "size: cut short: 48 bytes of at least 65579"),
        (patched(LENGTH, b"\x00\x03"), "size: 1 bytes behind the end of the packet"),
        (patched(MARKET, b"\x04"), "market: 4 is outside {xetra, lse, nyse, nasdaq}"),
        (patched(TICKER, b"\xff"), "ticker: b'\\xffAPL' is not UTF-8: invalid start byte"),
        (patched(TICKER + 3, b"\xc3"), "ticker: b'AAP\\xc3' is not UTF-8: unexpected end of data"),
        (patched(TICKER, b"\xed\xa0\x80"), "ticker: b'\\xed\\xa0\\x80L' is not UTF-8: invalid continuation byte"),
        (patched(TICKER, b"\xc0\x80"), "ticker: b'\\xc0\\x80PL' is not UTF-8: invalid start byte"),
    ],
)
def test_a_damaged_packet_is_refused_with_a_reason(data, error):
    assert refused(data) == error


def test_the_largest_packet_fits_and_the_next_does_not():
    room = MAX_PACKET_BYTES - len(GOLDEN) + 4
    largest = with_event(STOCK.event(price=1, volume=1, ticker="x" * room, market="lse"))
    data = CODEC.encode(largest)
    assert len(data) == MAX_PACKET_BYTES
    assert CODEC.decode(data) == largest
    for more in (1, 2**16):
        event = STOCK.event(price=1, volume=1, ticker="x" * (room + more), market="lse")
        assert (
            not_sent(with_event(event))
            == f"size: a packet of {MAX_PACKET_BYTES + more} bytes, {MAX_PACKET_BYTES} is the most"
        )


def test_a_schema_that_never_fits_is_refused_at_once():
    def schema(count, optional):
        return Schema("wide", tuple(Real(f"a{i}", optional, 0, 1) for i in range(count)))

    assert Codec(schema(149, False), 1)
    with pytest.raises(WireError, match="size: a packet of 1238 bytes, 1232 is the most"):
        Codec(schema(150, False), 1)  # and its tag
    sparse = schema(1000, True)
    codec = Codec(sparse, 7)
    packet = with_event(sparse.event(a0=1, a999=0))
    assert codec.decode(codec.encode(packet)) == packet
    assert not_sent(with_event(sparse.event({f"a{i}": 1 for i in range(1000)})), codec).startswith("size: ")


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ((151.5, 300, b"\x01A"), "keys: 4 keys expected"),
        ((151.5, 1024, b"\x01A", 0), "volume: 1024 is outside [0, 1023]"),
        ((151.5, -2, b"\x01A", 0), "volume: -2 is outside [0, 1023]"),
        ((151.5, -1, b"\x01A", 0), "volume: a value is required"),
        ((-math.inf, 300, b"\x01A", 0), "price: a value is required"),
        ((math.nan, 300, b"\x01A", 0), "price: nan is outside [0, 1000]"),
        ((5, 300, b"\x01A", 0), "price: 5 is not the key of a value"),
        ((151.5, 3.0, b"\x01A", 0), "volume: 3.0 is not the key of a value"),
        ((151.5, None, b"\x01A", 0), "volume: None is not the key of a value"),
        ((151.5, 300, "A", 0), "ticker: 'A' is not the key of a value"),
        ((151.5, 300, b"", 0), "ticker: a value is required"),
        ((151.5, 300, b"A", 0), "ticker: b'A' is outside any text"),
        ((151.5, 300, b"\x01\xff", 0), "ticker: b'\\xff' is not UTF-8: invalid start byte"),
        ((151.5, 300, b"\x01A", 4), "market: 4 is outside {xetra, lse, nyse, nasdaq}"),
        ((151.5, 300, b"\x01A", -2), "market: -2 is outside {xetra, lse, nyse, nasdaq}"),
    ],
)
def test_an_event_that_its_schema_would_not_make_is_not_sent(keys, error):
    assert not_sent(with_event(Event(STOCK, keys))) == error


def test_a_packet_goes_through_the_codec_of_its_own_schema():
    other = Schema("other", STOCK.attributes)
    assert not_sent(with_event(Event(other, QUOTE.value_keys))) == "schema: the event is of another schema than stock"
    assert not_sent(with_event(QUOTE, 8)) == "schema_number: 8 is not 7, of schema stock"
    equal = Schema(STOCK.name, STOCK.attributes)
    assert CODEC.encode(with_event(Event(equal, QUOTE.value_keys))) == GOLDEN


def test_a_kind_of_attribute_without_a_form_is_refused():
    class Colour(Attribute):
        kind = "colour"
        present = (0, 1)
        absent = -1

        def to_json(self):
            return {"name": self.name}

    Colour.__abstractmethods__ = frozenset()
    with pytest.raises(WireError, match="a: a packet has no form for colour values"):
        Codec(Schema("s", (Colour("a", False),)), 1)


def test_errors_are_in_the_tree():
    assert issubclass(WireError, PleromaError)


def test_a_sensor_packs_events_without_numpy():
    code = (
        "import sys\n"
        "for name in ('numpy', 'numba', 'pyarrow', 'networkx', 'typer', 'rich'): sys.modules[name] = None\n"
        "import pleroma.wire, pleroma.wire.tunnel"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
