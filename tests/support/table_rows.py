"""Rows that a test puts into a table of a lake by itself."""

from typing import Any

from pleroma.pipeline.lake.lake_table import LakeTable, Landing


def append(table: LakeTable, rows: Any) -> None:
    """Land rows as they are, without any transaction."""
    table.land(lambda _: Landing(rows, {}))
