"""What publishers and subscribers ask of the network. Each registration has an id, by which it is withdrawn."""

from __future__ import annotations

from typing import NamedTuple

from pleroma.index.dzset import DzSet
from pleroma.routing.topology import HostId


class Advertise(NamedTuple):
    """`host` may publish events in `region`."""

    id: str
    host: HostId
    region: DzSet


class Unadvertise(NamedTuple):
    id: str


class Subscribe(NamedTuple):
    """`host` wants the events in `region`."""

    id: str
    host: HostId
    region: DzSet


class Unsubscribe(NamedTuple):
    id: str


Registration = Advertise | Subscribe
Request = Advertise | Unadvertise | Subscribe | Unsubscribe
