"""A schema as the TOML file that people write: a table for each attribute, with a comment above where there is one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pleroma.content.schema import Schema


def schema_toml(schema: Schema, comments: Mapping[str, str]) -> str:
    """The text that `Schema.load` reads as this schema. `comments` are by the name of the attribute."""
    written = schema.to_json()
    own = {name: value for name, value in written.items() if name != "attribute"}
    parts = ["".join(f"{name} = {_value(value)}\n" for name, value in own.items())]
    for attribute in written["attribute"]:
        comment = comments.get(attribute["name"])
        lines = [] if comment is None else [f"# {' '.join(comment.split())}"]
        lines += ["[[attribute]]", *(f"{name} = {_value(value)}" for name, value in attribute.items())]
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def _value(value: Any) -> str:
    """JSON writes texts, numbers, truth values and lists of texts as TOML does, but for one character."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
