"""From one process to many: the log of a folder becomes a shared log in a real etcd, and goes on as the same log."""

import asyncio
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

import pleroma
from pleroma.control import SqliteLog
from pleroma.control.log.etcd import EtcdAddress, EtcdLog
from pleroma.control.log.etcd.etcd_gateway import EtcdGateway
from pleroma.control.log.etcd.log_keys import LogKeys
from pleroma.control.log.etcd.log_passage import LogArrival
from pleroma.control.log.moved_mark import MovedMark, mark_path
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.errors import LogElsewhere, LogError
from pleroma.index import GridIndex
from support.programs import environment
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until

MOVE = [sys.executable, "-m", "pleroma.cli", "log", "move"]
PATIENCE = 60.0


def quote(price):
    return STOCK.event(price=price, volume=0, ticker="AAPL")


def move(*places):
    return subprocess.run(
        [*MOVE, *map(str, places)], capture_output=True, text=True, timeout=PATIENCE, env=environment()
    )


def moved(*places):
    done = move(*places)
    assert done.returncode == 0, done
    return done


def refused(*places):
    """The one line that a move is refused with."""
    done = move(*places)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
    return done.stderr


@pytest.fixture
def processes(tmp_path):
    """Makes processes; all that are left are killed at the end."""
    made = []

    def make(name, **given):
        made.append(ServiceProcess(tmp_path / name, "line:3", **given))
        return made[-1]

    yield make
    for each in made:
        if each.is_running:
            each.send_signal(signal.SIGCONT)
            each.kill()


def rules(process, token):
    """What the switches have, without the counters."""
    found = {}
    for switch in ("R1", "R2", "R3"):
        items = process.ask("GET", f"/v1/switches/{switch}/flows?limit=1000", token=token)["items"]
        found[switch] = sorted(str({k: v for k, v in each.items() if k not in ("packets", "bytes")}) for each in items)
    return found


def subscribe(process, token, text, **more):
    body = {"schema": "stock", "filter": text, "host": "h3", **more}
    return process.ask("POST", "/v1/subscriptions", body, token=token)


async def flows(publisher, subscription, price, seconds=PATIENCE):
    """Publish until one arrives."""
    async with asyncio.timeout(seconds):
        while True:
            publisher.publish(quote(price))
            try:
                async with asyncio.timeout(0.1):
                    while (await subscription.receive()).event["price"] != price:
                        pass
                return
            except TimeoutError:
                continue


def answering(process, token):
    """The answers to what was asked before the move."""
    return {
        "principals": process.ask("GET", "/v1/principals", token=token),
        "subscriptions": process.ask("GET", "/v1/subscriptions?limit=1000", token=token)["items"],
        "advertisements": process.ask("GET", "/v1/advertisements?limit=1000", token=token)["items"],
        "rules": rules(process, token),
    }


def test_a_controller_becomes_several_processes_and_clients_go_on(processes, url):
    alone = processes("first").start()
    token = alone.token
    alone.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
    reader = alone.principal("reader", role="subscriber", read={"stock": "price < 700"})
    kept = [subscribe(alone, reader, f"price < {n}", key=f"k{n}") for n in range(1, 20)]
    alone.ask("POST", "/v1/advertisements", {"schema": "stock", "filter": "price < 900", "host": "h2"})

    async def work():
        async with (
            pleroma.connect(alone.url, token, "h1") as near,
            pleroma.connect(alone.url, token, "h3") as far,
        ):
            publisher = await near.advertise("stock", "price < 900")
            subscription = await far.subscribe("stock", "price < 500")
            await flows(publisher, subscription, 1.0)
            before = await asyncio.to_thread(answering, alone, token)
            ids = (publisher.id, subscription.id)
            assert "has this log open" in await asyncio.to_thread(refused, alone.folder, url)
            await asyncio.to_thread(alone.stop)
            await asyncio.to_thread(moved, alone.folder, url)

            shared = processes("first", log=url)
            shared.port = alone.port
            await asyncio.to_thread(shared.start)
            gate = await asyncio.to_thread(processes("gate", log=url, roles="gate").start)
            await near.connected()
            await far.connected()
            await flows(publisher, subscription, 2.0)
            assert (publisher.id, subscription.id) == ids
            for each in (shared, gate):
                assert await asyncio.to_thread(answering, each, token) == before
            # the same requests are answered alike, by any process
            again = await asyncio.to_thread(subscribe, gate, reader, "price < 7", key="k7")
            assert again == kept[6]
            later = await asyncio.to_thread(subscribe, gate, reader, "price < 30")
            assert int(later["id"][1:]) > max(int(each["id"][1:]) for each in kept)
            # a second client, with a key of events from before
            async with pleroma.connect(gate.url, reader, "h2") as another:
                wanted = await another.subscribe("stock", "price < 600")
                await flows(publisher, wanted, 3.0)

    asyncio.run(asyncio.wait_for(work(), 3 * PATIENCE))


