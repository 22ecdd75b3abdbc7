"""Many commands of one request: in their order, each with its own result, and never long at the event loop.

Items are prepared one after the other, and submitted in slices. While one slice is on its way to the disk, the next is
prepared; of all batches together few slices are under way, so that requests of others find their turn between them. One
item that is refused keeps no other from being carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from pleroma.control import Done
from pleroma.control.many_commands import KeyedCommand
from pleroma.control.state.command import Command
from pleroma.errors import PleromaError
from pleroma.service.http.problems import problem_body, status_of

T = TypeVar("T")

SLICE_ITEMS, SLICE_DZ = 64, 2_000
"""A slice has at most so many items. It ends with the item by which it has so many dz."""
SLICES_UNDER_WAY = 2
PLACE_SECONDS = 0.25
"""A slice that takes longer waits for a switch: it gives its place back, and others go on."""
BATCH_TURN_SECONDS = 0.005
"""After so long, others have their turn."""


class BatchCommand(NamedTuple):
    """An item as a command. `members` is how many dz its registration has."""

    command: Command
    key: str | None = None
    members: int = 1


class BatchSubmitting(Protocol):
    """What carries out many commands."""

    async def settled(self) -> None: ...

    async def submit_many(
        self, commands: Iterable[KeyedCommand], patience: float | None = None
    ) -> list[Done | PleromaError]: ...


class BatchSlices:
    """The slices of all batches, which take turns. An answer waits for switches up to `patience` seconds in all."""

    def __init__(self, controller: BatchSubmitting, patience: float) -> None:
        self._controller = controller
        self._patience = patience
        self._places = asyncio.Semaphore(SLICES_UNDER_WAY)

    async def carry_out(
        self,
        items: Sequence[T],
        prepare: Callable[[T], Awaitable[BatchCommand]],
        answer: Callable[[Command, Done], dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """The results of the items. An item is refused if `prepare` raises an error of our tree, or the controller."""
        results: list[dict[str, Any]] = [{}] * len(items)
        clock = asyncio.get_running_loop().time
        end = clock() + self._patience

        async def submit(numbers: Sequence[int], commands: Sequence[BatchCommand], place: _Place) -> None:
            try:
                left = max(end - clock(), 0.0)
                found = await self._controller.submit_many([each[:2] for each in commands], left)
                for number, each, result in zip(numbers, commands, found, strict=True):
                    results[number] = answer(each.command, result) if isinstance(result, Done) else refused(result)
            finally:
                place.give_back()

        async with asyncio.TaskGroup() as slices:
            numbers: list[int] = []
            commands: list[BatchCommand] = []
            weight, since = 0, clock()
            for number, item in enumerate(items):
                await self._controller.settled()
                try:
                    prepared = await prepare(item)
                except PleromaError as error:
                    results[number] = refused(error)
                else:
                    numbers.append(number)
                    commands.append(prepared)
                    weight += prepared.members
                is_last = number == len(items) - 1
                if commands and (is_last or len(commands) == SLICE_ITEMS or weight >= SLICE_DZ):
                    slices.create_task(submit(numbers, commands, await self._place()))
                    numbers, commands, weight = [], [], 0
                if clock() - since >= BATCH_TURN_SECONDS:
                    await asyncio.sleep(0)
                    since = clock()
        return results

    async def _place(self) -> _Place:
        """A place for a slice, when there is one."""
        await self._places.acquire()
        return _Place(self._places)


class _Place:
    """What a slice that is under way takes. It can be given back once, and goes back by itself after a while."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places
        self._timer = asyncio.get_running_loop().call_later(PLACE_SECONDS, self.give_back)

    def give_back(self) -> None:
        self._timer.cancel()
        if self._places is not None:
            self._places.release()
            self._places = None


def refused(error: PleromaError) -> dict[str, Any]:
    """The result of an item that was refused."""
    return {"status": status_of(error), "error": problem_body(error)}
