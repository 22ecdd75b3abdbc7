"""One bundle on its way: changes that a switch makes all together, in their order, or not at all.

A switch answers a bundle's messages only when it refuses one, and it may do that when the message is added or when the
bundle is committed. Open vSwitch gives up a bundle with the first refused message and opens a new one, unasked, with
the next: a bundle must therefore never be committed before it is known that all of it was taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pleroma.errors import SwitchGone, SwitchRefused
from pleroma.switches.openflow import messages
from pleroma.switches.openflow.message_channel import MessageChannel
from pleroma.switches.openflow.replies import ErrorMessage, bundle_reply
from pleroma.switches.openflow.requests import PendingRequest, PendingRequests, refused
from pleroma.switches.openflow.rule import RuleChange

RULES_PER_WRITE = 100
"""Rules that are encoded at once, before other tasks have their turn."""


class Bundle:
    """The messages of a bundle have consecutive numbers (xid), in the order of the changes."""

    def __init__(
        self, number: int, changes: Sequence[RuleChange], requests: PendingRequests, channel: MessageChannel
    ) -> None:
        self._number = number
        self._changes = changes
        self._requests = requests
        self._channel = channel
        self._first = requests.number(len(changes))
        self._refusal: SwitchRefused | None = None

    def __contains__(self, xid: int) -> bool:
        return self._first <= xid < self._first + len(self._changes)

    def refuse(self, xid: int, refusal: ErrorMessage) -> None:
        """Note that the switch refused a message. Only the first refusal counts: others mostly follow from it."""
        if self._refusal is None:
            index = xid - self._first
            self._refusal = refused(refusal, index, self._changes[index][1])

    def refuse_as_a_whole(self, refusal: ErrorMessage) -> None:
        """Note an error that names no message: it may be about any message of this bundle."""
        if self._refusal is None:
            self._refusal = refused(refusal)

    async def commit(self) -> None:
        try:
            await self._fill()
        except BaseException:
            self._control(messages.BUNDLE_DISCARD)  # whatever comes of that, it is never committed
            raise
        await self._confirm()

    async def _fill(self) -> None:
        """Open the bundle, send all messages, and wait until the switch has taken them all."""
        opening = self._control(messages.BUNDLE_OPEN)
        version = self._requests.version
        for start in range(0, len(self._changes), RULES_PER_WRITE):
            self._channel.send(
                b"".join(
                    messages.bundle_add(version, xid, self._number, change, rule)
                    for xid, (change, rule) in enumerate(
                        self._changes[start : start + RULES_PER_WRITE], self._first + start
                    )
                )
            )
            await self._channel.drain()
            await asyncio.sleep(0)
            if self._refusal is not None or self._channel.ended is not None:
                break
        await self._requests.answer(self._requests.barrier())
        await self._done(messages.BUNDLE_OPEN, opening)
        if self._refusal is not None:
            raise self._refusal

    async def _confirm(self) -> None:
        committing = self._control(messages.BUNDLE_COMMIT)
        barrier = self._requests.barrier()
        try:
            await self._done(messages.BUNDLE_COMMIT, committing)
        except SwitchRefused as error:
            await self._requests.answer(barrier)  # by then the switch has said which message it refuses
            raise self._refusal or error from None
        await self._requests.answer(barrier)
        if self._refusal is not None:
            raise self._nonsense(f"the switch committed a bundle although {self._refusal.reason}")

    def _control(self, action: int) -> PendingRequest:
        """Ask the switch to open, commit or discard the bundle."""
        kind = messages.EXPERIMENTER if self._requests.version == messages.V13 else messages.BUNDLE_CONTROL
        return self._requests.ask(
            lambda version, xid: messages.bundle_control(version, xid, self._number, action), kind, bundle_reply
        )

    async def _done(self, action: int, asked: PendingRequest) -> None:
        """Wait for the answer to such a request."""
        if await self._requests.answer(asked) != (self._number, action + 1):
            raise self._nonsense("the switch answered for another bundle, or another request, than it was asked about")

    def _nonsense(self, reason: str) -> SwitchGone:
        self._channel.end(reason)
        return SwitchGone(reason, field="switch")
