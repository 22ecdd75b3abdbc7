"""In-band messages: any of them survives the way, nothing else is taken for one, and parts come together anyhow."""

import zlib
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import WireError
from pleroma.wire import MAX_PACKET_BYTES
from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.inband_messages import (
    CODE_BYTES,
    INBAND_START,
    MAX_PART_BYTES,
    MAX_PARTS,
    MESSAGE_PART_KINDS,
    NO_COOKIE,
    Challenge,
    Hello,
    MessageKind,
    MessagePart,
    MessageRefused,
    RefusalReason,
    Welcome,
    hello_key,
    is_genuine,
    pack,
    unpack,
)
from pleroma.wire.parts import MAX_PARTS_IN_FLIGHT, Assembly, cut, pack_numbers, unpack_numbers
from pleroma.wire.token_proof import PROOF_BYTES, client_key, verifier_of

KEY = b"k" * 32
nonces = st.binary(min_size=16, max_size=16)
sessions = st.binary(min_size=8, max_size=8)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@st.composite
def parts(draw):
    many = draw(st.integers(1, MAX_PARTS))
    number = draw(st.integers(0, many - 1))
    sequence = draw(st.integers(0, 2**64 - 1))
    kind = draw(st.sampled_from(MESSAGE_PART_KINDS))
    return MessagePart(kind, draw(sessions), sequence, number, many, draw(st.binary(max_size=MAX_PART_BYTES)))


hellos = st.builds(Hello, nonces, names, names, nonces)
messages = (
    hellos
    | st.builds(Challenge, nonces, nonces)
    | st.builds(Welcome, nonces, sessions, nonces, names)
    | st.builds(MessageRefused, nonces, st.sampled_from(RefusalReason))
    | parts()
)


@given(messages)
def test_every_message_survives_the_way(message):
    data = pack(message, KEY)
    assert len(data) <= MAX_PACKET_BYTES
    assert unpack(data) == message


@given(messages.filter(lambda message: isinstance(message, Welcome | MessagePart)), st.data())
def test_a_message_that_was_changed_is_not_genuine(message, data):
    sent = pack(message, KEY)
    assert is_genuine(sent, KEY)
    assert not is_genuine(sent, b"another key")
    at = data.draw(st.integers(0, len(sent) - 1))
    changed = bytearray(sent)
    changed[at] ^= data.draw(st.integers(1, 255))
    assert not is_genuine(bytes(changed), KEY)


@given(hellos.filter(lambda hello: hello.cookie != NO_COOKIE), st.text(), st.data())
def test_a_hello_proves_its_token_with_the_verifier_alone_and_nothing_in_it_can_be_changed(hello, token, data):
    key = client_key(token.encode(errors="replace"))
    sent = pack(hello, key)
    assert hello_key(sent, verifier_of(key)) == key
    assert hello_key(pack(hello, KEY), verifier_of(key)) is None
    at = data.draw(st.integers(0, len(sent) - 1))
    changed = bytearray(sent)
    changed[at] ^= data.draw(st.integers(1, 255))
    assert hello_key(bytes(changed), verifier_of(key)) is None


@given(hellos)
def test_no_answer_to_somebody_unknown_is_longer_than_the_hello(hello):
    first = pack(Hello(hello.nonce, hello.principal, hello.host))
    assert len(first) == len(pack(hello, KEY))
    assert len(pack(Challenge(hello.nonce, hello.cookie))) < len(first)
    assert len(pack(MessageRefused(hello.nonce, RefusalReason.NOT_KNOWN))) < len(first)


@given(st.binary(max_size=80) | st.binary(max_size=80).map(INBAND_START.__add__))
def test_garbage_is_refused_or_has_this_one_form(data):
    try:
        message = unpack(data)
    except WireError:
        return
    again = pack(message, KEY)
    ending = PROOF_BYTES if isinstance(message, Hello) else CODE_BYTES
    assert again[: len(data) - ending] == data[:-ending]


@given(messages, st.data())
def test_a_message_that_is_cut_short_never_raises_another_error(message, data):
    sent = pack(message, KEY)
    cut_off = sent[: data.draw(st.integers(0, len(sent) - 1))]
    with suppress(WireError):
        assert unpack(cut_off) != message


@pytest.mark.parametrize("kind", [MessageKind.HELLO, MessageKind.CHALLENGE, MessageKind.WELCOME, MessageKind.REFUSED])
def test_only_requests_and_answers_have_parts(kind):
    with pytest.raises(WireError, match="kind"):
        pack(MessagePart(kind, bytes(8), 1, 0, 1, b""), KEY)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Hello(b"short", "ann"), "nonce"),
        (Hello(bytes(16), "a" * 256), "name"),
        (Hello(bytes(16), "ann", "", b"short"), "cookie"),
        (Challenge(bytes(16), b"short"), "cookie"),
        (Welcome(bytes(16), b"", bytes(16)), "session"),
        (MessagePart(MessageKind.REQUEST, bytes(8), 1, 1, 1, b""), "part"),
        (MessagePart(MessageKind.REQUEST, bytes(8), 1, 0, MAX_PARTS + 1, b""), "part"),
        (MessagePart(MessageKind.REQUEST, bytes(8), 2**64, 0, 1, b""), "sequence"),
        (MessagePart(MessageKind.REQUEST, bytes(8), 1, 0, 1, bytes(MAX_PART_BYTES + 1)), "size"),
    ],
)
def test_what_has_no_room_is_refused_with_its_field(message, field):
    with pytest.raises(WireError) as refused:
        pack(message, KEY)
    assert refused.value.field == field


