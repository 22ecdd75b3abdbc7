"""The sockets by which Open vSwitch receives at the ports of a lab: how much they hold, and what they had to drop.

The switches of a lab are one process. While the machine gives it no time, packets wait in these sockets, which hold
about 270 small ones unless they are told to hold more. Then packets are dropped that no rule is to blame for: at the
ports where they come in and, when the process goes on and sends all that has waited at once, between switches.
"""

import ctypes
import os
import re
import socket
import subprocess

from pleroma.lab import Lab, namespaces
from support.network.host_sockets import BUFFER_BYTES, SO_RCVBUFFORCE

_SYS_PIDFD_GETFD = 438
_SOCKET = re.compile(r"\*:(\S+) .*?skmem:\([^)]*\bd(\d+)\)")
_libc = ctypes.CDLL(None, use_errno=True)


def deepen_buffers(lab: Lab) -> None:
    """Have every port of every switch hold many thousand packets."""
    pid = int((lab.folder / "switches.pid").read_text())
    process = os.pidfd_open(pid)
    ports = 0
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            number = _libc.syscall(_SYS_PIDFD_GETFD, process, int(name), 0)
            if number < 0:  # closed meanwhile
                continue
            try:
                held = socket.socket(fileno=number)
            except OSError:  # no socket. Kept open, the device of a bridge would outlive its switch
                os.close(number)
                continue
            with held:
                if held.family == socket.AF_PACKET:
                    held.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
                    ports += 1
    finally:
        os.close(process)
    assert ports >= sum(map(len, lab.topology.ports.values()))


def dropped_packets(lab: Lab) -> dict[str, int]:
    """How many packets the ports of switches had no room for, where there were any."""
    with namespaces.inside(lab.names.net):
        said = subprocess.run(["ss", "-0mnH"], check=True, capture_output=True, text=True).stdout
    return {port: int(count) for port, count in _SOCKET.findall(said.replace("\n\t", " ")) if int(count)}


def pauses(lab: Lab) -> list[str]:
    """What the switches' log says about times in which they did nothing."""
    lines = (lab.folder / "switches.log").read_text(errors="replace").splitlines()
    return [line for line in lines if "Unreasonably long" in line or "blocked" in line]
