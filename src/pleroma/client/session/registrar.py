"""The three requests about a registration: register, find, withdraw. Each may be repeated without harm.

Registrations that are made, or withdrawn, at the same time share requests where the controller takes batches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pleroma.client.session.gathered_calls import GatheredCalls
from pleroma.client.session.registration import ClientRegistration, RegistrationKind
from pleroma.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi


class Registrar:
    """Registers under the lease of this name."""

    def __init__(self, api: ControllerApi, lease: str) -> None:
        self._api = api
        self._lease = lease
        kinds: tuple[RegistrationKind, ...] = ("advertisements", "subscriptions")
        has_batches = api.has_batches
        self._registering: dict[RegistrationKind, GatheredCalls[dict[str, Any]]] = {
            kind: GatheredCalls(
                partial(self._register_one, kind), partial(self._register_many, kind) if has_batches else None
            )
            for kind in kinds
        }
        self._withdrawing: dict[RegistrationKind, GatheredCalls[str]] = {
            kind: GatheredCalls(
                partial(self._withdraw_one, kind), partial(self._withdraw_many, kind) if has_batches else None
            )
            for kind in kinds
        }

    async def register(self, registration: ClientRegistration, host: str, patience: float) -> dict[str, Any]:
        """Register at a host, and withdraw what stood at another one; returns the controller's record of it."""
        old = registration.id if registration.host not in (None, host) else None
        if old is not None:
            registration.lost()
        body = registration.request(host) | {"lease": self._lease}
        size = len(json.dumps(body))
        answer: dict[str, Any] = await self._registering[registration.kind].make(body, size, patience)
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
            await self._withdrawing[registration.kind].make(identity, len(identity) + 4, patience)
        except RequestRefused as refused:
            if refused.status != 404:
                raise

    async def _register_one(self, kind: RegistrationKind, body: dict[str, Any]) -> Any:
        return (await self._api.ask("POST", f"/v1/{kind}", body)).body

    async def _register_many(self, kind: RegistrationKind, bodies: Sequence[dict[str, Any]]) -> list[Any]:
        answer = await self._api.ask("POST", f"/v1/{kind}:batch", {"items": list(bodies)})
        return [_result(each, "registration") for each in _results(answer.body)]

    async def _withdraw_one(self, kind: RegistrationKind, identity: str) -> None:
        await self._api.ask("DELETE", f"/v1/{kind}/{identity}")

    async def _withdraw_many(self, kind: RegistrationKind, identities: Sequence[str]) -> list[Any]:
        answer = await self._api.ask("POST", f"/v1/{kind}:withdraw", {"ids": list(identities)})
        return [_result(each, None) for each in _results(answer.body)]


def _results(body: Any) -> list[Any]:
    results = body.get("results") if isinstance(body, Mapping) else None
    if not isinstance(results, list):
        raise ClientError("the controller's answer has no results", field="results")
    return results


def _result(item: Any, field: str | None) -> Any:
    """What became of one item of a batch: what it has under this field, or the error that it was refused with."""
    from pleroma.client.api import refusal_of  # brings httpx, which is loaded where there is an API client

    status = item.get("status") if isinstance(item, Mapping) else None
    if not isinstance(status, int):
        return ClientError("the controller's answer has a result that cannot be read", field="results", value=item)
    return item.get(field) if status < 400 else refusal_of(status, item)
