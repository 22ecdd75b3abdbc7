"""What the tests of the client share."""

from ipaddress import IPv6Address

from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Filter
from pleroma.index import Dz, GridIndex, IndexPlan, Rectangle, SelectiveIndex, SelectiveRegion
from pleroma.wire.tunnel import wrap
from support.strategies import STOCK

PREFIX = Dz.parse("000101")


def channel(bits=24, epoch=1, number=5, schema=STOCK, dimensions=None, index=None):
    index = index or GridIndex.regular(schema, bits, dimensions)
    return SchemaChannel(number, PREFIX, IndexPlan(epoch, index))


def quote(price=10.0, volume=0, ticker="AAPL", **more):
    return STOCK.event(price=price, volume=volume, ticker=ticker, **more)


def wanted(text):
    return Filter.parse(STOCK, text)


def twice(schema=STOCK, quiet=False):
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


class Wire:
    """Keeps what was sent; takes nothing while `closed`."""

    def __init__(self):
        self.frames = []
        self.packets = []
        self.closed = False

    def send(self, address, packet):
        if not self.closed:
            self.packets.append(packet)
            self.frames.append(wrap(IPv6Address(address), packet))
        return not self.closed
