"""An etcd on this machine: real members on loopback, each a process with a folder, to use and to break.

A file in the folder of the cluster says which ports its members have and which processes they are, so that another
command finds them. A cluster that is owned ends with the process that made it, also when that is killed: a shell beside
each member reads from a pipe, and kills the member when the pipe closes.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from pleroma.errors import SetupError, UnknownName
from pleroma.lab.registry import OwnerProcess
from pleroma.private_file import write_private

ETCD_START_SECONDS = 60.0
"""Seconds that members may take to start and to agree on a leader."""
_LOOPBACK = "127.0.0.1"
_RECORD = "cluster.json"
_PORTS = range(20000, 32000)  # the system gives none of these away by itself
_ATTEMPTS = 5
_TAKEN = "address already in use"
_OWNED = 'exec 3<&0 </dev/null; { read -r _ <&3; kill -KILL $$; } & exec "$@" 3<&-'


@dataclass(frozen=True, slots=True)
class EtcdMember:
    """`process` is None while it is down."""

    name: str
    client_port: int
    peer_port: int
    process: OwnerProcess | None = None

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def endpoint(self) -> str:
        return f"{_LOOPBACK}:{self.client_port}"


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """PEM files: the certificate of the members and its key; clients trust that certificate."""

    certificate: Path
    key: Path


def missing_etcd() -> str | None:
    """Why this machine can have no etcd; None if it can."""
    return None if shutil.which("etcd") else "etcd is missing; please install etcd-server"


class EtcdCluster:
    """Made by `up`, found again by `find`; exists until `remove`."""

    def __init__(self, folder: Path, members: dict[str, EtcdMember], *, owned: bool, options: tuple[str, ...]) -> None:
        self.folder = folder
        self.members = members
        self._owned = owned
        self._options = options
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def up(
        cls, folder: Path, *, members: int = 3, quota: int = 0, tls: EtcdTls | None = None, owned: bool = True
    ) -> Self:
        """Make a cluster in a new folder; after an error nothing of it is left. `quota` is the store's, in bytes."""
        reason = missing_etcd()
        if reason is not None:
            raise SetupError(reason, field="etcd")
        if members < 1:
            raise SetupError(f"a cluster takes at least one member, not {members}", field="members", value=members)
        options: tuple[str, ...] = (f"--quota-backend-bytes={quota}",) if quota else ()
        if tls is not None:
            options += (f"--cert-file={tls.certificate}", f"--key-file={tls.key}")
        for attempt in range(1, _ATTEMPTS + 1):
            folder.mkdir(parents=True)
            ports = _free_ports(2 * members)
            names = [f"m{number}" for number in range(1, members + 1)]
            named = {name: EtcdMember(name, ports.pop(), ports.pop()) for name in names}
            cluster = cls(folder, named, owned=owned, options=options)
            try:
                cluster.start(*named)
                return cluster
            except BaseException as error:
                cluster.remove()
                if attempt == _ATTEMPTS or not isinstance(error, SetupError) or _TAKEN not in error.reason:
                    raise
        raise AssertionError("unreachable")

    @classmethod
    def find(cls, folder: Path) -> Self:
        """The cluster in a folder. It is not owned."""
        try:
            record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            members = {each["name"]: _member(each) for each in record["members"]}
            return cls(folder, members, owned=False, options=tuple(record["options"]))
        except FileNotFoundError:
            raise SetupError("there is no etcd here; see pleroma lab etcd up", field=str(folder)) from None
        except (ValueError, KeyError, TypeError):
            raise SetupError("this record of a cluster cannot be read", field=str(folder / _RECORD)) from None

    def url(self, name: str = "pleroma") -> str:
        """The address of a log in it."""
        return f"{'etcds' if self._is_encrypted else 'etcd'}://{','.join(self.endpoints)}/{name}"

    @property
    def endpoints(self) -> list[str]:
        return [member.endpoint for member in self.members.values()]

    @property
    def leader(self) -> str | None:
        """The name of the leader, as a member sees it that sees one."""
        for member in self.members.values():
            status = self._status(member) if member.is_up else None
            if status is not None and int(status.get("leader", 0)):
                return next((m.name for m in self.members.values() if self._id(m) == status["leader"]), None)
        return None

    def start(self, *names: str) -> None:
        """Start members that are down; returns when they answer, or when they run and too few of the others do."""
        for name in names:
            if not self._member(name).is_up:
                self._spawn(name)
        self._record()
        can_agree = 2 * sum(member.is_up for member in self.members.values()) > len(self.members)
        self._wait(lambda: not can_agree or all(self._is_ready(self.members[name]) for name in names))

    def kill(self, name: str) -> None:
        """Kill a member, as a loss of power does; what it has synced is there when it starts again."""
        self._signal(name, signal.SIGKILL)
        daemon = self._daemons.pop(name, None)
        if daemon is not None:
            if daemon.stdin is not None:
                daemon.stdin.close()
            daemon.wait()
        self._wait(lambda: not self.members[name].is_up)
        self.members[name] = replace(self.members[name], process=None)
        self._record()

    def pause(self, name: str) -> None:
        """Let a member stand still: its connections stay open, and it answers nothing."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def stop(self) -> None:
        """End all members. What they have stays in the folder."""
        for name in self.members:
            self.kill(name)

    def remove(self) -> None:
        """End all members and delete what they have."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _member(self, name: str) -> EtcdMember:
        if name not in self.members:
            raise UnknownName("member", name, self.members)
        return self.members[name]

    def _spawn(self, name: str) -> None:
        member, web = self.members[name], "https" if self._is_encrypted else "http"
        place = self.folder / name
        peers = ",".join(f"{m.name}=http://{_LOOPBACK}:{m.peer_port}" for m in self.members.values())
        client, peer = f"{web}://{member.endpoint}", f"http://{_LOOPBACK}:{member.peer_port}"
        command = ["etcd", "--name", name, "--data-dir", str(place), "--logger", "zap", "--log-level", "warn"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", peers, "--initial-cluster-token", str(self.folder), *self._options]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ETCD_")}
        with self._log(name).open("ab") as log:
            daemon = subprocess.Popen(
                ["/bin/sh", "-c", _OWNED, "sh", *command] if self._owned else command,
                env=clean,
                stdin=subprocess.PIPE if self._owned else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._daemons[name] = daemon
        self.members[name] = replace(member, process=OwnerProcess.of(daemon.pid))

    def _wait(self, true: Callable[[], bool]) -> None:
        limit = time.monotonic() + ETCD_START_SECONDS
        while not true():
            for name, daemon in self._daemons.items():
                if daemon.poll() is not None:
                    lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()
                    said = next((line for line in lines if _TAKEN in line), lines[-1] if lines else "no word")
                    raise SetupError(f"a member ended: {said}", field=name)
            if time.monotonic() > limit:
                raise SetupError(f"the members do not agree after {ETCD_START_SECONDS:.0f} s", field=str(self.folder))
            time.sleep(0.02)

    def _is_ready(self, member: EtcdMember) -> bool:
        """Whether it serves what a majority has agreed on."""
        return self._ask(member, "kv/range", {"key": "AA=="}) is not None

    def _status(self, member: EtcdMember) -> dict[str, Any] | None:
        return self._ask(member, "maintenance/status", {})

    def _id(self, member: EtcdMember) -> str | None:
        status = self._ask(member, "maintenance/status", {}) if member.is_up else None
        return str(status["header"]["member_id"]) if status is not None else None

    def _ask(self, member: EtcdMember, path: str, body: dict[str, str]) -> dict[str, Any] | None:
        web = "https" if self._is_encrypted else "http"
        with suppress(httpx.HTTPError, ValueError):
            url = f"{web}://{member.endpoint}/v3/{path}"
            answer = httpx.post(url, json=body, timeout=1.0, trust_env=False, verify=False)  # noqa: S501 (our own)
            return answer.json() if answer.is_success else None
        return None

    @property
    def _is_encrypted(self) -> bool:
        return any(option.startswith("--cert-file=") for option in self._options)

    def _signal(self, name: str, number: signal.Signals) -> None:
        member = self._member(name)
        if member.process is not None and member.is_up:
            with suppress(ProcessLookupError):
                os.kill(member.process.process, number)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _record(self) -> None:
        members = [asdict(member) for member in self.members.values()]
        write_private(self.folder / _RECORD, json.dumps({"members": members, "options": self._options}))


def _member(record: dict[str, object]) -> EtcdMember:
    process = record.pop("process")
    owner = OwnerProcess(**process) if isinstance(process, dict) else None
    return EtcdMember(**record, process=owner)  # type: ignore[arg-type]


def _free_ports(count: int) -> list[int]:
    """Ports of loopback on which nobody listens. If somebody else is faster, a member ends and others are tried."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with suppress(OSError), socket.create_server((_LOOPBACK, port)):
            found.append(port)
        if len(found) == count:
            return found
    raise SetupError(f"there are no {count} free ports", field="etcd")
