"""File descriptors: every connection takes one, and a process that has none left cannot even accept a connection.

The usual limit of 1,024 is a soft one, which a process may raise up to its hard limit.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress

_ENOUGH = 2**20
"""Where the hard limit is no number, so many are asked for."""


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # then it stays as it is, and there are fewer connections
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def free_descriptors() -> int:
    """How many more descriptors this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _ENOUGH
    return max(0, soft - len(os.listdir("/dev/fd")))
