"""Sockets at the hosts of a lab: what tests send and receive there."""

import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from pleroma.index import Dz
from pleroma.index.address import AddressRange
from pleroma.lab import Lab
from pleroma.routing import HostId
from pleroma.wire.ports import EVENTS_PORT
from support.waiting import LIMIT_SECONDS, wait_until

SO_RCVBUFFORCE = 33  # which the socket module does not name
BUFFER_BYTES = 8 << 20


class HostSockets:
    """A socket for sending and one for receiving at each host, or at some of them: programs may be at the others."""

    def __init__(self, lab: Lab, addresses: AddressRange, hosts: Iterable[HostId] | None = None) -> None:
        self._addresses = addresses
        self._selector = selectors.DefaultSelector()
        self._senders: dict[HostId, socket.socket] = {}
        v6 = addresses.base.version == 6
        for host in lab.topology.hosts if hosts is None else map(lab.topology.find_host, hosts):
            with lab.inside(host.name):
                family = socket.AF_INET6 if v6 else socket.AF_INET
                sender, receiver = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
                card = socket.if_nametoindex("eth0")
            if v6:
                sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, card)
            else:
                sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host.address))
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
            receiver.bind((host.address, EVENTS_PORT))
            receiver.setblocking(False)
            self._senders[host.name] = sender
            self._selector.register(receiver, selectors.EVENT_READ, host.name)

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            cast(socket.socket, key.fileobj).close()
        self._selector.close()
        for sender in self._senders.values():
            sender.close()

    def send(self, host: HostId, dz: Dz, payload: bytes) -> None:
        self._senders[host].sendto(payload, (str(self._addresses.address(dz)), EVENTS_PORT))

    def received(self, seconds: float) -> list[tuple[HostId, bytes]]:
        """(host, payload) of all that is there, waiting so long for the first."""
        return [
            (key.data, payload)
            for key, _ in self._selector.select(seconds)
            for payload in _waiting(cast(socket.socket, key.fileobj))
        ]

    def gather(
        self, expected: Counter[tuple[HostId, bytes]], seconds: float = LIMIT_SECONDS
    ) -> Counter[tuple[HostId, bytes]]:
        """What comes: until all is there that is expected, or nothing more can be, and a little longer for the rest."""
        found: Counter[tuple[HostId, bytes]] = Counter()
        limit = time.monotonic() + seconds
        while expected - found and time.monotonic() < limit:
            found.update(self.received(0.1))
        while more := self.received(0.05):
            found.update(more)
        return found


def _waiting(receiver: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield receiver.recv(2000)
        except BlockingIOError:
            return


class Stream(threading.Thread):
    """Sends numbered payloads, all the time, until told to end."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__(name="stream")
        self.sent = 0
        self._over = threading.Event()
        self._send = send

    def run(self) -> None:
        while not self._over.wait(0.002):
            self._send(b"%d" % self.sent)
            self.sent += 1

    def go_on(self, count: int) -> None:
        """Return when so many more were sent."""
        enough = self.sent + count
        wait_until(lambda: self.sent >= enough, "events flow")

    def end(self) -> None:
        self._over.set()
        self.join()

    @property
    def payloads(self) -> list[bytes]:
        return [b"%d" % number for number in range(self.sent)]