def test_a_plan_change_that_was_under_way_is_carried_through(processes, url):
    alone = processes("first").start()
    token = alone.token
    alone.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
    kept = [subscribe(alone, token, f"price < {n}", key=f"k{n}") for n in range(1, 9)]

    async def work():
        async with (
            pleroma.connect(alone.url, token, "h1") as near,
            pleroma.connect(alone.url, token, "h3") as far,
        ):
            publisher = await near.advertise("stock", "price < 900")
            subscription = await far.subscribe("stock", "price < 500")
            await flows(publisher, subscription, 1.0)
            index = GridIndex.regular(STOCK, 12, ["price"]).to_json()
            body = {"index": index, "wait": False}
            begun = await asyncio.to_thread(alone.ask, "PUT", "/v1/schemas/stock/plan", body)
            await asyncio.to_thread(alone.kill)
            assert begun["phase"] != "settled"
            await asyncio.to_thread(moved, alone.folder, url)
            shared = processes("first", log=url)
            shared.port = alone.port
            await asyncio.to_thread(shared.start)
            gate = await asyncio.to_thread(processes("gate", log=url, roles="gate").start)

            def phase():
                return gate.ask("GET", "/v1/schemas/stock/plan", token=token)["phase"]

            async with asyncio.timeout(PATIENCE):
                while await asyncio.to_thread(phase) != "settled":
                    await asyncio.sleep(0.1)
            await until(lambda: publisher.channel.epoch == 2, PATIENCE)
            await flows(publisher, subscription, 2.0)
            ids = {each["id"] for each in answering(gate, token)["subscriptions"]}
            assert ids == {each["id"] for each in kept} | {subscription.id}

    asyncio.run(asyncio.wait_for(work(), 3 * PATIENCE))


@pytest.fixture
def folder(processes):
    """Of a controller that has accepted something and was killed."""
    alone = processes("first").start()
    alone.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
    for n in range(1, 6):
        subscribe(alone, alone.token, f"price < {n}")
    alone.kill()
    return alone.folder


def entries(log):
    with log:
        return log.head, log.latest_snapshot().snapshot, list(log.read(log.latest_snapshot().position))


def started(folder):
    """What `pleroma up` says that does not start."""
    command = [
        sys.executable,
        "-m",
        "pleroma.cli",
        "up",
        "--topology",
        "line:3",
        "--port",
        "0",
        "--folder",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment())
    assert done.returncode == 2, done
    return done.stderr.strip().splitlines()[-1]


def test_all_that_the_log_had_is_in_the_shared_one_at_its_place(folder, url):
    before = entries(SqliteLog.open(folder / LOG_FILE_NAME))
    moved(folder, url)
    assert entries(EtcdLog.open(url)) == before
    assert url in started(folder)
    moved(folder, url)  # it is said again, and nothing is done
    assert entries(EtcdLog.open(url)) == before
    assert "was moved to" in refused(folder, url + "x")
    with EtcdLog.open(url) as log:
        assert log.append([b"more"]) == before[0] + 1


def test_a_move_to_a_log_that_is_not_empty_changes_nothing(folder, url):
    with EtcdLog.open(url) as log:
        log.append([b"theirs"])
    assert "already" in refused(folder, url)
    with EtcdLog.open(url) as log:
        assert list(log.read()) == [(1, b"theirs")]
    assert not mark_path(folder / LOG_FILE_NAME).exists()
    with EtcdLog.open(url + "new"):  # somebody has begun it, though nothing is in it yet
        assert "already" in refused(folder, url + "new")
    assert "no log here" in refused(folder.parent / "nowhere", url)
    assert "one of the two is a folder" in refused(folder, folder)


