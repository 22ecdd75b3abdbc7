"""What a broker counts at its socket."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BrokerCounters:
    """Events that came in, deliveries that went out, and frames that were dropped."""

    published: int = 0
    """Events from attached programs."""
    published_bytes: int = 0
    relayed: int = 0
    """Events from the broker above."""
    passed_up: int = 0
    """Published events that went to the broker above."""
    kept_back: int = 0
    """Published events that did not, because the broker above was not connected or did not know the advertisement."""
    delivered: int = 0
    """Events sent to a program; an event counts once for each program that it was sent to."""
    delivered_bytes: int = 0
    unwanted: int = 0
    """Events that no subscription matches."""
    unclaimed: int = 0
    """Events that subscriptions match, none of whose owners has a program attached."""
    dropped: int = 0
    """Deliveries that the operating system did not take."""
    unattached: int = 0
    """Frames from a socket that is not attached."""
    malformed: int = 0
    """Frames of no known form."""
    refused: int = 0
    """Attempts to attach or detach with a secret that is not known."""
    unadvertised: int = 0
    """Events that their sender has not advertised."""
    forged: int = 0
    """Events under the number of somebody else's advertisement, without a tag, or with one that is not genuine."""
