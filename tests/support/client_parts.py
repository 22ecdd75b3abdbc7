"""What the tests of the client share."""

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Any

from pleroma.client.session.receiver import PacketReceiver
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.content import Event, Filter, Schema
from pleroma.index import Dz, GridIndex, Index, IndexPlan, Rectangle, SelectiveIndex, SelectiveRegion
from pleroma.wire.event_tags import SchemaSeals
from pleroma.wire.tunnel import wrap
from support.strategies import STOCK

PREFIX = Dz.parse("000101")


def channel(
    bits: int = 24,
    epoch: int = 1,
    number: int = 5,
    schema: Schema = STOCK,
    dimensions: Sequence[str] | None = None,
    index: Index | None = None,
) -> SchemaChannel:
    return SchemaChannel(number, PREFIX, IndexPlan(epoch, index or GridIndex.regular(schema, bits, dimensions)))


def quote(price: float = 10.0, volume: int = 0, ticker: str = "AAPL", **more: Any) -> Event:
    return STOCK.event(price=price, volume=volume, ticker=ticker, **more)


def wanted(text: str) -> Filter:
    return Filter.parse(STOCK, text)


def twice(schema: Schema = STOCK, quiet: bool = False) -> SelectiveIndex:
    """An index that sends what lies in both of its rectangles under two cells."""
    sides = [(0.0, 500.0)] + [a.extent for a in schema.attributes[1:]]
    others = [(250.0, 1000.0)] + [a.extent for a in schema.attributes[1:]]
    grid = GridIndex.regular(schema, 8)
    return SelectiveIndex(
        schema,
        (
            SelectiveRegion(Dz.parse("00"), Rectangle(tuple(sides)), grid),
            SelectiveRegion(Dz.parse("01"), Rectangle(tuple(others)), grid),
            SelectiveRegion(Dz.parse("1"), None, grid),
        ),
        repeated=True,
        quiet=quiet,
    )


def listen(receiver: PacketReceiver, through: SchemaChannel, listener: EventListener, key: bytes | None = None) -> None:
    """Have a listener hear of events, as when the controller has answered; with a key, of those with genuine tags."""
    receiver.schemas.listen(through, listener)
    receiver.schemas.open(through.schema.name, None if key is None else SchemaSeals(key))


class Wire:
    """Keeps what was sent; takes nothing while `closed`, nor when it has taken as many as were `left`."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.packets: list[bytes] = []
        self.closed = False
        self.left: int | None = None

    def send(self, address: bytes, packet: bytes) -> bool:
        if self.closed or self.left == 0:
            return False
        if self.left is not None:
            self.left -= 1
        self.packets.append(packet)
        self.frames.append(wrap(IPv6Address(address), packet))
        return True
