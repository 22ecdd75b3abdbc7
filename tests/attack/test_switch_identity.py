"""Who pretends to be a switch: claimed numbers, forged beacons, lies about rules, and garbage instead of TLS."""

import asyncio
import hashlib
import os
import random
import shutil
import ssl
import subprocess

import pytest

from pleroma.errors import SetupError, SwitchError, SwitchRefused
from pleroma.index import Dz
from pleroma.index.address import IPV6
from pleroma.routing import Change, Flow, Host, Link, Output, build
from pleroma.switches.openflow import discovered_topology
from pleroma.switches.openflow.agent import Agent, SwitchTimeouts
from pleroma.switches.openflow.beacons import GOOD_ROUNDS, MAX_BEACONS_AT_A_PORT, Beacons
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.frames import Beacon
from pleroma.switches.openflow.listener import SwitchListener, tls_context
from pleroma.switches.openflow.openflow_network import OpenFlowNetwork
from pleroma.switches.openflow.rule import CountedRule
from pleroma.switches.openflow.strangers import MAX_STRANGERS
from pleroma.switches.openflow.switch_certificates import MAX_NUMBERS_OF_A_CERTIFICATE, SwitchCertificates
from pleroma.switches.openflow.tables import RuleLayout
from support.openflow_switch import PATIENCE, ScriptedSwitch
from support.waiting import run

LINE = build("line:2")
QUICK = SwitchTimeouts(answer=5.0, audit=1000.0, grace=0.2, dead=1.0)
LONG = os.environ.get("PLEROMA_LONG") == "1"
ECHO = 2


async def until(true):
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.005)


def network_of(topology=LINE, **more):
    return OpenFlowNetwork(DiscoveredTopology(topology), listen=("127.0.0.1", 0), timeouts=QUICK, **more)


# a number that is claimed


def test_a_connection_that_answers_keeps_its_number_whoever_else_claims_it():
    async def main():
        async with network_of() as made:
            await made.install([])
            honest, others = ScriptedSwitch(datapath=1), [ScriptedSwitch(datapath=1) for _ in range(5)]
            await honest.connect(made.address)
            await until(lambda: made.status()["R1"].state == "ready")
            peer = made.status()["R1"].peer
            for other in others:
                await other.connect(made.address)
            for other in others:
                await asyncio.wait_for(other.closed.wait(), PATIENCE)
            assert made.status()["R1"].peer == peer
            assert made.status()["R1"].state == "ready"
            assert not honest.closed.is_set()
            assert "connected already" in made.strangers[1]
            for each in (honest, *others):
                await each.disconnect()

    run(main, 30)


def test_a_connection_that_is_silent_gives_way_to_a_new_one():
    async def main():
        async with network_of() as made:
            await made.install([])
            old, new = ScriptedSwitch(datapath=1), ScriptedSwitch(datapath=1)
            await old.connect(made.address)
            await until(lambda: made.status()["R1"].state == "ready")
            old.silent.update(range(40))
            await new.connect(made.address)
            await asyncio.wait_for(old.closed.wait(), PATIENCE)
            await until(lambda: made.status()["R1"].state == "ready")
            assert not new.closed.is_set()
            for each in (old, new):
                await each.disconnect()

    run(main, 30)


def test_switches_that_are_turned_away_are_remembered_in_bounded_number():
    async def main():
        async with network_of() as made:
            await made.install([])
            for number in range(100, 100 + MAX_STRANGERS + 20):
                stranger = ScriptedSwitch(datapath=number)
                await stranger.connect(made.address)
                await asyncio.wait_for(stranger.closed.wait(), PATIENCE)
                await stranger.disconnect()
            assert list(made.strangers) == list(range(120, 120 + MAX_STRANGERS))

    run(main, 30)


def test_no_more_switches_join_than_a_network_can_have(monkeypatch):
    monkeypatch.setattr(discovered_topology, "MAX_DISCOVERED_SWITCHES", 50)
    discovered = DiscoveredTopology(discovers=True)
    names = [discovered.switch(number) for number in range(1, 100)]
    assert len(discovered.topology.switches) == 50
    assert set(names[50:]) == {None}
    assert discovered.switch(1) == "s1"


# certificates


