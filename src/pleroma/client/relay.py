"""A client that passes events on, for a broker that is joined to another: packets come out once, as they are.

It registers and stays in place like any client, but has no readers: what arrives is not sorted into inboxes but handed
over, and what it publishes are others' events, under the numbers that they have.
"""

from __future__ import annotations

from collections.abc import Callable

from pleroma.client.client import PATIENCE_SECONDS, Client
from pleroma.client.session.receiver import Receiver
from pleroma.content import Schema
from pleroma.errors import WireError
from pleroma.wire import EventPacket, peek
from pleroma.wire.api_terms import ANY_HOST

HandOver = Callable[[EventPacket], None]


class Relay(Client):
    """`hand_over` gets every event that comes, whichever of the subscriptions it is for.

    `forgotten` is called when the numbers of publishers begin to mean others.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        hand_over: HandOver,
        forgotten: Callable[[], None] = lambda: None,
        *,
        principal: str | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__(url, token, ANY_HOST, principal=principal, patience=patience)
        self._receiver = _HandsOver(hand_over, forgotten)

    async def schemas(self) -> list[Schema]:
        """All that the controller has."""
        pages = self._api.pages("/v1/schemas", patience=self.patience)
        return [Schema.from_json(each["schema"]) async for page in pages for each in page]


class _HandsOver(Receiver):
    def __init__(self, hand_over: HandOver, forgotten: Callable[[], None]) -> None:
        super().__init__()
        self._hand_over = hand_over
        self._forgotten = forgotten

    def forget(self) -> None:
        super().forget()
        self._forgotten()

    def settle(self) -> bool:
        """Nobody asks whose fault anything is."""
        return False

    def echo(self, data: bytes) -> None:
        """What was sent away does not come back."""

    def receive(self, data: bytes) -> None:
        self.info.packets += 1
        try:
            space = self._spaces.get(peek(data).schema_number)
            if space is None:
                self.info.unknown += 1
                return
            packet = space.channel.codec.decode(data)
        except WireError:
            self.info.malformed += 1
            return
        if packet.epoch > space.channel.epoch:
            self.outdated(space.channel.schema.name)
        if not self._duplicates.repeats(packet.publisher, packet.sequence):
            self._hand_over(packet)
