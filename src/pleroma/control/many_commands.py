"""Many commands at once, each with a result of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from pleroma.control.state.command import Command
from pleroma.control.state.result import Done
from pleroma.errors import PleromaError

KeyedCommand = tuple[Command, str | None]
Submit = Callable[[Command, str | None, float | None], Awaitable[Done]]


async def carried_out(
    submit: Submit, commands: Iterable[KeyedCommand], patience: float | None
) -> list[Done | PleromaError]:
    """Submit commands with their keys, in this order: what each came to, or why not."""
    found = await asyncio.gather(*(submit(*each, patience) for each in commands), return_exceptions=True)
    results: list[Done | PleromaError] = []
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, PleromaError):
            raise each
        results.append(each)
    return results
