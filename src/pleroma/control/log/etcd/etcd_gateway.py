"""A client of etcd's JSON gateway (version 3), for any thread.

It uses httpx, which every install has: of the client libraries for etcd, etcd3 and aetcd have had no release for years,
etcd3gw is synchronous over `requests` and hides what became of a write, and etcd3aio is new and takes gRPC with it.
A request that reads goes to one member after the other. A request that writes goes to another member only if the first
cannot have got it; otherwise its outcome is unclear, and the caller is told so.
"""

from __future__ import annotations

import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx

from pleroma.control.log.etcd.etcd_address import EtcdAddress
from pleroma.control.log.etcd.transaction import (
    FoundKeys,
    Json,
    StoredKey,
    TransactionAnswer,
    find,
    read_found,
    read_key,
    read_transaction,
)
from pleroma.errors import DiskFull, LogAway, LogError, LogRefused, LogUnclear

ETCD_CONNECT_SECONDS = 1.0
ETCD_ANSWER_SECONDS = 3.0
"""After so long without an answer a member counts as dead; electing another leader takes one to two seconds."""
MAX_TRYING_SECONDS = 10.0
"""After so long without an answer of any member, a request is given up."""
MAINTENANCE_SECONDS = 120.0
_PAUSE_SECONDS = 0.1

_NOT_FOUND, _NO_SPACE, _EXISTS, _NOT_SIGNED_IN = 5, 8, 9, 16  # numbers of gRPC
_REFUSALS = {3, _NOT_FOUND, 6, 7, _NO_SPACE, _EXISTS, 11, 12, _NOT_SIGNED_IN}
"""With these, nothing of a request is in force. Others (`leader changed`, `request timed out`) leave it open."""
_OLD_SIGN_IN = "revision of auth store is old"
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class EtcdGateway:
    """It remembers which member answered last. `close` ends all that is under way."""

    def __init__(
        self,
        address: EtcdAddress,
        *,
        answer_seconds: float = ETCD_ANSWER_SECONDS,
        trying_seconds: float = MAX_TRYING_SECONDS,
    ) -> None:
        self.address = address
        self._answer_seconds = answer_seconds
        self._trying_seconds = trying_seconds
        self._endpoints = address.endpoints
        self._current = 0
        self._token = ""
        self._sign_in_lock = threading.Lock()
        self._closed = threading.Event()
        self._client = httpx.Client(
            timeout=_timeout(answer_seconds),
            verify=address.secrets.tls() if address.is_encrypted else False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=30.0),
            trust_env=False,
        )

    def __repr__(self) -> str:
        return f"EtcdGateway({self.address})"

    def close(self) -> None:
        self._closed.set()
        self._client.close()

    def find(self, key: bytes, end: bytes | None = None, *, limit: int = 0, within: float | None = None) -> FoundKeys:
        return read_found(self.ask("kv/range", find(key, end, limit=limit)["request_range"], within=within))

    def look(self, operations: Sequence[Json]) -> TransactionAnswer:
        """Several ranges as they are at one revision."""
        return read_transaction(self.ask("kv/txn", {"success": list(operations)}))

    def transact(self, body: Json) -> TransactionAnswer:
        answer = self.tell("kv/txn", body)
        if "header" not in answer:
            raise LogUnclear("the answer is not one of etcd", field=self.endpoint, value="kv/txn")
        return read_transaction(answer)

    def grant(self, seconds: int) -> int:
        """A lease that ends after so long unless it is kept; its number is ours, so that granting can be repeated."""
        lease = secrets.randbits(62) + 1
        try:
            self.ask("lease/grant", {"TTL": str(seconds), "ID": str(lease)})
        except LogRefused as error:
            if error.value != _EXISTS:
                raise
        return lease

    def keep(self, lease: int, *, seconds: float | None = None, within: float | None = None) -> bool:
        """Let a lease begin anew; whether it was still there."""
        answer = self.ask("lease/keepalive", {"ID": str(lease)}, seconds=seconds, within=within)
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    def revoke(self, lease: int) -> None:
        """End a lease, and with it all keys that hang on it."""
        try:
            self.ask("lease/revoke", {"ID": str(lease)})
        except LogRefused as error:
            if error.value != _NOT_FOUND:
                raise

    def ask(self, path: str, body: Json, *, seconds: float | None = None, within: float | None = None) -> Json:
        """What may be sent twice: it goes to one member after the other until one answers."""
        return self._send(path, body, True, seconds, within)

    def tell(self, path: str, body: Json) -> Json:
        """What must not be done twice. LogAway and LogRefused mean that it was not done, LogUnclear that it may be."""
        return self._send(path, body, False, None, None)

    def tell_member(self, endpoint: str, path: str, body: Json, *, seconds: float | None = None) -> Json:
        """What concerns one member: its status, or its file."""
        return self._post(endpoint, path, json.dumps(body).encode(), seconds or self._answer_seconds)

    def watch(self, key: bytes, start_revision: int, *, idle_seconds: float) -> WatchStream:
        """What becomes of a key from a revision on. It is asked of the member that answered last."""
        return WatchStream(self, key, start_revision, idle_seconds)

    def turn_away(self, endpoint: str) -> None:
        """Ask another member next time, unless another is asked already."""
        if self._endpoints[self._current] == endpoint:
            self._current = (self._current + 1) % len(self._endpoints)

    @property
    def endpoint(self) -> str:
        return self._endpoints[self._current]

    def _send(self, path: str, body: Json, may_repeat: bool, seconds: float | None, within: float | None) -> Json:
        content = json.dumps(body).encode()
        seconds = seconds or self._answer_seconds
        limit = time.monotonic() + (within or self._trying_seconds)
        tried = 0
        while True:
            endpoint = self.endpoint
            try:
                return self._post(endpoint, path, content, min(seconds, max(_PAUSE_SECONDS, limit - time.monotonic())))
            except (LogAway, LogUnclear) as error:
                self.turn_away(endpoint)
                if isinstance(error, LogUnclear) and not may_repeat:
                    raise
                if self._closed.is_set() or time.monotonic() >= limit:
                    reason = f"no member of etcd answers: {error.reason}"
                    raise LogAway(reason, field=error.field, value=error.value) from None
            tried += 1
            if tried % len(self._endpoints) == 0:
                self._closed.wait(_PAUSE_SECONDS)

    def _post(self, endpoint: str, path: str, content: bytes, seconds: float) -> Json:
        for attempt in (1, 2):
            answer = self._exchange(endpoint, path, content, seconds, self._sign_in(endpoint))
            if "code" not in answer:
                return answer
            if attempt == 1 and self._token and _is_of_sign_in(answer):
                self._token = ""
                continue
            raise _refusal(endpoint, answer)
        raise AssertionError("unreachable")

    def _sign_in(self, endpoint: str) -> dict[str, str]:
        secrets = self.address.secrets
        if not secrets.user:
            return {}
        with self._sign_in_lock:
            if not self._token:
                content = json.dumps({"name": secrets.user, "password": secrets.password}).encode()
                answer = self._exchange(endpoint, "auth/authenticate", content, self._answer_seconds, {})
                if "token" not in answer:
                    raise _refusal(endpoint, answer)
                self._token = answer["token"]
            return {"Authorization": self._token}

    def _exchange(self, endpoint: str, path: str, content: bytes, seconds: float, headers: Mapping[str, str]) -> Json:
        if self._closed.is_set():
            raise closed_error(self.address)
        try:
            response = self._client.post(
                f"{endpoint}/v3/{path}", content=content, headers=headers, timeout=_timeout(seconds)
            )
            text = response.text
            # a stream of one message, as the answer to a keepalive is
            answer = json.loads(text.partition("\n")[0] if path == "lease/keepalive" else text)
        except _NEVER_SENT as error:
            raise LogAway(_said(error), field=endpoint, value=path) from None
        except (httpx.HTTPError, json.JSONDecodeError, RuntimeError) as error:
            if self._closed.is_set():
                raise closed_error(self.address) from None
            raise LogUnclear(_said(error), field=endpoint, value=path) from None
        if not isinstance(answer, dict) or (response.is_error and "code" not in answer):
            raise LogUnclear(f"answered {response.status_code}", field=endpoint, value=path)
        return answer


