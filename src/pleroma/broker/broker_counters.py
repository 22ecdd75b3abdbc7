"""What a broker counts at its socket."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BrokerCounters:
    """`published` events came from attached programs, `relayed` ones from the broker above; nobody wanted `unwanted`.

    Where there is a broker above, what is published here is `passed_up`, or `kept_back` while that is not to be had.
    `delivered` is counted once for every program; `unclaimed` is what somebody wants who is not attached now, and
    `dropped` what the operating system did not take. Thrown away are frames that are `unattached`: of a socket that is
    not attached; `malformed`: of no known form; `refused`: with a secret that is not known; and `unadvertised`: with an
    event that its sender has not advertised.
    """

    published: int = 0
    published_bytes: int = 0
    relayed: int = 0
    passed_up: int = 0
    kept_back: int = 0
    delivered: int = 0
    delivered_bytes: int = 0
    unwanted: int = 0
    unclaimed: int = 0
    dropped: int = 0
    unattached: int = 0
    malformed: int = 0
    refused: int = 0
    unadvertised: int = 0