def test_a_move_that_was_killed_leaves_nothing_that_can_be_used_and_is_repeated(folder, url):
    address = EtcdAddress.parse(url)
    before = entries(SqliteLog.open(folder / LOG_FILE_NAME))
    gateway = EtcdGateway(address)
    half = LogArrival(gateway, "m1")
    half.put_secret("events.key", b"x" * 32)
    half.put_entries([(9, b"left behind")])
    with pytest.raises(LogElsewhere, match="repeat"):
        EtcdLog.open(url)
    MovedMark(str(address), "m1").write(folder / LOG_FILE_NAME)  # killed before it could end
    assert url in started(folder)
    moved(folder, url)
    with pytest.raises(LogError, match="another move"):  # it was only paused, and goes on
        half.put_entries([(10, b"too late")])
    with pytest.raises(LogError, match="another move"):
        half.finish()
    gateway.close()
    assert entries(EtcdLog.open(url)) == before
    key = bytes.fromhex((folder / "events.key").read_text())
    with EtcdLog.open(url) as log:
        assert log.known_secret("events.key") == key


def test_a_move_that_did_not_end_is_given_up_by_moving_back(folder, url):
    address, path = EtcdAddress.parse(url), folder / LOG_FILE_NAME
    before = entries(SqliteLog.open(path))
    with closing(EtcdGateway(address)) as gateway:
        half = LogArrival(gateway, "m1")
        half.put_entries([(9, b"left behind")])
        MovedMark(str(address), "m1").write(path)
        moved(url, folder)
        assert not mark_path(path).exists()
        with pytest.raises(LogError, match="another move"):  # it was only paused, and goes on
            half.finish()
        assert gateway.find(*LogKeys.of(address.name).everything).keys == ()
    assert entries(SqliteLog.open(path)) == before
    MovedMark(str(address), "m1").write(path)
    with EtcdLog.open(url) as log:  # another log got the name first
        log.append([b"theirs"])
        assert "already" in refused(folder, url)
    assert not mark_path(path).exists()


def has_head(url):
    """Whether what there is under the name of a log can be used."""
    with closing(EtcdGateway(EtcdAddress.parse(url))) as gateway:
        return gateway.find(LogKeys.of(gateway.address.name).head).only is not None


def test_killed_at_any_moment_a_move_can_be_repeated(folder, url):
    before = entries(SqliteLog.open(folder / LOG_FILE_NAME))
    began = time.monotonic()
    moved(folder, url + "timed")
    takes = time.monotonic() - began
    mark_path(folder / LOG_FILE_NAME).unlink()
    for share in (0.5, 0.7, 0.8, 0.9, 0.95, 1.0):
        process = subprocess.Popen(
            [*MOVE, str(folder), url], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment()
        )
        time.sleep(share * takes)
        process.kill()
        process.wait()
        is_marked = mark_path(folder / LOG_FILE_NAME).exists()
        assert is_marked or not has_head(url), "two logs could be used"
    moved(folder, url)
    assert entries(EtcdLog.open(url)) == before


def test_many_large_entries_and_a_snapshot_come_along(tmp_path, url):
    path = tmp_path / "first" / LOG_FILE_NAME
    bodies = [bytes([n % 256]) * (n * 40) for n in range(1, 1200)]
    noise = [bytes((n * k * k) % 251 for k in range(200_000)) for n in (3, 7)]
    with SqliteLog.open(path) as log:
        log.append(bodies)
        log.save_snapshot(700, b"state" * 400_000)
        log.append(noise)
        log.append([b"last"])
    moved(path.parent, url)
    head, snapshot, found = entries(EtcdLog.open(url))
    assert (head, snapshot.position, snapshot.state) == (1202, 700, b"state" * 400_000)
    assert found == list(enumerate([*bodies[700:], *noise, b"last"], 701))


def test_a_shared_log_comes_back_to_one_process(processes, url, tmp_path, folder):
    moved(folder, url)
    shared = processes("first", log=url).start()
    token = shared.token
    made = subscribe(shared, token, "price < 100", key="k")
    before = answering(shared, token)
    assert "stop it first" in refused(url, tmp_path / "back")
    assert "without one" in refused(url, folder)
    shared.stop()
    with EtcdLog.open(url) as gate:
        moved(url, tmp_path / "back")
        with pytest.raises(LogElsewhere):
            gate.append([b"too late"])
    with pytest.raises(LogElsewhere, match="back"):
        EtcdLog.open(url)
    alone = processes("back").start()
    assert alone.ask("GET", "/v1/subscriptions/" + made["id"], token=token)["id"] == made["id"]
    assert subscribe(alone, token, "price < 100", key="k") == made
    assert answering(alone, token) == before
    assert (alone.folder / "events.key").read_text() == (folder / "events.key").read_text()
