"""One key of etcd, followed: what it holds now, and waiting for it to change.

A thread reads etcd's watch. A member that hangs sends nothing, as one does where nothing happens; so whenever nothing
was heard for a while, the key is read from whichever member answers, and the watch begins anew where that differs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from pleroma.control.log.etcd.etcd_gateway import EtcdGateway, WatchStream
from pleroma.control.log.etcd.transaction import StoredKey, find
from pleroma.errors import LogAway, LogError

IDLE_WATCH_SECONDS = 5.0
"""After so long without a change the key is read, in case that the watch is dead."""
_RETRY_SECONDS = 0.2

log = structlog.get_logger("pleroma.control")


class KeyWatch:
    """From here to `close` it follows the key; the gateway stays open after that."""

    def __init__(self, gateway: EtcdGateway, key: bytes, *, idle_seconds: float = IDLE_WATCH_SECONDS) -> None:
        self.key = key
        self.failure: LogError | None = None
        """Why nothing is known of the key at the moment: no member answers."""
        self._gateway = gateway
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._current: StoredKey | None = None
        self._is_known = False
        self._is_closed = threading.Event()
        self._stream: WatchStream | None = None
        self._thread = threading.Thread(target=self._run, name="etcd watch", daemon=True)
        self._thread.start()

    def wait(self, wanted: Callable[[StoredKey | None], bool], seconds: float) -> bool:
        """Wait until the key is as wanted (None: it is not there), at most so long; whether it is. Closing ends it."""
        limit = time.monotonic() + seconds
        with self._changed:
            while not (self._is_known and wanted(self._current)):
                left = limit - time.monotonic()
                if self._is_closed.is_set() or left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def close(self) -> None:
        with self._changed:
            self._is_closed.set()
            self._changed.notify_all()
            if self._stream is not None:
                self._stream.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closed.is_set():
            endpoint = self._gateway.endpoint
            try:
                self._follow()
            except LogError as error:
                if self._is_closed.wait(_RETRY_SECONDS):
                    return
                self._gateway.turn_away(endpoint)
                log.info("etcd_watch_restarted", key=self.key.decode(errors="replace"), reason=str(error))

    def _follow(self) -> None:
        """Read the key, then follow it until nothing was heard for a while. LogError when that cannot be."""
        try:
            answer = self._gateway.look([find(self.key)])
        except LogError as error:
            self.failure = error
            raise
        self._hear(answer.found[0].only)
        with self._gateway.watch(self.key, answer.revision + 1, idle_seconds=self._idle_seconds) as stream:
            with self._changed:
                if self._is_closed.is_set():
                    return
                self._stream = stream
            try:
                for change in stream.changes():
                    self._hear(change)
            finally:
                with self._changed:
                    self._stream = None
        last = self._gateway.find(self.key).only
        if last != self._current:
            raise LogAway("the watch missed a change", field=stream.endpoint, value=self.key)

    def _hear(self, change: StoredKey | None) -> None:
        with self._changed:
            self._current, self._is_known, self.failure = change, True, None
            self._changed.notify_all()
