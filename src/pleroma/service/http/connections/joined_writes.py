"""The way of an answer to its connection: its head goes out together with the body, if that comes at once.

uvicorn writes the head of an answer and its body one after the other. Each is a call of the operating system and wakes
the client, which costs a small request more than its own work does.
"""

from __future__ import annotations

import asyncio


class JoinedWrites:
    """What a request writes its answer to. A head that is not followed by a body in the same turn goes out alone."""

    __slots__ = ("_has_begun", "_held", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._has_begun = False
        self._held = b""

    def write(self, data: bytes) -> None:
        if self._has_begun:
            held, self._held = self._held, b""
            self._transport.write(held + data if held else data)
        else:
            self._has_begun, self._held = True, data
            asyncio.get_running_loop().call_soon(self._let_go)

    def close(self) -> None:
        self._let_go()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _let_go(self) -> None:
        if self._held and not self._transport.is_closing():
            self._transport.write(self._held)
        self._held = b""
