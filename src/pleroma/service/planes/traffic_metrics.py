"""Counters of packets and bytes, with the same names on every kind of network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from pleroma.routing import Topology
from pleroma.routing.presence import Place
from pleroma.service.metric_families import counter

_BYTES = "_bytes"
"""How the names of fields end that count bytes; all others count packets."""


def packet_metrics(where: str, counted: Mapping[str, int]) -> Iterator[Metric]:
    """Packets by what became of them, and the bytes of those whose bytes are counted."""
    packets = [(name, count) for name, count in counted.items() if not name.endswith(_BYTES)]
    sizes = [(name.removesuffix(_BYTES), count) for name, count in counted.items() if name.endswith(_BYTES)]
    yield counter("pleroma_packets", f"Packets {where}, by what became of them", packets, "fate")
    yield counter("pleroma_packet_bytes", f"Bytes of packets {where}, by what became of them", sizes, "fate")


def link_metrics(topology: Topology, sent: Mapping[Place, tuple[int, int]]) -> Iterator[Metric]:
    """Packets and bytes on each link in each direction: what the port at either end has sent, where that is known."""
    ends = [((str(link), str(end[0])), sent[end]) for link in topology.links for end in link.ends if end in sent]
    packets = [(labels, count) for labels, (count, _) in ends]
    sizes = [(labels, size) for labels, (_, size) in ends]
    yield counter(
        "pleroma_link_packets", "Packets that a link carried from one of its switches", packets, "link", "source"
    )
    yield counter("pleroma_link_bytes", "Bytes that a link carried from one of its switches", sizes, "link", "source")
