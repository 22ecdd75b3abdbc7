"""Keeping rules right: the durable log of accepted requests, and the state that follows from it."""

from pleroma.control.entry import Appended, Conflict, Entry, Outcome, Position, Repeated
from pleroma.control.group_commit import GroupCommit
from pleroma.control.log import Log, Recovery, Snapshot

__all__ = [
    "Appended",
    "Conflict",
    "Entry",
    "GroupCommit",
    "Log",
    "Outcome",
    "Position",
    "Recovery",
    "Repeated",
    "Snapshot",
]
