"""What a lab needs of the machine: root that may make network namespaces, Open vSwitch and iproute2."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pleroma.errors import SetupError

OVS_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")

_TUN = Path("/dev/net/tun")  # the switches' own ports are such devices
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}

_PROGRAMS = {
    "ovs-vswitchd": "openvswitch-switch",
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-ofctl": "openvswitch-switch",
    "ip": "iproute2",
}
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def program(name: str) -> str:
    """The path of a program; daemons are often in a folder that is not in PATH."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        raise SetupError(f"{name} is missing; please install {_PROGRAMS[name]}", field="lab", value=name)
    return found


def missing() -> str | None:
    """Why this machine cannot have a lab; None if it can."""
    if os.geteuid() != 0:
        return "making network namespaces takes root"
    try:
        for name in _PROGRAMS:
            program(name)
    except SetupError as error:
        return error.reason
    held = _held()
    for name, bit in _CAPABILITIES.items():
        if not held >> bit & 1:
            return f"this root has no {name}; in a container, ask for it"
    return None if _TUN.exists() else f"{_TUN} is missing"


def _held() -> int:
    """The capabilities of this process; all of them where the kernel does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), -1)


def check() -> None:
    reason = missing()
    if reason is not None:
        raise SetupError(reason, field="lab")
