"""Boxes that are too many to send with every task: a Parquet file of blocks, which tasks read one after the other."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pleroma.errors import LakeError
from pleroma.pipeline.lake.store import file_system, lake_url, reason_of
from pleroma.selection.box_blocks import BoxBlock, BoxBlocks


@dataclass(frozen=True)
class StoredBoxes(BoxBlocks):
    """Boxes in a file, a block in each row group."""

    url: str = ""
    name: str = ""

    def blocks(self) -> Iterator[BoxBlock]:
        system, root = file_system(self.url)
        first = 0
        with system.open_input_file(f"{root}{self.name}") as file, pq.ParquetFile(file) as parquet:
            for number in range(parquet.num_row_groups):
                table = parquet.read_row_group(number)
                low, high = ([_bounds(table[name]) for name in table.column_names[side::2]] for side in (0, 1))
                yield BoxBlock(first, tuple(low), tuple(high))
                first += table.num_rows

    @classmethod
    @contextmanager
    def written(cls, boxes: BoxBlocks, url: str) -> Iterator[StoredBoxes]:
        """Write a file with these boxes, which is removed when the block ends."""
        folder = lake_url(url)
        system, root = file_system(folder)
        name = f".boxes-{secrets.token_hex(8)}.parquet"
        try:
            _write(boxes, system, root, name)
            yield cls(boxes.count, (), folder, name)
        finally:
            with suppress(OSError):
                system.delete_file(f"{root}{name}")


def _write(boxes: BoxBlocks, system: Any, root: str, name: str) -> None:
    try:
        system.create_dir(root, recursive=True)
        schema = _table(boxes.parts[0]).schema
        with system.open_output_stream(f"{root}{name}") as file, pq.ParquetWriter(file, schema) as writer:
            for block in boxes.parts:
                writer.write_table(_table(block), row_group_size=len(block))
    except (pa.ArrowException, OSError) as error:
        raise LakeError(f"the boxes cannot be written: {reason_of(error)}", field="scratch", value=name) from None


def _table(block: BoxBlock) -> Any:
    columns = {}
    for d, (low, high) in enumerate(zip(block.low, block.high, strict=True)):
        for name, bounds in (("low", low), ("high", high)):
            columns[f"{name}_{d}"] = pa.array(bounds, pa.binary() if bounds.dtype == object else pa.float64())
    return pa.table(columns)


def _bounds(column: Any) -> Any:
    if pa.types.is_binary(column.type):
        return np.array(column.to_pylist(), object)
    return column.to_numpy()
