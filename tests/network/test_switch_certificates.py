"""Open vSwitch with certificates: each switch number belongs to the certificate that it was first shown with."""

import asyncio
import hashlib
import ssl
import subprocess

import pytest

from pleroma.lab import Lab, Tls
from pleroma.routing import build
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.listener import tls_context
from pleroma.switches.openflow.openflow_network import OpenFlowNetwork
from pleroma.switches.openflow.switch_certificates import SwitchCertificates

LINE = build("line:2")
PATIENCE = 30.0


def certified(folder, name, authority=None):
    """(key, certificate), signed by itself or by an authority made here."""
    key, made, request = (folder / f"{name}.{kind}" for kind in ("key", "pem", "csr"))
    asked = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        key,
        "-subj",
        f"/CN={name}",
    ]
    signer = ["-CA", authority, "-CAkey", authority and authority.with_suffix(".key"), "-CAcreateserial", "-days", "2"]
    steps = (
        [["req", "-x509", *asked, "-days", "2", "-out", made]]
        if authority is None
        else [["req", "-new", *asked, "-out", request], ["x509", "-req", "-in", request, *signer, "-out", made]]
    )
    for words in steps:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=PATIENCE)
    return key, made


def fingerprint(certificate):
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_switch_is_taken_with_its_own_certificate_and_with_no_other(tmp_path, is_known):
    async def work():
        _, authority = certified(tmp_path, "authority")
        key, shown = certified(tmp_path, "controller", authority)
        of_switches = certified(tmp_path, "switches", authority)
        file = tmp_path / "switch-certificates"
        noted = fingerprint(of_switches[1]) if is_known else "0" * 64
        file.write_text(f"1 {noted}\n")
        async with OpenFlowNetwork(
            DiscoveredTopology(LINE),
            listen=("127.0.0.1", 0),
            tls=tls_context(shown, key, authority),
            timeouts=SwitchTimeouts(grace=0.1),
            certificates=SwitchCertificates(file),
        ) as network:
            await network.install([])
            target = f"ssl:127.0.0.1:{network.address[1]}"
            lab = await asyncio.to_thread(Lab.up, LINE, controller=target, tls=Tls(*of_switches, authority))
            try:
                async with asyncio.timeout(PATIENCE):
                    while network.status()["R2"].state != "ready" or not (is_known or 1 in network.strangers):
                        await asyncio.sleep(0.05)
                    while is_known and network.status()["R1"].state != "ready":
                        await asyncio.sleep(0.05)
                assert (network.status()["R1"].state == "ready") == is_known
                assert f"{2:016x} {fingerprint(of_switches[1])}" in file.read_text()
            finally:
                await asyncio.to_thread(lab.close)

    asyncio.run(work())
