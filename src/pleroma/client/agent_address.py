"""`unix:PATH`: the host agent of this machine, and where a program looks for it that names no address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pleroma.errors import ClientError

AGENT_SCHEME = "unix"
AGENT_VARIABLE = "PLEROMA_AGENT"
SYSTEM_AGENT_SOCKET = Path("/run/pleroma/agent.sock")
_MAX_PATH_BYTES = 100
"""Of the 107 that the system has room for; the socket for events has a longer name."""


@dataclass(frozen=True, slots=True)
class AgentAddress:
    path: str
    """Of the socket at which the agent speaks the API."""

    @classmethod
    def parse(cls, url: str) -> AgentAddress:
        """`unix:/run/pleroma/agent.sock`, or with two slashes before the path."""
        scheme, _, path = url.partition(":")
        path = path.removeprefix("//")
        if scheme != AGENT_SCHEME or not path.startswith("/") or "\0" in path:
            raise ClientError(f"{url!r} is no address of an agent: expected unix:/PATH", field="url", value=url)
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            raise ClientError(f"a path of a socket has at most {_MAX_PATH_BYTES} bytes", field="url", value=url)
        return cls(path)

    @classmethod
    def find(cls, environment: Mapping[str, str] = os.environ) -> AgentAddress:
        """Where $PLEROMA_AGENT says; else the agent of this user, if there is one; else that of the machine."""
        if given := environment.get(AGENT_VARIABLE):
            return cls.parse(f"{AGENT_SCHEME}:{Path(given).absolute()}")
        if of_user := environment.get("XDG_RUNTIME_DIR"):
            path = Path(of_user) / "pleroma" / SYSTEM_AGENT_SOCKET.name
            if path.exists():
                return cls.parse(f"{AGENT_SCHEME}:{path}")
        return cls(str(SYSTEM_AGENT_SOCKET))

    @property
    def url(self) -> str:
        return f"{AGENT_SCHEME}:{self.path}"
