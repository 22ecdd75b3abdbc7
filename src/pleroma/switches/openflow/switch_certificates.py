"""Which certificate a switch number belongs to, so that no switch can claim the number of another.

The first certificate that is shown with a number is noted in a file, and from then on no other is taken with it. An
operator can write the file beforehand, and adds a line when a switch gets another certificate. Switches that share a
machine may share a certificate, as the bridges of one Open vSwitch do.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import structlog

from pleroma.errors import SetupError, SwitchError

log = structlog.get_logger("pleroma.openflow")

MAX_NUMBERS_OF_A_CERTIFICATE = 256
"""Numbers that are noted with one certificate; an operator can write down more."""
_HEAD = "# switch number in hexadecimal, SHA-256 of its certificate (openssl x509 -noout -fingerprint -sha256)\n"


class SwitchCertificates:
    """The file is read at every check, so that changes to it hold at once. One that is not there is made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._busy = threading.Lock()
        self._unwritten: dict[int, set[str]] = {}
        """What was noted while the file could not be written."""

    def check(self, datapath: int, certificate: bytes) -> None:
        """Refuse a certificate (in DER) that does not belong to the number. A number without one gets it."""
        shown = hashlib.sha256(certificate).hexdigest()
        with self._busy:
            known = self._read()
            belonging = known.get(datapath, set())
            if shown in belonging:
                return
            if belonging:
                reason = f"switch {datapath:x} has another certificate than the one shown ({shown[:16]}…)"
                raise SwitchError(reason, field="certificate", value=shown)
            if sum(shown in each for each in known.values()) >= MAX_NUMBERS_OF_A_CERTIFICATE:
                reason = f"the certificate belongs to {MAX_NUMBERS_OF_A_CERTIFICATE} switches already"
                raise SwitchError(reason, field="certificate", value=shown)
            self._note(datapath, shown)

    def _read(self) -> Mapping[int, set[str]]:
        found = {number: set(noted) for number, noted in self._unwritten.items()}
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return found
        except (OSError, UnicodeDecodeError) as error:
            raise SwitchError(f"{self._path.name} cannot be read: {error}", field="certificate") from None
        for line in lines:
            words = line.partition("#")[0].split()
            if words:
                number, fingerprint = _entry(words, self._path)
                found.setdefault(number, set()).add(fingerprint)
        return found

    def _note(self, datapath: int, shown: str) -> None:
        """Write a line more, durably: all of it, or what was there before."""
        beside = self._path.with_name(f".{self._path.name}.new")
        try:
            before = self._path.read_text(encoding="utf-8") if self._path.exists() else _HEAD
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{before}{'' if before.endswith(chr(10)) else chr(10)}{datapath:016x} {shown}\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            self._unwritten.setdefault(datapath, set()).add(shown)
            log.warning("the certificate of a switch cannot be noted", datapath=f"{datapath:x}", reason=str(error))


def _entry(words: list[str], path: Path) -> tuple[int, str]:
    """A line as a number and a fingerprint; colons and capitals, as openssl writes them, are the same."""
    try:
        number, fingerprint = words
        plain = fingerprint.replace(":", "").lower()
        if len(bytes.fromhex(plain)) != hashlib.sha256().digest_size:
            raise ValueError("a fingerprint has 32 bytes")
        return int(number, 16), plain
    except ValueError as error:
        raise SetupError(f"{' '.join(words)[:80]!r} in {path.name}: {error}", field="certificate") from None
