"""The processes of a lab: its own Open vSwitch database server and switch daemon, and the proxy to its controllers.

All have the lab's name in their environment (see `registry`). The switch daemon is in the namespace of the switches:
the names of its devices would collide with those of another lab in one namespace, and the devices outlive a killed
daemon, but not their namespace.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pleroma.errors import SetupError, shown
from pleroma.lab import controller_proxy, namespaces
from pleroma.lab.lab_names import MARK
from pleroma.lab.needs import OVS_SCHEMA, program
from pleroma.lab.registry import end, marked

FIRST_PORT = 6653
"""The port among the switches where the proxy listens for the first controller; the next ones follow."""

_TARGET = re.compile(r"(tcp|ssl):([^\s:\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?", re.ASCII)


class Tls(NamedTuple):
    """PEM files: the key and certificate of the switches, and the certificate of the authority for the controller."""

    key: Path
    certificate: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class Daemons:
    """`net` is the namespace of the switches."""

    lab: str
    folder: Path
    net: str

    def start_database(self) -> None:
        self._run("ovsdb-tool", "create", str(self.folder / "conf.db"), str(OVS_SCHEMA))
        self._run("ovsdb-server", str(self.folder / "conf.db"), f"--remote=p{self._database}", *self._as_daemon("db"))
        self.vsctl("--no-wait", "init")

    def start_switches(self) -> None:
        """Start the switch daemon; returns when all bridges are as the database says."""
        with namespaces.inside(self.net):
            self._run("ovs-vswitchd", self._database, *self._as_daemon("switches"))

    def kill_switches(self) -> None:
        end(lambda: marked(self.lab, "ovs-vswitchd"), self.lab)

    def join(self, targets: Sequence[str]) -> list[str]:
        """Start a new proxy to these controllers; returns their addresses as the switches reach them."""
        end(lambda: marked(self.lab, Path(controller_proxy.__file__).name), self.lab)
        parts = [_target(target) for target in targets]
        if not parts:
            return []
        with namespaces.inside(self.net):
            listening = [_listening(FIRST_PORT + number) for number in range(len(parts))]
        try:
            command = [sys.executable, "-I", "-S", controller_proxy.__file__]
            command += [f"{s.fileno()}={host}:{port}" for s, (_, host, port) in zip(listening, parts, strict=True)]
            with (self.folder / "proxy.log").open("ab") as log:
                subprocess.run(
                    command,
                    pass_fds=[s.fileno() for s in listening],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    check=True,
                )
        finally:
            for each in listening:
                each.close()
        return [f"{kind}:127.0.0.1:{FIRST_PORT + number}" for number, (kind, _, _) in enumerate(parts)]

    def check_ports(self, wanted: Mapping[str, int]) -> None:
        """Raise an error if an interface did not become its port: `ovs-vsctl` only prints a warning then."""
        text = self.vsctl("--format=json", "--columns=name,ofport,error", "list", "interface")
        found = {name: (port, error) for name, port, error in json.loads(text)["data"]}
        for name, number in wanted.items():
            port, error = found.get(name, (None, None))
            if port != number:
                reason = error if isinstance(error, str) else f"is not port {number}; see {self.folder}/switches.log"
                raise SetupError(f"Open vSwitch could not use it: {reason}", field=name, value=port)

    def vsctl(self, *words: str) -> str:
        return self._run("ovs-vsctl", f"--db={self._database}", "--timeout=60", *words)

    def ofctl(self, bridge: str, command: str, *words: str, protocol: str) -> str:
        return self._run("ovs-ofctl", "-O", protocol, command, f"unix:{self.folder / bridge}.mgmt", *words)

    @property
    def _database(self) -> str:
        return f"unix:{self.folder}/db.sock"

    @property
    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        return os.environ | {MARK: self.lab, "OVS_RUNDIR": folder, "OVS_DBDIR": folder, "OVS_LOGDIR": folder}

    def _as_daemon(self, name: str) -> list[str]:
        path = self.folder / name
        return ["--detach", f"--pidfile={path}.pid", f"--log-file={path}.log", f"--unixctl={path}.ctl", "-vconsole:off"]

    def _run(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            [program(name), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,  # a daemon closes both when it is ready
            env=self._environment,
            check=False,
        )
        if done.returncode:
            said = [line for line in done.stderr.decode(errors="replace").splitlines() if line and "|INFO|" not in line]
            reason = said[0].removeprefix(f"{name}: ") if said else f"ended with {done.returncode}"
            raise SetupError(f"{name}: {reason}", field="lab", value=arguments)
        return done.stdout.decode(errors="replace")


def _target(text: str) -> tuple[str, str, int]:
    found = _TARGET.fullmatch(text)
    port = int(found[3] or FIRST_PORT) if found else 0
    if found is None or not 1 <= port <= 65535:
        reason = f"is written like tcp:127.0.0.1:6653 or ssl:127.0.0.1:6653, not {shown(text)}"
        raise SetupError(reason, field="controller", value=text)
    return found[1], found[2], port


def _listening(port: int) -> socket.socket:
    """A listening socket in the network namespace of this thread."""
    return socket.create_server(("127.0.0.1", port), backlog=1024)
