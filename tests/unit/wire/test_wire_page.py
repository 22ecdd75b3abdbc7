"""What docs/wire.md promises."""

import re
from hashlib import sha256
from pathlib import Path

from pleroma.wire import MAX_PACKET_BYTES, Codec, EventPacket, fingerprint
from pleroma.wire.header import HEADER_FORM, MAX_EVENT_BYTES
from support.strategies import STOCK

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def dump():
    (block,) = blocks("hex")
    return bytes.fromhex("".join(line.split("  ")[0] for line in block.splitlines()))


def table(section):
    """The rows of the first table of a section whose cells are numbers and names."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    return [
        (int(a), int(b), name) for a, b, name in re.findall(r"^\| (\d+) \| (\d+) \| ([\w ]+) \|", text, re.MULTILINE)
    ]


def test_the_dump_is_what_the_encoder_makes():
    event = STOCK.event(price=151.5, volume=300, ticker="AAPL", market="nyse")
    packet = EventPacket(42, 7, 9, 65537, 1_700_000_000_123_456_789, event)
    assert Codec(STOCK, 7).encode(packet) == dump()
    assert f"{len(dump())} bytes:" in PAGE


def test_the_program_makes_the_dump(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    exec(blocks("python")[0], names)  # noqa: S102
    assert names["data"] == dump()


def test_the_fingerprint_is_taken_over_the_text_on_the_page():
    (text,) = blocks("json")
    assert int.from_bytes(sha256(text.strip().encode()).digest()[:2]) == fingerprint(STOCK) == 0xEA18


def test_the_fields_of_the_header_follow_one_another():
    rows = table("Header")
    assert len(rows) == 8
    end = 0
    for offset, size, _ in rows:
        assert offset == end
        end = offset + size
    assert end == HEADER_FORM.size
    lines = blocks("hex")[0].splitlines()
    assert [len(bytes.fromhex(line.split("  ")[0])) for line in lines[:8]] == [size for _, size, _ in rows]


def test_the_room_for_a_payload_is_the_one_on_the_pages():
    client = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    room = f"{MAX_EVENT_BYTES - HEADER_FORM.size:,} bytes less those of the values"
    assert room in PAGE
    assert room in client
    quote = STOCK.event(price=151.5, volume=20, ticker="AAPL")
    codec = Codec(STOCK, 7)
    (beside,) = re.findall(r"([\d,]+) beside the quote above", client)
    packet = EventPacket(1, 7, 9, 1, 0, quote, bytes(int(beside.replace(",", ""))))
    assert len(codec.encode(packet)) == MAX_EVENT_BYTES


def test_the_limit_is_the_one_on_the_page():
    assert f"at most {MAX_PACKET_BYTES} bytes" in PAGE
