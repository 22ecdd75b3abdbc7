"""Packets of several versions: written in the earliest that has room, read as events of the last."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pleroma.content import Integer, Schema
from pleroma.content.schema_versions import lifted, lowered
from pleroma.errors import WireError
from pleroma.wire import Codec, EventPacket, peek
from pleroma.wire.versioned_codec import VersionedCodec, codec_of
from support.schema_versions import versions
from support.strategies import events


def packet(event):
    return EventPacket(1, 7, 9, 3, 1_000, event, b"")


@given(versions(), st.data())
def test_an_event_is_written_in_the_earliest_version_that_has_room_and_read_in_the_last(pair, data):
    earlier, later = pair
    assume(earlier != later)
    codec = codec_of(pair, 7)
    assert isinstance(codec, VersionedCodec)
    event = data.draw(events(later))
    written = codec.encode(packet(event))
    held = lowered(event, earlier)
    assert codec.decode(written) == packet(event)
    if held is not None:
        assert written == Codec(earlier, 7).encode(packet(held)), "who knows the earlier version only can read it"
    else:
        assert written == Codec(later, 7).encode(packet(event))


@given(versions(), st.data())
def test_events_of_the_earlier_version_are_taken_and_read_as_they_are_written_by_who_knows_no_other(pair, data):
    earlier, later = pair
    assume(earlier != later)
    event = data.draw(events(earlier))
    codec, alone = codec_of(pair, 7), Codec(earlier, 7)
    assert codec.encode(packet(event)) == alone.encode(packet(event))
    assert codec.decode(alone.encode(packet(event))).event == lifted(event, later)


def test_other_schemas_and_versions_are_refused():
    first, second, third = (Schema("s", (Integer("a", False, 0, most),)) for most in (9, 99, 999))
    codec = codec_of((first, second), 7)
    written = Codec(third, 7).encode(packet(third.event(a=500)))
    assert peek(written).fingerprint not in codec.fingerprints
    with pytest.raises(WireError, match="of no version of schema s"):
        codec.decode(written)
    with pytest.raises(WireError, match="of another schema than s"):
        codec.encode(packet(third.event(a=1)))
    assert isinstance(codec_of((first,), 7), Codec)
