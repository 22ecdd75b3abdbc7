"""The tables of a lake: their columns with their meaning, and their partitions. docs/pipeline.md shows the same.

A lake is a folder of Delta tables. Events have a table for each schema, `events/NAME`, whose last columns are the
attributes: two schemas may have an attribute of the same name and of another type. All other tables are shared, and
have a column `schema`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from pleroma.content import Schema
from pleroma.content.arrow_columns import MOMENT_TYPE, column_type
from pleroma.pipeline.lake.landed import RegistrationTable

BOXES_TYPE = pa.list_(pa.list_(pa.struct([("attribute", pa.string()), ("low", pa.float64()), ("high", pa.float64())])))
SharedTable = Literal[
    "schemas", "plans", "subscriptions", "advertisements", "reports", "topology", "windows", "decisions", "refused"
]


class TableColumn(NamedTuple):
    name: str
    type: Any
    """In Arrow's terms."""
    meaning: str


@dataclass(frozen=True, slots=True)
class TableDefinition:
    path: str
    """From the root of the lake."""
    columns: tuple[TableColumn, ...]
    partitioned_by: tuple[str, ...] = ()
    meaning: str = ""

    @property
    def schema(self) -> Any:
        """The columns in Arrow's terms."""
        return pa.schema([(each.name, each.type) for each in self.columns])


_SCHEMA = TableColumn("schema", pa.string(), "the schema's name")
_HOUR = "the hour it happened in, in UTC, such as 2026-11-15T16"
_DAY = "the day that the window began on, in UTC, such as 2026-11-15"
_LANDING = "the number of the landing that brought the row; every landing has the next number"
_HELD_OUT = (
    "the waste of the plan in force on events held out: at hosts, or at subscriptions where the network is not known"
)
_LONGEST_FOLDER = 255
"""In bytes: so long may the name of a folder be."""


def _registrations(path: RegistrationTable, host: str, filter: str, meaning: str) -> TableDefinition:
    """The table of subscriptions or of advertisements."""
    return TableDefinition(
        path,
        (
            _SCHEMA,
            TableColumn("state", pa.string(), "`begun`, `ended`, or `over`: see below"),
            TableColumn(
                "day", pa.string(), "the day it ended on, in UTC, such as 2026-11-15, in `over`; `-` otherwise"
            ),
            TableColumn("id", pa.string(), f"the {path.removesuffix('s')}"),
            TableColumn("since", MOMENT_TYPE, "from when on it was in force"),
            TableColumn("until", MOMENT_TYPE, "when it ended; null in `begun`"),
            TableColumn("principal", pa.string(), "whose it is"),
            TableColumn("host", pa.string(), host),
            TableColumn("filter", pa.string(), filter),
            TableColumn(
                "boxes",
                BOXES_TYPE,
                "the same as boxes: for each attribute that a box limits, its first and last coordinate (a number "
                "itself, the microseconds of a timestamp, the position of a word, the code of a text)",
            ),
        ),
        partitioned_by=("schema", "state", "day"),
        meaning=meaning,
    )


