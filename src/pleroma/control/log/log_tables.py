"""The tables of the log's database, how a file is recognised as one, and what one of an earlier version lacks."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from pleroma.control.log.head_file import CHAIN_BYTES
from pleroma.errors import ForeignLog

SQLITE_APPLICATION_ID = 0x506C726D  # "Plrm", where SQLite and `file` look for it
LOG_FORMAT = 3
_EARLIER_FORMATS = (1, 2)
"""Formats that can be brought to the present one. Both have a table of the keys of requests, which snapshots hold now.
Format 1 has, of tokens, the clients' keys, and no chain.
"""

_TABLES = (
    "CREATE TABLE entries (position INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, body BLOB NOT NULL, chain BLOB)",
    "CREATE TABLE snapshots (position INTEGER PRIMARY KEY, digest BLOB NOT NULL, state BLOB NOT NULL)",
)


def format_of(connection: sqlite3.Connection, path: Path) -> int:
    """The format of the log in this file, 0 while it is empty. A file of somebody else is refused."""
    try:
        application, version, tables = (
            connection.execute(question).fetchone()[0]
            for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        raise ForeignLog("this file is not a log", field=str(path)) from None
    if (application, version, tables) == (0, 0, 0):
        return 0
    if application != SQLITE_APPLICATION_ID:
        reason = "this database belongs to another application"
        raise ForeignLog(reason, field=str(path), value=application)
    if version != LOG_FORMAT and version not in _EARLIER_FORMATS:
        reason = f"the log has format {version}, and this program reads format {LOG_FORMAT}"
        raise ForeignLog(reason, field=str(path), value=version)
    return int(version)


def make_tables(connection: sqlite3.Connection) -> None:
    """Make an empty file a log, within a transaction."""
    for table in _TABLES:
        connection.execute(table)
    connection.execute(f"PRAGMA application_id = {SQLITE_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {LOG_FORMAT}")


def has_chain(connection: sqlite3.Connection) -> bool:
    """Whether entries can have a chain. Those from before an upgrade have none all the same."""
    columns = connection.execute("SELECT name FROM pragma_table_info('entries')").fetchall()
    return ("chain",) in columns


def add_chain(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE entries ADD COLUMN chain BLOB")


def last_entry(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Position and chain of the last entry."""
    found = connection.execute("SELECT position, chain FROM entries ORDER BY position DESC LIMIT 1").fetchone()
    position, chain = found or (0, None)
    return position, chain or bytes(CHAIN_BYTES)


def key_digests(connection: sqlite3.Connection) -> dict[int, bytes]:
    """By position: the digest of the body of an entry that had a key, in a log of an earlier format.

    There is no such table any more if the process ended while the log was brought to the present format.
    """
    has_table = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'keys'").fetchone()[0]
    return dict(connection.execute("SELECT position, digest FROM keys").fetchall()) if has_table else {}


def drop_keys(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS keys")
