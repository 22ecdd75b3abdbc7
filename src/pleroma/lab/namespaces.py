"""Network namespaces: making and removing them, and being inside one.

A namespace belongs to a thread, and what a thread makes inside one (a socket, a process) stays there. Settings under
/proc/sys/net are those of the thread that opens the file.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pleroma.errors import SetupError
from pleroma.lab.lab_names import MARK
from pleroma.lab.needs import program

NAMESPACE_FOLDER = Path("/run/netns")

_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Move this thread, and no other, into the namespace meanwhile."""
    try:
        there = os.open(NAMESPACE_FOLDER / namespace, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise SetupError(f"the network namespace {namespace} is not there", field="lab", value=namespace) from None
    try:
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(there, namespace)
            try:
                yield
            finally:
                _enter(home, "home")
        finally:
            os.close(home)
    finally:
        os.close(there)


def enter(namespace: str) -> None:
    """Move this thread into the namespace for good."""
    with inside(namespace):
        there = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _enter(there, namespace)
    os.close(there)


def add(namespaces: Iterable[str], lab: str) -> None:
    """Make namespaces. The process that does has the lab's mark, so that it is found if it outlives this one."""
    ip((f"netns add {name}" for name in namespaces), environment=os.environ | {MARK: lab})


def found(prefix: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(NAMESPACE_FOLDER) if name.startswith(prefix))
    except FileNotFoundError:
        return []


def delete(namespaces: Iterable[str]) -> None:
    """Delete namespaces; those that are not there, or that somebody else deletes, are no error."""
    text = "".join(f"netns del {name}\n" for name in namespaces)
    if text:
        command = [program("ip"), "-force", "-batch", "-"]
        subprocess.run(command, input=text, text=True, capture_output=True, check=False)


def processes(namespaces: Iterable[str]) -> list[int]:
    """The processes whose first thread is in one of these namespaces."""
    wanted = set()
    for name in namespaces:
        try:
            status = os.stat(NAMESPACE_FOLDER / name)
        except FileNotFoundError:
            continue
        wanted.add((status.st_dev, status.st_ino))
    living = []
    for entry in os.listdir("/proc") if wanted else ():
        if not entry.isdigit():
            continue
        try:
            status = os.stat(f"/proc/{entry}/ns/net")
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in wanted:
            living.append(int(entry))
    return living


def ip(lines: Iterable[str], namespace: str | None = None, environment: Mapping[str, str] | None = None) -> None:
    """Run commands of `ip` in one process; the first that fails raises an error."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        return
    command = [program("ip"), *(["-n", namespace] if namespace else []), "-batch", "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, env=environment, check=False)
    if done.returncode:
        reason = "; ".join(done.stderr.split("\n")[:2]).strip("; ")
        raise SetupError(f"ip failed: {reason or done.returncode}", field=namespace or "lab")


def set_here(settings: Iterable[tuple[str, int]]) -> None:
    """Set ("ipv6/conf/all/disable_ipv6", 1) and the like in this thread's namespace, where the kernel has them."""
    for name, value in settings:
        try:
            Path("/proc/sys/net", name).write_text(str(value))
        except FileNotFoundError:
            continue


def checksum_by_software(interface: str) -> None:
    """Compute checksums of sent packets in software: a veth has no network card that would fill them in."""
    request = ctypes.create_string_buffer(struct.pack("=II", _ETHTOOL_STXCSUM, 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        fcntl.ioctl(here, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), ctypes.addressof(request)))


def _enter(descriptor: int, what: str) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        error = ctypes.get_errno()
        raise SetupError(f"cannot enter the network namespace {what}: {os.strerror(error)}", field="lab")
