"""What docs/wire.md says of real networks and in-band messages."""

import hashlib
import hmac
from pathlib import Path

from pleroma.wire import MAX_PACKET_BYTES
from pleroma.wire.inband_messages import (
    CODE_BYTES,
    INBAND_START,
    MAX_PART_BYTES,
    MAX_PARTS,
    Hello,
    MessageKind,
    MessagePart,
    MessageRefused,
    RefusalReason,
    Welcome,
    pack,
    session_key,
    token_key,
)
from pleroma.wire.parts import MAX_PARTS_IN_FLIGHT
from pleroma.wire.ports import CONTROL_ADDRESSES, CONTROL_PORT, EVENTS_PORT

PAGE = (Path(__file__).parents[3] / "docs" / "wire.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## In-band messages\n")[1].split("\n## ")[0]
KEY = hmac.digest(hashlib.sha256(b"plr_x").digest(), b"pleroma in-band", "sha256")


def sealed(data, key=KEY):
    return data + hmac.digest(key, data, "sha256")[:16]


def test_ports_and_addresses():
    assert f"to port {EVENTS_PORT} of the multicast address" in PAGE
    assert f"port {CONTROL_PORT} of `{CONTROL_ADDRESSES[6]}`" in SECTION
    assert f"`{CONTROL_ADDRESSES[4]}`" in SECTION


def test_kinds_and_sizes():
    assert ", ".join(f"{kind.value} {kind.name.lower()}" for kind in MessageKind) in SECTION
    assert ", ".join(f"{reason.value} {reason.name.lower().replace('_', ' ')}" for reason in RefusalReason) in SECTION
    assert f"up to {MAX_PART_BYTES} bytes" in SECTION
    assert f"at most {MAX_PACKET_BYTES} bytes" in SECTION
    assert f"up to {MAX_PARTS_IN_FLIGHT} parts" in SECTION
    assert f"at most {MAX_PARTS} parts" in SECTION
    assert f"a code of {CODE_BYTES} bytes" in SECTION


def test_messages_are_the_bytes_that_the_page_describes():
    assert token_key("plr_x") == KEY
    nonce, other, session = bytes(range(16)), bytes(range(16, 32)), b"8 bytes."
    assert bytes.fromhex("504c4301") == INBAND_START
    hello = INBAND_START + b"\1" + nonce + b"\3ann" + b"\5kiosk"
    assert pack(Hello(nonce, "ann", "kiosk"), KEY) == sealed(hello)
    welcome = INBAND_START + b"\2" + nonce + session + other + b"\0"
    assert pack(Welcome(nonce, session, other), KEY) == sealed(welcome)
    assert (
        pack(MessageRefused(session + bytes(8), RefusalReason.NO_SESSION))
        == INBAND_START + b"\3" + session + bytes(8) + b"\2"
    )
    key = session_key(KEY, nonce, other)
    assert key == hmac.digest(KEY, nonce + other, "sha256")
    request = INBAND_START + b"\4" + session + bytes(7) + b"\7" + b"\0\1" + b"\0\2" + b"body"
    assert pack(MessagePart(MessageKind.REQUEST, session, 7, 1, 2, b"body"), key) == sealed(request, key)
