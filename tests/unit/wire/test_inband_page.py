"""What docs/wire.md says of real networks and in-band messages."""

import hashlib
import hmac
from pathlib import Path

from pleroma.wire import MAX_SIZE
from pleroma.wire.inband_messages import (
    CODE,
    MAX_PARTS,
    PART_SIZE,
    START,
    Hello,
    Kind,
    Part,
    Reason,
    Refused,
    Welcome,
    pack,
    session_key,
    token_key,
)
from pleroma.wire.parts import WINDOW
from pleroma.wire.ports import CONTROL, CONTROL_ADDRESSES, EVENTS

PAGE = (Path(__file__).parents[3] / "docs" / "wire.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## In-band messages\n")[1].split("\n## ")[0]
KEY = hmac.digest(hashlib.sha256(b"plr_x").digest(), b"pleroma in-band", "sha256")


def sealed(data, key=KEY):
    return data + hmac.digest(key, data, "sha256")[:16]


def test_ports_and_addresses():
    assert f"to port {EVENTS} of the multicast address" in PAGE
    assert f"port {CONTROL} of `{CONTROL_ADDRESSES[6]}`" in SECTION
    assert f"`{CONTROL_ADDRESSES[4]}`" in SECTION


def test_kinds_and_sizes():
    assert ", ".join(f"{kind.value} {kind.name.lower()}" for kind in Kind) in SECTION
    assert ", ".join(f"{reason.value} {reason.name.lower().replace('_', ' ')}" for reason in Reason) in SECTION
    assert f"up to {PART_SIZE} bytes" in SECTION
    assert f"at most {MAX_SIZE} bytes" in SECTION
    assert f"up to {WINDOW} parts" in SECTION
    assert f"at most {MAX_PARTS} parts" in SECTION
    assert f"a code of {CODE} bytes" in SECTION


def test_messages_are_the_bytes_that_the_page_describes():
    assert token_key("plr_x") == KEY
    nonce, other, session = bytes(range(16)), bytes(range(16, 32)), b"8 bytes."
    assert bytes.fromhex("504c4301") == START
    hello = START + b"\1" + nonce + b"\3ann" + b"\5kiosk"
    assert pack(Hello(nonce, "ann", "kiosk"), KEY) == sealed(hello)
    welcome = START + b"\2" + nonce + session + other + b"\0"
    assert pack(Welcome(nonce, session, other), KEY) == sealed(welcome)
    assert pack(Refused(session + bytes(8), Reason.NO_SESSION)) == START + b"\3" + session + bytes(8) + b"\2"
    key = session_key(KEY, nonce, other)
    assert key == hmac.digest(KEY, nonce + other, "sha256")
    request = START + b"\4" + session + bytes(7) + b"\7" + b"\0\1" + b"\0\2" + b"body"
    assert pack(Part(Kind.REQUEST, session, 7, 1, 2, b"body"), key) == sealed(request, key)
