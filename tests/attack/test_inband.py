"""Attacks on in-band sessions: replayed and forged hellos, sessions without end, and what a stolen log is good for."""

import asyncio
import hashlib
import os
import random
import socket
import sqlite3
import time
from contextlib import closing
from dataclasses import replace

import pytest

from pleroma.client.inband.datagram_pipe import DatagramPipe
from pleroma.client.inband.udp_address import UdpAddress
from pleroma.control import CreateSchema
from pleroma.control.log.sqlite_log import _checksum, _digest
from pleroma.control.logged_state import LOG_FILE_NAME, LoggedState
from pleroma.routing import Port, SwitchId
from pleroma.service.http.limits import Buckets
from pleroma.service.inband.hello_cookies import COOKIE_PERIOD_SECONDS
from pleroma.service.inband.inband_limits import InbandLimits
from pleroma.switches.openflow.openflow_network import Arrival
from pleroma.wire.inband_messages import (
    NO_COOKIE,
    Challenge,
    Hello,
    MessageKind,
    MessagePart,
    Welcome,
    hello_key,
    pack,
    unpack,
)
from pleroma.wire.token_proof import client_key
from support.broker_parts import here
from support.control_cases import ANN, DIGEST, LINE, SMALL, WEATHER, subscribe
from support.inband_echo import Echo, asked, echoing
from support.inband_pipes import TOKEN, LossyNetwork
from support.service.in_process import ADMIN, world
from support.strategies import STOCK
from support.waiting import run

LONG = os.environ.get("PLEROMA_LONG") == "1"
PORTS = 3000 if LONG else 600


def hellos_with_proof(network):
    """The hellos that a client has sent to a server with a cookie, as the frames that they came in."""
    said = [(arrival, unpack(arrival[2][-_payload(arrival[2]) :])) for arrival in network.up]
    return [arrival for arrival, message in said if isinstance(message, Hello) and message.cookie != NO_COOKIE]


def _payload(frame):
    return len(frame) - frame.index(b"PLC")


def test_a_recorded_hello_from_thousands_of_ports_takes_no_session_of_a_broker_and_opens_none(tmp_path, monkeypatch):
    sent = []
    send = DatagramPipe.send
    monkeypatch.setattr(DatagramPipe, "send", lambda pipe, data: (sent.append(data), send(pipe, data))[1])

    async def main():
        async with here(tmp_path, schemas=[STOCK]) as broker, broker.connect() as client:
            await client.schema("stock")
            hellos = {each: message for each in sent if isinstance(message := unpack(each), Hello)}
            (recorded,) = (each for each, hello in hellos.items() if hello.cookie != NO_COOKIE)
            table = broker.plane.requests.sessions
            before = [each.welcome.session for each in table]
            loop, at = asyncio.get_running_loop(), UdpAddress.parse(broker.udp)
            answers = []
            for start in range(0, PORTS, 200):
                sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(min(200, PORTS - start))]
                for each in sockets:
                    each.setblocking(False)
                    each.sendto(recorded, (at.host, at.port))
                async with asyncio.timeout(20):
                    answers += await asyncio.gather(*(loop.sock_recv(each, 2000) for each in sockets))
                for each in sockets:
                    each.close()
            assert {type(unpack(each)) for each in answers} == {Challenge}
            assert max(map(len, answers)) <= len(recorded)
            assert [each.welcome.session for each in table] == before
            assert (await client.schema("stock")).name == "stock"
            assert [each.welcome.session for each in table] == before

    run(main, 60)


@pytest.mark.parametrize("elsewhere", [{"switch": "R2"}, {"port": 2}, {"address": "fd00::2"}])
def test_a_recorded_hello_opens_nothing_elsewhere(elsewhere):
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        await asked(network.conversation())
        ((_, _, frame),) = hellos_with_proof(network)
        (pipe,) = network.opener(**elsewhere)(lambda *_: None)
        server.arrived(Arrival(pipe.switch, pipe.port, pipe.frame(frame[-_payload(frame) :])))
        assert isinstance(unpack(network.down[-1]), Challenge)
        assert len(server.sessions) == 1

    run(main)


def test_a_recorded_hello_opens_nothing_later_and_finds_its_own_session_before():
    async def main():
        network, now = LossyNetwork(), [1000.0]
        server = echoing(network, clock=lambda: now[0], idle_seconds=COOKIE_PERIOD_SECONDS)
        await asked(network.conversation())
        ((switch, port, frame),) = hellos_with_proof(network)
        (session,) = server.sessions
        now[0] += COOKIE_PERIOD_SECONDS
        server.arrived(Arrival(switch, port, frame))
        assert unpack(network.down[-1]) == session.welcome
        assert list(server.sessions) == [session]
        now[0] += COOKIE_PERIOD_SECONDS
        server.arrived(Arrival(switch, port, frame))
        assert isinstance(unpack(network.down[-1]), Challenge)
        assert list(server.sessions) == [session]

    run(main)


