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
    Challenge,
    Hello,
    MessageKind,
    MessagePart,
    MessageRefused,
    RefusalReason,
    Welcome,
    pack,
)
from pleroma.wire.parts import MAX_PARTS_IN_FLIGHT
from pleroma.wire.ports import CONTROL_ADDRESSES, CONTROL_PORT, EVENTS_PORT
from pleroma.wire.token_proof import PROOF_BYTES, client_key, session_key, verifier_of

PAGE = (Path(__file__).parents[3] / "docs" / "wire.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## In-band messages\n")[1].split("\n## ")[0]
KEY = hashlib.sha256(b"plr_x").digest()
VERIFIER = hashlib.sha256(KEY).digest()


def sealed(data, key):
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
    assert f"proof ({PROOF_BYTES})" in SECTION


def test_messages_are_the_bytes_that_the_page_describes():
    assert client_key("plr_x") == KEY
    assert verifier_of(KEY) == VERIFIER
    nonce, other, cookie, session = bytes(range(16)), bytes(range(16, 32)), bytes(range(32, 48)), b"8 bytes."
    assert bytes.fromhex("504c4302") == INBAND_START
    first = INBAND_START + b"\1" + nonce + bytes(16) + b"\3ann" + b"\5kiosk"
    assert pack(Hello(nonce, "ann", "kiosk"), KEY) == first + bytes(32)
    assert pack(Challenge(nonce, cookie)) == INBAND_START + b"\2" + nonce + cookie
    hello = INBAND_START + b"\1" + nonce + cookie + b"\3ann" + b"\5kiosk"
    mask = hmac.digest(VERIFIER, hello, "sha256")
    proof = bytes(one ^ two for one, two in zip(KEY, mask, strict=True))
    assert pack(Hello(nonce, "ann", "kiosk", cookie), KEY) == hello + proof
    key = session_key(KEY, nonce, other)
    assert key == hmac.digest(KEY, b"pleroma session" + nonce + other, "sha256")
    welcome = INBAND_START + b"\3" + nonce + session + other + b"\0"
    assert pack(Welcome(nonce, session, other), key) == sealed(welcome, key)
    assert (
        pack(MessageRefused(session + bytes(8), RefusalReason.NO_SESSION))
        == INBAND_START + b"\4" + session + bytes(8) + b"\2"
    )
    request = INBAND_START + b"\5" + session + bytes(7) + b"\7" + b"\0\1" + b"\0\2" + b"body"
    assert pack(MessagePart(MessageKind.REQUEST, session, 7, 1, 2, b"body"), key) == sealed(request, key)
