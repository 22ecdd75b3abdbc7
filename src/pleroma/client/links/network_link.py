"""The link between a client and the network: packets out, packets in, at one host.

There are two kinds, and the attachment says which: a tunnel to a simulated host, a broker or the host agent
(`tunnel_link`), and the network of real switches that the host is in (`native_link`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pleroma.errors import ClientError, PleromaError
from pleroma.index.address import IPV6, AddressRange
from pleroma.wire.agent_socket import events_path


@dataclass(frozen=True, slots=True)
class HostAttachment:
    """What the controller tells a client that wants to be at a host.

    With a secret, `where` is the address and port of a tunnel, to which the client attaches with the secret; of a host
    agent, it is the path of its socket and 0. Without a secret, `where` is the host's own address and the port that
    events come to.
    """

    host: str
    where: tuple[str, int]
    seconds: float
    addresses: AddressRange = IPV6
    secret: bytes | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], api_host: str | None = None) -> HostAttachment:
        """`api_host` is where the API is asked: a tunnel leads there if the controller names no other host."""
        try:
            addresses = AddressRange.parse(data["range"]) if "range" in data else IPV6
            network = data.get("network", "tunnel")
            is_native = network == "native"
            secret = None if is_native else bytes.fromhex(data["secret"])
            begins = data["address"] if is_native else data.get("udp_host") or api_host
            if network == "agent":
                begins = events_path(api_host) if api_host else None
            if begins is None:
                raise KeyError("udp_host")
            where = str(begins), int(data["port"])
            return cls(data["host"], where, float(data["seconds"]), addresses, secret)
        except (KeyError, TypeError, ValueError, AttributeError, PleromaError) as error:
            raise ClientError(f"the controller's attachment cannot be read: {error!r}", field="attachment") from None

    @property
    def is_native(self) -> bool:
        return self.secret is None


class NetworkLink(Protocol):
    @property
    def attachment(self) -> HostAttachment: ...

    @property
    def overrun(self) -> int:
        """Datagrams that the kernel dropped, because this process did not read fast enough; 0 where it cannot tell."""

    def send(self, address: bytes, packet: bytes) -> bool:
        """Send a packet to the address of a cell, from any thread; False if it was not taken."""

    async def attach(self) -> bool:
        """Attach for the first time: whether it was granted."""

    async def stay(self) -> None:
        """Stay attached; returns when the attachment is lost."""

    def doubt(self) -> None:
        """Something suggests that the controller is gone: find out soon whether the attachment is lost."""

    def close(self) -> None:
        """Detach, after taking the packets that have arrived. May be called twice."""


class EchoOnLoop:
    """Hands packets to `echo` in the thread of the event loop, whichever thread they were sent from."""

    def __init__(self, echo: Callable[[bytes], None]) -> None:
        self._echo = echo
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def __call__(self, packet: bytes) -> None:
        if threading.get_ident() == self._thread:
            self._echo(packet)
        else:
            self._loop.call_soon_threadsafe(self._echo, packet)


def open_link(
    attachment: HostAttachment,
    receive: Callable[[bytes], None],
    echo: Callable[[bytes], None],
    charge: Callable[[str, int, int], None] = lambda *_: None,
) -> NetworkLink:
    """The link that an attachment describes; `receive` gets each packet that arrives, `echo` each that was sent.

    `charge` gets the id of a subscription, and how many packets an agent found wasted and forged that are due to it.
    """
    if attachment.is_native:
        from pleroma.client.links.native_link import NativeLink

        return NativeLink(attachment, receive, echo)
    from pleroma.client.links.tunnel_link import TunnelLink

    return TunnelLink(attachment, receive, echo, charge)
