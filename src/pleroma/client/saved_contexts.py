"""Contexts: where controllers are and who one is there, saved under names in a file of the user's own.

The file is `pleroma/contexts.json` in $XDG_CONFIG_HOME, or in ~/.config. It may hold tokens, so one that others can
read is refused. One context is the current one: the commands go by it when they are told nothing else.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pleroma.errors import SetupError, UnknownName
from pleroma.private_file import write_private


@dataclass(frozen=True, slots=True)
class SavedContext:
    """A controller, and the principal and token to use there: the token itself, or the file that it is in."""

    url: str
    principal: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    ca_file: str | None = None
    """Who signed the controller's certificate, where that is not one of the system's authorities."""

    def read_token(self) -> str | None:
        return self.token if self.token_file is None else read_token(Path(self.token_file))


@dataclass(frozen=True, slots=True)
class SavedContexts:
    """All contexts by name, and the name of the current one."""

    by_name: Mapping[str, SavedContext] = field(default_factory=dict)
    current: str | None = None

    @classmethod
    def load(cls) -> SavedContexts:
        path = contexts_path()
        try:
            with path.open(encoding="utf-8") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise SetupError(f"others can read it: chmod 600 {path}", field=str(path))
                data = json.load(file)
            return cls({name: SavedContext(**each) for name, each in data["contexts"].items()}, data["current"])
        except FileNotFoundError:
            return cls()
        except (ValueError, TypeError, KeyError, AttributeError):
            raise SetupError("is not a file of contexts: delete it, and add them anew", field=str(path)) from None

    def save(self) -> None:
        path = contexts_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        contexts = {name: _given(asdict(each)) for name, each in self.by_name.items()}
        write_private(path, json.dumps({"current": self.current, "contexts": contexts}, indent=2))

    def find(self, name: str) -> SavedContext:
        try:
            return self.by_name[name]
        except KeyError:
            raise UnknownName("context", name, self.by_name, field="--context") from None

    def with_context(self, name: str, context: SavedContext) -> SavedContexts:
        """These with one more, or another one of this name. The first one is the current one."""
        return SavedContexts({**self.by_name, name: context}, self.current or name)

    def without(self, name: str) -> SavedContexts:
        self.find(name)
        left = {each: context for each, context in self.by_name.items() if each != name}
        return SavedContexts(left, None if self.current == name else self.current)

    def using(self, name: str) -> SavedContexts:
        """The same, with this one as the current one."""
        self.find(name)
        return replace(self, current=name)


def contexts_path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "pleroma" / "contexts.json"


def read_token(path: Path) -> str:
    """The token in a file."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token:
        raise SetupError("holds no token", field=str(path))
    return token


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
