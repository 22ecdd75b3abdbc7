"""Tokens that end: at their instant they are refused, and soon after the log says so and all that lives by them ends.

A request is refused from the instant on, by a clock that does not jump with the machine's. That a token has ended is a
command in the log besides, so that no clock that is set back makes the token good again. Programs and in-band sessions
that a token had opened are dismissed whenever principals change, and when the token ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import structlog

from pleroma.control import Controller, EndToken, Token
from pleroma.errors import NotInstalled, NotThere

TOKEN_CHECK_SECONDS = 1.0

log = structlog.get_logger("pleroma.service")


class TokenKeeper:
    """As `async with`, it looks every second for tokens that have ended.

    `now` is the time in seconds since 1970. `dismiss` ends what lives by tokens that its argument says are worthless.
    """

    def __init__(
        self,
        controller: Controller,
        now: Callable[[], float],
        dismiss: Callable[[Callable[[str], bool]], None],
        check_seconds: float = TOKEN_CHECK_SECONDS,
    ) -> None:
        self._controller = controller
        self._now = now
        self._dismiss = dismiss
        self._check_seconds = check_seconds
        self._stuck: set[str] = set()
        """Digests of tokens of which the log could not be told, and the service's log was."""
        self._task: asyncio.Task[None] | None = None
        controller.on_people(self.dismiss)

    def is_over(self, token: Token) -> bool:
        return token.is_over or (token.ends is not None and self._now() >= token.ends)

    def dismiss(self) -> None:
        """End what lives by tokens that have ended, were replaced, or were their principals' who are gone."""
        self._dismiss(self._is_worthless)

    async def end_due(self) -> None:
        """Tell the log of tokens that have ended. If it cannot be told now, it is told the next time."""
        await self._controller.settled()
        due = [
            (principal.name, token.digest)
            for principal in self._controller.principals.timed.values()
            for token in principal.tokens
            if not token.is_over and self.is_over(token)
        ]
        self._stuck.intersection_update(digest for _, digest in due)
        if due:
            self.dismiss()
        for name, digest in due:
            try:
                with suppress(NotInstalled):  # it is durable, and other tokens do not wait for a slow switch
                    await self._controller.submit(EndToken(name, digest), patience=0.0)
            except NotThere:
                continue  # the principal was removed or given another token in this moment
            except Exception as error:  # whatever it is, the other tokens still end
                if digest not in self._stuck:
                    log.warning("the log cannot be told that a token has ended", principal=name, reason=str(error))
                self._stuck.add(digest)
                continue
            log.info("a token has ended", principal=name)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch(), name="tokens")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._check_seconds)
            await self.end_due()

    def _is_worthless(self, digest: str) -> bool:
        found = self._controller.principals.with_digest(digest)
        return found is None or self.is_over(found[1])
