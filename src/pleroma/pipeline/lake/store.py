"""Where a lake is: a folder, or an object store by its URI. Delta tables and single files are reached the same way.

Object stores are reached through the library's own store, which takes addresses, credentials and options from the
environment (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, …). So no credential is part of a lake's URL, nor of a message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyarrow import fs

from pleroma.errors import LakeError

URI_SCHEMES = ("file", "s3", "s3a", "gs", "az", "abfs", "abfss")
_CONTAINER_FIRST = ("abfs", "abfss")
"""Of these, what stands before the `@` is a container, and a credential only after a colon."""
_STORE_OPTIONS = {
    "connect_timeout": "5s",
    "timeout": "10s",
    "retry_timeout": "10s",
    "max_retries": "40",
    "backoff_config.init_backoff": "100ms",
    "backoff_config.max_backoff": "1s",
}
"""A store that throttles is asked again for ten seconds; one that does not answer is given up after twenty."""
_SECRETS = re.compile(r"(://)[^/@\s]*@|([?&][^=\s]*(?:key|secret|token|signature|sig)[^=\s]*=)[^&\s]*", re.IGNORECASE)
_SECRET_VARIABLES = re.compile(r"(AWS|AZURE|GOOGLE|GCP|STORAGE)_.*(KEY|SECRET|TOKEN|PASSWORD|SIGNATURE)", re.IGNORECASE)
_LEAST_SECRET = 6
"""A variable with fewer characters is no credential, and many a message has these characters."""
_UNUSABLE = re.compile(r"[][^|\\]|%[0-9A-Fa-f]{2}")
"""The library loses its way in a path with one of these."""
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳")
_REQUEST = re.compile(r"Error performing ([A-Z]+ [^\s?]+)")
_ANSWER = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_PLAIN_HTTP = "URL scheme is not allowed"
_NO_ANSWER = "error sending request"
_MAX_REASON = 300


def lake_url(given: str) -> str:
    """The absolute path of a folder, or a URI without its last slash. Other processes find the lake by it."""
    if not given:
        raise LakeError("a lake is a folder or the URI of one", field="lake", value=given)
    scheme, separator, rest = given.partition("://")
    if found := _UNUSABLE.search(rest if separator else str(Path(given).expanduser().absolute())):
        raise LakeError(f"the path of a lake has no {found[0]}", field="lake", value=without_secrets(given))
    if not separator:
        return str(Path(given).expanduser().absolute())
    if scheme not in URI_SCHEMES:
        known = ", ".join(f"{each}://" for each in URI_SCHEMES)
        raise LakeError(f"is a folder, or begins with one of {known}", field="lake", value=without_secrets(given))
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if "?" in rest or (at and (scheme not in _CONTAINER_FIRST or ":" in user)):
        raise LakeError("has credentials or options in it: give them in the environment", field="lake", value=scheme)
    return str(Path(rest).absolute()) if scheme == "file" else given.rstrip("/")


def is_local(url: str) -> bool:
    return "://" not in url


def first_link(folder: str) -> str | None:
    """The path, from a local folder, of some symbolic link below it; None if there is none."""
    with os.scandir(folder) as found:
        for each in found:
            if each.is_symlink():
                return each.name
            if each.is_dir() and (link := first_link(each.path)) is not None:
                return f"{each.name}/{link}"
    return None


def storage_options(url: str) -> dict[str, str] | None:
    """How patient the library is with a store: less than it would be by itself, since landing waits meanwhile."""
    return None if is_local(url) else dict(_STORE_OPTIONS)


def file_system(url: str, sizes: Mapping[str, int] | None = None) -> tuple[Any, str]:
    """A file system of Arrow in which a folder of the lake can be read and written, and the folder's path in it.

    Files of known size, by path, are opened without asking an object store: that would stop all threads of the process.
    """
    if is_local(url):
        return fs.LocalFileSystem(), f"{url}/"
    from deltalake.fs import DeltaStorageHandler

    try:
        return fs.PyFileSystem(DeltaStorageHandler(url, storage_options(url), dict(sizes or {}))), ""
    except Exception as error:
        raise LakeError(f"cannot be reached: {reason_of(error)}", field="lake", value=without_secrets(url)) from None


def reason_of(error: BaseException) -> str:
    """What an error of a store or of the library says: one line, not too long, with no credentials in it.

    Of an error of the operating system only what that says: "No space left on device". Of a request to a store, the
    request and the last of its reasons, or the code and message in the answer: the rest of an answer repeats the
    request with its signature.
    """
    text = _DECORATION.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    request = _REQUEST.search(text)
    if found := _SYSTEM_ERROR.search(text):
        cause = os.strerror(int(found[1]))
    elif found := _ANSWER.search(text):
        cause = ": ".join(filter(None, found.groups()))
    elif _PLAIN_HTTP in text:
        cause = "it is not encrypted, which has to be allowed: AWS_ALLOW_HTTP=true"
    else:
        cause = lines[-1].rpartition(": ")[2].replace(_NO_ANSWER, "no answer") if request else lines[0]
    return without_secrets(f"{request[1]}: {cause}" if request else cause)[:_MAX_REASON]


def is_of_store(error: BaseException) -> bool:
    """Whether an error is one of asking an object store for something that is there."""
    return not isinstance(error, FileNotFoundError) and _REQUEST.search(str(error)) is not None


def without_secrets(text: str) -> str:
    """The text without what looks like a credential, and without the credentials in the environment."""
    for name, value in os.environ.items():
        if len(value) >= _LEAST_SECRET and _SECRET_VARIABLES.fullmatch(name):
            text = text.replace(value, "…")
    return _SECRETS.sub(lambda found: f"{found[1]}…@" if found[1] else f"{found[2]}…", text)
