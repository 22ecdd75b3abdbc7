"""The administrator's token: made at the first start of a service, and kept in a file that only its owner reads."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from pleroma.control import Controller, CreatePrincipal
from pleroma.service.http.tokens import digest, new_token, write_private

ADMIN_NAME = "admin"


async def make_admin_token(controller: Controller, path: Path) -> str | None:
    """The token of a new administrator, also written to the file; None if there is an administrator already.

    The file is written first: if the service stops in between, the next start finds no administrator and makes another.
    """
    principals = controller.state.principals
    if any(each.role == "admin" for each in principals.values()):
        return None
    token = new_token()
    write_private(path, token)
    names = (f"{ADMIN_NAME}{number}" if number > 1 else ADMIN_NAME for number in count(1))
    name = next(name for name in names if name not in principals)
    await controller.submit(CreatePrincipal(name, "admin", digest(token)))
    return token
