"""The API over HTTPS: clients that know the authority, certificates that change, keys that others could read."""

import asyncio
import logging
import os
import ssl
import subprocess

import httpx
import pytest
from typer.testing import CliRunner

import pleroma
from pleroma.cli.command_tree import app
from pleroma.client.blocking_api import BlockingApi
from pleroma.content import Schema
from pleroma.control.log.private_files import check_key_file
from pleroma.errors import ClientError, ControllerAway, SetupError
from pleroma.routing import build
from pleroma.service import Deployment, running
from pleroma.service.http.connections.server_certificate import ServerCertificate, server_context
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.switches.openflow.listener import tls_context
from support.certificates import certified
from support.waiting import run

TOPOLOGY = build("single:2")
EVENT = {"price": 51.5, "volume": 10, "ticker": "AAPL"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certificates"))


def serving(folder, files):
    return running(folder, TOPOLOGY, Deployment(port=0, https=files))


def shown_at(url):
    """The certificate that a new connection is shown."""
    host, _, port = url.partition("://")[2].partition(":")
    return ssl.get_server_certificate((host, int(port)))


def test_a_client_that_knows_the_authority_publishes_and_subscribes_and_no_other_connects(tmp_path, files, monkeypatch):
    monkeypatch.delenv("PLEROMA_CA", raising=False)  # which --ca sets

    async def main():
        async with serving(tmp_path / "state", files) as service:
            assert service.url.startswith("https://127.0.0.1:")
            given = service.url, service.token, "h1"
            async with pleroma.connect(*given, ca=files.certificate) as client:
                await client.create_schema(Schema.from_json(EXAMPLE_SCHEMA))
                wanted = await client.subscribe("stock", "price > 50")
                publisher = await client.advertise("stock")
                publisher.publish(EVENT)
                assert (await asyncio.wait_for(wanted.receive(), 10)).event["ticker"] == "AAPL"
            with pytest.raises(ControllerAway, match=r"certificate is not trusted.*PLEROMA_CA"):
                async with pleroma.connect(*given, patience=0.0):
                    pass
            asked = ["status", "--url", service.url, "--token", service.token, "--json"]
            done = await asyncio.to_thread(CliRunner().invoke, app, [*asked, "--ca", str(files.certificate)])
            assert done.exit_code == 0, done.exception
            monkeypatch.setenv("PLEROMA_CA", str(files.certificate))
            async with pleroma.connect(*given) as client:
                assert client.host == "h1"
            clear = service.url.replace("https://", "http://")
            with pytest.raises(ControllerAway):
                async with pleroma.connect(clear, service.token, patience=0.0):
                    pass

    run(main)


def test_a_controller_in_clear_is_not_taken_for_one_with_tls(tmp_path):
    async def main():
        async with running(tmp_path, TOPOLOGY, Deployment(port=0)) as service:
            with pytest.raises(ControllerAway, match="speaks no TLS"):
                async with pleroma.connect(service.url.replace("http://", "https://"), patience=0.0):
                    pass

    run(main)


def test_an_authority_that_is_no_certificate_is_refused(tmp_path, files):
    for wrong in (tmp_path / "missing.pem", files.key):
        with pytest.raises(ClientError, match="no certificate of an authority"):
            BlockingApi("https://127.0.0.1:1", "token", seconds=1.0, ca=wrong)


def test_a_changed_certificate_is_shown_to_newcomers_while_connections_go_on(tmp_path):
    async def main():
        files, later = certified(tmp_path / "now"), certified(tmp_path / "later")
        trust = ssl.create_default_context(cafile=files.certificate)
        async with (
            serving(tmp_path / "state", files) as service,
            httpx.AsyncClient(verify=trust, base_url=service.url) as known,
        ):
            assert (await known.get("/health")).status_code == 200
            before = service.server.server_state.connections.copy()
            for new, old in zip(later, files, strict=True):
                os.replace(new, old)
            wanted = files.certificate.read_text()
            async with asyncio.timeout(20):
                while await asyncio.to_thread(shown_at, service.url) != wanted:
                    await asyncio.sleep(0.05)
            assert (await known.get("/health")).status_code == 200
            assert before <= service.server.server_state.connections

    run(main, 60)


def test_a_key_without_its_certificate_changes_nothing_until_that_is_there_too(tmp_path, caplog):
    other = certified(tmp_path, "other")
    shown = ServerCertificate(certified(tmp_path))
    first = shown.context
    with caplog.at_level(logging.INFO):
        shown.look()
        os.replace(other.key, tmp_path / "controller.key")
        shown.look()
        assert shown.context is first
        shown.look()
        (tmp_path / "controller.pem").unlink()
        shown.look()
        assert shown.context is first
        os.replace(other.certificate, tmp_path / "controller.pem")
        shown.look()
    assert shown.context is not first


def test_tls_before_1_2_is_not_spoken(files):
    assert server_context(files).minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(tmp_path, files):
    locked = tmp_path / "locked.key"
    words = ["ec", "-in", str(files.key), "-aes128", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=30)
    locked.chmod(0o600)
    with pytest.raises(SetupError, match="cannot be used"):
        server_context(files._replace(key=locked))


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604, 0o601])
def test_a_key_that_others_can_use_is_refused(tmp_path, mode):
    files = certified(tmp_path)
    files.key.chmod(mode)
    with pytest.raises(SetupError, match="others can use this key"):
        ServerCertificate(files)
    with pytest.raises(SetupError, match="others can use this key"):
        tls_context(*files, files.certificate)


def test_a_key_of_root_may_be_read_by_a_group_and_one_of_somebody_else_by_nobody(tmp_path):
    key = tmp_path / "a.key"
    key.touch()
    key.chmod(0o640)
    if os.geteuid() == 0:
        check_key_file(key)
        os.chown(key, 12345, 0)
        key.chmod(0o600)
        with pytest.raises(SetupError, match="belongs to user 12345"):
            check_key_file(key)
    else:
        with pytest.raises(SetupError, match="others can use this key"):
            check_key_file(key)
    with pytest.raises(SetupError, match="cannot be read"):
        check_key_file(tmp_path / "missing.key")