class WatchStream:
    """What becomes of a key, until `stop`, or until no word came for `idle_seconds`. Use it as a context manager."""

    def __init__(self, gateway: EtcdGateway, key: bytes, start_revision: int, idle_seconds: float) -> None:
        self.endpoint = gateway.endpoint
        asked = find(key)["request_range"]["key"]
        request = {"create_request": {"key": asked, "start_revision": str(start_revision)}}
        content = json.dumps(request).encode()
        headers = gateway._sign_in(self.endpoint)
        built = gateway._client.build_request(
            "POST", f"{self.endpoint}/v3/watch", content=content, headers=headers, timeout=_timeout(idle_seconds)
        )
        try:
            self._response = gateway._client.send(built, stream=True)
        except (httpx.HTTPError, RuntimeError) as error:
            raise LogAway(_said(error), field=self.endpoint, value="watch") from None

    def __enter__(self) -> WatchStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    def stop(self) -> None:
        """End `changes` in whichever thread it waits."""
        stream = self._response.extensions.get("network_stream")
        found = stream.get_extra_info("socket") if stream is not None else None
        if isinstance(found, socket.socket | ssl.SSLSocket):
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    def changes(self) -> Iterator[StoredKey | None]:
        """The key after each change, None where it was deleted. It ends when nothing comes; LogAway if it was cut."""
        try:
            for line in self._response.iter_lines():
                answer = json.loads(line)
                result = answer.get("result", {})
                if "error" in answer or result.get("canceled"):
                    reason = result.get("cancel_reason") or "the watch was cancelled"
                    raise LogAway(reason, field=self.endpoint, value=result.get("compact_revision"))
                for event in result.get("events", ()):
                    yield None if event.get("type") == "DELETE" else read_key(event["kv"])
        except httpx.ReadTimeout:
            return
        except (httpx.HTTPError, json.JSONDecodeError, RuntimeError, OSError) as error:
            raise LogAway(_said(error), field=self.endpoint, value="watch") from None
        raise LogAway("the watch ended", field=self.endpoint, value="watch")


def closed_error(address: EtcdAddress) -> LogError:
    return LogError("the log is closed", field=str(address))


def _is_of_sign_in(answer: Mapping[str, Any]) -> bool:
    return answer["code"] == _NOT_SIGNED_IN or _OLD_SIGN_IN in str(answer.get("message"))


def _refusal(endpoint: str, answer: Mapping[str, Any]) -> LogError:
    code = int(answer.get("code", 2))
    said = str(answer.get("message") or answer.get("error") or "no reason").removeprefix("etcdserver: ")
    if code not in _REFUSALS:
        return LogUnclear(f"etcd says: {said}", field=endpoint, value=code)
    if code == _NO_SPACE and "space exceeded" in said:
        return DiskFull("the store of etcd is full; nothing was written", field=endpoint, value=code)
    return LogRefused(f"etcd says: {said}", field=endpoint, value=code)


def _said(error: BaseException) -> str:
    """What became of a request, in a few words: etcd's addresses are in the error's field, and secrets are nowhere."""
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return str(error) or type(error).__name__


def _timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(seconds, ETCD_CONNECT_SECONDS))
