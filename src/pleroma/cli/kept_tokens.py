"""Where this machine keeps a token that is about to be replaced: its files, and the contexts that hold it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pleroma.cli.remote import STATE_FOLDER
from pleroma.client.saved_contexts import SavedContexts, contexts_path
from pleroma.private_file import write_private


class KeptToken(NamedTuple):
    """All places of one token that the commands know of."""

    files: tuple[Path, ...]
    contexts: tuple[str, ...]

    @classmethod
    def find(cls, token: str) -> KeptToken:
        saved = SavedContexts.load()
        named = (Path(each.token_file) for each in saved.by_name.values() if each.token_file is not None)
        files = {path.resolve(): path for path in (STATE_FOLDER / "admin.token", *named)}
        holding = tuple(path for path in files.values() if _holds(path, token))
        return cls(holding, tuple(name for name, each in saved.by_name.items() if each.token == token))

    @property
    def places(self) -> list[str]:
        return [*map(str, self.files), *([str(contexts_path())] if self.contexts else ())]

    def exchange(self, token: str) -> None:
        """Put another token into all places."""
        for path in self.files:
            write_private(path, token)
        if self.contexts:
            saved = SavedContexts.load()
            for name in self.contexts:
                saved = saved.with_context(name, replace(saved.find(name), token=token))
            saved.save()


def _holds(path: Path, token: str) -> bool:
    try:
        return path.read_text(encoding="ascii").strip() == token
    except (OSError, UnicodeDecodeError):
        return False
