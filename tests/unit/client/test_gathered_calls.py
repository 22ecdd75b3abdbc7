"""Calls that come at once share requests; one alone is a request of its own."""

import asyncio

import pytest

from pleroma.client.session.gathered_calls import MAX_BATCH_BYTES, MAX_LONE_REQUESTS, GatheredCalls
from pleroma.errors import ClientError, ControllerAway, RequestRefused
from support.waiting import run


class Controller:
    """Answers an item with its negative. Requests wait while `goes_on` is not set; `failures` come first."""

    def __init__(self, *failures, batches=True):
        self.requests, self.failures = [], list(failures)
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.under_way = self.most_under_way = 0
        self.calls = GatheredCalls(self.alone, self.together if batches else None)

    async def asked(self, items):
        self.requests.append(items)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self.goes_on.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.failures:
            raise self.failures.pop(0)

    async def alone(self, item):
        await self.asked(item)
        return -item

    async def together(self, items):
        await self.asked(list(items))
        return [_no(403) if item == 13 else -item for item in items]

    def make(self, item, size=1, patience=0.0):
        return asyncio.create_task(self.calls.make(item, size, patience))


def _no(status):
    return RequestRefused("no", status=status, code="no")


def test_a_call_alone_is_a_request_of_its_own_and_those_that_come_at_once_share_one():
    async def main():
        controller = Controller()
        assert await controller.make(1) == -1
        assert await asyncio.gather(*map(controller.make, range(2, 6))) == [-2, -3, -4, -5]
        assert controller.requests == [1, [2, 3, 4, 5]]

    run(main)


def test_what_comes_while_requests_are_under_way_shares_the_next():
    async def main():
        controller = Controller()
        controller.goes_on.clear()
        made = []
        for item in range(1, 7):
            made.append(controller.make(item))
            await asyncio.sleep(0.01)
        assert controller.requests == [1, 2]
        controller.goes_on.set()
        assert await asyncio.gather(*made) == [-1, -2, -3, -4, -5, -6]
        assert controller.requests == [1, 2, [3, 4, 5, 6]]

    run(main)


def test_a_request_is_not_too_large():
    async def main():
        controller = Controller()
        sizes = [MAX_BATCH_BYTES // 2, MAX_BATCH_BYTES // 2, 1, 2 * MAX_BATCH_BYTES, 1]
        await asyncio.gather(*(controller.make(item, size) for item, size in enumerate(sizes)))
        assert sorted(map(str, controller.requests)) == ["2", "3", "4", "[0, 1]"]
        controller.requests.clear()
        await asyncio.gather(*map(controller.make, range(100, 2600)))
        assert sorted(map(len, controller.requests)) == [500, 1000, 1000]

    run(main)


def test_each_item_has_its_own_error():
    async def main():
        controller = Controller()
        found = await asyncio.gather(*map(controller.make, (12, 13, 14)), return_exceptions=True)
        assert (found[0], found[2]) == (-12, -14)
        assert found[1].status == 403

    run(main)


def test_a_request_that_fails_is_made_again_for_those_who_have_the_patience():
    async def main():
        controller = Controller(ControllerAway("away"))
        calls = [controller.make(1, patience=5.0), controller.make(2), controller.make(3, patience=5.0)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert (found[0], found[2]) == (-1, -3)
        assert isinstance(found[1], ControllerAway)
        assert controller.requests[0] == [1, 2, 3]
        refusing = Controller(_no(401))
        with pytest.raises(RequestRefused):
            await refusing.make(1, patience=5.0)
        assert refusing.requests == [1]

    run(main)


@pytest.mark.parametrize("status", [404, 405, 413])
def test_a_controller_that_takes_no_batches_is_asked_one_by_one(status):
    async def main():
        controller = Controller(_no(status))
        assert await asyncio.gather(*map(controller.make, range(20))) == [-item for item in range(20)]
        assert controller.requests[0] == list(range(20))
        assert controller.requests[1:] == list(range(20))
        assert 2 < controller.most_under_way <= MAX_LONE_REQUESTS
        await asyncio.gather(*map(controller.make, range(3)))
        assert controller.requests[21:] == [0, 1, 2]

    run(main)


def test_where_the_way_takes_no_batches_none_is_tried():
    async def main():
        controller = Controller(batches=False)
        assert await asyncio.gather(*map(controller.make, range(20))) == [-item for item in range(20)]
        assert controller.requests == list(range(20))
        assert controller.most_under_way <= MAX_LONE_REQUESTS

    run(main)


def test_a_call_that_nobody_waits_for_is_not_made():
    async def main():
        controller = Controller()
        controller.goes_on.clear()
        held = [controller.make(1)]
        await asyncio.sleep(0.01)
        held.append(controller.make(2))
        await asyncio.sleep(0.01)
        leaving, staying = controller.make(3), controller.make(4)
        await asyncio.sleep(0.01)
        leaving.cancel()
        controller.goes_on.set()
        assert await asyncio.gather(*held, staying) == [-1, -2, -4]
        assert controller.requests == [1, 2, 4]

    run(main)


def test_an_answer_with_another_number_of_results_is_an_error():
    async def main():
        async def short(items):
            return list(items)[1:]

        calls = GatheredCalls(Controller().alone, short)
        found = await asyncio.gather(*(calls.make(item, 1, 0.0) for item in (1, 2)), return_exceptions=True)
        assert [type(each) for each in found] == [ClientError] * 2

    run(main)
