import asyncio
import struct
from ipaddress import IPv6Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.errors import SwitchError, SwitchRefused
from pleroma.routing import Change
from pleroma.switches.openflow.connection import Connection
from pleroma.switches.openflow.message_channel import Frames
from pleroma.switches.openflow.rule import CountedRule, Match, Rule, RuleChange, Send
from support.openflow_switch import ScriptedSwitch, hello, plain
from support.openflow_wire import stats_entry

messages = st.builds(
    plain, st.sampled_from([4, 5]), st.integers(0, 40), st.integers(0, 2**32 - 1), st.binary(max_size=90)
)
RULE = Rule(0, 1, Match(destination=IPv6Network("ff0e::/16")), (Send(1),))


@given(st.lists(messages, max_size=8), st.data())
def test_messages_arrive_whole_however_the_stream_is_cut(sent, data):
    stream = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    frames = Frames()
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [message for piece in pieces for message in frames.feed(piece)] == sent


def test_the_largest_message_arrives_in_small_pieces_too():
    message = plain(5, 2, 1, bytes(65_527))
    frames = Frames()
    assert [each for at in range(0, len(message), 1000) for each in frames.feed(message[at : at + 1000])] == [message]


@pytest.mark.parametrize("start", [b"\0\0\0\x08\0\0\0\0", b"GET / HT", struct.pack("!BBHI", 5, 0, 7, 0)])
def test_what_cannot_be_openflow_is_refused(start):
    with pytest.raises(SwitchError):
        list(Frames().feed(start))


class Transport(asyncio.Transport):
    """Takes what it is given and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closing = False

    def write(self, data):
        assert not self.closing
        self.written += data

    def get_write_buffer_size(self):
        return 0

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def close(self):
        self.closing = True

    abort = close


def introduction() -> list[bytes]:
    """What a switch says first, each after it has been asked."""
    switch = ScriptedSwitch(5)
    ports = b"".join(switch.port(*port) for port in switch.ports)
    return [
        hello(5),
        plain(5, 6, 2, struct.pack("!QIBB2xII", 7, 0, 254, 0, 0, 0)),
        plain(5, 19, 3, struct.pack("!HH4x", 13, 0) + ports),
    ]


def conversation() -> list[bytes]:
    """What it may say then: answers to all that has been asked, and what it tells unasked."""
    match = struct.pack("!HHII4x", 1, 12, 0x80000004, 3)
    return [
        plain(5, 19, 4, struct.pack("!HH4x", 1, 1) + stats_entry(5, RULE)),
        plain(5, 19, 4, struct.pack("!HH4x", 1, 0) + stats_entry(5, RULE)),
        plain(5, 19, 5, struct.pack("!HH4x", 3, 0) + struct.pack("!B3xIQQ", 0, 1, 2, 3)),
        plain(5, 21, 6),
        plain(5, 25, 97, struct.pack("!I4xQ", 2, 1)),
        plain(5, 33, 8, struct.pack("!IHH", 1, 1, 3)),
        plain(5, 21, 9),
        plain(5, 12, 0, struct.pack("!B7x", 2) + ScriptedSwitch(5).port(1, "eth1", 0, 1)),
        plain(5, 10, 0, struct.pack("!IHBBQ", 0xFFFFFFFF, 3, 1, 0, 0) + match + b"\0\0abc"),
        plain(5, 2, 9, b"echo"),
        plain(5, 1, 99, struct.pack("!HH", 5, 1) + bytes(64)),
        plain(4, 1, 0, struct.pack("!HHI", 0xFFFF, 2301, 0x4F4E4600) + bytes(64)),
        plain(5, 4, 98, struct.pack("!IIIHH", 0x4F4E4600, 2300, 1, 1, 3)),
    ]


async def listen_to(said_first: list[bytes], stream: bytes, cut: int = 0) -> tuple[Connection, list[object]]:
    """A connection that asks everything there is to ask, and is told this; and what came of each question."""
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    connection, transport = Connection(), Transport()
    connection.channel.connection_made(transport)
    asked = [asyncio.create_task(connection.shake_hands())]

    async def tell(said: bytes) -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        if not transport.closing:
            connection.channel.data_received(said)

    for message in said_first:
        await tell(message)
    await tell(b"")
    if asked[0].done() and asked[0].exception() is None:
        questions = connection.flows(), connection.table_sizes(), connection.barrier()
        asked += [asyncio.create_task(each) for each in (*questions, connection.commit([RuleChange(Change.ADD, RULE)]))]
    await tell(stream[:cut])
    await tell(stream[cut:])
    await tell(b"")
    assert transport.closing == (connection.closed is not None)
    connection.channel.connection_lost(None)
    async with asyncio.timeout(5):
        results = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(each, SwitchError) or not isinstance(each, BaseException) for each in results), results
    assert connection.closed
    assert not problems
    return connection, results


bytes_that_matter = st.one_of(st.sampled_from([0, 1, 3, 4, 8, 16, 0x7F, 0x80, 0xFF]), st.integers(0, 255))


def damage(stream: bytes, data) -> bytes:
    damaged = bytearray(stream)
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(bytes_that_matter)
    return bytes(damaged)


@given(st.permutations(conversation()), st.data())
@settings(max_examples=200)
def test_no_damage_to_a_conversation_raises_out_of_the_reader(said, data):
    stream = damage(b"".join(said), data)
    asyncio.run(listen_to(introduction(), stream, data.draw(st.integers(0, len(stream)))))


@given(st.integers(0, 2), st.data())
def test_no_damage_to_an_introduction_raises_out_of_the_reader(place, data):
    said = introduction()
    said[place] = damage(said[place], data)
    asyncio.run(listen_to(said, b"".join(conversation())))


@given(st.sampled_from(range(len(conversation()))), st.data())
@settings(max_examples=200)
def test_no_message_with_random_content_raises_out_of_the_reader(place, data):
    whole = conversation()[place]
    body = data.draw(st.binary(max_size=200))
    keep = data.draw(st.integers(8, len(whole)))
    message = whole[:2] + struct.pack("!H", keep + len(body)) + whole[4:keep] + body
    asyncio.run(listen_to(introduction(), message))


@given(st.binary(max_size=300), st.booleans())
def test_no_random_bytes_raise_out_of_the_reader(stream, introduced):
    asyncio.run(listen_to(introduction() if introduced else [], stream))


def test_the_conversation_as_it_is_answers_every_question():
    """So the damaged ones reach what reads them."""
    connection, [hands, flows, _, barrier, commit] = asyncio.run(listen_to(introduction(), b"".join(conversation())))
    assert connection.closed == "the switch closed the connection"
    assert (connection.datapath, len(connection.ports), connection.ports[1].up) == (7, 3, False)
    assert hands is barrier is None
    assert flows == [CountedRule(RULE, 0, 0)] * 2
    assert isinstance(commit, SwitchRefused)  # there was an error that names nobody
