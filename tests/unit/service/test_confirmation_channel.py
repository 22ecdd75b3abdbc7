"""The channel by which gates learn what is in force: real connections, and controllers that answer as a test wants."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from pleroma.control.state.command import Lead
from pleroma.errors import NotInstalled, NotLeading
from pleroma.service.listening import bind_tcp
from pleroma.service.roles import confirmation_channel
from pleroma.service.roles.confirmation_channel import MAX_UNPROVED_CONNECTIONS, ConfirmationLink, ConfirmationServer
from support.waiting import run, until

SECRET = b"s" * 32


class Answering:
    """A controller in which everything is in force; or that does what it is given instead."""

    def __init__(self, instead=None):
        self.asked = []
        self._instead = instead

    async def in_force(self, position, id, epoch, patience):
        self.asked.append((position, id, epoch))
        if self._instead is not None:
            await self._instead(patience)


async def late(patience):
    await asyncio.sleep(patience)
    raise NotInstalled("R2 has not confirmed it", field="switch", value="R2")


async def deposed(_):
    raise NotLeading("another process leads")


async def never(_):
    await asyncio.Event().wait()


@asynccontextmanager
async def leading(controller, secret=SECRET):
    listening = bind_tcp("127.0.0.1", 0)
    async with ConfirmationServer(controller, secret, listening):
        yield Lead("it", "", listening.getsockname())


@asynccontextmanager
async def following(lead=None):
    link = ConfirmationLink(SECRET)
    link.follow(lead)
    yield link
    await link.close()


def test_a_thousand_questions_at_once_are_answered():
    async def main():
        controller = Answering()
        async with leading(controller) as lead, following(lead) as link:
            await asyncio.gather(*(link.in_force(n, f"s{n}", 1, 8.0) for n in range(1000)))
        assert sorted(controller.asked) == [(n, f"s{n}", 1) for n in range(1000)]

    run(main)


def test_it_is_the_leading_process_that_says_which_switch_is_late():
    async def main():
        async with leading(Answering(late)) as lead, following(lead) as link:
            with pytest.raises(NotInstalled) as caught:
                await link.in_force(1, None, None, 0.1)
            assert (caught.value.field, caught.value.value) == ("switch", "R2")

    run(main)


def test_without_anybody_who_leads_a_question_ends(monkeypatch):
    monkeypatch.setattr(confirmation_channel, "ANSWER_GRACE_SECONDS", 0.05)

    async def main():
        async with following() as link:
            with pytest.raises(NotInstalled, match="no process leads"):
                await link.in_force(1, None, None, 0.0)

    run(main)


@pytest.mark.parametrize("first", [deposed, never])
def test_what_one_process_has_not_answered_is_asked_of_the_next(first):
    async def main():
        before, after = Answering(first), Answering()
        async with leading(after) as next_lead, following() as link:
            async with leading(before) as lead:
                link.follow(lead)
                asking = asyncio.ensure_future(link.in_force(7, "s7", 1, 8.0))
                await until(lambda: before.asked)
            assert not asking.done()
            link.follow(next_lead)
            await asking
        assert after.asked == [(7, "s7", 1)]

    run(main)


def test_strangers_cannot_keep_gates_away():
    async def main():
        async with leading(Answering()) as lead, following(lead) as link:
            strangers = [await asyncio.open_connection(*lead.confirming) for _ in range(MAX_UNPROVED_CONNECTIONS + 10)]
            await link.in_force(1, None, None, 8.0)
            for reader, _ in strangers[:10]:
                await reader.read()  # to its end
            for _, writer in strangers:
                writer.close()

    run(main)


@pytest.mark.parametrize("said", [b"x" * 2**17, b"\n\n", b"nonce\nproof\n", b"\xff\xfe\n[]\n"])
def test_who_proves_nothing_is_cut(said):
    async def main():
        controller = Answering()
        async with leading(controller) as lead:
            reader, writer = await asyncio.open_connection(*lead.confirming)
            writer.write(said + b"[1, 1, null, null, 1.0]\n")
            async with asyncio.timeout(3):
                try:
                    while await reader.read(2**16):
                        pass
                except ConnectionError:
                    pass
            writer.close()
        assert controller.asked == []

    run(main)


def test_a_gate_believes_nobody_without_the_secret(monkeypatch):
    monkeypatch.setattr(confirmation_channel, "ANSWER_GRACE_SECONDS", 0.05)

    async def main():
        controller = Answering()
        async with leading(controller, b"t" * 32) as lead, following(lead) as link:
            with pytest.raises(NotInstalled, match="does not answer"):
                await link.in_force(1, None, None, 0.3)
        assert controller.asked == []

    run(main)


def test_a_gate_does_not_believe_an_echo(monkeypatch):
    monkeypatch.setattr(confirmation_channel, "RECONNECT_SECONDS", 0.01)
    monkeypatch.setattr(confirmation_channel, "ANSWER_GRACE_SECONDS", 0.05)

    async def echo(reader, writer):
        """Repeats what it hears, a proof among it."""
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async def main():
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server, following(Lead("liar", "", server.sockets[0].getsockname()[:2])) as link:
            with pytest.raises(NotInstalled, match="liar does not answer"):
                await link.in_force(4, None, None, 0.3)

    run(main)
