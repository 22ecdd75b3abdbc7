"""The controllers that a client may ask, in the order in which they were named: one at a time, and then the next.

An address of several controllers is their URLs with commas between them. They share one control plane, so that it does
not matter which one is asked. A client stays with the one that answered last; when that one cannot be reached or does
not serve, it moves on to the next, and after the last begins with the first again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pleroma.errors import ClientError

if TYPE_CHECKING:
    import httpx


class AskedController(NamedTuple):
    """One controller: its URL, the host in it if there is one, and the client of httpx that asks it."""

    url: str
    host: str | None
    http: httpx.AsyncClient


class ControllerRing:
    def __init__(self, controllers: Sequence[AskedController]) -> None:
        self._controllers = controllers
        self._at = 0

    @property
    def current(self) -> AskedController:
        return self._controllers[self._at]

    def move_on(self, failed: AskedController) -> None:
        """Ask the next one from now on; if another request has moved on from this one already, leave it at that."""
        if failed is self.current:
            self._at = (self._at + 1) % len(self._controllers)

    async def close(self) -> None:
        for each in self._controllers:
            await each.http.aclose()


def urls_of(address: str) -> list[str]:
    """The URLs of one controller or of several. Only those of HTTP can be several."""
    if "," not in str(address) or not address.startswith(("http:", "https:")):
        return [address]
    urls = [each.strip() for each in address.split(",")]
    if len(set(urls)) < len(urls) or not all(each.startswith(("http:", "https:")) for each in urls):
        reason = f"{address!r} are no addresses of controllers: expected http://host:port,http://other:port, each once"
        raise ClientError(reason, field="url", value=address)
    return urls
