"""Mutated messages of switches, event packets and in-band messages: each is read, or refused by the one error for it.

Guided by coverage. A short run each time, and a million of each with PLEROMA_LONG=1.
"""

import os
import struct
import time

import pytest

from pleroma.content import Category, Integer, Real, Schema, Text
from pleroma.errors import SwitchError, WireError
from pleroma.switches.openflow import flow_stats, frames, message_channel, messages, replies
from pleroma.switches.openflow.message_channel import Frames
from pleroma.wire import api_call, attach, codec, header, inband_messages, tunnel, value_layout
from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.codec import Codec, EventPacket
from support.guided_mutation import GuidedMutation
from support.openflow_switch import ScriptedSwitch, hello, plain

LONG = os.environ.get("PLEROMA_LONG") == "1"
INPUTS = 1_000_000 if LONG else 20_000
LONGEST_SECONDS = 2.0
"""Reading one message; a busy machine may stand still for a while."""
EVERYTHING = Schema(
    "everything",
    (
        Integer("whole", True, -5, 2**40),
        Real("real", False, 0.0, 1.0),
        Category("kind", True, ("a", "b", "c")),
        Text("name", False),
        Text("more", True),
    ),
)
CODEC = Codec(EVERYTHING, 3)
KEY = b"k" * 32


def of_a_switch(data):
    """Read a stream as a connection does, whatever was asked."""
    for message in Frames().feed(data):
        version, kind, _, _ = messages.HEADER.unpack_from(message)
        if kind == messages.HELLO:
            replies.agreed_version(message)
        elif kind == messages.ERROR:
            str(replies.error_message(message))
        elif kind == messages.FEATURES_REPLY:
            replies.features(message)
        elif kind == messages.PACKET_IN:
            of_a_frame(replies.packet_in(message).data)
        elif kind == messages.PORT_STATUS:
            replies.port_status(message)
        elif kind == messages.ROLE_REPLY:
            replies.role(message)
        elif kind == messages.ROLE_STATUS:
            replies.role_status(message)
        elif kind in (messages.EXPERIMENTER, messages.BUNDLE_CONTROL):
            replies.bundle_reply(message)
        elif kind == messages.MULTIPART_REPLY:
            of_parts(replies.part(message), version)


def of_parts(part, version):
    readers = {
        messages.FLOW_STATS: (flow_stats.flow_entries, flow_stats.found_entries),
        messages.AGGREGATE_STATS: (replies.aggregate_packets,),
        messages.TABLE_STATS: (replies.active_entries,),
        messages.TABLE_FEATURES: (replies.room,),
        messages.PORT_DESCRIPTIONS: (lambda body: replies.ports(version, body),),
    }
    for read in readers.get(part.kind, ()):
        read(part.body)


def of_a_frame(data):
    frames.Datagram.unpack(data)
    frames.Beacon.unpack(data, KEY)


def of_an_event(data):
    header.peek(data)
    read = CODEC.decode(data)
    assert CODEC.encode(read) == data, "an event has one form"


def of_a_datagram(data):
    """Whatever comes to a port where programs attach."""
    for read in (tunnel.unwrap, attach.unpack, inband_messages.unpack, ApiRequest.unpack, ApiResponse.unpack):
        try:
            read(data)
        except WireError:
            continue


def switch_messages():
    for version in (messages.V13, messages.V14):
        switch = ScriptedSwitch(version)
        yield hello(version, 4, 5)
        yield plain(version, 1, 9, struct.pack("!HH", 5, 1) + plain(version, 14, 9, bytes(40)))
        yield plain(version, 1, 9, struct.pack("!HHI", 0xFFFF, 2310, 0x4F4E4600))
        yield plain(version, 6, 1, struct.pack("!QIBB2xII", 7, 0, 254, 0, 0, 0))
        yield plain(version, 12, 0, struct.pack("!B7x", 1) + switch.port(3, "eth3", 0, 1))
        yield plain(version, 25, 3, struct.pack("!I4xQ", 2, 7))
        yield plain(version, 30, 0, struct.pack("!IB3xQ", 3, 0, 8))
        yield plain(version, 33, 2, struct.pack("!IHH", 1, 5, 3))
        yield plain(version, 4, 2, struct.pack("!IIIHH", 0x4F4E4600, 2300, 1, 5, 3))
        field = struct.pack("!II", 0x80000004, 2)
        beacon = frames.Beacon(7, 2, "here").pack(KEY)
        match = struct.pack("!HH", 1, 12) + field + bytes(4)
        yield plain(version, 10, 0, struct.pack("!IHBBQ", 2**32 - 1, len(beacon), 1, 0, 5) + match + bytes(2) + beacon)
        parts = {
            1: entry(),
            2: struct.pack("!QQI4x", 5, 50, 2),
            3: struct.pack("!B3xIQQ", 1, 5, 9, 9),
            13: switch.port(1, "eth1", 0, 0) + switch.port(2, "eth2", 0, 0),
        }
        for kind, body in parts.items():
            yield plain(version, 19, 4, struct.pack("!HH4x", kind, 0) + body)


