"""The slices of batches: in order, few under way, and none that waits for a switch keeps those of others."""

import asyncio

import pytest

from pleroma.control import Done, Withdraw
from pleroma.errors import NotFound
from pleroma.service.http.batch_slices import SLICE_DZ, SLICE_ITEMS, SLICES_UNDER_WAY, BatchCommand, BatchSlices
from support.waiting import run


class Controller:
    """Carries out what it is given, when `goes_on` is set; commands of `stuck` wait for ever."""

    def __init__(self):
        self.slices, self.under_way, self.most_under_way = [], 0, 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def settled(self):
        pass

    async def submit_many(self, commands, patience):
        self.slices.append([command.id for command, _ in commands])
        self.patience = patience
        if commands[0][0].principal == "stuck":
            await asyncio.Event().wait()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self.goes_on.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        return [Done({"id": command.id}) for command, _ in commands]


def carried_out(slices, items, principal="ann", members=1):
    async def prepare(item):
        if item == "bad":
            raise NotFound("no such thing", field="id", value=item)
        return BatchCommand(Withdraw(item, principal), None, members)

    return slices.carry_out(items, prepare, lambda _, done: {"status": 204, "id": done.value["id"]})


def names(count):
    return [f"s{each}" for each in range(count)]


def test_items_go_in_slices_in_their_order_and_results_come_in_that_order():
    async def main():
        controller = Controller()
        items = [*names(SLICE_ITEMS), "bad", "s-last"]
        found = await carried_out(BatchSlices(controller, 8.0), items)
        assert controller.slices == [names(SLICE_ITEMS), ["s-last"]]
        assert [each.get("id") for each in found] == [*names(SLICE_ITEMS), None, "s-last"]
        assert (found[-2]["status"], found[-2]["error"]["code"]) == (404, "not_found")
        assert controller.patience <= 8.0

    run(main)


def test_a_slice_of_large_registrations_has_fewer_of_them():
    async def main():
        controller = Controller()
        await carried_out(BatchSlices(controller, 8.0), names(5), members=SLICE_DZ // 2)
        assert controller.slices == [["s0", "s1"], ["s2", "s3"], ["s4"]]

    run(main)


def test_few_slices_of_all_batches_are_under_way():
    async def main():
        controller = Controller()
        slices = BatchSlices(controller, 8.0)
        await asyncio.gather(*(carried_out(slices, names(4 * SLICE_ITEMS)) for _ in range(3)))
        assert len(controller.slices) == 12
        assert controller.most_under_way <= SLICES_UNDER_WAY

    run(main)


def test_slices_that_wait_for_a_switch_keep_no_others():
    async def main():
        slices = BatchSlices(Controller(), 8.0)
        stuck = [asyncio.create_task(carried_out(slices, names(1), "stuck")) for _ in range(SLICES_UNDER_WAY)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5.0):
            assert len(await carried_out(slices, names(3 * SLICE_ITEMS))) == 3 * SLICE_ITEMS
        for each in stuck:
            each.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        assert slices._places._value == SLICES_UNDER_WAY

    run(main)


def test_an_error_that_is_no_refusal_ends_the_batch():
    async def main():
        async def prepare(_):
            raise ZeroDivisionError

        with pytest.raises(ExceptionGroup):
            await BatchSlices(Controller(), 8.0).carry_out(names(3), prepare, lambda *_: {})

    run(main)
