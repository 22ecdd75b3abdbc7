"""Certificates for the tests, each its own authority, made by `openssl`."""

import subprocess
from pathlib import Path

from pleroma.service import CertificateFiles

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
OPENSSL_SECONDS = 30.0


def certified(folder: Path, name: str = "controller") -> CertificateFiles:
    """A certificate of 127.0.0.1 and localhost, with its key."""
    folder.mkdir(exist_ok=True)
    made = CertificateFiles(folder / f"{name}.pem", folder / f"{name}.key")
    named = ("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    command = ["openssl", "req", "-x509", *_CURVE, *named, "-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=OPENSSL_SECONDS)
    return made
