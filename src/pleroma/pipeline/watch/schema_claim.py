"""A watcher's claim on a schema: while it is fresh, the controller does not look for better plans by itself.

The claim is renewed by a thread, and runs out by itself if the process dies. A controller that is away learns of it
when it is back. One of an earlier version, which looks for no plans, refuses it, and that is no matter.
"""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import Self
from urllib.parse import quote

from pleroma.errors import PleromaError

CLAIM_SECONDS = 90.0
"""For so long a schema is claimed at a time."""
RENEWALS = 3
"""How often a claim is renewed in its time."""
CLAIM_ANSWER_SECONDS = 10.0
"""How long the controller's answer to a claim is awaited."""

log = logging.getLogger("pleroma.pipeline")


class SchemaClaim:
    """As `with`, it claims a schema of the controller at `url`."""

    def __init__(self, url: str, token: str, schema: str, seconds: float = CLAIM_SECONDS) -> None:
        from pleroma.client.blocking_api import BlockingApi  # brings httpx, which takes a while to load

        self._api = BlockingApi(url, token, seconds=CLAIM_ANSWER_SECONDS)
        self._path = f"/v1/schemas/{quote(schema, safe='')}/plan/watching"
        self._seconds = seconds
        self._ended = Event()
        self._thread = Thread(target=self._renew, name=f"claim of {schema}", daemon=True)

    def __enter__(self) -> Self:
        self._claim(self._seconds)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._claim(0)
        self.close()

    def close(self) -> None:
        self._api.close()

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds / RENEWALS):
            self._claim(self._seconds)

    def _claim(self, seconds: float) -> None:
        try:
            self._api.ask("POST", self._path, {"seconds": seconds})
        except PleromaError as error:
            log.debug("the controller has no claim of the schema: %s", error)
