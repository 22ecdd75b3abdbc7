"""Batches as they lie in etcd: what goes in comes out, and whatever was changed is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.control.log.etcd.packed_batch import LogHead, PackedBatch, PackedBodies
from pleroma.errors import LogDamaged

BODIES = st.lists(st.binary(max_size=400), min_size=1, max_size=20)
NONCE = bytes(range(16))


def batch_of(bodies, *, is_apart=False):
    return PackedBatch.after(LogHead(), NONCE, PackedBodies.of(bodies), is_apart=is_apart)


@given(BODIES, st.integers(0, 2**40), st.booleans())
def test_what_is_packed_is_read_again(bodies, position, is_apart):
    packed = PackedBodies.of(bodies)
    batch = PackedBatch.after(LogHead(position), NONCE, packed, is_apart=is_apart)
    read = PackedBatch.read(b"key", batch.packed(), batch.last)
    assert (read.first, read.last) == (position + 1, position + len(bodies))
    assert read.follows(LogHead().chain)
    assert read.is_apart == is_apart
    assert read.bodies(b"key", packed.payload if is_apart else read.payload) == bodies
    assert LogHead.read(b"head", read.head.packed()) == batch.head


@given(BODIES, st.data())
def test_a_changed_byte_is_noticed_wherever_it_is(bodies, data):
    batch = batch_of(bodies)
    value = bytearray(batch.packed())
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(LogDamaged, match="key is not"):  # noqa: PT012 (where it is noticed depends on the byte)
        read = PackedBatch.read(b"key", bytes(value), batch.last)
        read.bodies(b"key", read.payload)
        if not read.follows(LogHead().chain):
            raise LogDamaged("key is not behind the one before it")


@given(st.data())
def test_a_changed_head_is_noticed(data):
    value = bytearray(LogHead(7, NONCE, bytes(16)).packed())
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(LogDamaged, match="head is not"):
        LogHead.read(b"head", bytes(value))


def test_a_batch_in_the_place_of_another_is_noticed():
    value = batch_of([b"a", b"b"]).packed()
    for last in (1, 3):
        with pytest.raises(LogDamaged):
            PackedBatch.read(b"key", value, last)


def test_a_batch_follows_only_the_one_that_it_was_appended_to():
    first = batch_of([b"a"])
    second = PackedBatch.after(first.head, NONCE, PackedBodies.of([b"b"]), is_apart=False)
    assert second.follows(first.chain)
    assert not second.follows(batch_of([b"c"]).chain)


@given(st.binary(max_size=200))
def test_bytes_of_others_are_no_batch_and_no_head(value):
    with pytest.raises(LogDamaged):
        PackedBatch.read(b"key", value, 1)
    with pytest.raises(LogDamaged):
        LogHead.read(b"key", value)
