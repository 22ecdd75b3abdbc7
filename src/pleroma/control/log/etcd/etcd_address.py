"""Where an etcd is, and which log in it: `etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/NAME`.

`etcds://` speaks TLS. Certificates are files that the environment names, and so is whoever signs in with a password; a
password in the URL is taken as well, and never shown.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from pleroma.errors import LogError, shown

ETCD_SCHEMES = ("etcd", "etcds")
ETCD_USER = "PLEROMA_ETCD_USER"
ETCD_PASSWORD = "PLEROMA_ETCD_PASSWORD"  # noqa: S105 (the name of the variable)
ETCD_AUTHORITY = "PLEROMA_ETCD_AUTHORITY"
ETCD_CERTIFICATE = "PLEROMA_ETCD_CERTIFICATE"
ETCD_KEY = "PLEROMA_ETCD_KEY"
_URL = re.compile(r"(etcds?)://(?:([^@/]*)@)?([^@/?#]+)/([^/?#]*)", re.ASCII)
_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?", re.ASCII)
_LOG_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}", re.ASCII)
_DEFAULT_PORT = 2379
_WRITTEN = "is written like etcd://127.0.0.1:2379,127.0.0.1:2381/NAME"


@dataclass(frozen=True, slots=True)
class EtcdSecrets:
    """Who signs in, and with which files. It shows nothing of itself."""

    user: str = ""
    password: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return "EtcdSecrets(...)"

    def tls(self) -> ssl.SSLContext:
        """The settings of a TLS connection; without an authority of its own, the system's are trusted."""
        try:
            context = ssl.create_default_context(cafile=self.authority or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ssl.SSLError) as error:
            reason = f"the certificates for etcd cannot be used: {error}"
            raise LogError(reason, field=ETCD_AUTHORITY, value=self.authority) from None
        return context


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """`endpoints` are tried in this order: name the nearest member first. `str` gives the URL without secrets."""

    endpoints: tuple[str, ...]
    name: str
    secrets: EtcdSecrets = field(default=EtcdSecrets(), repr=False)

    def __str__(self) -> str:
        scheme = "etcds" if self.is_encrypted else "etcd"
        return f"{scheme}://{','.join(each.partition('://')[2] for each in self.endpoints)}/{self.name}"

    @property
    def is_encrypted(self) -> bool:
        return self.endpoints[0].startswith("https:")

    @classmethod
    def parse(cls, url: str, environment: Mapping[str, str] = os.environ) -> EtcdAddress:
        found = _URL.fullmatch(url)
        if found is None:
            raise LogError(_WRITTEN, field="log", value=_without_secrets(url))
        scheme, user_info, hosts, name = found.groups()
        if not _LOG_NAME.fullmatch(name):
            reason = f"a log is called by up to 63 letters, digits, dots, dashes or underscores, not {shown(name)}"
            raise LogError(reason, field="log", value=name)
        user, _, password = (user_info or "").partition(":")
        secrets = EtcdSecrets(
            unquote(user) or environment.get(ETCD_USER, ""),
            unquote(password) or environment.get(ETCD_PASSWORD, ""),
            environment.get(ETCD_AUTHORITY, ""),
            environment.get(ETCD_CERTIFICATE, ""),
            environment.get(ETCD_KEY, ""),
        )
        web = "https" if scheme == "etcds" else "http"
        return cls(tuple(f"{web}://{_endpoint(each)}" for each in hosts.split(",")), name, secrets)


def _endpoint(text: str) -> str:
    found = _ENDPOINT.fullmatch(text)
    port = int(found[2] or _DEFAULT_PORT) if found else 0
    if found is None or not 1 <= port <= 65535:
        raise LogError(f"a member of etcd is written like 127.0.0.1:2379, not {shown(text)}", field="log", value=text)
    return f"{found[1]}:{port}"


def _without_secrets(url: str) -> str:
    """An URL that could not be read, for an error: what stands before the last @ may be a password."""
    return url.rpartition("@")[2]
