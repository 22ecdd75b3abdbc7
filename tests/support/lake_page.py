"""docs/pipeline.md: its programs, and the tables of columns that it has to show."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from pleroma.pipeline.lake.lake_tables import TABLES, TableColumn

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")
LAKE_ON_THE_PAGE = "/var/lib/pleroma-lake"


class Question(NamedTuple):
    """What one section of the page asks, in SQL and with pandas."""

    section: str
    sql: str
    pandas: str


def blocks(language: str, text: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    """A section of the second level, without its title."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def questions() -> list[Question]:
    parts = re.split(r"^### (.*)$", section("The lake"), flags=re.MULTILINE)
    asked = [
        (title, blocks("sql", text), blocks("python", text))
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    ]
    return [Question(title, sql[0], python[0]) for title, sql, python in asked if sql]


def preparation(word: str, lake: str) -> str:
    """The program of the page that has a word in it and prepares questions, for a lake elsewhere."""
    before = section("The lake").split("\n### ")[0]
    (found,) = [each for each in blocks("python", before) if word in each]
    return found.replace(LAKE_ON_THE_PAGE, lake)


def type_name(kind: Any) -> str:
    """A type as Delta calls it."""
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{each.name}: {type_name(each.type)}' for each in kind)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return {"string": "string", "int64": "long", "int32": "integer", "double": "double"}[str(kind)]


def column_rows(columns: Iterable[TableColumn]) -> str:
    """How the page shows columns."""
    rows = [f"| `{each.name}` | `{type_name(each.type)}` | {each.meaning} |" for each in columns]
    return "\n".join(["| column | type | |", "|---|---|---|", *rows])


def table_rows() -> str:
    """How the page lists the tables."""
    rows: list[tuple[str, str, tuple[str, ...]]] = [("events/NAME", "sampled events of a schema", ("hour",))]
    rows += [(each.path, each.meaning, each.partitioned_by) for each in TABLES.values()]
    return "\n".join(
        f"| `{path}` | {meaning}"
        + (f"; partitioned by {' and '.join(f'`{each}`' for each in by)}" if by else "")
        + " |"
        for path, meaning, by in rows
    )
