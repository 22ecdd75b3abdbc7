"""The file under the log, for looking only: without its lock, so that a controller may be running on it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pleroma.control.log.log_examination import read_only
from pleroma.control.log.log_tables import LOG_FORMAT, format_of
from pleroma.control.log.sqlite_file import clear_errors
from pleroma.errors import ForeignLog, LogError


class ReadOnlyFile:
    """Takes logs of the present format only."""

    format = LOG_FORMAT

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise LogError("there is no log here", field=str(path))
        with clear_errors(path):
            self._connection = read_only(path)
            try:
                version = format_of(self._connection, path)
                if version != LOG_FORMAT:
                    raise ForeignLog(f"has format {version}; `pleroma up` upgrades it", field=str(path), value=version)
            except BaseException:
                self._connection.close()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with clear_errors(self.path):
            yield self._connection

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        raise LogError("the log is open for reading only", field=str(self.path))

    def checkpoint(self) -> None:
        raise LogError("the log is open for reading only", field=str(self.path))

    def leave_no_trace(self) -> None:
        raise LogError("the log is open for reading only", field=str(self.path))

    def close(self) -> None:
        self._connection.close()