def test_hellos_of_strangers_leave_nothing_behind_and_cost_little():
    """A hello from a place never seen before costs about the same, however many have come before."""

    async def main():
        network = LossyNetwork()
        server = echoing(network, refusals_per_s=1e6)
        (pipe,) = network.opener()(lambda *_: None)
        network.pipes.clear()
        chance = random.Random(1)

        def flood(places):
            started = time.process_time()
            for number in places:
                hello = pack(Hello(chance.randbytes(16), "ann", "", chance.choice([NO_COOKIE, chance.randbytes(16)])))
                server.arrived(Arrival(SwitchId(f"R{number}"), Port(1), pipe.frame(hello)))
            network.down.clear()
            return time.process_time() - started

        first = flood(range(2000))
        flood(range(2000, 15_000))
        assert flood(range(15_000, 17_000)) < 5 * first + 0.1
        assert not server.sessions
        assert not server.sessions._crowds
        assert len(server._arrivals._levels) < 20_000

    run(main, 60)


def test_buckets_of_many_names_are_not_looked_through_at_every_request():
    looked = [0]

    class Clocked(Buckets):
        def _forget(self, now):
            looked[0] += len(self._levels)
            super()._forget(now)

    buckets = Clocked(0.001, lambda: 0.0)
    for number in range(50_000):
        buckets.take(str(number))
    assert looked[0] < 4 * 50_000


def opened(server, principal, number, nonce=None):
    """Open a session of a principal from a place of its own; returns it, or None if there was no room."""
    network = server._carrier._put_out.__self__
    place = {"switch": f"S{number}", "port": number % 60_000, "address": f"fd00::{number:x}"}
    (pipe,) = network.opener(**place)(lambda *_: None)
    hello = Hello(nonce or random.randbytes(16), principal)
    server.arrived(Arrival(pipe.switch, pipe.port, pipe.frame(pack(hello))))
    challenge = unpack(network.down[-1])
    assert isinstance(challenge, Challenge)
    proven = pack(replace(hello, cookie=challenge.cookie), client_key(TOKEN))
    server.arrived(Arrival(pipe.switch, pipe.port, pipe.frame(proven)))
    answer = unpack(network.down[-1])
    return next(each for each in server.sessions if each.welcome == answer) if isinstance(answer, Welcome) else None


def test_one_principal_cannot_take_the_sessions_of_another():
    async def main():
        server = echoing(LossyNetwork(), max_sessions=40, max_sessions_of_a_principal=40)
        honest = [opened(server, "ann", number) for number in range(5)]
        for number in range(100, 300):
            assert opened(server, "ben", number) is not None
        assert all(map(server.sessions.is_open, honest))
        assert len(server.sessions) == 40
        late = opened(server, "ann", 500)
        assert late is not None
        assert all(map(server.sessions.is_open, [*honest, late]))

    run(main)


def test_a_principal_has_no_more_than_its_share_of_sessions():
    async def main():
        server = echoing(LossyNetwork(), max_sessions_of_a_principal=10)
        made = [opened(server, "ben", number) for number in range(25)]
        assert [each for each in made if server.sessions.is_open(each)] == made[15:]
        assert InbandLimits().max_sessions_of_a_principal <= InbandLimits().max_sessions // 2

    run(main)


def test_sessions_in_use_do_not_make_room_for_a_principal_that_has_as_many():
    async def main():
        now = [0.0]
        server = echoing(LossyNetwork(), max_sessions=1, clock=lambda: now[0])
        first = opened(server, "ann", 1)
        assert opened(server, "ben", 2) is None
        assert server.counts["no room"] == 1
        now[0] += InbandLimits().in_use_seconds + 1
        assert opened(server, "ben", 2) is not None
        assert not server.sessions.is_open(first)

    run(main)


def test_an_address_has_no_more_than_its_share_of_sessions_whatever_ports_it_uses():
    async def main():
        server = echoing(LossyNetwork(), max_sessions_at_an_address=3)
        network = server._carrier._put_out.__self__
        for port in range(1, 9):
            await asked(network.conversation(port=port))
            assert len(server.sessions) <= 3

    run(main)


def test_sessions_that_ended_leave_nothing_behind():
    async def main():
        now = [0.0]
        server = echoing(LossyNetwork(), clock=lambda: now[0])
        for number in range(20):
            opened(server, "ann", number)
        now[0] += InbandLimits().idle_seconds + 1
        opened(server, "ben", 99)
        assert len(server.sessions) == 1
        assert len(server.sessions._crowds) == 3
        assert len(server.sessions._by_hello) == 1

    run(main)


