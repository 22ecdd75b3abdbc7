"""An S3 server (moto's) as a process of its own, with a proxy before it, and what is in the environment to reach it.

Both are processes because some calls of delta-rs stop all threads of theirs while they wait: a server beside them in
one process would never answer.
"""

import json
import socket
import subprocess
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import boto3

from support.programs import environment
from support.waiting import wait_until

BUCKET = "lakes"
SECRET = "wJalrXUtnFEMI-recognisable-secret"  # noqa: S105
KEY_ID = "AKIARECOGNISABLE"
PROXY = "support.object_store.proxy"


class ObjectStore:
    """A store with one bucket; `url` is a place in it, and `fault` makes the proxy before it misbehave."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._proxy: subprocess.Popen[str] | None = None
        self.port = _free_port()
        self.proxy_port = 0

    @property
    def environment(self) -> dict[str, str]:
        """What programs need to reach the store, through the proxy."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "NO_PROXY": "127.0.0.1",
        }

    def url(self, path: str) -> str:
        return f"s3://{BUCKET}/{path}"

    @property
    def client(self) -> Any:
        """The store itself, without the proxy."""
        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
        )

    def fault(self, kind: str, match: str = "", times: int | None = None, seconds: float = 0.0) -> None:
        """Let the requests that match, so many or all that come, go wrong: see the proxy for the kinds."""
        self._tell({"kind": kind, "match": match, "times": times, "seconds": seconds})

    def mend(self) -> int:
        """Let requests pass again: how many went wrong."""
        return self._tell(None)

    def _tell(self, fault: dict[str, object] | None) -> int:
        assert self._proxy is not None
        assert self._proxy.stdin is not None
        assert self._proxy.stdout is not None
        self._proxy.stdin.write(json.dumps(fault) + "\n")
        self._proxy.stdin.flush()
        return int(self._proxy.stdout.readline())

    def __enter__(self) -> Self:
        try:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            wait_until(self._answers, "the S3 server answers")
            self.client.create_bucket(Bucket=BUCKET)
            self._proxy = subprocess.Popen(
                [sys.executable, "-m", PROXY, str(self.port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment(),
            )
            assert self._proxy.stdout is not None
            self.proxy_port = int(self._proxy.stdout.readline())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _answers(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, "the S3 server ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def _end(self) -> None:
        for each in (self._proxy, self._server):
            if each is not None:
                each.kill()
                each.wait()
                for stream in (each.stdin, each.stdout):
                    if stream is not None:
                        stream.close()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