def test_the_first_certificate_of_a_number_is_the_one(tmp_path):
    path = tmp_path / "switch-certificates"
    SwitchCertificates(path).check(1, b"one")
    SwitchCertificates(path).check(2, b"one")  # bridges of one machine share a certificate
    certificates = SwitchCertificates(path)
    certificates.check(1, b"one")
    with pytest.raises(SwitchError, match="another certificate"):
        certificates.check(1, b"two")
    assert path.stat().st_mode & 0o077 == 0
    fingerprint = hashlib.sha256(b"two").hexdigest().upper()
    colons = ":".join(fingerprint[at : at + 2] for at in range(0, 64, 2))
    path.write_text(path.read_text() + f"1 {colons}  # renewed")
    certificates.check(1, b"two")
    certificates.check(3, b"three")
    with pytest.raises(SwitchError):
        certificates.check(3, b"two")


def test_a_file_of_certificates_that_cannot_be_read_lets_nobody_in(tmp_path):
    path = tmp_path / "switch-certificates"
    for text in ("1 abc\n", "zz " + "0" * 64, "1\n", "1 " + "0" * 62 + "\n"):
        path.write_text(text)
        with pytest.raises((SwitchError, SetupError)):
            SwitchCertificates(path).check(7, b"one")
    path.unlink()
    path.mkdir()
    with pytest.raises(SwitchError):
        SwitchCertificates(path).check(7, b"one")


def test_what_cannot_be_written_holds_nevertheless(tmp_path):
    certificates = SwitchCertificates(tmp_path / "missing" / "switch-certificates")
    certificates.check(1, b"one")
    certificates.check(1, b"one")
    with pytest.raises(SwitchError):
        certificates.check(1, b"two")


def test_one_certificate_does_not_claim_numbers_without_end(tmp_path):
    certificates = SwitchCertificates(tmp_path / "switch-certificates")
    for number in range(MAX_NUMBERS_OF_A_CERTIFICATE):
        certificates.check(number, b"one")
    with pytest.raises(SwitchError, match="already"):
        certificates.check(MAX_NUMBERS_OF_A_CERTIFICATE, b"one")
    certificates.check(MAX_NUMBERS_OF_A_CERTIFICATE, b"two")


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=PATIENCE)