TABLES: dict[SharedTable, TableDefinition] = {
    "schemas": TableDefinition(
        "schemas",
        (
            _SCHEMA,
            TableColumn("since", MOMENT_TYPE, "from when on the row is valid: until the next row of the schema"),
            TableColumn("definition", pa.string(), "the schema as JSON"),
            TableColumn("rate", pa.float64(), "the sampling rate that somebody chose, if anybody did"),
        ),
        meaning="schemas, and the sampling rates that were chosen for them",
    ),
    "plans": TableDefinition(
        "plans",
        (
            _SCHEMA,
            TableColumn("epoch", pa.int32(), "the plan's number"),
            TableColumn("since", MOMENT_TYPE, "when it came into force: until the next epoch"),
            TableColumn("members", pa.int32(), "how many dz a subscription may have; null: any number"),
            TableColumn("plan", pa.string(), "the plan as JSON, as `pleroma tune --plan` writes it"),
        ),
        meaning="the index plans in force, one after the other",
    ),
    "subscriptions": _registrations(
        "subscriptions",
        host="where its events are delivered",
        filter="what it wants, as JSON",
        meaning="when each subscription was in force, where, and what it wanted",
    ),
    "advertisements": _registrations(
        "advertisements",
        host="where its events are published",
        filter="what it may publish, as JSON",
        meaning="when each advertisement was in force, where, and what it promised",
    ),
    "reports": TableDefinition(
        "reports",
        (
            _SCHEMA,
            TableColumn("hour", pa.string(), _HOUR),
            TableColumn("landing", pa.int64(), _LANDING),
            TableColumn("at", MOMENT_TYPE, "when it was reported"),
            TableColumn("subscription", pa.string(), "the subscription"),
            TableColumn("principal", pa.string(), "whose it is"),
            TableColumn("delivered", pa.int64(), "events that it wanted, since the report before"),
            TableColumn(
                "wanted", pa.int64(), "packets that its client wanted, each at one subscription; null: not told"
            ),
            TableColumn("wasted", pa.int64(), "packets that came because of it and its client did not want"),
            TableColumn("duplicates", pa.int64(), "events that came once more"),
            TableColumn("dropped", pa.int64(), "events that the application was too slow for"),
        ),
        partitioned_by=("schema", "hour"),
        meaning="what subscribers counted",
    ),
    "topology": TableDefinition(
        "topology",
        (
            TableColumn("since", MOMENT_TYPE, "from when on the network was so: until the next row"),
            TableColumn("position", pa.int64(), "the position in the controller's log"),
            TableColumn("topology", pa.string(), "switches, hosts and links as JSON, as a topology file has them"),
            TableColumn("limits", pa.map_(pa.string(), pa.int64()), "how many rules a switch may have, where limited"),
            TableColumn("rooms", pa.map_(pa.string(), pa.int64()), "how many a switch turned out to have room for"),
        ),
        meaning="the network, and how many rules its switches have room for",
    ),
    "windows": TableDefinition(
        "windows",
        (
            _SCHEMA,
            TableColumn("day", pa.string(), _DAY),
            TableColumn("since", MOMENT_TYPE, "the first moment of the window"),
            TableColumn("until", MOMENT_TYPE, "the moment after its last"),
            TableColumn("epoch", pa.int32(), "the plan that most of its events were sent by"),
            TableColumn("events", pa.int64(), "sampled events in it, within the domains of the schema"),
            TableColumn("refused", pa.int64(), "events that were not"),
            TableColumn("unjudged", pa.int64(), "events whose plan or whose subscriptions the lake does not know"),
            TableColumn("deliveries", pa.int64(), "packets that the plans in force made of the events at the hosts"),
            TableColumn("wanted", pa.int64(), "those of them that somebody at the host wanted"),
            TableColumn("waste", pa.float64(), "the share that nobody wanted: the waste at hosts"),
            TableColumn("reported_delivered", pa.int64(), "events that subscribers wanted, as they reported"),
            TableColumn("reported_wanted", pa.int64(), "packets that their clients wanted; null: not told"),
            TableColumn("reported_wasted", pa.int64(), "packets that their clients did not want"),
            TableColumn("drift", pa.float64(), "how far values lie from where they lay when the plan was made, 0 to 1"),
            TableColumn("empty_before", pa.int64(), "windows without an event since the window before"),
            TableColumn("pairs", pa.int64(), "pairs of an event and a box of a subscription"),
            TableColumn("matched", pa.map_(pa.string(), pa.int64()), "by attribute: the pairs that match along it"),
            TableColumn("epochs", pa.map_(pa.int32(), pa.int64()), "events by the plan that they were sent by"),
            TableColumn(
                "histograms",
                pa.map_(pa.string(), pa.list_(pa.int64())),
                "by attribute: events in 32 bins of equal width over its domain, and at last events that lack it",
            ),
        ),
        partitioned_by=("schema", "day"),
        meaning="closed windows of `pleroma pipeline watch`",
    ),
    "decisions": TableDefinition(
        "decisions",
        (
            _SCHEMA,
            TableColumn("day", pa.string(), _DAY),
            TableColumn("since", MOMENT_TYPE, "the first moment of the window that decided"),
            TableColumn("until", MOMENT_TYPE, "the moment after its last"),
            TableColumn("epoch", pa.int32(), "the plan in force"),
            TableColumn("reason", pa.string(), "`waste`, `subscriptions` or `period`"),
            TableColumn("detail", pa.string(), "the reason in words"),
            TableColumn("outcome", pa.string(), "what came of it; `handing` while the plan is being handed over"),
            TableColumn("new_epoch", pa.int32(), "the plan that was adopted"),
            TableColumn("technique", pa.string(), "how the new plan was found"),
            TableColumn(
                "waste_before",
                pa.float64(),
                _HELD_OUT,
            ),
            TableColumn("waste_after", pa.float64(), "the waste of the new plan on the same events"),
            TableColumn("rules", pa.int64(), "rules of the fullest switch under the new plan"),
            TableColumn("seconds", pa.float64(), "how long it took"),
            TableColumn("decision", pa.string(), "everything known of the decision, as JSON"),
        ),
        partitioned_by=("schema", "day"),
        meaning="decisions of `pleroma pipeline watch` to look for a better plan",
    ),
    "refused": TableDefinition(
        "refused",
        (
            TableColumn("at", MOMENT_TYPE, "when it was found"),
            TableColumn("table", pa.string(), "the table, by its path in the lake"),
            TableColumn("path", pa.string(), "the file, by its path in the table"),
            TableColumn("reason", pa.string(), "what is wrong with it"),
        ),
        meaning="files that could not be read and were left out",
    ),
}


