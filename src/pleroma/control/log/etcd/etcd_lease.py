"""An office that one process at a time holds, by a lease in etcd that it keeps alive.

The generation of a holder is the revision at which etcd made the key: it grows from holder to holder, so that whoever
is told by two of them can tell which is the later. A holder that cannot reach etcd knows by its own clock when its
lease may have ended, and does so no later than etcd; the clock also runs while the process or the machine sleeps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import structlog

from pleroma.control.log.etcd.etcd_gateway import EtcdGateway
from pleroma.control.log.etcd.key_watch import KeyWatch
from pleroma.control.log.etcd.transaction import StoredKey, find, is_absent, put, read_transaction, transaction
from pleroma.errors import LogError

LEAD_OFFICE = "lead"
"""The office of the process that leads those on a log."""
MIN_LEASE_SECONDS = 2
"""etcd grants no shorter ones at its default settings."""

log = structlog.get_logger("pleroma.control")


@dataclass(frozen=True, slots=True)
class OfficeHolder:
    """Who holds an office: what it said of itself, and its generation."""

    value: bytes
    generation: int


class Office:
    """An office that processes compete for. Any thread may use it."""

    def __init__(self, gateway: EtcdGateway, key: bytes) -> None:
        self.key = key
        self._gateway = gateway
        self._lock = threading.Lock()
        self._watch: KeyWatch | None = None

    def close(self) -> None:
        """End the watch. A lease that was claimed stays: release it."""
        with self._lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, value: bytes, seconds: int, lost: Callable[[], None] | None = None) -> EtcdLease | OfficeHolder:
        """The lease if nobody holds the office, otherwise who does. `lost` is called once, by a thread of the lease."""
        if seconds < MIN_LEASE_SECONDS:
            reason = f"a lease lasts at least {MIN_LEASE_SECONDS} seconds, not {seconds}"
            raise LogError(reason, field="seconds", value=seconds)
        began = _now()
        lease = self._gateway.grant(seconds)
        try:
            # repeated if the answer is lost: a second attempt finds the key of the first, with this lease
            claimed = transaction(
                [is_absent(self.key)], [put(self.key, value, lease), find(self.key)], [find(self.key)]
            )
            found = read_transaction(self._gateway.ask("kv/txn", claimed)).found[0].only
            if found is not None and found.lease == lease:
                holder = OfficeHolder(value, found.create_revision)
                return EtcdLease(self._gateway, self.key, holder, lease, seconds, began, lost)
        except BaseException:
            with suppress(LogError):
                self._gateway.revoke(lease)
            raise
        with suppress(LogError):  # it would end by itself
            self._gateway.revoke(lease)
        if found is None:
            raise LogError("the office was taken and given up at once", field=self.key.decode(errors="replace"))
        return OfficeHolder(found.value, found.create_revision)

    def holder(self) -> OfficeHolder | None:
        return _holder(self._gateway.find(self.key).only)

    def wait_for_change(self, known: OfficeHolder | None, seconds: float) -> bool:
        """Wait until it is no longer `known` who holds the office (None: nobody), at most so long; whether it is so."""
        with self._lock:
            if self._watch is None:
                self._watch = KeyWatch(self._gateway, self.key)
            watch = self._watch
        return watch.wait(lambda key: _holder(key) != known, seconds)


class EtcdLease:
    """An office held, made by `Office.claim`, until `release` or until it is lost."""

    def __init__(
        self,
        gateway: EtcdGateway,
        key: bytes,
        holder: OfficeHolder,
        lease: int,
        seconds: int,
        began: float,
        lost: Callable[[], None] | None,
    ) -> None:
        self.holder = holder
        self._gateway = gateway
        self._key = key
        self._lease = lease
        self._seconds = seconds
        self._ends = began + seconds
        self._lost = lost
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="etcd lease", daemon=True)
        self._thread.start()

    @property
    def generation(self) -> int:
        return self.holder.generation

    @property
    def is_held(self) -> bool:
        """Whether nobody else can hold the office yet."""
        return not self._is_over.is_set() and _now() < self._ends

    def release(self) -> None:
        """Give the office up, if it is still held. `lost` is not called."""
        self._is_over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        with suppress(LogError):
            self._gateway.revoke(self._lease)

    def _keep(self) -> None:
        while not self._is_over.wait(min(self._seconds / 3, max(0.0, self._ends - _now()))):
            reason = self._keep_once()
            if reason is not None and not self._is_over.is_set():
                self._is_over.set()
                log.warning("etcd_lease_lost", key=self._key.decode(errors="replace"), reason=reason)
                if self._lost is not None:
                    self._lost()

    def _keep_once(self) -> str | None:
        """Keep the lease alive; why it is lost, if it is."""
        began = _now()
        if began >= self._ends:
            return "etcd could not be reached in time"
        try:
            answer, within = self._seconds / 4, self._ends - began
            if not self._gateway.keep(self._lease, seconds=answer, within=within):
                return "it has ended"
            self._ends = began + self._seconds
            if _holder(self._gateway.find(self._key, within=within).only) != self.holder:
                return "the key was taken away"
        except LogError as error:
            log.info("etcd_lease_not_kept", key=self._key.decode(errors="replace"), reason=str(error))
        return None


def _holder(found: StoredKey | None) -> OfficeHolder | None:
    return None if found is None else OfficeHolder(found.value, found.create_revision)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