def certified(folder, name, authority=None):
    """(certificate, key), signed by itself or by an authority made here."""
    key, made, request = (folder / f"{name}.{kind}" for kind in ("key", "pem", "csr"))
    asked = (
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        key,
        "-subj",
        f"/CN={name}",
    )
    if authority is None:
        openssl("req", "-x509", *asked, "-days", 2, "-out", made)
    else:
        openssl("req", "-new", *asked, "-out", request)
        signer = ("-CA", authority, "-CAkey", authority.with_suffix(".key"), "-CAcreateserial")
        openssl("x509", "-req", "-in", request, *signer, "-days", 2, "-out", made)
    return made, key


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """By name: the context that the controller listens with, and those of switches with certificates of their own."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("certificates")
    authority, _ = certified(folder, "authority")

    def client(name):
        context = ssl.create_default_context(cafile=authority)
        context.check_hostname = False
        context.load_cert_chain(*certified(folder, name, authority))
        return context

    controller = tls_context(*certified(folder, "controller", authority), authority)
    return {"controller": controller, "one": client("one"), "two": client("two")}


def test_with_certificates_no_switch_takes_the_number_of_another_also_while_that_is_away(tmp_path, keys):
    async def main():
        certificates = SwitchCertificates(tmp_path / "switch-certificates")
        async with network_of(tls=keys["controller"], certificates=certificates) as made:
            await made.install([])
            honest, liar = ScriptedSwitch(datapath=1), ScriptedSwitch(datapath=1)
            await honest.connect(made.address, tls=keys["one"])
            await until(lambda: made.status()["R1"].state == "ready")
            await honest.disconnect()
            await until(lambda: made.status()["R1"].state != "ready")
            await liar.connect(made.address, tls=keys["two"])
            await asyncio.wait_for(liar.closed.wait(), PATIENCE)
            assert "another certificate" in made.strangers[1]
            assert made.status()["R1"].state != "ready"
            again, own = ScriptedSwitch(datapath=1), ScriptedSwitch(datapath=2)
            await again.connect(made.address, tls=keys["one"])
            await own.connect(made.address, tls=keys["two"])
            await until(lambda: all(each.state == "ready" for each in made.status().values()))
            for each in (honest, liar, again, own):
                await each.disconnect()

    run(main, 30)


def test_garbage_instead_of_tls_and_behind_it_costs_an_honest_switch_nothing(keys):
    async def main():
        chance = random.Random(4)
        async with network_of(tls=keys["controller"]) as made:
            await made.install([])
            honest = ScriptedSwitch(datapath=1)
            await honest.connect(made.address, tls=keys["one"])
            await until(lambda: made.status()["R1"].state == "ready")
            starts = (b"\x16\x03\x01", b"\x16\x03\x03\x40\x00", b"\x04\x00\x00\x08", b"GET / HTTP/1.1\r\n", b"")
            for number in range(2000 if LONG else 150):
                _, writer = await asyncio.open_connection(*made.address)
                writer.write(chance.choice(starts) + chance.randbytes(chance.randrange(200)))
                if number % 2:
                    writer.transport.abort()
                else:
                    writer.close()
            for _ in range(500 if LONG else 30):
                _, writer = await asyncio.open_connection(*made.address, ssl=keys["two"])
                writer.write(chance.randbytes(chance.randrange(1, 300)))
                writer.close()
            await until(lambda: len(made._listener.connections) == 1)
            assert made.status()["R1"].state == "ready"
            assert not honest.closed.is_set()
            await honest.disconnect()

    run(main, 30)


def test_connections_that_never_shake_hands_are_bounded_by_address_and_let_others_in(keys):
    async def main():
        greeted = asyncio.Queue()
        limits = {"max_waiting": 40, "max_waiting_of_an_address": 20}
        async with SwitchListener(("127.0.0.1", 0), keys["controller"], greeted.put, **limits) as listener:
            idle = [await asyncio.open_connection(*listener.address) for _ in range(60)]
            await until(lambda: listener.waiting == 20)
            ended = [asyncio.create_task(reader.read()) for reader, _ in idle]
            await until(lambda: sum(each.done() for each in ended) == 40)
            _, writer = await asyncio.open_connection(*listener.address, ssl=keys["one"], local_addr=("127.0.0.2", 0))
            writer.write(b"\x05\x00\x00\x08\x00\x00\x00\x01")
            await until(lambda: listener.connections)
            writer.close()
            for _, each in idle:
                each.transport.abort()
            await until(lambda: listener.waiting == 0)
            for each in ended:
                each.cancel()
            await asyncio.gather(*ended, return_exceptions=True)

    run(main, 30)


# beacons

KEY = b"k" * 32
HOST = ("s1", 7)


def hearing(work, hosts=(HOST,)):
    async def main():
        told, discovered = [], DiscoveredTopology(discovers=True)
        for number in (1, 2):
            discovered.switch(number)
        sent = {}

        def send(make):
            sent.update({(number, port): make(number, port) for number in (1, 2) for port in (3, 7)})

        beacons = Beacons(discovered, send, lambda _: True, lambda: told.append(1), KEY, "here", lambda at: at in hosts)

        def next_round():
            beacons._next_round()
            send(beacons._make)

        next_round()
        work(beacons, discovered, told, sent, next_round)

    run(main)


def test_a_beacon_makes_a_link_and_a_forged_one_does_not():
    def work(beacons, discovered, told, sent, _next_round):
        forged = Beacon(1, 3, "here", beacons._round).pack(b"guess")
        assert beacons.hear(("s2", 3), forged)
        assert not discovered.topology.links
        assert not discovered.borders
        assert not told
        assert beacons.counts["forged"] == 1
        beacons.hear(("s2", 3), sent[1, 3])
        assert discovered.topology.links == (Link("s1", 3, "s2", 3),)

    hearing(work)


def test_a_recorded_beacon_is_soon_worth_nothing():
    def work(beacons, discovered, _told, sent, next_round):
        recorded = sent[1, 3]
        for _ in range(GOOD_ROUNDS + 1):
            next_round()
        beacons.hear(("s2", 3), recorded)
        assert not discovered.topology.links
        assert beacons.counts["old"] == 1
        beacons.hear(("s2", 3), sent[1, 3])
        assert discovered.topology.links

    hearing(work)


def test_a_beacon_that_is_not_yet_sent_is_worth_nothing():
    def work(beacons, discovered, _told, _sent, _next_round):
        beacons.hear(("s2", 3), Beacon(1, 3, "here", beacons._round + 1).pack(KEY))
        assert not discovered.topology.links

    hearing(work)


def test_the_port_of_a_host_is_never_taken_for_a_link():
    """Two hosts that pass beacons on to each other would have events sent over their own cable."""

    def work(beacons, discovered, told, sent, _next_round):
        beacons.hear(HOST, sent[2, 3])
        beacons.hear(("s2", 3), sent[1, 7])
        assert not discovered.topology.links
        assert not told
        assert beacons.counts["at a host"] == 2

    hearing(work)


def test_a_link_that_is_known_is_heard_though_the_log_has_a_host_there():
    def work(beacons, discovered, _told, sent, _next_round):
        discovered.joined(HOST, ("s2", 3))
        beacons.hear(("s2", 3), sent[1, 7])
        assert beacons._heard

    hearing(work)


def test_a_flood_of_beacons_is_not_read_and_changes_nothing():
    def work(beacons, discovered, told, _sent, next_round):
        for number in range(500):
            beacons.hear(HOST, Beacon(1, 3, f"domain {number}").pack(b"guess"))
        assert beacons.counts["too many"] == 500 - MAX_BEACONS_AT_A_PORT
        assert len(told) == 1
        next_round()
        beacons.hear(HOST, Beacon(1, 3, "y" * 65).pack(b"guess"))
        assert len(discovered.borders[HOST]) <= 64

    hearing(work)


def test_hosts_of_the_controller_s_state_are_known_to_the_beacons():
    async def main():
        async with OpenFlowNetwork(DiscoveredTopology(discovers=True), listen=("127.0.0.1", 0)) as made:
            made.rule_layout.hosts = lambda: (Host("h", "s1", 7, "fd00::1"),)
            assert made._beacons._has_host(HOST)
            assert not made._beacons._has_host(("s1", 8))

    run(main)


# a switch that confirms what it does not do

LAYOUT = RuleLayout(IPV6)


def rule(bits, port=1):
    return LAYOUT.forwarding(Flow(Dz.parse(bits), (Output(port),)))


class Liar:
    """Confirms every change; while it `lies`, it makes none."""

    def __init__(self):
        self.rules = {}
        self.lies = False
        self.hold = asyncio.Event()
        self.hold.set()
        self.committing = 0

    async def commit(self, changes, _timeout):
        self.committing += 1
        await self.hold.wait()
        for change, each in changes if not self.lies else ():
            if change is Change.DELETE:
                self.rules.pop(each.key, None)
            else:
                self.rules[each.key] = each

    async def flows(self, *_):
        return [CountedRule(each, 0, 0) for each in self.rules.values()]

    async def wipe(self, *_):
        self.rules.clear()

    def close(self):
        pass


def wanting(*rules):
    return [(each.key, each) for each in rules]


def test_an_audit_notices_a_switch_that_confirms_and_does_not_install_and_who_asks_later_is_told():
    async def main():
        agent, switch = Agent("R1", SwitchTimeouts(answer=5.0, audit=0.05), lambda _: None), Liar()
        switch.lies = True
        agent.want(wanting(rule("01")))
        agent.connected(switch)
        await agent.confirmed()  # nothing is known against it yet
        await until(lambda: agent.counts.repaired)
        await until(lambda: agent.refused)
        for bits in ("10", "11", "001"):
            agent.want(wanting(rule(bits)))
            with pytest.raises(SwitchRefused, match="did not make"):
                await agent.confirmed()
        reads = agent.counts.read
        await until(lambda: agent.counts.read > reads + 4)  # audits go by, and it is not believed again
        agent.want(wanting(rule("0001")))
        with pytest.raises(SwitchRefused, match="did not make"):
            await agent.confirmed()
        switch.lies = False
        await until(lambda: not agent.refused and switch.rules.keys() == agent.wanted.keys())
        await agent.confirmed()
        await until(lambda: not agent._doubted)
        agent.close()

    run(main)


def test_what_a_displaced_connection_confirms_does_not_count():
    async def main():
        agent = Agent("R1", QUICK, lambda _: None)
        old, new = Liar(), Liar()
        agent.connected(old)
        await until(lambda: agent.state == "ready")
        old.hold.clear()
        agent.want(wanting(rule("01")))
        asking = asyncio.create_task(agent.confirmed())
        await until(lambda: old.committing)
        new.hold.clear()
        agent.connected(new)
        old.hold.set()
        await until(lambda: new.committing)
        assert not asking.done()
        new.hold.set()
        await asking
        assert new.rules
        agent.close()

    run(main)


def test_what_an_earlier_connection_confirmed_is_not_taken_for_granted():
    async def main():
        agent = Agent("R1", QUICK, lambda _: None)
        old, new = Liar(), Liar()
        agent.want(wanting(rule("01")))
        agent.connected(old)
        await agent.confirmed()
        agent.disconnected(old)
        asking = asyncio.create_task(agent.confirmed())
        await asyncio.sleep(0)
        assert not asking.done()
        agent.connected(new)
        await asking
        assert new.rules.keys() == agent.wanted.keys()
        agent.close()

    run(main)
