"""The log in etcd when processes, members and connections fail: what was acknowledged is there, once and in order."""

import os
import random
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pleroma.control.log.durable_log import LogSnapshot, Recovery
from pleroma.control.log.etcd import EtcdAddress, EtcdLog
from pleroma.control.log.etcd.etcd_gateway import EtcdGateway
from pleroma.control.log.etcd.transaction import delete, put
from pleroma.errors import DiskFull, ForeignLog, LogAway, LogDamaged, LogError, LogUnclear
from pleroma.lab.etcd_cluster import EtcdCluster, EtcdTls
from support.certificates import certified
from support.cutting_proxy import Cut, CuttingProxy
from support.programs import environment
from support.waiting import wait_until

WRITER = Path(__file__).with_name("etcd_writer.py")
LONG = os.environ.get("PLEROMA_LONG") == "1"
FAULTS = 12 if LONG else 2
APPEND = b'"target": "MOD"'
"""What only an append has in its request."""


class Writer:
    """A process that appends until it is stopped, or killed."""

    def __init__(self, url, name, count):
        command = [sys.executable, str(WRITER), url, name, str(count)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.name = name
        self.process = subprocess.Popen(command, env=environment(), **pipes)
        self.said = []
        assert self.process.stdout.readline() == "ready\n"
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.endswith("\n"):
                verdict, *numbers = line.split()
                self.said.append((verdict, *map(int, numbers)))

    def done(self):
        return sum(count for verdict, _, count, *_ in self.said if verdict == "done")

    def stop(self):
        self.process.stdin.close()
        self.finish()
        assert self.process.returncode == 0

    def finish(self):
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()


@contextmanager
def writers(url, *counts):
    with ExitStack() as stack:
        made = []
        for number, count in enumerate(counts, 1):
            made.append(Writer(url, f"w{number}", count))
            stack.callback(made[-1].finish)
            stack.callback(made[-1].process.kill)
        yield made
        for each in made:
            each.stop()


def check(url, made):
    """What was acknowledged is where it was said to be; nothing is doubled; nothing that was refused is there."""
    with EtcdLog.open(url) as log:
        entries = list(log.read())
    assert [position for position, _ in entries] == list(range(1, len(entries) + 1))
    bodies = [body.decode() for _, body in entries]
    assert len(set(bodies)) == len(bodies)
    for writer in made:
        order = [int(body.partition("-")[2]) for body in bodies if body.startswith(f"{writer.name}-")]
        assert order == sorted(order)
        there = set(order)
        for verdict, number, count, *position in writer.said:
            mine = range(number, number + count)
            if verdict == "done":
                start = position[0] - 1
                assert bodies[start : start + count] == [f"{writer.name}-{n}" for n in mine]
            elif verdict == "refused":
                assert there.isdisjoint(mine)
            else:
                assert len(there.intersection(mine)) in (0, count)
    return bodies


def go_on(made, entries=20):
    """Wait until every writer has appended more."""
    for writer in made:
        before = writer.done()
        wait_until(lambda w=writer, b=before: w.done() >= b + entries, f"{writer.name} appends no more")


# several writers


def test_writers_of_several_processes_keep_their_order_and_lose_nothing(url):
    with writers(url, 1, 3, 16, 64) as made:
        go_on(made, 200 if LONG else 30)
    bodies = check(url, made)
    assert len(bodies) == sum(writer.done() for writer in made)


def test_a_killed_writer_leaves_whole_batches_and_no_gap(url):
    with writers(url, 8, 8) as made:
        go_on(made)
        killed = Writer(url, "w3", 8)
        try:
            go_on([killed])
        finally:
            killed.process.kill()
            killed.finish()
            killed.process.stdin.close()
        go_on(made)
    bodies = check(url, [*made, killed])
    assert sum(body.startswith("w3-") for body in bodies) % 8 == 0


def test_a_follower_sees_everything_in_order_through_compaction(url):
    with writers(url, 1, 16) as made, EtcdLog.open(url) as log, EtcdLog.open(url) as saver:
        at, seen, snapshots = 0, [], 0
        limit = time.monotonic() + 60
        while (snapshots < 6 or len(seen) < 2000) and time.monotonic() < limit:
            assert log.wait_beyond(at, 30) > at
            for position, body in log.read(at):
                seen.append(body)
                assert position == len(seen)
            at = len(seen)
            if at > 100 * (snapshots + 1):
                saver.save_snapshot(at, b"state at %d" % at)
                while saver.compact():
                    pass
                saver.checkpoint()
                snapshots += 1
    with EtcdLog.open(url) as log:
        assert log.first > 1
        seen += [body for _, body in log.read(at)]
    assert len(set(seen)) == len(seen) == sum(writer.done() for writer in made)


# members that fail


def test_killed_members_lose_nothing_that_was_acknowledged(etcd, url):
    chance = random.Random(3)
    with writers(url, 1, 16) as made:
        for fault in range(FAULTS):
            go_on(made)
            leader = wait_until(lambda: etcd.leader, "there is no leader")
            others = [name for name in etcd.members if name != leader]
            victim = leader if fault % 2 == 0 else chance.choice(others)
            etcd.kill(victim)
            go_on(made)
            etcd.start(victim)
    check(url, made)


def test_a_leader_that_hangs_and_comes_back_changes_nothing(etcd, url):
    with writers(url, 1, 16) as made:
        for _ in range(FAULTS // 2):
            go_on(made)
            leader = wait_until(lambda: etcd.leader, "there is no leader")
            etcd.pause(leader)
            go_on(made)
            etcd.resume(leader)
        go_on(made)
    check(url, made)


def test_a_wait_survives_the_member_that_it_watches(etcd, url):
    first = next(iter(etcd.members))
    gateway = EtcdGateway(EtcdAddress.parse(url), answer_seconds=1.0)
    with (
        EtcdLog(gateway, idle_seconds=1.0) as log,
        EtcdLog.open(url.replace(etcd.endpoints[0] + ",", "")) as other,
    ):
        assert log.wait_beyond(0, 0.5) == 0
        etcd.pause(first)
        other.append([b"x"])
        assert log.wait_beyond(0, 30) == 1
        etcd.resume(first)
        etcd.kill(first)
        other.append([b"y"])
        assert log.wait_beyond(1, 30) == 2
        assert [body for _, body in log.read()] == [b"x", b"y"]


def test_without_a_majority_an_append_ends_in_time_and_says_what_is_not_known(etcd, url):
    gateway = EtcdGateway(EtcdAddress.parse(url), answer_seconds=0.5, trying_seconds=1.5)
    with EtcdLog(gateway) as log:
        log.append([b"before"])
        for name in list(etcd.members)[1:]:
            etcd.kill(name)
        began = time.monotonic()
        with pytest.raises(LogUnclear, match="whether 1 entries are in the log is not known"):
            log.append([b"perhaps"])
        assert time.monotonic() - began < 10
        with pytest.raises(LogAway, match="no member of etcd answers"):
            log.read()
        etcd.kill(next(iter(etcd.members)))
        with pytest.raises(LogAway, match="no member of etcd answers"):
            log.append([b"certainly not"])
        etcd.start(*etcd.members)
        assert log.append([b"after"]) in (2, 3)
        assert [body for _, body in log.read()] in ([b"before", b"after"], [b"before", b"perhaps", b"after"])


# answers that are lost


@pytest.fixture
def proxy(etcd):
    with CuttingProxy(etcd.endpoints[0], APPEND) as made:
        yield made


@pytest.fixture
def through(proxy, url):
    """The log through the proxy first, and directly when that fails."""
    with EtcdLog.open(url.replace("etcd://", f"etcd://{proxy.endpoint},")) as log:
        yield log


@pytest.mark.parametrize("cuts", [(Cut.BEFORE,), (Cut.AFTER,), (Cut.HELD,), (Cut.AFTER, Cut.BEFORE)])
@pytest.mark.parametrize("size", [10, 300_000])
def test_an_append_whose_answer_is_lost_is_there_once(proxy, through, cuts, size):
    bodies = [b"1", os.urandom(size), b"3"]
    assert through.append([b"0"]) == 1
    proxy.arm(*cuts)
    assert through.append(bodies) == 2
    assert proxy.cuts == 1, "the second attempt goes to another member"
    for answer in proxy.deliver():
        assert b'"succeeded":true' not in answer
    assert through.append([b"last"]) == 5
    assert [body for _, body in through.read()] == [b"0", *bodies, b"last"]


def test_a_held_append_that_comes_after_others_is_refused_by_the_head(proxy, through, url):
    through.append([b"0"])
    proxy.arm(Cut.HELD)
    with EtcdLog.open(url) as other:
        assert through.append([b"mine"]) == 2
        other.append([b"theirs"])
        assert b'"succeeded":true' not in proxy.deliver()[0]
        assert [body for _, body in other.read()] == [b"0", b"mine", b"theirs"]


def test_an_append_that_landed_is_found_behind_those_of_others(etcd, url):
    """The answer is lost, and another writer is faster than the second look."""
    with CuttingProxy(etcd.endpoints[0], b"") as proxy, EtcdLog.open(url) as other:
        log = EtcdLog.open(f"etcd://{proxy.endpoint}/{url.rpartition('/')[2]}")
        real = log._try

        def overtaken(batch, known):
            proxy.arm(Cut.AFTER)
            try:
                return real(batch, known)
            finally:
                other.append([b"theirs"])

        log._try = overtaken
        assert log.append([b"mine"]) == 1
        log.close()
        assert [body for _, body in other.read()] == [b"mine", b"theirs"]


def test_an_append_whose_request_was_lost_goes_behind_those_of_others(etcd, url):
    with CuttingProxy(etcd.endpoints[0], b"") as proxy, EtcdLog.open(url) as other:
        log = EtcdLog.open(f"etcd://{proxy.endpoint}/{url.rpartition('/')[2]}")
        real, tries = log._try, []

        def overtaken(batch, known):
            tries.append(batch.first)
            if len(tries) == 1:
                proxy.arm(Cut.BEFORE)
                other.append([b"theirs"])
            return real(batch, known)

        log._try = overtaken
        assert log.append([b"mine"]) == 2
        assert tries == [1, 2]
        log.close()
        assert [body for _, body in other.read()] == [b"theirs", b"mine"]


# damage


def tamper(log, operation):
    log.gateway.ask("kv/txn", {"success": [operation]})


def stored(log, key):
    return log.gateway.find(key).only.value


def flipped(value):
    return value[:-1] + bytes([value[-1] ^ 1])


def test_a_changed_batch_is_not_handed_out(url):
    with EtcdLog.open(url) as log:
        log.append([b"first"])
        log.append([b"the second body"])
        tamper(log, put(log.keys.batch(2), flipped(stored(log, log.keys.batch(2)))))
        reader = log.read()
        assert next(reader) == (1, b"first")
        with pytest.raises(LogDamaged, match=r"e/0000000000000002 is not what was written"):
            next(reader)


@pytest.mark.parametrize("position", [2, 3])
def test_a_missing_batch_is_noticed(url, position):
    with EtcdLog.open(url) as log:
        for body in (b"1", b"2", b"3"):
            log.append([body])
        tamper(log, delete(log.keys.batch(position)))
        with pytest.raises(LogDamaged, match=f"entry {position} is missing"):
            list(log.read())


def test_a_batch_of_another_log_does_not_follow(url):
    with EtcdLog.open(url) as log, EtcdLog.open(f"{url}-other") as other:
        for each, name in ((log, b"a"), (other, b"b")):
            each.append([name])
            each.append([name])
        tamper(log, put(log.keys.batch(2), stored(other, other.keys.batch(2))))
        with pytest.raises(LogDamaged, match="entry 2 does not follow the one before it"):
            list(log.read())


@pytest.mark.parametrize("key", [b"e/elsewhere", b"e/0000000000000009"])
def test_a_foreign_key_among_the_batches_is_noticed(url, key):
    with EtcdLog.open(url) as log:
        log.append([b"x"])
        tamper(log, put(log.keys.root + key, b"what is this"))
        with pytest.raises(LogDamaged, match="is not a batch of a log"):
            list(log.read())


def test_a_head_that_was_changed_or_taken_away_stops_everything(url):
    with EtcdLog.open(url) as log:
        log.append([b"x"])
        head = stored(log, log.keys.head)
        for operation in (put(log.keys.head, flipped(head)), put(log.keys.head, b""), delete(log.keys.head)):
            tamper(log, operation)
            for use in (lambda: log.append([b"y"]), log.read, lambda: log.head, lambda: EtcdLog.open(url)):
                with pytest.raises(LogDamaged):
                    use()
        tamper(log, put(log.keys.head, head))
        assert log.append([b"y"]) == 2


def test_keys_that_are_no_log_are_refused_and_left_alone(url):
    with EtcdLog.open(url) as log:
        mark = stored(log, log.keys.format)
        for value, reason in {
            b"a diary": "the keys of this name are not a log",
            b"[1]": "the keys of this name are not a log",
            mark.replace(b"1", b"2"): "the log has format 2, and this program reads format 1",
        }.items():
            tamper(log, put(log.keys.format, value))
            with pytest.raises(ForeignLog, match=reason):
                EtcdLog.open(url)
            assert stored(log, log.keys.format) == value
        tamper(log, delete(log.keys.format))
        with pytest.raises(ForeignLog, match="the keys of this name are not a log"):
            EtcdLog.open(url)


def test_a_damaged_snapshot_is_reported_and_the_one_before_used(url):
    with EtcdLog.open(url) as log:
        for number in range(9):
            log.append([b"%d" % number])
        log.save_snapshot(3, b"the state after three")
        log.save_snapshot(6, os.urandom(3_000_000))
        parts = log.gateway.find(*log.keys.all_of(b"b")).keys
        last = max(parts, key=lambda part: (len(part.value), part.key))
        tamper(log, put(last.key, flipped(last.value)))
        recovery = log.latest_snapshot()
        assert recovery == Recovery(LogSnapshot(3, b"the state after three"), (6,))
        log.save_snapshot(9, b"the state after nine")
        while log.compact():  # the damaged one does not count: what follows the third entry must stay
            pass
        assert [position for position, _ in log.read(3)] == [4, 5, 6, 7, 8, 9]
        tamper(log, put(log.keys.snapshot(9), b"nothing"))
        assert log.latest_snapshot() == Recovery(LogSnapshot(3, b"the state after three"), (9,))


def test_parts_that_nobody_needs_are_collected_and_others_kept(url):
    with EtcdLog.open(url) as log:
        body = os.urandom(300_000)
        log.append([body])
        log.append([body])
        log._parts.write(bytes(16), bytes(2_000_000))
        lost = b"%s/" % bytes(range(16)).hex().encode()
        tamper(log, put(log.keys.root + b"b/" + lost + b"00000000", b"left behind"))
        log.save_snapshot(1, b"one")
        log.save_snapshot(2, b"two")
        assert log.compact() == 1
        log.checkpoint()
        left = {each.key.split(b"/")[3] for each in log.gateway.find(*log.keys.all_of(b"b")).keys}
        assert bytes(16).hex().encode() in left, "somebody is writing it"
        assert lost[:-1] not in left
        assert len(left) == 4, "one batch, two snapshots, and what is being written"
        assert list(log.read(1)) == [(2, body)]
        assert log.latest_snapshot() == Recovery(LogSnapshot(2, b"two"), ())


# a full store, and who may use it


def fill_up(log):
    """Append until the store is full; how many appends of two entries were accepted."""
    for written in range(40):
        try:
            log.append([b"%d" % written, os.urandom(900_000)])
        except DiskFull:
            return written
    raise AssertionError("the store did not get full")


def test_a_full_store_refuses_whole_appends_and_recovers_with_the_next_snapshot(tmp_path):
    with EtcdCluster.up(tmp_path / "etcd", members=1, quota=24 * 2**20) as cluster, EtcdLog.open(cluster.url()) as log:
        for _ in range(5):
            log.append([b"small", os.urandom(900_000)])
        log.save_snapshot(6, b"one")
        log.save_snapshot(10, b"two")
        head = 10 + 2 * fill_up(log)
        assert head > 20
        with pytest.raises(DiskFull, match="the store of etcd is full; nothing was written"):
            log.append([b"small"])
        assert [position for position, _ in log.read()] == list(range(1, head + 1))
        log.save_snapshot(head, b"three")
        assert log.first == 7, "what lay before the older snapshot made room"
        while log.compact():
            pass
        log.checkpoint()
        assert log.append([b"after", os.urandom(900_000)]) == head + 1
        assert [position for position, _ in log.read(10)] == list(range(11, head + 3))
        assert log.latest_snapshot() == Recovery(LogSnapshot(head, b"three"), ())


def test_certificates_and_passwords_are_used_and_not_shown(tmp_path):
    made = certified(tmp_path / "certificates", "etcd")
    tls = EtcdTls(made.certificate, made.key)
    trusted = {"PLEROMA_ETCD_AUTHORITY": str(made.certificate)}
    signed = trusted | {"PLEROMA_ETCD_USER": "root", "PLEROMA_ETCD_PASSWORD": "sesame"}
    with EtcdCluster.up(tmp_path / "etcd", members=1, tls=tls) as cluster:
        with EtcdLog.open(EtcdAddress.parse(cluster.url(), trusted)) as log:
            log.append([b"open to all"])
            log.gateway.ask("auth/user/add", {"name": "root", "password": "sesame"})
            log.gateway.ask("auth/role/add", {"name": "root"})
            log.gateway.ask("auth/user/grant", {"user": "root", "role": "root"})
            log.gateway.ask("auth/enable", {})
            with pytest.raises(LogError, match="etcd says: "):
                log.append([b"no"])
        with pytest.raises(LogAway, match="certificate verify failed"):
            EtcdLog(EtcdGateway(EtcdAddress.parse(cluster.url(), {}), trying_seconds=0.5))
        address = EtcdAddress.parse(cluster.url(), signed)
        with EtcdLog.open(address) as log:
            assert log.append([b"yes"]) == 2
            log.gateway._token = "forgotten"  # noqa: S105 (as after a restart of etcd)
            assert log.append([b"again"]) == 3
            assert log.wait_beyond(2, 10)
            for shown in (repr(address), str(address), repr(log.gateway), repr(address.secrets)):
                assert "sesame" not in shown
        wrong = EtcdAddress.parse(cluster.url().replace("://", "://root:mellon@"), trusted)
        with pytest.raises(LogError, match="authentication failed") as caught:
            EtcdLog.open(wrong)
        assert "mellon" not in f"{caught.value} {caught.value.value} {wrong!r} {wrong}"


def test_the_first_who_asks_makes_the_shared_secret(url):
    with EtcdLog.open(url) as one, EtcdLog.open(url) as other:
        assert one.shared_secret("beacon", lambda: b"one") == b"one"
        assert other.shared_secret("beacon", lambda: b"other") == b"one"
        assert other.shared_secret("cookies", lambda: b"other") == b"other"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("etcd://127.0.0.1:2379", "is written like etcd://"),
        ("etcd://u:sesame@h/a/b", "is written like etcd://"),
        ("http://127.0.0.1:2379/x", "is written like etcd://"),
        ("etcd://127.0.0.1:2379/", "a log is called by"),
        ("etcd://127.0.0.1:99999/x", "a member of etcd is written like"),
        ("etcd://a b/x", "a member of etcd is written like"),
    ],
)
def test_an_address_that_is_none_gets_one_clear_error(url, reason):
    with pytest.raises(LogError, match=reason) as caught:
        EtcdAddress.parse(url, {})
    assert "sesame" not in f"{caught.value} {caught.value.value}"
