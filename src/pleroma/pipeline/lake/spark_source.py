"""A lake as a source of Spark: `spark.read.format("pleroma")` and `spark.readStream.format("pleroma")`.

Options: `path` (the lake), `schema` (its name), `kind` (events, reports, subscriptions or refused; events by default),
`from` and `to` (moments in ISO form: what happened in `[from, to)`), and for streams `maxFilesPerTrigger`.

The driver plans what is read and gives each task a list of files; a task keeps no state. A stream's offset is the name
of the newest part that it has seen, which says when that part was landed: parts come in the order of their names, and a
fold knows when each of its parts was landed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pleroma.errors import LakeError, UnknownName
from pleroma.pipeline.lake.moments import parsed
from pleroma.pipeline.lake.reading import ROW_KINDS, FileToRead, Reading, planned, portions

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake, LandedFile

SOURCE_OPTIONS = ("path", "schema", "kind", "from", "to", "maxFilesPerTrigger")
STREAMED_KINDS = ("events", "reports")


@dataclass(frozen=True, slots=True)
class LakeQuery:
    """What is read from a lake: the options of the source, checked."""

    path: str
    schema: str
    kind: str = "events"
    start: datetime | None = None
    end: datetime | None = None
    max_files: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LakeQuery:
        given = {name.lower(): value for name, value in options.items()}
        known = {name.lower() for name in SOURCE_OPTIONS}
        for name in given:
            if name not in known:
                raise UnknownName("option", name, SOURCE_OPTIONS)
        for needed in ("path", "schema"):
            if not given.get(needed):
                raise LakeError(f"the option {needed!r} is missing", field=needed)
        kind = given.get("kind", "events")
        if kind not in ROW_KINDS:
            raise UnknownName("kind", kind, ROW_KINDS)
        files = given.get("maxfilespertrigger")
        if files is not None and not (files.isascii() and files.isdecimal() and int(files)):
            raise LakeError("is a count from 1", field="maxFilesPerTrigger", value=files)
        start, end = (parsed(name, given[name]) if name in given else None for name in ("from", "to"))
        return cls(given["path"], given["schema"], kind, start, end, None if files is None else int(files))

    def lake(self) -> Lake:
        from pleroma.pipeline.lake.lake import Lake

        return Lake.at(self.path)

    def reading(self) -> Reading:
        schema = self.lake().schema(self.schema)
        return Reading.of(self.path, schema, self.kind, self.start, self.end)


class PleromaSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pleroma"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(LakeQuery.of(self.options).reading().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        query = LakeQuery.of(self.options)
        return LakeReader(query, query.reading(), schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        query = LakeQuery.of(self.options)
        if query.kind not in STREAMED_KINDS:
            raise LakeError(f"a stream is of {' or '.join(STREAMED_KINDS)}", field="kind", value=query.kind)
        return LakeStream(query, query.reading(), schema.fieldNames())


class Portion(InputPartition):
    """Files for one task."""

    def __init__(self, pieces: Sequence[FileToRead]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


class LakeReader(DataSourceReader):
    """`names` are the columns that are wanted: all, or fewer if the reader was given a schema."""

    def __init__(self, query: LakeQuery, reading: Reading, names: Sequence[str]) -> None:
        self.query = query
        self.reading = reading
        self.names = _known(names, reading)

    def partitions(self) -> Sequence[InputPartition]:
        asked = self.query
        pieces = list(planned(asked.lake(), asked.kind, asked.schema, asked.start, asked.end))
        if asked.kind == "subscriptions" and not pieces:
            raise LakeError("there is no snapshot of the subscriptions", field="schema", value=asked.schema)
        return [Portion(each) for each in portions(pieces)] or [Portion(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Portion)  # noqa: S101
        return self.reading.batches(partition.pieces, self.names)


class LakeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, query: LakeQuery, reading: Reading, names: Sequence[str]) -> None:
        self.query = query
        self.reading = reading
        self.names = _known(names, reading)
        self._last: str | None = None
        """The newest key of a stream that ends with what is available now."""

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return {"key": ""}

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        max_files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        after, last = _landed(start["key"]), None if self._last is None else _landed(self._last)
        new = list(islice(self._files(after, last), max_files))
        if not new:
            return start
        # what is available now may end within a fold that was made since
        return {"key": new[-1].key if last is None or new[-1].last <= last else self._last or ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.query.max_files is None else ReadMaxFiles(self.query.max_files)

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802
        newest = [file.key for file in self._files(0, None)][-1:]
        return {"key": newest[0]} if newest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = max((file.key for file in self._files(0, None)), key=_landed, default="")

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        # listed again: a listing may have passed by a folder just before a part came there, but all parts up to one
        # that was seen then are there now, or in a fold
        kind, after, last = self.query.kind, _landed(start["key"]), _landed(end["key"])
        pieces = []
        for file in self._files(after, last):
            is_whole = after < file.first and file.last <= last
            pieces.append(FileToRead(kind, file.path, file.size, landed=None if is_whole else (after, last)))
        return [Portion(each) for each in portions(pieces)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Portion)  # noqa: S101
        return self.reading.batches(partition.pieces, self.names)

    def _files(self, after: int, last: int | None) -> Iterator[LandedFile]:
        """The files with a part that was landed after one moment and until another, in order."""
        asked = self.query
        for file in asked.lake().files(asked.kind, asked.schema, asked.start, asked.end):  # type: ignore[arg-type]
            if after < file.last and (last is None or file.first <= last):
                yield file


def _landed(key: str) -> int:
    """When the part that an offset names was landed; 0, before any part, if it names none."""
    from pleroma.pipeline.lake.lake_layout import moment_of

    return moment_of(key)


def _known(names: Sequence[str], reading: Reading) -> tuple[str, ...]:
    there = reading.schema.names
    for name in names:
        if name not in there:
            raise UnknownName("column", name, there)
    return tuple(names)