def entry():
    """A rule with a prefix of addresses, rewritten for a host and sent out, as flow statistics have it."""
    fields = struct.pack("!II", 0x80000004, 2) + struct.pack("!IH", 0x80000A02, 0x86DD)
    fields += struct.pack("!I", 0x80003520) + b"\xff\x0e" + bytes(14) + b"\xff" * 3 + bytes(13)
    match = struct.pack("!HH", 1, 4 + len(fields)) + fields
    match += bytes(-len(match) % 8)
    rewrite = struct.pack("!HHI", 25, 24, 0x80003410) + bytes(15) + b"\x01"
    actions = rewrite + struct.pack("!HHIH6x", 0, 16, 3, 0)
    instructions = struct.pack("!HH4x", 4, 8 + len(actions)) + actions + struct.pack("!HHB3x", 1, 8, 1)
    size = 48 + len(match) + len(instructions)
    head = struct.pack("!HBxIIHHHHHxxQQQ", size, 1, 3, 0, 116, 0, 0, 0, 0, 0x504C524D << 32, 5, 500)
    return head + match + instructions


def event_packets():
    for values in (
        {"real": 0.5, "name": "x" * 40},
        {"whole": -5, "real": 1.0, "kind": "b", "name": "", "more": "ü\x00y"},
    ):
        yield CODEC.encode(EventPacket(1, 3, 7, 2**40, 10**18, EVERYTHING.event(**values)))


def datagrams():
    yield from (tunnel.wrap(tunnel.IPv6Address(1), each) for each in event_packets())
    yield attach.pack(attach.AttachKind.ATTACH, bytes(attach.SECRET_BYTES))
    yield ApiRequest("GET", "/v1/schemas?limit=5", (("accept", "application/json"),), b"{}" * 200).pack()
    yield ApiResponse(200, (("content-type", "application/json"),), b"[1]" * 400).pack()
    nonce, session = bytes(16), bytes(8)
    for message in (
        inband_messages.Hello(nonce, "ann", "h1"),
        inband_messages.Challenge(nonce, nonce),
        inband_messages.Welcome(nonce, session, nonce, "h1"),
        inband_messages.MessageRefused(nonce, next(iter(inband_messages.RefusalReason))),
        inband_messages.MessagePart(inband_messages.MESSAGE_PART_KINDS[0], session, 1, 0, 2, b"body"),
    ):
        yield inband_messages.pack(message, KEY)


TARGETS = {
    "switch": (of_a_switch, switch_messages, (replies, flow_stats, frames, message_channel), SwitchError),
    "event": (of_an_event, event_packets, (codec, header, value_layout), WireError),
    "datagram": (of_a_datagram, datagrams, (tunnel, attach, inband_messages, api_call), WireError),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_mutated_message_is_read_or_refused_by_the_one_error_for_it_and_soon(name):
    target, seeds, modules, error = TARGETS[name]
    longest = 0.0

    def timed(data):
        nonlocal longest
        begun = time.perf_counter()
        try:
            target(data)
        finally:
            longest = max(longest, time.perf_counter() - begun)

    fuzzer = GuidedMutation(timed, seeds(), modules, (error,))
    before = len(fuzzer.lines)
    fuzzer.run(INPUTS)
    print(f"{name}: {INPUTS} inputs, {fuzzer.refused} refused, {before} -> {len(fuzzer.lines)} lines, {longest:.3f} s")
    assert len(fuzzer.lines) > before  # it has found its way beyond what the seeds reach
    assert longest < LONGEST_SECONDS
