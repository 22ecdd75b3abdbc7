"""Work in another thread: the event loop goes on, and no garbage is collected meanwhile."""

import asyncio
import gc
import threading

import pytest

from pleroma.background import collecting_later, in_background


@pytest.fixture(autouse=True)
def collecting():
    assert gc.isenabled()
    yield
    gc.enable()
    gc.unfreeze()


def test_the_event_loop_goes_on_while_a_function_runs():
    async def main():
        goes_on = threading.Event()
        work = asyncio.create_task(in_background(goes_on.wait, timeout=20))
        await asyncio.sleep(0)
        goes_on.set()
        assert await work

    asyncio.run(main())


def test_what_a_function_returns_or_raises_reaches_the_caller():
    async def main():
        assert await in_background(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await in_background(divmod, 7, 0)
        assert gc.isenabled()

    asyncio.run(main())


def test_nothing_is_collected_until_the_last_of_several_blocks_ends():
    first, second = collecting_later(), collecting_later()
    first.__enter__()
    assert not gc.isenabled()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    frozen = gc.get_freeze_count()
    second.__exit__(None, None, None)
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


def test_who_has_switched_collection_off_finds_it_off():
    gc.disable()
    frozen = gc.get_freeze_count()
    with collecting_later():
        assert not gc.isenabled()
    assert not gc.isenabled()
    assert gc.get_freeze_count() == frozen
