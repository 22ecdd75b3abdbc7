"""Health: ok, degraded or failing, with a reason for each fault; and who is told when the network changes."""

import asyncio
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from pleroma.control.log.sqlite_log import SqliteLog
from pleroma.errors import DiskFull
from pleroma.routing import Presence, SwitchId, build
from pleroma.routing.topology import Port
from pleroma.service.http.health.network_condition import MAX_LISTED_CHANGES, NetworkCondition, named, network_item
from pleroma.service.http.health.network_watch import TELLING_REST_SECONDS, NetworkWatch
from support.service.in_process import world
from support.service.scripted_network import scripted_network
from support.waiting import run, until

LINK = "R1 2 - R2 2"


async def happens(api, status, **reasons):
    """Wait until health says exactly this."""
    async with asyncio.timeout(20):
        while (said := await api.health()) != (status, reasons):
            await asyncio.sleep(0.03)
    return said


@contextmanager
def full_disk():
    def refused(*_):
        raise DiskFull("the disk is full; nothing was written", field="/secret/place/control.sqlite")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqliteLog, "append", refused)
        patched.setattr(SqliteLog, "save_snapshot", refused)
        yield


def test_all_is_well_and_probes_need_no_token(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            anybody = api.as_(None)
            health = await anybody.get("/health")
            assert health == {"status": "ok", "version": "0.1.0", "position": 3, "reasons": []}
            await anybody("GET", "/health/live", 204)
            await anybody("GET", "/health/ready", 204)

    run(main)


def test_a_service_about_to_stop_lives_and_is_not_ready(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            api.app.state.service.closing.set()
            await happens(api, "failing", service="the service is about to stop")
            await api("GET", "/health/live", 204)
            problem = await api.error("GET", "/health/ready", 503, "not_ready")
            assert problem["reason"] == "the service is about to stop"

    run(main)


def test_a_log_that_cannot_be_written_fails_the_service_until_it_can_though_nobody_asks_for_anything(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("pleroma.control.logged_state.LOG_RETRY_SECONDS", 0.1)

    async def main():
        async with world(tmp_path) as api:
            reason = "the disk is full; nothing was written"
            with full_disk(), capture_logs() as lines:
                await api.error("POST", "/v1/principals", 507, "disk_full", json={"name": "ann", "role": "both"})
                await happens(api, "failing", log=reason, snapshots=reason)  # a snapshot was tried
                assert (await api.error("GET", "/health/ready", 503, "not_ready"))["reason"] == reason
                await api("GET", "/health/live", 204)
                await asyncio.sleep(0.3)  # and tried again
                assert [each["event"] for each in lines].count("no snapshot could be saved") == 1
            await happens(api, "ok")
            await api("GET", "/health/ready", 204)

    run(main)


def test_a_failed_snapshot_alone_degrades_the_service_and_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr("pleroma.control.logged_state.LOG_RETRY_SECONDS", 0.1)

    async def main():
        async with world(tmp_path) as api:
            logged = api.app.state.service.controller._logged
            with full_disk():
                await logged._save()
                await happens(api, "degraded", snapshots="the disk is full; nothing was written")
                await api("GET", "/health/ready", 204)
            await happens(api, "ok")
            assert logged.snapshot_failure is None

    run(main)


def test_a_table_that_had_to_be_coarser_is_told(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:2", limit=4) as api:
            service = api.app.state.service
            told = service.controller.feed.subscribe(types=frozenset({"network"}))
            async with service.network_watch:
                await api.advertise()
                made = [await api.subscribe(f"price between {i * 90} and {i * 90 + 7}") for i in range(3)]
                full = "full: R1, R2; with coarser rules, hosts get events that nobody there wants"
                await happens(api, "degraded", tables=full)
                assert 'pleroma_switch_table_full{switch="R2"} 1.0' in (await api("GET", "/metrics")).text
                for each in made:
                    await api("DELETE", f"/v1/subscriptions/{each['id']}", 204)
                await happens(api, "ok")
                states = {}
                while states != {"R1": ["full", "fitting"], "R2": ["full", "fitting"]}:
                    for change in (await asyncio.wait_for(anext(told), 10))["changes"]:
                        assert change["what"] == "table"
                        states.setdefault(change["name"], []).append(change["state"])

    run(main)


def test_switches_links_and_hosts_that_come_and_go_are_in_health_in_the_stream_and_in_one_line_of_the_log(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("pleroma.service.http.health.network_watch.TELLING_REST_SECONDS", 0.05)
    monkeypatch.setattr("pleroma.service.http.health.network_watch.NETWORK_LOOK_SECONDS", 0.02)

    async def main():
        with capture_logs() as lines:
            async with scripted_network(tmp_path) as network:
                api, feed = network.api, network.service.controller.feed
                told = feed.subscribe(types=frozenset({"network"}))

                async def next_changes():
                    item = await asyncio.wait_for(anext(told), 10)
                    assert item["count"] == len(item["changes"])
                    return {(each["what"], each["name"], each["state"]) for each in item["changes"]}

                async def until_returned(*names):
                    seen = set()
                    while not {("switch", name, "returned") for name in names} <= seen:
                        seen |= await next_changes()

                everything = {
                    "switches": "no switch is connected",
                    "links": f"cut: {LINK}",
                    "hosts": "not reached: h1, h2",
                }
                await happens(api, "failing", **everything)
                await api.error("GET", "/health/ready", 503, "not_ready")
                await network.connect("R1", "R2")
                await happens(api, "ok")
                await until_returned("R1", "R2")  # one after the other, or both at once

                network.set_port("R1", 2, up=False)
                assert await next_changes() == {("link", LINK, "cut"), ("host", "h2", "unreachable")}
                await happens(api, "degraded", links=f"cut: {LINK}", hosts="not reached: h2")
                assert (await api.get("/v1/network"))["cut"] == [LINK]
                network.set_port("R1", 2, up=True)
                assert await next_changes() == {("link", LINK, "mended"), ("host", "h2", "reachable")}

                await network.disconnect("R2")
                gone = {("switch", "R2", "gone"), ("link", LINK, "cut"), ("host", "h2", "unreachable")}
                assert await next_changes() == gone
                await happens(api, "degraded", switches="gone: R2", links=f"cut: {LINK}", hosts="not reached: h2")
                await api("GET", "/health/ready", 204)
                await network.connect("R2")
                back = {("switch", "R2", "returned"), ("link", LINK, "mended"), ("host", "h2", "reachable")}
                assert await next_changes() == back
                await happens(api, "ok")
                lost = [each["switch"] for each in lines if each["event"] == "switch lost"]
            assert lost == ["R2"]
            changed = [each for each in lines if each["event"] == "the network has changed"]
            assert [each["gone"] for each in changed if each.get("gone") == "R2"] == ["R2"]
            assert sum(each.get("cut") == LINK and "gone" not in each for each in changed) == 1
            assert changed[-1] == {
                "event": "the network has changed", "log_level": "info",
                "returned": "R2", "mended": LINK, "reachable": "h2",
            }  # fmt: skip

    run(main)


def test_a_port_that_comes_and_goes_without_end_fills_no_log(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:2") as api:
            now, down, plane = [0.0], set(), api.app.state.service.plane
            plane.presence = lambda: Presence(down=frozenset(down))
            watch = NetworkWatch(api.app.state.service.controller, plane, lambda: now[0])
            with capture_logs() as lines:
                for number in range(1, 201):  # in ten seconds
                    now[0] = number / 20
                    down ^= {(SwitchId("R1"), Port(2))}
                    assert bool(watch.look().cut) == bool(down)
                assert 2 <= len(lines) <= 11
                down.clear()
                now[0] += TELLING_REST_SECONDS
                watch.look()
                assert lines[-1]["mended"] == LINK

    run(main)


def test_a_network_that_ends_has_lost_no_switch(tmp_path):
    async def main():
        async with scripted_network(tmp_path) as network:
            await network.connect("R1", "R2")
            await happens(network.api, "ok")
            switches, network.switches = network.switches, {}  # they outlive the controller
            return switches

    async def ends():
        with capture_logs() as lines:
            switches = await main()
            await until(lambda: all(each.closed.is_set() for each in switches.values()))
            for each in switches.values():
                await each.disconnect()
            assert [each for each in lines if each["log_level"] == "warning" and "gone" not in each] == []

    run(ends)


def test_changes_are_those_that_differ_and_many_are_counted():
    line = build("line:3")
    fine = NetworkCondition.of(line, Presence())
    assert fine == NetworkCondition()
    cut = NetworkCondition.of(line, Presence(down={("R3", Port(2))}), ["R1"])
    assert cut == NetworkCondition((), ("R2 3 - R3 2",), ("h3",), ("R1",))
    assert cut.changes_since(cut) == []
    assert [each.is_worse for each in cut.changes_since(fine)] == [True, True, True]
    assert [(each.name, each.state) for each in fine.changes_since(cut)] == [
        ("R2 3 - R3 2", "mended"), ("h3", "reachable"), ("R1", "fitting"),
    ]  # fmt: skip
    many = NetworkCondition(unreachable=tuple(f"h{number}" for number in range(500))).changes_since(fine)
    item = network_item(many)
    assert (item["count"], len(item["changes"])) == (500, MAX_LISTED_CHANGES)
    assert named([each.name for each in many]) == "h0, h1, h2, h3, h4 and 495 more"
