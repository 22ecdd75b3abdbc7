"""The state and its log: what listeners hear, and what an earlier process left."""

import asyncio

import pytest

from pleroma.control import CommandRefused, CreateSchema, Done, Withdraw
from pleroma.control.logged_state import LoggedState
from pleroma.errors import AlreadyThere, LimitReached, NotThere
from support.control_cases import ANN, LINE, SMALL, SUE, WEATHER, subscribe


def opened(folder):
    return LoggedState.open(folder, LINE, SMALL, 1000)


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario, 20))


def test_listeners_hear_of_every_command_before_its_caller_is_answered(tmp_path):
    async def scenario():
        heard, logged = [], opened(tmp_path)

        async def hear(position, command, result):
            heard.append((position, command, type(result)))

        logged.subscribe(hear)
        for position, command in enumerate((CreateSchema(WEATHER), ANN, SUE), 2):
            assert (await logged.submit(command))[0] == position
            assert heard[-1] == (position, command, Done)
        with pytest.raises(AlreadyThere):
            await logged.submit(ANN)
        assert len(heard) == 3
        await logged.close()

    run(scenario())


def test_a_command_that_was_overtaken_in_the_log_is_refused_where_it_stands(tmp_path):
    async def scenario():
        heard, logged = [], opened(tmp_path)
        for command in (CreateSchema(WEATHER), ANN, SUE):
            await logged.submit(command)

        async def hear(position, _, result):
            heard.append((position, type(result)))

        logged.subscribe(hear)
        wanted = (subscribe("sue", f"temperature < {n}") for n in (2, 3, 4))
        results = await asyncio.gather(*map(logged.submit, wanted), return_exceptions=True)
        assert [type(each) for each in results] == [tuple, tuple, LimitReached]
        assert heard == [(5, Done), (6, Done), (7, CommandRefused)]
        await logged.close()

    run(scenario())


def test_listeners_hear_nothing_of_what_an_earlier_process_did(tmp_path):
    async def scenario():
        logged = opened(tmp_path)
        for command in (CreateSchema(WEATHER), ANN, subscribe("ann", "true")):
            await logged.submit(command)
        await logged.close(with_snapshot=False)
        heard, again = [], opened(tmp_path)

        async def hear(*each):
            heard.append(each)

        again.subscribe(hear)
        assert again.position == 4
        assert list(again.state.registrations) == ["s4"]
        with pytest.raises(NotThere):
            await again.submit(Withdraw("s9", "ann"))
        assert heard == []
        await again.close()

    run(scenario())


def test_an_entry_is_reached_when_all_were_told_of_it(tmp_path):
    async def scenario():
        logged, may_go_on = opened(tmp_path), asyncio.Event()

        async def slow(*_):
            await may_go_on.wait()

        logged.subscribe(slow)
        submitting = asyncio.ensure_future(logged.submit(CreateSchema(WEATHER)))
        while logged.position < 2:
            await asyncio.sleep(0.01)
        reaching = asyncio.ensure_future(logged.reached(2))
        await asyncio.wait([reaching], timeout=0.05)
        assert not reaching.done()
        may_go_on.set()
        await reaching
        await submitting
        await logged.reached(2)
        await logged.close()

    run(scenario())


def test_who_no_longer_waits_for_an_entry_is_forgotten(tmp_path):
    async def scenario():
        logged = opened(tmp_path)
        waiting = asyncio.ensure_future(logged.reached(2))
        for position in (2, 3, 3, 10**9):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(logged.reached(position), 0.01)
        await logged.submit(CreateSchema(WEATHER))
        await waiting
        assert not logged._awaited
        await logged.close()

    run(scenario())
