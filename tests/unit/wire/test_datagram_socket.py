"""The one socket class of the client, on the loopback interface: batches, errors, and what the kernel does not take."""

import asyncio
import socket
import sys
from contextlib import contextmanager

import pytest

from pleroma.wire.datagram_socket import RECEIVE_BUFFER_BYTES, DatagramSocket, open_socket


def bound():
    return open_socket(socket.AF_INET, lambda opened: opened.bind(("127.0.0.1", 0)))


@contextmanager
def sender():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        yield made


def run(work):
    async def limited():
        async with asyncio.timeout(20):
            await work

    asyncio.run(limited())


def test_datagrams_come_in_batches_of_at_most_so_many_in_order_and_with_their_sender():
    async def work():
        batches, done = [], asyncio.Event()

        def on_batch(batch):
            batches.append(list(batch))
            if sum(map(len, batches)) == 10:
                done.set()

        opened = bound()
        with sender() as made:
            for number in range(10):
                made.sendto(b"%d" % number, opened.getsockname())
            here = DatagramSocket(opened, on_batch, max_per_wake=4)
            await done.wait()
            assert [len(each) for each in batches] == [4, 4, 2]
            address = made.getsockname()
            assert [each for batch in batches for each in batch] == [(b"%d" % n, address) for n in range(10)]
        here.close()

    run(work())


def test_others_have_their_turn_between_two_batches():
    async def work():
        turns, done = [], asyncio.Event()

        def on_batch(batch):
            turns.append(len(batch))
            asyncio.get_running_loop().call_soon(turns.append, "other")
            if turns.count(2) == 3:
                done.set()

        opened = bound()
        with sender() as made:
            for _ in range(6):
                made.sendto(b"x", opened.getsockname())
        here = DatagramSocket(opened, on_batch, max_per_wake=2)
        await done.wait()
        assert turns[:5] == [2, "other", 2, "other", 2]
        here.close()

    run(work())


def test_that_nobody_listens_at_the_other_end_is_told():
    async def work():
        with sender() as made:
            gone = made.getsockname()
        told = asyncio.Queue()
        opened = open_socket(socket.AF_INET, lambda opened: opened.connect(gone))
        here = DatagramSocket(opened, lambda _: None, told.put_nowait)
        assert here.send(b"x") is None
        assert isinstance(await told.get(), ConnectionRefusedError)
        here.close()

    run(work())


def test_what_the_kernel_does_not_take_is_an_error_that_is_returned():
    async def work():
        here = DatagramSocket(bound(), lambda _: None)
        with sender() as made:
            assert here.send(b"x", made.getsockname()) is None
            assert made.recv(10) == b"x"
        assert isinstance(here.send(bytes(70_000), ("127.0.0.1", 9)), OSError)
        here.close()
        assert isinstance(here.send(b"x", ("127.0.0.1", 9)), OSError)

    run(work())


def test_what_waits_can_be_taken_before_it_is_closed_and_it_is_closed_once():
    async def work():
        batches = []
        here = DatagramSocket(bound(), batches.append)
        with sender() as made:
            made.sendto(b"last", here.socket.getsockname())
            here.read()
            assert batches == [[(b"last", made.getsockname())]]
        assert (here.overrun, here.is_closed) == (0, False)
        here.close()
        here.close()
        assert (here.overrun, here.is_closed) == (0, True)

    run(work())


def test_a_socket_that_cannot_be_prepared_is_closed():
    kept = []

    def prepare(opened):
        kept.append(opened)
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        open_socket(socket.AF_INET, prepare)
    assert kept[0].fileno() == -1


def test_a_socket_has_as_large_a_receive_buffer_as_the_system_gives():
    with bound() as opened, sender() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        option = socket.SOL_SOCKET, socket.SO_RCVBUF
        assert opened.getsockopt(*option) == made.getsockopt(*option)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what it dropped")
def test_datagrams_that_the_kernel_dropped_are_counted():
    async def work():
        received = []
        here = DatagramSocket(bound(), received.extend, max_per_wake=1_000)
        here.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with sender() as made:
            for _ in range(200):
                made.sendto(bytes(1000), here.socket.getsockname())
        here.read()
        assert here.overrun == 200 - len(received) > 0
        here.close()

    run(work())
