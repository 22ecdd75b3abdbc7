"""The labs of this machine: each is a folder with a record, which is written before any part of the lab is made.

The parts of a lab are found by its name (namespaces) and by a variable in the environment of its daemons, never by the
record. So a lab can be removed however far the process that made it came before it was killed.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pleroma.errors import SetupError, UnknownName
from pleroma.lab import namespaces
from pleroma.lab.lab_names import MARK, check_lab, prefix

LABS_FOLDER = Path("/run/pleroma-lab")

_RECORD = "lab.json"
_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class OwnerProcess:
    """A process, as the one that made a lab; `began` tells it from a later process with the same number."""

    process: int
    began: int

    @classmethod
    def this(cls) -> OwnerProcess:
        return cls.of(os.getpid())

    @classmethod
    def of(cls, process: int) -> OwnerProcess:
        return cls(process, _began(process) or 0)

    @property
    def alive(self) -> bool:
        return _began(self.process) == self.began


@dataclass(frozen=True, slots=True)
class LabRecord:
    """`hosts` and `bridges` map the topology's names to the lab's. A lab without owner stays until it is removed."""

    name: str
    owner: OwnerProcess | None
    hosts: Mapping[str, str] = field(default_factory=dict)
    bridges: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return LABS_FOLDER / self.name

    @property
    def stale(self) -> bool:
        return self.owner is not None and not self.owner.alive

    def namespace(self, host: str) -> str:
        if host not in self.hosts:
            raise UnknownName("host", host, self.hosts)
        return self.hosts[host]


def claim(record: LabRecord) -> None:
    """Make the folder of a lab, which reserves its name."""
    check_lab(record.name)
    taken = SetupError(f"there is a lab called {record.name}", field="lab", value=record.name)
    if namespaces.found(prefix(record.name)):
        raise taken
    new = LABS_FOLDER / f".{record.name}.{os.getpid()}.{secrets.token_hex(4)}"
    for attempt in range(100):
        try:
            new.mkdir(parents=True)
            (new / _RECORD).write_text(json.dumps(asdict(record)), encoding="utf-8")
            new.rename(record.folder)  # a folder that is there is not empty, so none is ever seen without its record
        except FileNotFoundError:  # the last lab went, and LABS_FOLDER with it
            if attempt == 99:
                raise
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise taken from None
            raise
        else:
            return


def records() -> list[LabRecord]:
    """All labs; a lab whose record cannot be read is stale."""
    return [read(name) for name in _folders() if not name.startswith(".")]


def read(name: str) -> LabRecord:
    try:
        data = json.loads((LABS_FOLDER / name / _RECORD).read_text(encoding="utf-8"))
        owner = None if data["owner"] is None else OwnerProcess(**data["owner"])
        return LabRecord(data["name"], owner, data["hosts"], data["bridges"])
    except (OSError, ValueError, KeyError, TypeError):
        return LabRecord(name, OwnerProcess(0, -1))


def remove(name: str) -> bool:
    """Remove all parts of a lab, also of one that was never finished; False if there are none."""
    names = namespaces.found(prefix(check_lab(name)))
    folder = LABS_FOLDER / name
    if not names and not folder.is_dir():
        return False

    def living() -> set[int]:
        return {*marked(name), *namespaces.processes(names)} - {os.getpid()}

    end(living, name)
    namespaces.delete(namespaces.found(prefix(name)))
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # others are there, or it is gone
        LABS_FOLDER.rmdir()
    return True


def remove_stale() -> list[str]:
    """Remove the labs whose process was killed; returns their names."""
    gone = [record.name for record in records() if record.stale]
    for name in gone:
        remove(name)
    for name in _folders():  # claimed by a process that was killed in the middle
        if name.startswith(".") and _began(int(name.split(".")[2])) is None:
            shutil.rmtree(LABS_FOLDER / name, ignore_errors=True)
    return gone


def end(find: Callable[[], Iterable[int]], what: str) -> None:
    """Kill processes until none is found: one that is killed may just have started another."""
    limit = time.monotonic() + _END_SECONDS
    while living := {process for process in find() if _began(process) is not None}:
        for process in living:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > limit:
            raise SetupError(f"processes {sorted(living)} do not end", field=what)
        time.sleep(0.005)


def _folders() -> list[str]:
    try:
        return sorted(os.listdir(LABS_FOLDER))
    except FileNotFoundError:
        return []


def marked(lab: str, program: str = "") -> set[int]:
    """The daemons of a lab, or only those with this program's name as the end of a word of their command line."""
    mark = f"{MARK}={lab}".encode()
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                if mark in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    words = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace").split("\0")
                    if not program or program in (word.rpartition("/")[2] for word in words):
                        found.add(int(entry))
    return found


def _began(process: int) -> int | None:
    """When a process began, in clock ticks since boot; None if it has ended, even if it is a zombie."""
    try:
        text = Path("/proc", str(process), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(rest[18])
