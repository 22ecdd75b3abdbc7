"""Where a streaming job notes how far it is: a folder that Spark writes, with a label that says whose it is.

Spark reaches object stores only where it has jars for them, so the checkpoint of a lake in an object store is a folder
of the driver's machine, unless the user names another place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake_tables import quoted
from pleroma.pipeline.lake.store import is_local, reason_of, without_secrets

CHECKPOINT_LABEL = "pleroma.json"


def usual_checkpoint(lake_url: str, schema: str) -> str:
    """In the lake if it is a folder; otherwise in the user's folder for state (`XDG_STATE_HOME`) on this machine."""
    if is_local(lake_url):
        return f"{lake_url}/checkpoints/{quoted(schema)}"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    name = sha256(f"{lake_url}\n{schema}".encode(errors="surrogatepass")).hexdigest()[:16]
    return str(state / "pleroma" / "checkpoints" / name)


class JobCheckpoint:
    """`url` is a folder, or a URI that both Spark and Arrow can reach."""

    def __init__(self, url: str) -> None:
        self.url = str(Path(url).expanduser().absolute()) if is_local(url) else url  # Spark knows no `~`
        with self._naming():
            self._system, self._root = fs.FileSystem.from_uri(self.url)

    def claim(self, owner: Mapping[str, Any]) -> None:
        """Label a new checkpoint with the lake, the schema and the window of its job; refuse that of another job."""
        label = f"{self._root}/{CHECKPOINT_LABEL}"
        with self._naming():
            if self._system.get_file_info(label).type == fs.FileType.NotFound:
                self._system.create_dir(self._root, recursive=True)
                with self._system.open_output_stream(f"{label}.unfinished") as stream:
                    stream.write(json.dumps(owner).encode())
                self._system.move(f"{label}.unfinished", label)
                return
            with self._system.open_input_stream(label) as stream:
                text = stream.readall()
        try:
            made_for: Any = json.loads(text)
        except ValueError:
            made_for = None
        if made_for != owner:
            reason = f"was made for {made_for}, not for {owner}: choose another"
            raise LakeError(reason, field="checkpoint", value=without_secrets(self.url))

    def clear_unbegun(self) -> None:
        """Empty the folders of a query that died before its first batch: Spark begins in empty folders only."""
        with self._naming():
            begun = self._system.get_file_info(fs.FileSelector(f"{self._root}/offsets", allow_not_found=True))
            if not any(each.base_name.isdecimal() for each in begun):
                for name in ("offsets", "commits", "state"):
                    self._system.delete_dir_contents(f"{self._root}/{name}", missing_dir_ok=True)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, ImportError) as error:
            place = without_secrets(self.url)
            raise LakeError(f"cannot be used: {reason_of(error)}", field="checkpoint", value=place) from None
