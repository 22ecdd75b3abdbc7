"""Frames by which a socket takes its place at a simulated host."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import WireError
from pleroma.wire import tunnel
from pleroma.wire.attach import ATTACH_BYTES, ATTACH_START, AttachKind, pack, unpack

SECRET = bytes(range(16))
FRAME = bytes.fromhex("504c4101 01") + SECRET


def test_a_frame_is_these_bytes():
    assert pack(AttachKind.ATTACH, SECRET) == FRAME
    assert [
        pack(kind, SECRET)[4]
        for kind in (AttachKind.ATTACH, AttachKind.ATTACHED, AttachKind.DETACH, AttachKind.REFUSED)
    ] == [1, 2, 3, 4]
    assert unpack(FRAME) == (AttachKind.ATTACH, SECRET)


@pytest.mark.parametrize("kind", AttachKind)
def test_every_kind_survives_the_way(kind):
    assert unpack(pack(kind, SECRET)) == (kind, SECRET)


@pytest.mark.parametrize("length", range(ATTACH_BYTES))
def test_a_frame_that_is_cut_short_is_refused(length):
    with pytest.raises(WireError, match=f"size: cut short: {length} bytes of at least 21"):
        unpack(FRAME[:length])


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (FRAME + b"x", "size: 22 bytes, a frame has 21"),
        (b"PLT" + FRAME[3:], "magic: b'PLT' does not begin a frame, b'PLA' does"),
        (b"X", "magic: b'X' does not begin a frame, b'PLA' does"),
        (b"PLA\x02" + FRAME[4:], "version: 2 is not known, only 1 is"),
        (ATTACH_START + b"\x00" + SECRET, "kind: 0 is not a kind of frame"),
        (ATTACH_START + b"\x05" + SECRET, "kind: 5 is not a kind of frame"),
    ],
)
def test_what_is_not_such_a_frame_is_refused_with_a_reason(frame, error):
    with pytest.raises(WireError) as refused:
        unpack(frame)
    assert str(refused.value) == error


@pytest.mark.parametrize("secret", [b"", bytes(15), bytes(17)])
def test_a_secret_has_sixteen_bytes(secret):
    with pytest.raises(WireError, match=f"secret: a secret has 16 bytes, not {len(secret)}"):
        pack(AttachKind.ATTACH, secret)


def test_no_frame_is_both_a_control_frame_and_a_tunnel_frame():
    assert ATTACH_START != tunnel.TUNNEL_START
    with pytest.raises(WireError):
        tunnel.unwrap(FRAME)


@given(st.binary(max_size=40) | st.binary(max_size=20).map(ATTACH_START.__add__))
def test_garbage_is_refused_or_has_this_one_form(frame):
    try:
        kind, secret = unpack(frame)
    except WireError:
        pass
    else:
        assert pack(kind, secret) == frame


def test_the_page_says_so():
    page = (Path(__file__).parents[3] / "docs" / "wire.md").read_text(encoding="utf-8")
    section = page.split("### Attaching to a host\n")[1]
    fields = [(int(a), int(b)) for a, b in re.findall(r"^\| (\d+) \| (\d+) \|", section, re.MULTILINE)]
    assert fields[0][0] == 0
    assert all(offset + size == after for (offset, size), (after, _) in pairwise(fields))
    assert sum(fields[-1]) == ATTACH_BYTES
    kinds = re.search(r"\| kind \| (.*) \|", section).group(1)
    assert kinds == ", ".join(f"{kind.value} {kind.name.lower()}" for kind in AttachKind)
