"""Requests through a network that loses and repeats packets: each is carried out once, and answered."""

import asyncio
import random
from collections import Counter

import pytest

from pleroma.client.inband import conversation as conversing
from pleroma.switches.openflow.openflow_network import Arrival
from pleroma.wire.inband_messages import MessageKind, MessagePart, unpack
from support.inband_echo import asked, echoing
from support.inband_pipes import LossyNetwork
from support.waiting import run


@pytest.mark.parametrize("seed", range(3))
def test_each_request_is_carried_out_once_and_answered_whatever_the_network_does(seed):
    async def main():
        network = LossyNetwork(seed, loss=0.3, twice=0.3, delay=0.01)
        server = echoing(network)
        conversation = network.conversation()
        answers = await asyncio.gather(*(asked(conversation, f"/{n}", b"%d" % n) for n in range(30)))
        assert [each.body for each in answers] == [b"%d" % n for n in range(30)]
        assert {each.status for each in answers} == {207}
        assert server._app.asked == {f"/{n}": 1 for n in range(30)}
        await server.close()

    run(main)


@pytest.mark.parametrize(("question", "answer"), [(0, 300_000), (300_000, 0), (200_000, 200_000)])
def test_large_requests_and_answers_arrive_whole_over_a_lossy_network(question, answer):
    async def main():
        network = LossyNetwork(5, loss=0.1, twice=0.1, delay=0.003)
        server = echoing(network)
        body = random.Random(2).randbytes(question)
        response = await asked(network.conversation(), f"/large?{answer}", body)
        assert response.body == body + random.Random(1).randbytes(answer)
        assert server._app.asked["/large"] == 1
        assert max(map(len, network.down)) <= 1232
        await server.close()

    run(main)


def test_what_is_lost_is_sent_again_and_what_arrived_is_not(monkeypatch):
    monkeypatch.setattr(conversing, "FIRST_RESEND_SECONDS", 60.0)  # nothing is sent again for want of patience
    lost = {3, 10, 70, 200}

    class LosesSome(LossyNetwork):
        def pass_on(self, deliver, *what):
            part = unpack(what[0]) if isinstance(what[0], bytes) else None
            if isinstance(part, MessagePart) and part.part in lost:
                lost.remove(part.part)
            else:
                deliver(*what)

    async def main():
        network = LosesSome()
        server = echoing(network)
        await asked(network.conversation(), "/large?300000")
        assert not lost
        parts = [unpack(each) for each in network.down]
        sent = Counter(
            each.part for each in parts if isinstance(each, MessagePart) and each.kind is MessageKind.RESPONSE
        )
        assert len(sent) > 250
        assert {number for number, times in sent.items() if times > 1} == {3, 10, 70, 200}
        assert sent.total() == len(sent) + 4
        await server.close()

    run(main)


def test_whoever_sends_recorded_packets_again_has_nothing_carried_out():
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        conversation = network.conversation()
        for n in range(5):
            await asked(conversation, f"/{n}")
        before = server._app.asked.copy()
        for switch, port, frame in network.up * 3:
            server.arrived(Arrival(switch, port, frame))
        await asyncio.sleep(0.05)
        assert server._app.asked == before
        assert server.counts["old"] > 0
        await server.close()

    run(main)


def test_an_answer_is_kept_until_the_client_goes_on():
    async def main():
        network = LossyNetwork()
        server = echoing(network)
        conversation = network.conversation()
        for n in range(200):
            await asked(conversation, f"/{n}?3000")
        (session,) = server.sessions
        assert len(session.requests) <= 2
        assert 0 < server.sessions.budget.used < 10_000
        await server.close()

    run(main)
