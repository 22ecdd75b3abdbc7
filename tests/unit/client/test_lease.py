"""The client's side of a lease: what it may conclude from a renewal."""

import asyncio

import pytest

from pleroma.client.api import Answer
from pleroma.client.session.lease import Lease
from pleroma.errors import ClientError, ControllerAway, RequestRefused


class Controller:
    """Answers renewals with what it is given, one after the other; each takes `seconds` of the clock."""

    def __init__(self, *answers, seconds=0.0):
        self.answers, self.seconds = list(answers), seconds
        self.now = 1000.0
        self.asked = []

    async def ask(self, method, path):
        self.asked.append((method, path))
        self.now += self.seconds
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(200, answer, None)

    def lease(self):
        return Lease(self, lambda: self.now)


def standing(*ids, seconds=30.0):
    return {"lease": "x", "seconds": seconds, "registrations": list(ids)}


def refused(status):
    return RequestRefused("no", status=status, code="no")


def test_what_is_missing_after_an_unbroken_lease_was_withdrawn():
    async def main():
        controller = Controller(standing("s1"), standing("s1"), standing("s2"))
        lease = controller.lease()
        assert lease.pause is None
        assert await lease.renew() == ({"s1"}, False, "off")  # it could have expired before
        assert lease.pause == 10.0
        controller.now += 29.9
        assert await lease.renew() == ({"s1"}, True, "off")
        controller.now += 30
        assert await lease.renew() == ({"s2"}, False, "off")
        assert controller.asked == [("PUT", f"/v1/leases/{lease.name}")] * 3

    asyncio.run(main())


def test_a_slow_answer_counts_from_when_it_was_asked_for():
    async def main():
        controller = Controller(standing(), standing(), seconds=16.0)
        lease = controller.lease()
        await lease.renew()
        assert not (await lease.renew()).is_unbroken

    asyncio.run(main())


def test_after_an_expiry_or_another_controller_nothing_is_certain():
    async def main():
        controller = Controller(standing(), refused(404), standing(), standing(), standing())
        lease = controller.lease()
        await lease.renew()
        assert await lease.renew() is None
        assert not (await lease.renew()).is_unbroken
        assert (await lease.renew()).is_unbroken
        lease.doubt()
        assert not (await lease.renew()).is_unbroken

    asyncio.run(main())


def test_failures_are_the_callers():
    async def main():
        away = ControllerAway("nobody there")
        for answer, kind in ((refused(503), RequestRefused), (away, ControllerAway), ({"seconds": 1}, ClientError)):
            with pytest.raises(kind):
                await Controller(answer).lease().renew()

    asyncio.run(main())


def test_names_differ():
    assert Controller().lease().name != Controller().lease().name


def test_waiting_ends_in_time_or_when_somebody_is_in_a_hurry():
    async def main():
        lease = Controller().lease()
        await lease.wait(0.001)
        lease.begin()
        await lease.wait(None)
        waiting = asyncio.create_task(lease.wait(None))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        lease.hurry()
        await asyncio.wait_for(waiting, 10)
        waiting = asyncio.create_task(lease.wait(None))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        lease.doubt()
        await asyncio.wait_for(waiting, 10)

    asyncio.run(main())
