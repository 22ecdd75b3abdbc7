"""Rules as `ovs-ofctl dump-flows` prints them, taken apart."""

from __future__ import annotations

import re
from typing import NamedTuple

from pleroma.errors import SetupError

_NUMBERS = (("table", 0), ("priority", 32768), ("n_packets", 0), ("n_bytes", 0))
"""What is not printed has its default, as OpenFlow gives it."""
_NOT_MATCHED = {"cookie", "duration", "idle_age", "hard_age", "idle_timeout", "hard_timeout", "send_flow_rem"}


class SwitchFlow(NamedTuple):
    """`packets` and `bytes` are what the rule has matched so far, by the switch's own count."""

    table: int
    priority: int
    packets: int
    bytes: int
    match: str
    actions: str


def read_flow(line: str) -> SwitchFlow:
    """A line like `cookie=0x1, duration=2s, table=1, n_packets=3, n_bytes=99, priority=116,udp6,… actions=output:2`."""
    head, found, actions = line.strip().partition(" actions=")
    if not found:
        raise SetupError("is no rule of a switch", field="flows", value=line)
    words = [word.partition("=") for word in re.split(r",\s*|\s+", head)]
    known = {name: value for name, _, value in words}
    table, priority, packets, octets = (int(known.pop(name, default)) for name, default in _NUMBERS)
    match = ",".join(f"{name}={known[name]}" if known[name] else name for name in known if name not in _NOT_MATCHED)
    return SwitchFlow(table, priority, packets, octets, match or "everything", actions)
