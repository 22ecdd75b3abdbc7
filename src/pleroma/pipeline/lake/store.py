"""Where a lake is: a folder, or an object store by its URI. Delta tables and single files are reached the same way.

Object stores are reached through the library's own store, which takes addresses, credentials and options from the
environment (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, …). So no credential is part of a lake's URL, nor of a message.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pyarrow import fs

from pleroma.errors import LakeError

URI_SCHEMES = ("file", "s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "memory")
_SECRETS = re.compile(r"(://)[^/@\s]*@|([?&][^=\s]*(?:key|secret|token|signature|sig)[^=\s]*=)[^&\s]*", re.IGNORECASE)
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
_MAX_REASON = 300


def lake_url(given: str) -> str:
    """The absolute path of a folder, or a URI without its last slash. Other processes find the lake by it."""
    if not given:
        raise LakeError("a lake is a folder or the URI of one", field="lake", value=given)
    scheme, separator, rest = given.partition("://")
    if not separator:
        return str(Path(given).expanduser().absolute())
    if scheme not in URI_SCHEMES:
        known = ", ".join(f"{each}://" for each in URI_SCHEMES)
        raise LakeError(f"is a folder, or begins with one of {known}", field="lake", value=without_secrets(given))
    if "@" in rest.partition("/")[0]:
        raise LakeError("has credentials in it: give them in the environment", field="lake", value=scheme)
    return rest_of_file(rest) if scheme == "file" else given.rstrip("/")


def rest_of_file(rest: str) -> str:
    return str(Path(rest).absolute())


def is_local(url: str) -> bool:
    return "://" not in url


def file_system(url: str) -> tuple[Any, str]:
    """A file system of Arrow in which a folder of the lake can be read and written, and the folder's path in it."""
    if is_local(url):
        return fs.LocalFileSystem(), f"{url}/"
    from deltalake.fs import DeltaStorageHandler

    try:
        return fs.PyFileSystem(DeltaStorageHandler(url)), ""
    except Exception as error:
        raise LakeError(f"cannot be reached: {reason_of(error)}", field="lake", value=without_secrets(url)) from None


def reason_of(error: BaseException) -> str:
    """What an error of a store or of the library says: one line, not too long, with no credentials in it.

    Of an error of the operating system only what that says: "No space left on device".
    """
    if found := _SYSTEM_ERROR.search(str(error)):
        return os.strerror(int(found[1]))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return without_secrets((lines or [type(error).__name__])[0])[:_MAX_REASON]


def without_secrets(text: str) -> str:
    return _SECRETS.sub(lambda found: f"{found[1]}…@" if found[1] else f"{found[2]}…", text)
