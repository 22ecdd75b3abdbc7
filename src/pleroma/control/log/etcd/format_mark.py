"""What says that keys in etcd are a log, in which format, and whether it may be used.

A log that is being moved here has no head yet, and one that was moved away has none any more: its mark says so, and
nobody can open it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from pleroma.control.log.etcd.etcd_address import EtcdAddress
from pleroma.control.log.etcd.transaction import StoredKey
from pleroma.errors import ForeignLog, LogElsewhere

ETCD_LOG_FORMAT = 1
_PRODUCT = "pleroma log"


class LogStage(StrEnum):
    COMING = "coming"
    HERE = "here"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class FormatMark:
    """`move` names the move that brought the log or took it away, `to` is where it went."""

    stage: LogStage = LogStage.HERE
    move: str = ""
    to: str = ""

    def packed(self) -> bytes:
        said: dict[str, object] = {"product": _PRODUCT, "format": ETCD_LOG_FORMAT}
        more = {"stage": "" if self.stage is LogStage.HERE else self.stage, "move": self.move, "to": self.to}
        return json.dumps(said | {name: value for name, value in more.items() if value}).encode()

    @classmethod
    def read(cls, found: StoredKey | None, address: EtcdAddress) -> FormatMark:
        """The mark of a log that this program reads; an error if there is none."""
        where = str(address)
        try:
            mark = json.loads(found.value) if found is not None else {}
            product, version = mark.get("product"), int(mark.get("format", 0))
            stage = LogStage(mark.get("stage", LogStage.HERE))
        except (ValueError, TypeError, AttributeError):
            product, version = None, 0
        if product != _PRODUCT or version < 1:
            raise ForeignLog("the keys of this name are not a log", field=where, value=address.name)
        if version != ETCD_LOG_FORMAT:
            reason = f"the log has format {version}, and this program reads format {ETCD_LOG_FORMAT}"
            raise ForeignLog(reason, field=where, value=version)
        return cls(stage, str(mark.get("move", "")), str(mark.get("to", "")))

    def check(self, address: EtcdAddress) -> None:
        """Raise an error unless the log may be used."""
        if self.stage is LogStage.COMING:
            reason = f"a log has not come here whole: repeat `pleroma log move FOLDER {address}`"
            raise LogElsewhere(reason, field=str(address), value=address.name)
        if self.stage is LogStage.GONE:
            raise LogElsewhere(f"the log was moved to {self.to}", field=str(address), value=self.to)
