"""The file system of a lake: whole files or none, and errors of our own tree.

A file is written under another name and renamed when it is complete and on the disk. Where renaming is copying, as in
object stores, the copy appears when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pleroma.errors import LakeError

SCHEMA_LABEL = b"pleroma.schema"
PARTS_LABEL = b"pleroma.parts"
"""In a fold: when each of its parts was landed, and how many rows it had, in the order of the rows."""
UNFINISHED_SUFFIX = ".unfinished"
_TRIES = 5

T = TypeVar("T")


class StoredFile(NamedTuple):
    path: str
    """From the root of the lake."""
    size: int
    changed: datetime | None


class Storage(NamedTuple):
    system: Any
    root: str

    @classmethod
    def at(cls, url: str) -> Storage:
        """A folder, or what pyarrow knows as a file system: file://, s3://, gs://, hdfs://, …"""
        if not url:
            raise LakeError("a lake is a folder or the URI of one", field="lake", value=url)
        try:
            if "://" not in url:
                return cls(fs.LocalFileSystem(), str(Path(url).expanduser().absolute()))
            system, root = fs.FileSystem.from_uri(url)
        except (pa.ArrowException, OSError, ValueError, ImportError) as error:
            raise LakeError(f"no file system: {_first(error)}", field="lake", value=url) from None
        return cls(system, root.rstrip("/"))

    def check(self) -> None:
        """Raise if files cannot be written here."""
        self.write_text("schemas/.written", "")
        self.remove("schemas/.written")

    def write_table(self, path: str, table: Any) -> None:
        def write(name: str) -> None:
            pq.write_table(table, name, filesystem=self.system, compression="zstd", write_page_checksum=True)

        self._write(path, write)

    def write_text(self, path: str, text: str) -> None:
        def write(name: str) -> None:
            with self.system.open_output_stream(name) as stream:
                stream.write(text.encode(errors="surrogatepass"))

        self._write(path, write)

    def read_text(self, path: str) -> str:
        def read() -> str:
            with self.system.open_input_stream(f"{self.root}/{path}") as stream:
                return str(stream.readall().decode(errors="surrogatepass"))

        return self._read(path, read)

    def exists(self, path: str) -> bool:
        info = self._read(path, lambda: self.system.get_file_info(f"{self.root}/{path}"))
        return bool(info.type != fs.FileType.NotFound)

    def listed(self, path: str) -> Iterator[StoredFile]:
        """All files below a folder; none if there is no such folder."""
        for info in self._read(path, lambda: self._found(path)):
            if info.type == fs.FileType.File:
                yield StoredFile(info.path[len(self.root) + 1 :], info.size or 0, info.mtime)

    def _found(self, path: str) -> Any:
        selector = fs.FileSelector(f"{self.root}/{path}", allow_not_found=True, recursive=True)
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # a folder has come or gone meanwhile
                return self.system.get_file_info(selector)
        return self.system.get_file_info(selector)

    def remove(self, path: str) -> None:
        """Remove a file, and the folders that are empty then."""
        try:
            with suppress(FileNotFoundError):  # somebody else was faster
                self.system.delete_file(f"{self.root}/{path}")
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"cannot be removed: {_first(error)}", field=f"{self.root}/{path}") from None
        folder = path.rpartition("/")[0]
        while folder.count("/") > 1:
            with suppress(OSError):
                selector = fs.FileSelector(f"{self.root}/{folder}")
                if self.system.get_file_info(selector):
                    return
                self.system.delete_dir(f"{self.root}/{folder}")
            folder = folder.rpartition("/")[0]

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it."""
        try:
            with suppress(FileNotFoundError):
                self.system.delete_dir(f"{self.root}/{path}")
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"cannot be removed: {_first(error)}", field=f"{self.root}/{path}") from None

    def _write(self, path: str, write: Callable[[str], None]) -> None:
        folder, _, name = path.rpartition("/")
        unfinished = f"{self.root}/{folder}/.{name}{UNFINISHED_SUFFIX}"
        try:
            self.system.create_dir(f"{self.root}/{folder}", recursive=True)
            write(unfinished)
            self._sync(unfinished)
            self.system.move(unfinished, f"{self.root}/{path}")
        except (pa.ArrowException, OSError) as error:
            with suppress(OSError):
                self.system.delete_file(unfinished)
            raise LakeError(f"cannot be written: {_first(error)}", field=f"{self.root}/{path}") from None

    def _sync(self, path: str) -> None:
        """Have a local file's contents on the disk before it gets its name: a loss of power leaves no half file."""
        if isinstance(self.system, fs.LocalFileSystem):
            with open(path, "rb") as file:
                os.fsync(file.fileno())

    def _read(self, path: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise LakeError(f"cannot be read: {_first(error)}", field=f"{self.root}/{path}") from None


def read_table(system: Any, path: str, checksum: str, columns: Any) -> Any:
    """The rows of a Parquet file if it is whole, of this schema, and has these columns; all of it is checked."""
    try:
        with system.open_input_file(path) as file, pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            found = parquet.schema_arrow
            label = (found.metadata or {}).get(SCHEMA_LABEL, b"").decode(errors="replace")
            if label != checksum:
                raise LakeError(f"is of another schema: {label or 'it says none'} and not {checksum}", field=path)
            if not found.equals(columns):
                raise LakeError(f"has other columns: {', '.join(found.names)}", field=path, value=str(found))
            table = parquet.read()
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise LakeError(f"is not a readable Parquet file: {_first(error)}", field=path) from None
    return table


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
