"""Keeps a client attached to the network: one link at a time, and another one when the controller was away.

The controller hands out an attachment for a host; the client opens the link that the attachment describes. When the
link is lost, the client asks for another attachment, at the same host if it can, for as long as that takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from pleroma.client.backoff import Backoff
from pleroma.client.links.network_link import HostAttachment, NetworkLink, open_link
from pleroma.client.session.receiver import PacketReceiver
from pleroma.errors import ClientClosed, ClientError, ControllerAway, RequestRefused
from pleroma.wire.api_terms import ANY_HOST

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

log = logging.getLogger("pleroma.client")


class AttachmentKeeper:
    """Attaches under the lease of this name, at `wanted_host`; `receiver` gets the packets of every link."""

    def __init__(self, api: ControllerApi, lease: str, wanted_host: str, receiver: PacketReceiver) -> None:
        self._api = api
        self._lease = lease
        self._wanted_host = wanted_host
        self._receiver = receiver
        self._link: NetworkLink | None = None
        self._url = api.url
        """Of the controller that gave the link."""
        self._overrun = 0
        self._connected = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    async def connected(self) -> None:
        """Wait until there is a link, and everything is registered behind it again."""
        await self._connected.wait()

    @property
    def host(self) -> str | None:
        """The host of the network that the client is attached to."""
        return self._link.attachment.host if self._link else None

    @property
    def overrun(self) -> int:
        """Datagrams that the kernel dropped at this link and earlier ones, since nobody read them in time."""
        return self._overrun + (self._link.overrun if self._link else 0)

    def link(self) -> NetworkLink:
        """The link of the moment."""
        if self._link is None:
            raise ClientClosed("the client is closed")
        return self._link

    async def attach(self, patience: float) -> NetworkLink:
        """Attach for the first time, and wait for the controller for at most `patience` seconds."""
        self._link = await self._attached(self._wanted_host, patience)
        self._connected.set()
        return self._link

    async def stay(self, on_return: Callable[[NetworkLink], Awaitable[None]]) -> None:
        """Stay attached, for ever. When the link was lost, get another and call `on_return` with it."""
        while True:
            old = self.link()
            await old.stay()
            self._connected.clear()
            log.warning("lost the controller at %s; trying to come back", self._url)
            self._link = await self._attached_again(old.attachment.host)
            self._overrun += old.overrun
            old.close()
            await on_return(self._link)
            self._connected.set()
            log.warning("connected again to %s", self._url)

    def doubt(self) -> None:
        """Something suggests that the controller is gone: have the link find out."""
        if self._link is not None:
            self._link.doubt()

    def close(self) -> None:
        self._connected.clear()
        if self._link is not None:
            self._overrun += self._link.overrun
            self._link.close()
            self._link = None

    async def _attached(self, host: str, patience: float) -> NetworkLink:
        """A link by a new attachment, that the network has accepted."""
        path = f"/v1/hosts/{quote(host, safe='')}/attachments?lease={self._lease}&tags=true"
        answer = await self._api.ask("POST", path, patience=patience)
        attachment = HostAttachment.from_json(answer.body, answer.host)
        link = open_link(attachment, self._receiver.receive, self._receiver.echo, self._receiver.charge)
        try:
            if await link.attach():
                self._url = answer.url or self._api.url
                return link
        except BaseException:
            link.close()
            raise
        link.close()
        raise ControllerAway("the network does not answer at the host's port", field="host", value=host)

    async def _attached_again(self, host: str) -> NetworkLink:
        """A link at the host where the client was before, however long that takes.

        If the network has no such host any more, and the application did not ask for this one, any host will do.
        """
        backoff = Backoff(max_seconds=2.0)
        while True:
            try:
                return await self._attached(host, 0.0)
            except RequestRefused as refused:
                if refused.status == 404 and self._wanted_host == ANY_HOST and host != ANY_HOST:
                    host = ANY_HOST
                    continue
                if refused.status in (401, 403):
                    raise
                log.info("%s", refused)
            except ClientError as error:
                log.info("%s", error)
            await asyncio.sleep(backoff.pause())