# -- parts -------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 40 * MAX_PART_BYTES), st.randoms(use_true_random=False))
def test_parts_come_together_in_any_order_and_however_often(size, random):
    whole = random.randbytes(size)
    pieces = cut(whole)
    arriving = list(enumerate(pieces)) * 2
    random.shuffle(arriving)
    assembly = Assembly(len(pieces))
    for number, body in arriving:
        assembly.add(number, body)
    assert assembly.is_complete
    assert assembly.lacking() == []
    assert assembly.whole() == whole


@given(st.integers(1, 5 * MAX_PARTS_IN_FLIGHT), st.floats(0, 0.8), st.integers(0, 2**32))
def test_asking_for_what_is_lacking_ends_however_much_is_lost(count, loss, seed):
    """A sender without a clock: it sends a window, then what it is asked for, and the last part when all is quiet.

    What is lost is drawn from a seed: told to choose, the framework would in the end have everything be lost.
    """
    random = Random(seed)
    assembly = Assembly(count)
    sending = list(range(min(MAX_PARTS_IN_FLIGHT, count)))
    for _ in range(20_000):
        assert len(sending) <= MAX_PARTS_IN_FLIGHT
        asked = []
        for number in sending:
            if random.random() >= loss and assembly.add(number, b"%d" % number):
                asked = assembly.lacking()
        if assembly.is_complete:
            break
        sending = asked if asked and random.random() >= loss else [count - 1]
    assert assembly.is_complete
    assert assembly.whole() == b"".join(b"%d" % number for number in range(count))


def test_a_message_of_too_many_parts_is_refused():
    assert len(cut(bytes(MAX_PARTS * MAX_PART_BYTES))) == MAX_PARTS
    with pytest.raises(WireError, match="size"):
        cut(bytes(MAX_PARTS * MAX_PART_BYTES + 1))


@given(st.binary(max_size=400), st.integers(0, 30))
def test_only_parts_that_are_there_can_be_asked_for(body, count):
    numbers = unpack_numbers(body, [b""] * count)
    assert len(numbers) <= MAX_PARTS_IN_FLIGHT
    assert all(0 <= number < count for number in numbers)


def test_numbers_survive_the_way():
    numbers = list(range(0, 2 * MAX_PARTS_IN_FLIGHT, 2))
    assert unpack_numbers(pack_numbers(numbers), [b""] * 200) == numbers


# -- calls -------------------------------------------------------------------------------------------------------------

headers = st.lists(
    st.tuples(st.from_regex("[a-z0-9-]{1,20}", fullmatch=True), st.from_regex("[ -~]{0,40}", fullmatch=True)),
    max_size=5,
).map(tuple)
bodies = st.binary(max_size=2000) | st.integers(0, 5000).map(lambda size: b"ab" * size)
requests = st.builds(
    ApiRequest,
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    st.from_regex("/[!-~]{0,40}", fullmatch=True),
    headers,
    bodies,
    st.integers(0, 2**64 - 1),
)


@given(requests)
def test_a_request_survives_the_way(request):
    assert ApiRequest.unpack(request.pack()) == request


@given(st.integers(100, 599), headers, bodies)
def test_an_answer_survives_the_way(status, given_headers, body):
    answer = ApiResponse(status, given_headers, body)
    assert ApiResponse.unpack(answer.pack()) == answer


def test_what_repeats_itself_is_compressed():
    assert len(ApiResponse(200, (), b'{"a":1},' * 10_000).pack()) < 2000


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda data: bytes(8) + b"\1" + data))
def test_garbage_is_no_call(data):
    for kind in (ApiRequest, ApiResponse):
        try:
            read = kind.unpack(data)
        except WireError:
            continue
        assert kind.unpack(read.pack()) == read


@pytest.mark.parametrize(
    "request_",
    [
        ApiRequest("get", "/"),
        ApiRequest("GET", "v1"),
        ApiRequest("GET", "/a b"),
        ApiRequest("GET", "/", (("a", "b\nc: d"),)),
        ApiRequest("GET", "/", (("A", "b"),)),
    ],
)
def test_what_could_be_read_otherwise_is_not_written(request_):
    with pytest.raises(WireError):
        request_.pack()


def test_a_small_message_cannot_become_a_huge_one():
    bomb = b"\1" + zlib.compress(bytes(50_000_000))
    with pytest.raises(WireError, match="decompressed"):
        ApiResponse.unpack(bomb)
