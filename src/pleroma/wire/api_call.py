"""A request to the API and its answer as bytes, for messages between a host and the controller.

A request begins with the lowest sequence number that its sender still waits for: answers below it may be forgotten, and
requests below it are repetitions. Requests and answers then have a byte that says whether the rest is compressed, a
first line (method and path, or the status), lines of headers, an empty line, and the body.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from pleroma.errors import WireError, shown
from pleroma.wire.inband_messages import MAX_PART_BYTES, MAX_PARTS

MAX_CALL_BYTES = MAX_PARTS * MAX_PART_BYTES - 9
"""Of a request or an answer, compressed or not."""
_FLOOR = Struct("!Q")
_PLAIN, _DEFLATED = b"\0", b"\1"
_MIN_COMPRESSED_BYTES = 512
"""Compressing less is not worth it."""
_METHOD = re.compile("[A-Z]{1,16}")
_PATH = re.compile(r"/[!-~]{0,8191}")
_NAME = re.compile("[a-z0-9-]{1,64}")
_VALUE = re.compile("[ -~]{0,1024}")
_MAX_HEADERS = 16

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """`path` has the query in it; `floor` is the lowest sequence number that the client waits for."""

    method: str
    path: str
    headers: Headers = ()
    body: bytes = b""
    floor: int = 0

    def pack(self) -> bytes:
        return _FLOOR.pack(self.floor) + _compressed(self.checked())

    def checked(self) -> bytes:
        """The request as it is before it is compressed; raises WireError if it cannot be packed."""
        _check("method", self.method, _METHOD)
        _check("path", self.path, _PATH)
        return _sized(_written(f"{self.method} {self.path}", self.headers, self.body))

    @classmethod
    def unpack(cls, data: bytes) -> ApiRequest:
        if len(data) < _FLOOR.size:
            raise WireError("cut short", field="size", value=len(data))
        first, headers, body = _read(_decompressed(data[_FLOOR.size :]))
        method, _, path = first.partition(" ")
        _check("method", method, _METHOD)
        _check("path", path, _PATH)
        return cls(method, path, headers, body, *_FLOOR.unpack_from(data))


@dataclass(frozen=True, slots=True)
class ApiResponse:
    status: int
    headers: Headers = ()
    body: bytes = b""

    def pack(self) -> bytes:
        if not 100 <= self.status <= 599:
            raise WireError(f"{self.status} is not a status", field="status", value=self.status)
        return _compressed(_written(str(self.status), self.headers, self.body))

    @classmethod
    def unpack(cls, data: bytes) -> ApiResponse:
        first, headers, body = _read(_decompressed(data))
        if not re.fullmatch("[1-5][0-9]{2}", first):
            raise WireError(f"{shown(first)} is not a status", field="status", value=first)
        return cls(int(first), headers, body)


def _written(first: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    lines = [first]
    for name, value in headers:
        _check("header", name, _NAME)
        _check("header", value, _VALUE)
        lines.append(f"{name}: {value}")
    return "\n".join([*lines, "", ""]).encode() + body


def _read(data: bytes) -> tuple[str, Headers, bytes]:
    head, end, body = data.partition(b"\n\n")
    if not end:
        raise WireError("the lines of the head do not end", field="head", value=len(data))
    try:
        first, *lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise WireError("the head is not ASCII", field="head") from None
    if len(lines) > _MAX_HEADERS:
        raise WireError(f"{len(lines)} headers, {_MAX_HEADERS} are the most", field="header", value=len(lines))
    headers = []
    for line in lines:
        name, _, value = line.partition(": ")
        _check("header", name, _NAME)
        _check("header", value, _VALUE)
        headers.append((name, value))
    return first, tuple(headers), body


def _compressed(data: bytes) -> bytes:
    """With the byte that says whether it is, in front: what would not become smaller stays as it is."""
    smaller = zlib.compress(data) if len(_sized(data)) >= _MIN_COMPRESSED_BYTES else data
    return _DEFLATED + smaller if len(smaller) < len(data) else _PLAIN + data


def _sized(data: bytes) -> bytes:
    if len(data) > MAX_CALL_BYTES:
        raise WireError(f"{len(data)} bytes, {MAX_CALL_BYTES} are the most", field="size", value=len(data))
    return data


def _decompressed(data: bytes) -> bytes:
    if data[:1] == _PLAIN:
        return data[1:]
    if data[:1] != _DEFLATED:
        raise WireError(f"{shown(data[:1])} does not begin a call", field="form", value=data[:1])
    inflate = zlib.decompressobj()
    try:
        whole = inflate.decompress(data[1:], MAX_CALL_BYTES)
    except zlib.error as error:
        raise WireError(f"cannot be decompressed: {error}", field="body") from None
    if not inflate.eof or inflate.unused_data:
        raise WireError("is cut short, too large or followed by something when decompressed", field="body")
    return whole


def _check(field: str, value: str, form: re.Pattern[str]) -> None:
    if not form.fullmatch(value):
        raise WireError(f"{shown(value)} is not a {field}", field=field, value=value)
