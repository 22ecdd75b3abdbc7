"""The sockets that a service listens at, bound before anything else is started: a taken port is an error at once."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from pleroma.errors import SetupError

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104
_ATTEMPTS = 20
"""To find a port that is free for connections and for datagrams."""


def bind_tcp(host: str, port: int) -> socket.socket:
    return _bound(host, port, socket.SOCK_STREAM, socket.IPPROTO_TCP)


def bind_tcp_and_udp(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """A socket for connections and one for datagrams, at the same port."""
    for attempt in range(_ATTEMPTS):
        listening = bind_tcp(host, port)
        try:
            return listening, _bound(host, listening.getsockname()[1], socket.SOCK_DGRAM, socket.IPPROTO_UDP)
        except SetupError:
            listening.close()
            if port or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def url_of(listening: socket.socket, scheme: str = "http", host: str | None = None) -> str:
    """Where a socket listens; `host` is its address for others, if that is another."""
    own, port = listening.getsockname()[:2]
    host = host or own
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def found_at(listening: socket.socket, known: str) -> str:
    """The address at which processes on other machines find a socket; `known` is a URL that all of them use.

    If it listens at all addresses, it is the one from which this machine reaches that URL.
    """
    own: str = listening.getsockname()[0]
    if own not in _EVERYWHERE:
        return own
    there = urlsplit(known)
    try:
        family = socket.AF_INET if own == _EVERYWHERE[0] else socket.AF_UNSPEC
        found = socket.getaddrinfo(there.hostname, there.port, family, socket.SOCK_DGRAM)[0]
        with socket.socket(*found[:3]) as asking:
            asking.connect(found[4])  # nothing is sent
            address: str = asking.getsockname()[0]
            return address
    except OSError as error:
        reason = f"others cannot be told where to find this process: {error}; name an address of this machine"
        raise SetupError(reason, field="host", value=own) from None


def _bound(host: str, port: int, kind: socket.SocketKind, protocol: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with its protocol, or asyncio does not turn off Nagle's algorithm, and answers wait 40 ms for an acknowledgement
    bound = socket.socket(family, kind, protocol)
    try:
        if kind is socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise SetupError(f"cannot listen on {host} port {port}: {reason}", field="port", value=port) from None
    return bound
