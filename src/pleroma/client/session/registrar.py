"""The three requests about a registration: register, find, withdraw. Each may be repeated without harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pleroma.client.session.registration import ClientRegistration
from pleroma.errors import RequestRefused

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi


class Registrar:
    """Registers under the lease of this name."""

    def __init__(self, api: ControllerApi, lease: str) -> None:
        self._api = api
        self._lease = lease

    async def register(self, registration: ClientRegistration, host: str, patience: float) -> dict[str, Any]:
        """Register at a host, and withdraw what stood at another one; returns the controller's record of it."""
        old = registration.id if registration.host not in (None, host) else None
        if old is not None:
            registration.lost()
        body = registration.request(host) | {"lease": self._lease}
        answer: dict[str, Any] = (await self._api.ask("POST", f"/v1/{registration.kind}", body, patience=patience)).body
        registration.registered(answer, host)
        if old is not None:
            await self.withdraw(registration, old, patience)
        return answer

    async def find(self, registration: ClientRegistration, host: str) -> dict[str, Any] | None:
        """The controller's record of a registration; None if it does not stand at this host any more."""
        if registration.id is None or registration.host != host:
            return None
        try:
            there: dict[str, Any] = (await self._api.ask("GET", f"/v1/{registration.kind}/{registration.id}")).body
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            return None
        same = there["schema"] == registration.schema and there["filter"] == str(registration.filter)
        return there if same and there["host"] == host else None

    async def withdraw(self, registration: ClientRegistration, identity: str, patience: float) -> None:
        try:
            await self._api.ask("DELETE", f"/v1/{registration.kind}/{identity}", patience=patience)
        except RequestRefused as refused:
            if refused.status != 404:
                raise