def test_unfinished_requests_of_one_principal_leave_room_for_those_of_another():
    async def main():
        server = echoing(LossyNetwork(), max_bytes=40_000, max_principal_bytes=20_000, max_session_bytes=20_000)
        network = server._carrier._put_out.__self__
        for number in range(4):
            session = opened(server, "ben", number)
            (pipe,) = network.opener(f"S{number}", number, f"fd00::{number:x}")(lambda *_: None)
            for sequence in range(1, 30):
                part = MessagePart(MessageKind.REQUEST, session.welcome.session, sequence, 0, 9, bytes(1000))
                server.arrived(Arrival(pipe.switch, pipe.port, pipe.frame(pack(part, session.key))))
        assert server.sessions.budget.used <= 20_000
        answer = await asked(network.conversation(), "/", random.Random(1).randbytes(15_000))
        assert answer.status == 207

    run(main)


def test_slow_requests_of_one_principal_leave_room_for_those_of_another():
    async def main():
        go_on = asyncio.Event()

        async def app(scope, receive, send):
            if scope["pleroma.in_band"].principal == "ben":
                await go_on.wait()
            await Echo()(scope, receive, send)

        network = LossyNetwork()
        server = echoing(network, app=app, max_running=8, max_running_of_a_principal=4)
        host = LINE.host["h2"]
        bens = network.conversation("ben", switch=host.switch, port=host.port, address=host.address, mac=host.ethernet)
        slow = [asyncio.create_task(asked(bens)) for _ in range(6)]
        async with asyncio.timeout(10):
            while not server.counts["busy"]:
                await asyncio.sleep(0.01)
        assert (await asked(network.conversation())).status == 207
        go_on.set()
        await asyncio.gather(*slow)
        await server.close()
        assert not server._running_of

    run(main, 40)


def test_what_the_controller_stores_is_no_key_of_a_principal():
    """Whoever reads the log has the verifiers; used as keys in any way known here, they prove nothing."""

    async def main():
        network = LossyNetwork()
        server = echoing(network)
        verifier = bytes.fromhex(DIGEST)
        for stolen in (verifier, hashlib.sha256(verifier).digest(), bytes(32)):
            hello = Hello(random.randbytes(16), "ann", cookie=random.randbytes(16))
            assert hello_key(pack(hello, stolen), verifier) is None
        with pytest.raises(TimeoutError):
            await asked(network.conversation(token=DIGEST), seconds=0.3)
        assert not server.sessions

    run(main)


@pytest.mark.parametrize("in_snapshot", [False, True])
def test_a_log_of_an_earlier_version_keeps_its_principals_and_loses_their_keys(tmp_path, in_snapshot):
    """Earlier versions stored the SHA-256 of the token, which is the client's key today."""
    old = hashlib.sha256(TOKEN.encode()).hexdigest()

    async def make():
        logged = LoggedState.open(tmp_path, LINE, SMALL, 1000)
        for command in (CreateSchema(WEATHER), ANN):
            await logged.submit(command)
        if in_snapshot:
            await logged.save_snapshot()
        await logged.submit(subscribe("ann", "temperature < 5"), "a key")
        await logged.close(with_snapshot=in_snapshot)

    async def reopen():
        logged = LoggedState.open(tmp_path, LINE, SMALL, 1000)
        assert logged.state.principals["ann"].token.digest == DIGEST
        assert len(logged.state.registrations) == 1
        await logged.submit(subscribe("ann", "temperature < 5"), "a key")
        assert len(logged.state.registrations) == 1
        await logged.close(with_snapshot=False)

    asyncio.run(make())
    path = tmp_path / LOG_FILE_NAME
    as_of_format_1(path, old)
    assert old.encode() in path.read_bytes()
    for _ in range(2):
        asyncio.run(reopen())
        for file in tmp_path.iterdir():
            assert old.encode() not in file.read_bytes(), file


def as_of_format_1(path, old):
    """Write a log as earlier versions would have."""
    new, before = f'"verifier":"{DIGEST}"'.encode(), f'"digest":"{old}"'.encode()
    with closing(sqlite3.connect(path)) as connection, connection:
        for position, body in connection.execute("SELECT position, body FROM entries").fetchall():
            body = body.replace(new, before)
            row = (_checksum(position, body), body, position)
            connection.execute("UPDATE entries SET checksum = ?, body = ? WHERE position = ?", row)
        for position, state in connection.execute("SELECT position, state FROM snapshots").fetchall():
            state = state.replace(new, before)
            row = (_digest(position, state), state, position)
            connection.execute("UPDATE snapshots SET digest = ?, state = ? WHERE position = ?", row)
        connection.execute("ALTER TABLE entries DROP COLUMN chain")
        connection.execute("PRAGMA user_version = 1")
    path.with_name(f"{path.name}.head").unlink()


def test_http_does_not_take_what_is_stored_nor_the_key_for_a_token(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            stored = api.app.state.service.state.principals["admin"].token.digest
            for token, status in ((ADMIN, 200), (client_key(ADMIN).hex(), 401), (stored, 401)):
                answer = await api.client.get("/v1/principals", headers={"Authorization": f"Bearer {token}"})
                assert answer.status_code == status

    run(main)
