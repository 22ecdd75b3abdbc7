"""How gates ask the leading process what switches have confirmed."""

import asyncio
import json

import pytest

from pleroma.control.state.command import Lead
from pleroma.errors import NotInstalled, SetupError
from pleroma.service.listening import bind_tcp
from pleroma.service.roles import confirmation_channel
from pleroma.service.roles.confirmation_channel import ConfirmationLink, ConfirmationServer
from pleroma.service.roles.process_role import ALL_ROLES, ProcessRole, read_roles
from support.waiting import run

SECRET = b"s" * 32


class Switches:
    """Confirms what it is told to, and knows what was asked."""

    def __init__(self, fails=None):
        self.asked, self.fails, self.free = [], fails, asyncio.Event()
        self.free.set()

    async def in_force(self, *question):
        self.asked.append(question)
        await self.free.wait()
        if self.fails is not None:
            raise self.fails


def serving(controller, secret=SECRET):
    listening = bind_tcp("127.0.0.1", 0)
    lead = Lead("it", "http://it", listening.getsockname()[:2])
    return lead, ConfirmationServer(controller, secret, listening)


def linked(lead, secret=SECRET):
    link = ConfirmationLink(secret)
    link.follow(lead)
    return link


def test_a_gate_is_answered_when_the_switches_have_confirmed():
    async def main():
        switches = Switches()
        switches.free.clear()
        lead, server = serving(switches)
        async with server:
            link = linked(lead)
            asking = [asyncio.create_task(link.in_force(n, f"s{n}", 1, 5.0)) for n in range(500)]
            while len(switches.asked) < 500:
                await asyncio.sleep(0.001)
            assert not any(each.done() for each in asking)
            assert (7, "s7", 1, 5.0) in switches.asked
            switches.free.set()
            await asyncio.gather(*asking)
            await link.close()

    run(main)


def test_an_error_of_the_leading_process_reaches_who_asked():
    async def main():
        lead, server = serving(Switches(NotInstalled("R2 has not confirmed it", field="switch", value="R2")))
        async with server:
            link = linked(lead)
            with pytest.raises(NotInstalled, match="R2 has not confirmed it") as caught:
                await link.in_force(4, None, None, 5.0)
            assert (caught.value.field, caught.value.value) == ("switch", "R2")
            await link.close()

    run(main)


def test_who_waits_too_long_is_told_why():
    async def main():
        switches = Switches()
        switches.free.clear()
        lead, server = serving(switches)
        async with server:
            link = linked(lead)
            with pytest.raises(NotInstalled, match=r"has not come to it|it does not answer"):
                await link.in_force(4, None, None, 0.2)
            nobody = linked(None)
            with pytest.raises(NotInstalled, match="no process leads at the moment"):
                await nobody.in_force(4, None, None, 0.05)
            assert not link._asked
            assert not nobody._asked
            await link.close()
            await nobody.close()

    run(main)


def test_questions_go_to_the_next_leading_process(monkeypatch):
    monkeypatch.setattr(confirmation_channel, "RECONNECT_SECONDS", 0.01)

    async def main():
        first, second = Switches(), Switches()
        first.free.clear()
        lead, server = serving(first)
        async with server:
            link = linked(lead)
            asking = asyncio.create_task(link.in_force(4, "s4", 2, None))
            while not first.asked:
                await asyncio.sleep(0.001)
        other, successor = serving(second)
        async with successor:
            link.follow(other)
            await asyncio.wait_for(asking, 5)
            assert second.asked[0][:3] == (4, "s4", 2)
            await link.in_force(5, None, None, 5.0)
            await link.close()

    run(main)


def test_nothing_is_answered_to_who_does_not_know_the_secret(monkeypatch):
    monkeypatch.setattr(confirmation_channel, "RECONNECT_SECONDS", 0.01)

    async def main():
        switches = Switches()
        lead, server = serving(switches)
        async with server:
            stranger = linked(lead, b"another secret")
            with pytest.raises(NotInstalled):
                await stranger.in_force(4, None, None, 0.3)
            await stranger.close()
            reader, writer = await asyncio.open_connection(*lead.confirming)
            nonce = (await reader.readline()).strip()
            writer.write(nonce + b"\n" + b"0" * 64 + b"\n" + json.dumps([1, 2, None, None, 1]).encode() + b"\n")
            proof = await reader.readline()
            assert proof.strip() != nonce
            assert await reader.read() == b""
            writer.close()
            assert switches.asked == []

    run(main)


def test_a_gate_does_not_believe_who_does_not_know_the_secret(monkeypatch):
    monkeypatch.setattr(confirmation_channel, "RECONNECT_SECONDS", 0.01)

    async def pretend(reader, writer):
        """Repeats what it hears, and says yes to everything."""
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async def main():
        server = await asyncio.start_server(pretend, "127.0.0.1", 0)
        async with server:
            link = linked(Lead("liar", "", server.sockets[0].getsockname()[:2]))
            with pytest.raises(NotInstalled, match="liar does not answer"):
                await link.in_force(4, None, None, 0.3)
            await link.close()

    run(main)


def test_roles_are_read_and_those_of_the_leading_process_go_together():
    assert read_roles("gate") == {ProcessRole.GATE}
    assert read_roles("gate, configurator,owner,monitor") == ALL_ROLES
    assert read_roles("configurator,owner,monitor") == ALL_ROLES - {ProcessRole.GATE}
    for wrong in ("", "gates", "gate,owner", "configurator,owner"):
        with pytest.raises(SetupError) as caught:
            read_roles(wrong)
        assert caught.value.field == "roles"
