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
from pleroma.pipeline.lake.storage import Storage
from pleroma.selection.box_blocks import BoxBlock, BoxBlocks


@dataclass(frozen=True)
class StoredBoxes(BoxBlocks):
    """Boxes in a file, a block in each row group."""

    url: str = ""
    name: str = ""

    def blocks(self) -> Iterator[BoxBlock]:
        storage = Storage.at(self.url)
        first = 0
        with storage.system.open_input_file(f"{storage.root}/{self.name}") as file, pq.ParquetFile(file) as parquet:
            for number in range(parquet.num_row_groups):
                table = parquet.read_row_group(number)
                low, high = ([_bounds(table[name]) for name in table.column_names[side::2]] for side in (0, 1))
                yield BoxBlock(first, tuple(low), tuple(high))
                first += table.num_rows

    @classmethod
    @contextmanager
    def written(cls, boxes: BoxBlocks, url: str) -> Iterator[StoredBoxes]:
        """Write a file with these boxes, which is removed when the block ends."""
        storage = Storage.at(url)
        name = f".boxes-{secrets.token_hex(8)}.parquet"
        path = f"{storage.root}/{name}"
        try:
            _write(boxes, storage, path)
            yield cls(boxes.count, (), url, name)
        finally:
            with suppress(OSError):
                storage.system.delete_file(path)


def _write(boxes: BoxBlocks, storage: Storage, path: str) -> None:
    try:
        storage.system.create_dir(storage.root, recursive=True)
        schema = _table(boxes.parts[0]).schema
        with pq.ParquetWriter(path, schema, filesystem=storage.system) as writer:
            for block in boxes.parts:
                writer.write_table(_table(block), row_group_size=len(block))
    except (pa.ArrowException, OSError) as error:
        raise LakeError(f"the boxes cannot be written: {error}", field="scratch", value=path) from None


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
