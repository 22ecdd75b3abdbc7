"""The sockets that a service listens at, bound before anything else is started: a taken port is an error at once."""

from __future__ import annotations

import os
import socket

from pleroma.errors import SetupError

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


def url_of(listening: socket.socket, scheme: str = "http") -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


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
