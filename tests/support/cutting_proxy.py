"""A proxy before a member of etcd that loses answers and requests, as a network does at the worst moment."""

import re
import socket
import threading
from contextlib import suppress
from enum import Enum

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Cut(Enum):
    BEFORE = "the request is lost"
    AFTER = "the request is carried out, and its answer is lost"
    HELD = "the request is kept back, and delivered later"


class CuttingProxy:
    """Requests pass, but for those that hold `marker` while it is armed: each kind of cut is used up once."""

    def __init__(self, target: str, marker: bytes) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._marker = marker
        self._armed: list[Cut] = []
        self._held: list[bytes] = []
        self.cuts = 0
        self._is_refusing = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._sockets: list[socket.socket] = []
        self._threads[0].start()

    def arm(self, *cuts: Cut) -> None:
        self._armed += cuts

    def refuse(self) -> None:
        """Cut all connections that are there, and those to come."""
        self._is_refusing = True
        self._cut_all()

    def deliver(self) -> list[bytes]:
        """Send what was kept back; the answers that came."""
        held, self._held = self._held, []
        return [self._exchange(request) for request in held]

    def __enter__(self) -> "CuttingProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._cut_all()
        for each in self._threads:
            each.join()

    def _cut_all(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                if self._is_refusing:
                    client.close()
                    continue
                self._sockets.append(client)
                serving = threading.Thread(target=self._serve, args=(client,), daemon=True)
                self._threads.append(serving)
                serving.start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            while request := _read(client):
                if self._armed and self._marker in request:
                    cut = self._armed.pop(0)
                    self.cuts += 1
                    if cut is Cut.AFTER:
                        self._exchange(request)
                    elif cut is Cut.HELD:
                        self._held.append(request)
                    return
                client.sendall(self._exchange(request))

    def _exchange(self, request: bytes) -> bytes:
        with socket.create_connection(self._target, 30) as upstream:
            upstream.sendall(request.replace(b"Connection: keep-alive", b"Connection: close", 1))
            answer = b""
            while part := upstream.recv(65536):
                answer += part
        return answer


def _read(client: socket.socket) -> bytes:
    """One request, whole; empty when the client is gone."""
    request = b""
    while b"\r\n\r\n" not in request:
        if not (part := client.recv(65536)):
            return b""
        request += part
    head, _, body = request.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    wanted = int(found[1]) if found else 0
    while len(body) < wanted:
        if not (part := client.recv(65536)):
            return b""
        body += part
    return head + b"\r\n\r\n" + body