class EventColumns(NamedTuple):
    """What the columns of an event table beside the attributes are called: `hour`, `landing`, `id`, `at`, …

    Where an attribute has that name, with however large letters, the column has a `_` in front: `_id`.
    """

    hour: str
    landing: str
    id: str
    at: str
    epoch: str
    rate: str
    principal: str

    @classmethod
    def of(cls, schema: Schema) -> EventColumns:
        taken = {name.lower() for name in attribute_columns(schema).values()}
        return cls(*(_free(name, taken) for name in cls._fields))


def attribute_columns(schema: Schema) -> dict[str, str]:
    """The column of each attribute, by name: `_` in front of one that differs from another by large letters alone."""
    columns: dict[str, str] = {}
    for name in schema.names:
        columns[name] = _free(name, {each.lower() for each in columns.values()})
    return columns


def _free(name: str, taken: Iterable[str]) -> str:
    while name.lower() in taken:
        name = f"_{name}"
    return name


def event_table(schema: Schema) -> TableDefinition:
    names = EventColumns.of(schema)
    own = (
        TableColumn(names.hour, pa.string(), _HOUR),
        TableColumn(names.landing, pa.int64(), _LANDING),
        TableColumn(names.id, pa.int64(), "a number that no other event of the table has"),
        TableColumn(names.at, MOMENT_TYPE, "when it was published"),
        TableColumn(names.epoch, pa.int32(), "the plan that it was published by"),
        TableColumn(names.rate, pa.float64(), "the probability it was drawn with: it stands for 1 / rate events"),
        TableColumn(names.principal, pa.string(), "who sent it; null: not told"),
    )
    columns = attribute_columns(schema)
    attributes = (
        TableColumn(columns[each.name], column_type(each), f"the attribute {each.name}; null where an event lacks it")
        for each in schema.attributes
    )
    meaning = f"sampled events of {schema.name}"
    return TableDefinition(events_path(schema.name), (*own, *attributes), (names.hour,), meaning)


def events_path(name: str) -> str:
    return f"events/{quoted(name)}"


def is_nameable(name: str) -> bool:
    """Whether there can be folders for a schema of this name."""
    return len(f"schema={quoted(name)}") <= _LONGEST_FOLDER


def quoted(name: str) -> str:
    """A schema's name in a path, with `~` for `%`: the library takes a `%` in a path for the code of a letter.

    It never begins with a dot or an underscore: many tools pass over such folders.
    """
    safe = quote(name, safe="", errors="surrogatepass").replace("~", "%7E").replace("%", "~")
    return f"~{ord(safe[0]):02X}{safe[1:]}" if safe[:1] in "._" else safe
