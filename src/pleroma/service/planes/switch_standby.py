"""Switches that know a process which does not lead stay connected to it, so that they hear of it at once when it does.

A switch that finds nobody at an address asks there less and less often: Open vSwitch waits for up to 8 seconds. One
whose connection ends asks again at once. So a process that may lead answers its switches before it does, tells them
nothing, and ends these connections in the moment it takes over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from pleroma.errors import SetupError
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from pleroma.switches.openflow.connection import Connection
from pleroma.switches.openflow.listener import SwitchListener

log = structlog.get_logger("pleroma.service")


@asynccontextmanager
async def standing_by(settings: OpenFlowSettings) -> AsyncIterator[None]:
    """Take connections of switches meanwhile. A gate does its work also where that is not possible."""
    dead = settings.timeouts.dead
    listener = SwitchListener(settings.listen, settings.tls, _tell_nothing, idle=dead / 3, dead=dead)
    try:
        await listener.__aenter__()
    except SetupError as error:
        log.warning("switches cannot connect before this process leads", reason=error.reason)
        yield
        return
    try:
        yield
    finally:
        await listener.__aexit__(None, None, None)


async def _tell_nothing(_: Connection) -> None: ...
