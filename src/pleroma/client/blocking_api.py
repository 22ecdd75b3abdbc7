"""The controller's API for programs without an event loop: commands that ask a few things, and the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pleroma.client.api import ControllerApi
from pleroma.client.loop_thread import LoopThread


class BlockingApi:
    """`ControllerApi` without `await`. It may be used from several threads; each request is made once."""

    def __init__(self, url: str, token: str | None, *, seconds: float, ca: str | Path | None = None) -> None:
        self._api = ControllerApi(url, token, seconds=seconds, ca=ca)
        self._loop = LoopThread()

    @property
    def url(self) -> str:
        return self._api.url

    def get(self, path: str, **parameters: Any) -> Any:
        return self.ask("GET", path, parameters=parameters)

    def ask(self, method: str, path: str, body: Any = None, *, parameters: Mapping[str, Any] | None = None) -> Any:
        """The body of the controller's answer."""
        return self._loop.run(self._api.ask(method, path, body, parameters=parameters)).body

    def items(self, path: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """All items of a list. A page of them is read when its first item is taken."""
        pages = self._api.pages(path, **parameters)

        async def next_page() -> list[dict[str, Any]] | None:
            return await anext(pages, None)

        while (page := self._loop.run(next_page())) is not None:
            yield from page

    def close(self) -> None:
        """May be called twice."""
        if not self._loop.is_closed:
            self._loop.run(self._api.close())
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
