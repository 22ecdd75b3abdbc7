"""The administrator's token: made at the first start of a service, and kept in a file that only its owner reads."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from pleroma.control import Controller, CreatePrincipal, Principal
from pleroma.private_file import write_private
from pleroma.service.collecting.settled_clock import SettledClock
from pleroma.service.http.tokens import digest, new_token

ADMIN_NAME = "admin"


async def make_admin_token(controller: Controller, path: Path) -> str | None:
    """The token of a new administrator, also written to the file; None if an administrator has a good token already.

    The file is written first: if the service stops in between, the next start finds no administrator and makes another.
    """
    principals, now = controller.state.principals, SettledClock().seconds()
    if any(each.role == "admin" and _has_token(each, now) for each in principals.values()):
        return None
    token = new_token()
    write_private(path, token)
    names = (f"{ADMIN_NAME}{number}" if number > 1 else ADMIN_NAME for number in count(1))
    name = next(name for name in names if name not in principals)
    await controller.submit(CreatePrincipal(name, "admin", digest(token)))
    return token


def _has_token(principal: Principal, now: float) -> bool:
    return any(not each.is_over and (each.ends is None or each.ends > now) for each in principal.tokens)
