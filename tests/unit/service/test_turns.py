"""Long work beside the event loop: one piece at a time, and the principals take turns."""

import asyncio
import threading

import pytest

from pleroma.errors import TooFast
from pleroma.service.turns import MAX_WAITING_PIECES, Turns
from support.waiting import run


class Pieces:
    """Work that ends when it may, and remembers who did it and how many were at it at once."""

    def __init__(self):
        self.may_end = threading.Event()
        self.done = []
        self.busy = self.most = 0

    def __call__(self, name):
        self.busy += 1
        self.most = max(self.most, self.busy)
        assert self.may_end.wait(20)
        self.busy -= 1
        self.done.append(name)
        return name


def test_one_piece_is_done_at_a_time_and_the_principals_take_turns():
    async def main():
        turns, pieces = Turns(), Pieces()
        asked = [asyncio.create_task(turns.run("mallory", pieces, f"m{i}")) for i in range(6)]
        await asyncio.sleep(0)
        asked += [asyncio.create_task(turns.run("ann", pieces, f"a{i}")) for i in range(2)]
        await asyncio.sleep(0.01)
        pieces.may_end.set()
        assert await asyncio.gather(*asked) == [*(f"m{i}" for i in range(6)), "a0", "a1"]
        assert pieces.most == 1
        assert pieces.done[:4] == ["m0", "a0", "m1", "a1"]
        assert not turns._own
        assert not turns._waiting

    run(main)


def test_who_has_many_pieces_waiting_gets_no_more_and_others_do():
    async def main():
        turns, pieces = Turns(), Pieces()
        asked = [asyncio.create_task(turns.run("mallory", pieces, i)) for i in range(MAX_WAITING_PIECES)]
        await asyncio.sleep(0)
        with pytest.raises(TooFast, match="of mallory that take long"):
            await turns.run("mallory", pieces, "more")
        other = asyncio.create_task(turns.run("ann", pieces, "ann"))
        pieces.may_end.set()
        assert await other == "ann"
        await asyncio.gather(*asked)
        assert await turns.run("mallory", pieces, "again") == "again"

    run(main)


def test_a_piece_that_nobody_waits_for_any_more_keeps_its_turn_and_errors_are_passed_on():
    async def main():
        turns, pieces = Turns(), Pieces()
        given_up = asyncio.create_task(turns.run("mallory", pieces, "given up"))
        await asyncio.sleep(0.01)
        given_up.cancel()
        next_one = asyncio.create_task(turns.run("ann", pieces, "next"))
        await asyncio.sleep(0.01)
        assert pieces.most == 1
        pieces.may_end.set()
        assert await next_one == "next"
        assert pieces.done == ["given up", "next"]
        with pytest.raises(ZeroDivisionError):
            await turns.run("ann", lambda: 1 // 0)

    run(main)
