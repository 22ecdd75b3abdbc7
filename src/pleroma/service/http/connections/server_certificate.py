"""The certificate that the HTTP server shows. It is read again when its files change: connections go on meanwhile.

Files are replaced one after the other, so for a moment key and certificate may not belong together. What cannot be used
is logged and changes nothing; the next change is tried again.
"""

from __future__ import annotations

import hashlib
import os
import ssl
from pathlib import Path
from typing import NamedTuple

import structlog

from pleroma.control.log.private_files import check_key_file
from pleroma.errors import SetupError
from pleroma.wire.api_terms import CA_VARIABLE

log = structlog.get_logger("pleroma.service")


class CertificateFiles(NamedTuple):
    """PEM files: the certificate, followed by those between it and its authority, and its private key."""

    certificate: Path
    key: Path


class ServerCertificate:
    """`context` is for the next connection; those that are there keep theirs."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._seen = self._stamps()
        self.context = server_context(files)

    def look(self) -> None:
        """Read the files if they have changed since they were read."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self.context = server_context(self._files)
        except SetupError as error:
            log.error("the certificate has changed and cannot be used; the one before is shown", reason=str(error))
        else:
            log.info("the certificate was read again", fingerprint=_fingerprint(self._files.certificate))

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_stamp, self._files))


def server_context(files: CertificateFiles) -> ssl.SSLContext:
    """A context for TLS 1.2 or later that shows this certificate. A key that others can read is refused."""
    check_key_file(files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(*files, password="")  # or OpenSSL would ask at the terminal
    except (OSError, ssl.SSLError) as error:
        reason = f"certificate and key cannot be used: {error}"
        raise SetupError(reason, field=str(files.certificate), value=str(files.key)) from None
    return context


def trusted_authorities(files: CertificateFiles) -> ssl.SSLContext:
    """A context for connections to other processes of this service.

    Certificates are good that the authority which the environment names has signed, or one of the system's, or the one
    of this process: a certificate may be its own authority.
    """
    try:
        context = ssl.create_default_context(cafile=os.environ.get(CA_VARIABLE))
        context.load_verify_locations(files.certificate)
    except (OSError, ssl.SSLError) as error:
        reason = f"certificates of other processes cannot be checked: {error}"
        raise SetupError(reason, field=CA_VARIABLE, value=os.environ.get(CA_VARIABLE)) from None
    return context


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Stands for the content of a file; None while there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _fingerprint(certificate: Path) -> str:
    """As `openssl x509 -noout -fingerprint -sha256` has it, without colons."""
    try:
        text = certificate.read_text(encoding="ascii")
        begin = text.index("-----BEGIN CERTIFICATE-----")
        end = text.index("-----END CERTIFICATE-----", begin) + len("-----END CERTIFICATE-----")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text[begin:end])).hexdigest()
    except (OSError, ValueError):
        return "?"
