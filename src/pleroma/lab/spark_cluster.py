"""A Spark cluster on this machine: a standalone master and its workers, of the PySpark that is installed.

Every process carries the name of its part in its environment, and what it starts (executors, their Python) inherits
it; so a worker can be killed with all that runs on it, as by a loss of power. A shell in the process group of each
daemon reads from a pipe: when the process that made the cluster is killed, the pipe closes and the shell ends all.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from pleroma.errors import SetupError, UnknownName
from pleroma.lab.lab_names import MARK
from pleroma.lab.registry import end, marked
from pleroma.pipeline import spark_needs

_LOOPBACK = "127.0.0.1"
DAEMON_START_SECONDS = 180.0
"""Seconds that a daemon may take to start; Java is slow on a busy machine."""

_WATCHED = """
exec 3<&0 </dev/null
{ trap '' TERM; read -r _ <&3; kill -TERM 0; sleep 1; rm -rf "$0"; kill -KILL 0; } &
exec "$@" 3<&-
"""
_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE = re.compile(r"MasterWebUI\b.*? started at (http://\S+)")
_SEEN = "Successfully registered with master"
_JAVA = "-XX:+UseSerialGC -XX:-UsePerfData"  # small, and no file behind when it is killed
_MEMORY = re.compile(r"[1-9]\d*[mg]", re.ASCII | re.IGNORECASE)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Worker:
    """`name` is what its executors and their Python have in their environment, as `MARK`."""

    name: str
    cores: int
    memory: str


class SparkCluster:
    """Made by `SparkCluster.up`; exists until `close`."""

    def __init__(self, folder: Path) -> None:
        self.name = f"spark_{secrets.token_hex(4)}"
        self.folder = folder
        self.url = ""
        self.page = ""  # for people, while it is up
        self.workers: tuple[Worker, ...] = ()
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def up(cls, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> Self:
        """Make a cluster; after an error nothing of it is left. `cores` and `memory` are those of each worker."""
        spark_needs.check()
        for field, value in (("workers", workers), ("cores", cores)):
            if value < 1:
                raise SetupError(f"a cluster takes at least one, not {value}", field=field, value=value)
        if not _MEMORY.fullmatch(memory):
            raise SetupError(f"is written like 512m or 1g, not {memory}", field="memory", value=memory)
        cluster = cls(Path(tempfile.mkdtemp(prefix="pleroma-spark-")))
        try:
            cluster._start_master()
            cluster.workers = tuple(Worker(f"{cluster.name}_{n}", cores, memory) for n in range(1, workers + 1))
            cluster.start(*cluster.workers)
        except BaseException:
            cluster.close()
            raise
        return cluster

    def start(self, *workers: Worker) -> None:
        """Start workers, also after `kill`; returns when the master has registered them."""
        for worker in workers:
            offer = ["--cores", str(worker.cores), "--memory", worker.memory, "--work-dir", str(self._at(worker.name))]
            self._spawn(worker.name, "org.apache.spark.deploy.worker.Worker", *offer, self.url)
        self._wait("its workers", lambda: all(_SEEN in self._log(each.name) for each in workers) or None)

    @property
    def running(self) -> tuple[Worker, ...]:
        """The workers that were not killed."""
        return tuple(worker for worker in self.workers if worker.name in self._daemons)

    def kill(self, worker: Worker) -> None:
        """Kill a worker, its executors and their Python at once, as a loss of power does."""
        if worker not in self.workers:
            raise UnknownName("worker", worker.name, [each.name for each in self.workers])
        self._end(worker.name)

    def close(self) -> None:
        """End all processes and delete all files."""
        for name in list(self._daemons):
            self._end(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_master(self) -> None:
        name = f"{self.name}_0"
        where = ["--host", _LOOPBACK, "--port", "0", "--webui-port", "0"]
        self._spawn(name, "org.apache.spark.deploy.master.Master", *where)
        self.url, self.page = self._wait("its master", lambda: _addresses(self._log(name)))

    def _spawn(self, name: str, program: str, *arguments: str) -> None:
        home = _home()
        folder = self._at(name)
        folder.mkdir(exist_ok=True)
        environment = os.environ | {
            MARK: name,
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(folder),  # the machine's own settings are not ours
            "SPARK_LOCAL_IP": _LOOPBACK,
            "SPARK_PUBLIC_DNS": _LOOPBACK,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",  # short-lived, with little to compute
            "SPARK_WORKER_WEBUI_PORT": "0",
            "JAVA_TOOL_OPTIONS": _JAVA,
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(home / "bin" / "spark-class"), program, *arguments]
        with (folder / "log").open("wb") as log:
            self._daemons[name] = subprocess.Popen(
                watched(self.folder, command),
                env=environment,
                stdin=subprocess.PIPE,  # read by the shell that watches
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )

    def _end(self, name: str) -> None:
        daemon = self._daemons.pop(name, None)
        end(lambda: marked(name), name)
        if daemon is not None:
            daemon.wait()
            if daemon.stdin is not None:
                daemon.stdin.close()

    def check(self) -> None:
        """Raise an error if a process that was not killed has ended."""
        for name, daemon in self._daemons.items():
            if daemon.poll() is not None:
                raise SetupError(f"a process of the cluster ended: {_reason(self._log(name))}", field="spark")

    def _wait(self, what: str, found: Callable[[], T | None]) -> T:
        limit = time.monotonic() + DAEMON_START_SECONDS
        while (value := found()) is None:
            self.check()
            if time.monotonic() > limit:
                raise SetupError(f"the cluster did not get {what} in {DAEMON_START_SECONDS:.0f} s", field="spark")
            time.sleep(0.05)
        return value

    def _at(self, name: str) -> Path:
        return self.folder / name

    def _log(self, name: str) -> str:
        return (self._at(name) / "log").read_text(encoding="utf-8", errors="replace")


def watched(folder: Path, command: Sequence[str]) -> list[str]:
    """A command that ends, and deletes the folder, when the other end of its standard input is closed."""
    return ["/bin/sh", "-c", _WATCHED, str(folder), *command]


def _home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _addresses(log: str) -> tuple[str, str] | None:
    """The addresses of the master and of its web page, once the log has both; the master chooses the ports."""
    url, page = _URL.search(log), _PAGE.search(log)
    return (url[1], page[1]) if url and page else None


def _reason(log: str) -> str:
    """The first error, else the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "ERROR" in line or "Exception" in line), lines[-1] if lines else "no word")
