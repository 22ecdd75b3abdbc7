"""What etcd has to be told so that its store does not fill up: it keeps every revision of every key until it is told.

Revisions up to the present are compacted after each snapshot. The file of a member never gets smaller by itself, and
its limit counts the file; so a member whose file is large and mostly empty is defragmented, which makes it stand still
for a moment: one member after the other, the leader last. An etcd that has run full accepts writes again after that.
The etcd should serve nothing else: these steps concern all of it.
"""

from __future__ import annotations

import structlog

from pleroma.control.log.etcd.etcd_gateway import MAINTENANCE_SECONDS, EtcdGateway
from pleroma.control.log.etcd.log_keys import LogKeys
from pleroma.control.log.etcd.stored_parts import StoredParts
from pleroma.control.log.etcd.stored_snapshots import SnapshotManifest
from pleroma.control.log.etcd.transaction import find
from pleroma.errors import LogError, LogRefused

_LEAST_DEFRAGMENTED_BYTES = 256 * 2**20
"""Smaller files are left as they are: etcd uses their free pages again, and its limit is 2 GiB by default."""
_LEAST_SPARE = 0.5
_LEAST_SPARE_IF_FULL = 0.1
"""Shares of a file that are not in use."""
_ALREADY_COMPACTED = 11

log = structlog.get_logger("pleroma.control")


class EtcdUpkeep:
    """The upkeep of one log, and of the etcd it is in."""

    def __init__(self, gateway: EtcdGateway, keys: LogKeys, parts: StoredParts) -> None:
        self._gateway = gateway
        self._keys = keys
        self._parts = parts

    def run(self) -> None:
        """What is due after a snapshot."""
        alarms = self._alarms()
        self._collect()
        self._compact(and_wait=bool(alarms))
        if alarms:
            self._defragment(alarms, least_bytes=0, least_spare=0.0)
        else:
            self._defragment(alarms, least_bytes=_LEAST_DEFRAGMENTED_BYTES, least_spare=_LEAST_SPARE)

    def make_room(self) -> bool:
        """What can be done when the store is full; whether it was worth while."""
        self._collect()
        self._compact(and_wait=True)
        return self._defragment(self._alarms(), least_bytes=0, least_spare=_LEAST_SPARE_IF_FULL)

    def _collect(self) -> None:
        """Delete parts to which nobody refers any more, or never did."""
        kinds = (b"b", b"w", b"r", b"s")
        answer = self._gateway.look([find(*self._keys.all_of(kind), keys_only=kind in b"bw") for kind in kinds])
        parts, writing, batches, snapshots = (found.keys for found in answer.found)
        manifests = (SnapshotManifest.read(each) for each in snapshots)
        used = {_id(each.key, 3) for each in writing}
        used |= {each.value.hex() for each in batches}
        used |= {manifest.id.hex() for manifest in manifests if manifest is not None}
        for left in {_id(each.key, 3) for each in parts} - used:
            self._parts.drop(bytes.fromhex(left))

    def _compact(self, *, and_wait: bool) -> None:
        """Let etcd forget all but the present; it does so in its own time unless somebody waits."""
        revision = self._gateway.look([find(self._keys.head, keys_only=True)]).revision
        asked = {"revision": str(revision), "physical": and_wait}
        try:
            if and_wait:
                self._gateway.ask("kv/compaction", asked, seconds=MAINTENANCE_SECONDS, within=MAINTENANCE_SECONDS)
            else:
                self._gateway.ask("kv/compaction", asked)
        except LogRefused as error:
            if error.value != _ALREADY_COMPACTED:
                raise

    def _alarms(self) -> list[dict[str, str]]:
        try:
            answer = self._gateway.ask("maintenance/alarm", {"action": "GET"})
        except LogRefused as error:  # where users have rights, alarms take those of root
            log.warning("etcd_alarms_unknown", reason=error.reason)
            return []
        alarms: list[dict[str, str]] = answer.get("alarms", [])
        return [each for each in alarms if each.get("alarm") == "NOSPACE"]

    def _defragment(self, alarms: list[dict[str, str]], *, least_bytes: int, least_spare: float) -> bool:
        """Make files of members smaller that are so large, and so much of which is not in use; then clear alarms."""
        found: list[tuple[bool, str]] = []
        for endpoint in self._gateway.address.endpoints:
            try:
                status = self._gateway.tell_member(endpoint, "maintenance/status", {})
            except LogError:  # it is down: whoever saves the next snapshot looks again
                continue
            size, used = int(status.get("dbSize", 0)), int(status.get("dbSizeInUse", 0))
            if size >= least_bytes and size - used >= least_spare * size:
                found.append((status.get("leader") == status["header"]["member_id"], endpoint))
        for _, endpoint in sorted(found):
            try:
                self._gateway.tell_member(endpoint, "maintenance/defragment", {}, seconds=MAINTENANCE_SECONDS)
                log.info("etcd_defragmented", endpoint=endpoint)
            except LogError as error:
                log.warning("etcd_not_defragmented", endpoint=endpoint, reason=error.reason)
        for alarm in alarms if found else ():
            self._gateway.ask("maintenance/alarm", {"action": "DEACTIVATE", **alarm})
            log.warning("etcd_alarm_cleared", member=alarm.get("memberID"), alarm=alarm.get("alarm"))
        return bool(found)


def _id(key: bytes, place: int) -> str:
    """The hexadecimal id in a key like pleroma/NAME/b/ID/N."""
    return key.split(b"/")[place].decode()
