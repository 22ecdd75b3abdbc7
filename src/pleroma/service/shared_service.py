"""A process of a control plane that several share: it leads if no other does, and else it is a gate, or waits.

When the process that leads dies or cannot be heard of, another claims its office, says so in the log, and goes on from
the log. A process that has lost the office stops telling switches at once; what it still appends is refused by all who
follow the log, and what it still sends is refused by the switches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from pleroma.control.log.etcd.etcd_lease import EtcdLease
from pleroma.errors import EntriesDropped, LogAway, LogError, LogUnclear, NotLeading
from pleroma.routing import Topology
from pleroma.service.deployment import Deployment
from pleroma.service.gates.gate_service import running_gate
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from pleroma.service.planes.switch_standby import standing_by
from pleroma.service.roles.lead_office import LeadOffice
from pleroma.service.roles.process_role import LEADING_ROLES, ProcessRole
from pleroma.service.running_service import Running
from pleroma.service.whole_service import Leading, running
from pleroma.switches.openflow.discovered_topology import EMPTY_TOPOLOGY

_RETRY_SECONDS = 0.5

log = structlog.get_logger("pleroma.service")


class SharedService:
    """One process on a shared log, until `stop` is set."""

    def __init__(
        self, folder: Path, topology: Topology, deployment: Deployment, announce: Callable[[Running], None]
    ) -> None:
        self.stop = asyncio.Event()
        self._folder = folder
        self._topology = topology
        self._deployment = deployment
        self._announce = announce
        self._may_lead = deployment.roles >= LEADING_ROLES
        self._has_begun = False
        self._is_gate = ProcessRole.GATE in deployment.roles

    async def run(self) -> None:
        assert self._deployment.log is not None  # noqa: S101 (or it would not be shared)
        async with LeadOffice(self._deployment.log) as office:
            lost = asyncio.Event()
            lease = await self._claimed(office, lost)
            while lease is not None or not self.stop.is_set():
                try:
                    if lease is not None:
                        held, of_it, lease, lost = lease, lost, None, asyncio.Event()
                        await self._lead(held, of_it)
                        lease = await self._claimed(office, lost)
                    elif self._is_gate:
                        lease = await self._be_gate(office, lost)
                    else:
                        log.info("another process leads; waiting", holder=_name(office))
                        lease = await self._won(office, lost)
                except (EntriesDropped, LogAway, LogUnclear) as error:
                    if not self._has_begun:
                        raise
                    log.warning("the log cannot be followed; beginning anew", reason=error.reason)
                    await self._until(asyncio.sleep(_RETRY_SECONDS))

    async def _claimed(self, office: LeadOffice, lost: asyncio.Event) -> EtcdLease | None:
        if not self._may_lead or self.stop.is_set():
            return None
        try:
            return await office.claim(lost.set)
        except LogError as error:
            log.warning("the office of the leading process cannot be claimed", reason=error.reason)
            return None

    async def _won(self, office: LeadOffice, lost: asyncio.Event, *ends: Coroutine[Any, Any, Any]) -> EtcdLease | None:
        """The lease as soon as this process may lead; None if something ends before."""

        async def winning() -> EtcdLease | None:
            while self._may_lead:
                await office.vacant()
                if (lease := await self._claimed(office, lost)) is not None:
                    return lease
                await asyncio.sleep(_RETRY_SECONDS)
            await asyncio.Event().wait()
            return None

        won = asyncio.ensure_future(winning())
        await self._until(won, *ends)
        return None if won.cancelled() else won.result()

    async def _lead(self, lease: EtcdLease, lost: asyncio.Event) -> None:
        """Lead until told to stop, or until another process does."""
        leading = Leading(self._deployment.log or "", lease.generation, lost)
        log.info("this process takes over", generation=lease.generation)
        try:
            async with running(self._folder, self._topology, self._deployment, leading) as service:
                self._begun(service)
                log.info("this process leads", generation=lease.generation)
                await self._until(lost.wait(), service.stopped(), service.astray())
                if lost.is_set():
                    await service.service.controller.depose()
        except NotLeading:
            log.warning("another process leads by now")
        finally:
            await asyncio.to_thread(lease.release)

    async def _be_gate(self, office: LeadOffice, lost: asyncio.Event) -> EtcdLease | None:
        """Answer as a gate until told to stop, or until this process may lead: then there is a lease."""
        url = self._deployment.log or ""
        plane = self._deployment.plane
        base = self._topology
        async with AsyncExitStack() as stack:
            if isinstance(plane, OpenFlowSettings):
                base = EMPTY_TOPOLOGY if plane.discovers else base
                if self._may_lead:
                    await stack.enter_async_context(standing_by(plane))
            gate = running_gate(url, base, self._deployment, lambda: office.holder is not None)
            service = await stack.enter_async_context(gate)
            self._begun(service)
            log.info("this process is a gate", holder=_name(office))
            return await self._won(office, lost, service.stopped(), service.astray())

    def _begun(self, service: Running) -> None:
        """Announce the first start; later ones are at the same port."""
        port = int(service.url.rpartition(":")[2])
        self._announce(service)
        self._announce = _silently
        self._has_begun = True
        self._deployment = replace(self._deployment, port=port)

    async def _until(self, *events: Awaitable[Any]) -> None:
        """Wait for the first of these, or until told to stop."""
        waiting = [asyncio.ensure_future(each) for each in (self.stop.wait(), *events)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
                with suppress(asyncio.CancelledError):
                    await each


def _silently(_: Running) -> None: ...


def _name(office: LeadOffice) -> str:
    return "" if office.holder is None else office.holder.value.decode(errors="replace")
