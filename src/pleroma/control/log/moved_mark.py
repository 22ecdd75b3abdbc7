"""A file beside a log that says that the log is elsewhere now, or is still on its way here.

Whoever would go on with a log that others go on with, too, would make two histories of one. So the mark is written
before the other log can be used, and a controller does not start from a folder that has one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pleroma.control.log.sqlite_file import sync_folder
from pleroma.errors import LogDamaged, LogElsewhere
from pleroma.private_file import write_private


@dataclass(frozen=True, slots=True)
class MovedMark:
    """`url` is the other log, `id` names the move. `is_coming` if the log is to be here when the move has ended."""

    url: str
    id: str
    is_coming: bool = False

    def write(self, path: Path) -> None:
        """Mark the log at this path, durably."""
        write_private(mark_path(path), json.dumps({"log": self.url, "move": self.id, "is_coming": self.is_coming}))
        sync_folder(path.parent)

    def refusal(self, path: Path) -> LogElsewhere:
        folder = path.parent
        if self.is_coming:
            reason = f"the log has not come here whole from {self.url}: repeat `pleroma log move {self.url} {folder}`"
        else:
            reason = f"the log of this folder was moved to {self.url}: start with --log {self.url}"
        return LogElsewhere(reason, field=str(path), value=self.url)


def mark_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.moved")


def read_moved_mark(path: Path) -> MovedMark | None:
    """The mark of the log at this path, if it has one."""
    try:
        read = json.loads(mark_path(path).read_text(encoding="utf-8"))
        return MovedMark(str(read["log"]), str(read["move"]), bool(read["is_coming"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise LogDamaged("cannot be read; it says where the log is", field=str(mark_path(path))) from None


def refuse_moved(path: Path) -> None:
    """Raise an error if the log at this path is not the one to go on with."""
    mark = read_moved_mark(path)
    if mark is not None:
        raise mark.refusal(path)


def unmark(path: Path) -> None:
    mark_path(path).unlink(missing_ok=True)
    sync_folder(path.parent)
