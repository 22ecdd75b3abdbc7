"""A program: an HTTP proxy before an S3 server, whose requests go wrong as it is told on standard input.

It prints its port, then reads lines: a fault as JSON, or null for none. To each it prints how many requests have gone
wrong since the line before. The kinds of faults:

    slow_down     the answer is 503 SlowDown, and the store gets nothing
    denied        the answer is 403 and repeats the request's credentials, as S3 does
    cut_request   half of the request is read, and the connection is cut
    cut_answer    the store gets the request; half of its answer comes, if it has any, and the line is cut
    silent        no answer comes
    slow          the answer comes after so many seconds
"""

import http.client
import json
import re
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLOW_DOWN = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
DENIED = """<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match the \
signature you provided.</Message><AWSAccessKeyId>{authorization}</AWSAccessKeyId><StringToSign>{authorization}\
</StringToSign></Error>"""


@dataclass
class Fault:
    kind: str
    match: str
    times: int | None
    seconds: float


class Faults:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fault: Fault | None = None
        self._count = 0

    def set(self, fault: Fault | None) -> int:
        with self._lock:
            count, self._count, self._fault = self._count, 0, fault
            return count

    def of(self, request: str) -> Fault | None:
        with self._lock:
            fault = self._fault
            if fault is None or not re.search(fault.match, request):
                return None
            if fault.times is not None and self._count >= fault.times:
                return None
            self._count += 1
            return fault


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone is no matter."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store_port = 0
    faults = Faults()

    def handle_request(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        fault = self.faults.of(f"{self.command} {self.path}")
        kind = fault.kind if fault else ""
        if kind == "cut_request":
            self.rfile.read(length // 2)
            return self.cut()
        body = self.rfile.read(length)
        if kind == "silent":
            time.sleep(600)
        if fault and kind == "slow":
            time.sleep(fault.seconds)
        if kind == "slow_down":
            return self.answer(503, {}, SLOW_DOWN.encode())
        if kind == "denied":
            return self.answer(403, {}, DENIED.format(authorization=self.headers["Authorization"]).encode())
        connection = http.client.HTTPConnection("127.0.0.1", self.store_port, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers))
        got = connection.getresponse()
        content = got.read()
        connection.close()
        self.answer(got.status, dict(got.getheaders()), content, cut=kind == "cut_answer")
        return None

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request  # noqa: N815

    def answer(self, status: int, headers: dict[str, str], content: bytes, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        if cut and not content:
            return self.cut()
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        return self.cut() if cut else None

    def cut(self) -> None:
        """End the connection as a lost one ends."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def main() -> None:
    Handler.store_port = int(sys.argv[1])
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        print(Handler.faults.set(None if told is None else Fault(**told)), flush=True)


if __name__ == "__main__":
    main()
