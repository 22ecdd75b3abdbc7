"""The socket for events: who may attach, and what happens to who does not read."""

import asyncio
import os
import socket
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pleroma.errors import LimitReached, SetupError
from pleroma.host_agent.local_exchange import LocalExchange
from pleroma.host_agent.local_programs import Credentials, LocalProgram, LocalPrograms
from pleroma.host_agent.program_listener import MAX_UNKNOWN_CONNECTIONS, ProgramListener
from pleroma.host_agent.unix_sockets import LocalUser, bind_private, user_of
from pleroma.wire.attach import AttachKind, pack
from support.agent_parts import NATIVE, Hand, StubLink
from support.waiting import run, until

FRAME = b"x" * 1000
QUEUE_BYTES = 100_000


@pytest.fixture
def place():
    with tempfile.TemporaryDirectory(prefix="agent") as folder:
        yield Path(folder) / "agent.sock.events"


def program(name="one", user=0, ends=30.0):
    return LocalProgram(Credentials(f"plr_{name}"), "lease", "h1", user, ends)


@asynccontextmanager
async def listening(place, max_programs=10):
    exchange = LocalExchange(StubLink)
    exchange.use(NATIVE)
    programs = LocalPrograms(max_programs, lambda each: exchange.withdraw(each, each.registered))
    with ProgramListener(place, None, programs, exchange, QUEUE_BYTES) as listener:
        yield listener, programs
        for each in programs:
            programs.end(each)


def connected(place):
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.connect(str(place))
    made.setblocking(False)
    return made


async def attached(place, programs, who):
    programs.admit(who)
    made = connected(place)
    made.send(pack(AttachKind.ATTACH, who.secret))
    await until(lambda: who.connection is not None)
    assert await said(made) == pack(AttachKind.ATTACHED, who.secret)
    return made


async def said(made):
    """The next message; empty at the end of the connection."""
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(made, 2048), 10)


def test_who_does_not_read_loses_what_is_beyond_its_queue_and_nobody_else_does(place):
    async def main():
        async with listening(place) as (_, programs):
            slow, quick = program("slow"), program("quick")
            behind, ahead = await attached(place, programs, slow), await attached(place, programs, quick)
            sent = 0
            while slow.hand_over(sent.to_bytes(4) + FRAME):
                assert quick.hand_over(FRAME)
                assert await said(ahead) == FRAME
                sent += 1
                assert sent < 100_000
            assert slow.overrun == 1
            for number in range(sent):
                assert (await said(behind))[:4] == number.to_bytes(4)
            assert slow.hand_over(FRAME)
            assert await said(behind) == FRAME
            behind.close()
            ahead.close()
            await until(lambda: len(programs) == 0)

    run(main)


def test_a_wrong_secret_is_refused_and_so_is_one_that_is_in_use(place, caplog):
    caplog.set_level("INFO")

    async def main():
        async with listening(place) as (_, programs):
            who = program()
            first = await attached(place, programs, who)
            for secret in (bytes(16), who.secret):
                stranger = connected(place)
                stranger.send(pack(AttachKind.ATTACH, secret))
                assert await said(stranger) == pack(AttachKind.REFUSED, secret)
                assert await said(stranger) == b""
                stranger.close()
            silent = connected(place)
            silent.send(b"an event of somebody who has shown no secret")
            assert await said(silent) == b""
            silent.close()
            first.send(pack(AttachKind.ATTACH, who.secret))
            assert await said(first) == pack(AttachKind.ATTACHED, who.secret)
            first.send(pack(AttachKind.DETACH, who.secret))
            assert await said(first) == b""
            assert len(programs) == 0
            first.close()

    run(main)
    me = f"program {os.getpid()} of user {os.getuid()}"
    assert caplog.messages == [f"{me}, group {os.getgid()} is attached", f"{me} has left"]


def test_connections_that_show_no_secret_are_few_and_do_not_stay(place):
    async def main():
        async with listening(place) as (listener, _):
            crowd = [connected(place) for _ in range(MAX_UNKNOWN_CONNECTIONS + 3)]
            for first in crowd[:3]:
                assert await said(first) == b""
            listener.expire()
            with pytest.raises(BlockingIOError):
                crowd[3].recv(1)
            listener._newcomers = dict.fromkeys(listener._newcomers, 0.0)
            listener.expire()
            assert await said(crowd[-1]) == b""
            for each in crowd:
                each.close()

    run(main)


def test_a_user_whose_connections_show_no_secret_makes_room_with_one_of_its_own(place):
    async def main():
        async with listening(place) as (listener, _):
            honest = connected(place)
            await until(lambda: len(listener._newcomers) == 1)
            (theirs,) = listener._newcomers
            theirs.user = LocalUser(1, 4711, 4711)
            crowd = [connected(place) for _ in range(MAX_UNKNOWN_CONNECTIONS + 3)]
            for first in crowd[:4]:
                assert await said(first) == b""
            assert theirs in listener._newcomers
            for each in (honest, *crowd):
                each.close()

    run(main)


def test_the_sockets_are_for_a_group_and_another_agent_does_not_take_them(place):
    bound = bind_private(place, socket.SOCK_SEQPACKET, None)
    bound.listen()
    try:
        assert place.stat().st_mode & 0o777 == 0o660
        with pytest.raises(SetupError, match="another agent"):
            bind_private(place, socket.SOCK_SEQPACKET, None)
        with connected(place) as made:
            assert user_of(made.fileno()) == (os.getpid(), os.getuid(), os.getgid())
    finally:
        bound.close()
    bind_private(place, socket.SOCK_SEQPACKET, None).close()  # what is left of one that was killed is replaced
    with pytest.raises(SetupError, match="no-such-group"):
        bind_private(place.with_suffix(".other"), socket.SOCK_STREAM, "no-such-group")


def test_programs_are_bounded_and_one_user_leaves_room_for_others():
    ended = []
    programs = LocalPrograms(4, ended.append)
    for n in range(2):
        programs.admit(program(str(n), user=1))
    with pytest.raises(LimitReached):
        programs.admit(program("2", user=1))
    for n in range(2, 4):
        programs.admit(program(str(n), user=n))
    with pytest.raises(LimitReached):
        programs.admit(program("4", user=4))
    programs.end(programs.find(Credentials("plr_0"), "lease"))
    programs.admit(program("5", user=1))
    assert (len(programs), len(ended)) == (4, 1)


def test_a_program_that_attaches_again_is_the_one_that_is_found_and_the_first_stays_while_it_is_connected():
    programs = LocalPrograms(4, lambda _: None)
    first, second, third = program(), program(), program()
    programs.admit(first)
    programs.admit(second)
    assert programs.with_secret(first.secret) is None
    second.connection = Hand()
    programs.admit(third)
    assert programs.with_secret(second.secret) is second
    assert programs.find(first.who, "lease") is third
    programs.end(second)
    assert programs.find(first.who, "lease") is third
    assert programs.find(first.who, "other") is None


def test_who_does_not_connect_in_time_is_forgotten():
    programs = LocalPrograms(4, lambda _: None)
    late, there = program("late", ends=5.0), program("there", ends=5.0)
    for each in (late, there):
        programs.admit(each)
    there.connection = Hand()
    programs.expire(4.9)
    assert len(programs) == 2
    programs.expire(5.0)
    assert list(programs) == [there]
    programs.end(there)
    programs.end(there)
    assert len(programs) == 0
    assert programs._of_user == {}
