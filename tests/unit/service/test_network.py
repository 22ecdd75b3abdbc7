"""Hosts, attachments, topology, switches, flows and traces over HTTP."""

import asyncio
import json
import socket

from pleroma.content import Filter, Schema
from pleroma.routing import build
from pleroma.routing.topology_files import from_json
from pleroma.service import ServiceSettings
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.http.tracing.edge_explanation import failing
from pleroma.wire.attach import AttachKind, pack, unpack
from support.service.in_process import world
from support.waiting import run

QUOTE = {"price": 60.0, "volume": 5, "ticker": "AAPL"}


def test_hosts_are_listed(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            hosts = await api.get("/v1/hosts")
            assert hosts[0] == {"name": "h1", "switch": "R7", "address": "fd00::1"}
            assert len(hosts) == 8

    run(main)


def test_an_attachment_lets_a_socket_in(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            given = await api.post("/v1/hosts/h3/attachments", None)
            assert (given["host"], given["address"], given["udp_host"]) == ("h3", "fd00::3", "127.0.0.1")
            assert await attached(given) is AttachKind.ATTACHED
            assert await attached(given | {"secret": "00" * 16}) is AttachKind.REFUSED
            await api.error("POST", "/v1/hosts/h99/attachments", 404, "not_found")

    async def attached(given):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
            mine.setblocking(False)
            loop = asyncio.get_running_loop()
            frame = pack(AttachKind.ATTACH, bytes.fromhex(given["secret"]))
            await loop.sock_sendto(mine, frame, (given["udp_host"], given["port"]))
            return unpack(await loop.sock_recv(mine, 100))[0]

    run(main)


def test_any_host_is_the_one_with_the_fewest_attachments(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:3") as api:
            await api.post("/v1/hosts/h1/attachments", None)
            chosen = [(await api.post("/v1/hosts/any/attachments", None))["host"] for _ in range(5)]
            assert sorted(chosen) == ["h1", "h2", "h2", "h3", "h3"]

    run(main)


def test_there_are_not_too_many_attachments(tmp_path):
    async def main():
        settings = ServiceSettings(max_attachments=6, attachment_seconds=0.5)
        async with world(tmp_path, settings=settings) as api:
            for _ in range(3):
                await api.post("/v1/hosts/any/attachments", None)
            await api.error("POST", "/v1/hosts/any/attachments", 429, "too_fast")
            await asyncio.sleep(0.6)  # nobody came, so they are free again
            await api.post("/v1/hosts/any/attachments", None)

    run(main)


def test_the_topology_can_be_built_again_from_the_answer(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            assert from_json(await api.get("/v1/topology")) == build("testbed")

    run(main)


def test_switches_tell_how_many_rules_they_have(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise("true", "h1")
            await api.subscribe("price < 500", "h2")
            listed = await api.get("/v1/switches")
            rules = {each["name"]: each["rules"] for each in listed["items"]}
            assert len(rules) == 10
            flows = await api.get("/v1/switches/R7/flows?limit=1000")
            assert rules["R7"] == len(flows["items"]) > 0
            assert rules["R10"] == 0
            page = await api.get("/v1/switches?limit=3&after=R3")
            assert ([each["name"] for each in page["items"]], page["next"]) == (["R4", "R5", "R6"], "R6")

    run(main)


def test_the_rules_of_a_switch_come_in_pages_in_the_order_of_the_event_space(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise("true", "h1")
            for i in range(5):
                await api.subscribe(f"price between {i * 100} and {i * 100 + 7} and volume < {i + 9}", f"h{2 + i % 3}")
            everything = await api.get("/v1/switches/R7/flows?limit=1000")
            table = api.app.state.service.state.router.tables["R7"]
            found = [(each["dz"], tuple(out["port"] for out in each["outputs"])) for each in everything["items"]]
            assert sorted(found) == sorted((str(flow.dz), flow.ports) for flow in table)
            assert len(found) > 20
            paged, after = [], ""
            while after is not None:
                page = await api.get(f"/v1/switches/R7/flows?limit=7{after and f'&after={after}'}")
                paged += page["items"]
                after = page["next"]
            assert paged == everything["items"]
            assert paged[0]["prefix"].startswith("ff0e:")
            await api.error("GET", "/v1/switches/R99/flows", 404, "not_found")
            error = await api.error("GET", "/v1/switches/R7/flows?after=12", 400, "bad_request")
            assert (error["field"], error["value"]) == ("after", "12")

    run(main)


def test_a_trace_tells_the_way_and_what_fails_at_the_edge(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise("true", "h1")
            near = await api.subscribe("price > 50 and volume < 10", "h2")
            far = await api.subscribe("price > 50", "h8")
            wrong = await api.subscribe(
                "price between 60 and 60.0000000001 and volume == 6 or price == 60 and volume == 7", "h8"
            )
            other = await api.subscribe("price > 900", "h4")
            query = {"schema": "stock", "event": json.dumps(QUOTE)}
            trace = await api.get("/v1/trace", params=query)
            assert trace["host"] == "h1"
            assert trace["event"] == QUOTE
            assert trace["reached"] == ["h2", "h8"]
            assert trace["ways"][0]["steps"][0]["switch"] == "R7"
            edge = {each["id"]: each for each in trace["subscriptions"]}
            assert edge[near["id"]]["matches"]
            assert edge[far["id"]]["reached"]
            assert (edge[wrong["id"]]["matches"], edge[wrong["id"]]["failed"]) == (False, ["volume"])
            assert other["id"] not in edge
            asked = await api.get("/v1/trace", params=query | {"to": "h4"})
            explained = {each["id"]: each for each in asked["subscriptions"]}[other["id"]]
            assert (explained["reached"], explained["matches"], explained["failed"]) == (False, False, ["price"])
            elsewhere = await api.get("/v1/trace", params=query | {"host": "h8"})
            assert elsewhere["ways"][0]["receivers"] == []  # nothing is advertised there

    run(main)


def test_what_keeps_an_event_from_a_filter_are_the_attributes_of_the_nearest_box():
    stock = Schema.from_json(EXAMPLE_SCHEMA)
    event = stock.event(QUOTE)
    for text, failed in (
        ("price <= 60", []),
        ("price < 60", ["price"]),
        ("price > 60 and volume >= 5", ["price"]),
        ("price > 60 and volume > 5 or ticker == 'IBM'", ["ticker"]),
        ("exists market", ["market"]),
    ):
        assert failing(Filter.parse(stock, text), event) == failed


def test_a_trace_that_cannot_be_is_refused(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            for change, field in (
                ({"schema": "stok"}, "schema"),
                ({"event": "{"}, "event"),
                ({"event": "[1]"}, "event"),
                ({"event": '{"price": 1}'}, "event.volume"),
                ({"event": json.dumps(QUOTE | {"price": -1})}, "event.price"),
                ({"host": "h99"}, "host"),
                ({"host": "h1", "to": "h99"}, "to"),
                ({"live": "perhaps"}, "live"),
                ({"speed": "1"}, "speed"),
            ):
                query = {"schema": "stock", "event": json.dumps(QUOTE)} | change
                error = (await api("GET", "/v1/trace", 400, params=query)).json()["error"]
                assert error["field"] == field, error

    run(main)


def test_a_switch_that_does_not_answer_is_shown_with_what_it_has_not_confirmed(tmp_path, monkeypatch):
    monkeypatch.setattr("pleroma.service.http.resources.registrations.CONFIRM_PATIENCE_SECONDS", 0.05)

    async def main():
        async with world(tmp_path) as api:
            network, answering = api.app.state.service.plane.network, asyncio.Event()
            install = network.install

            async def held(ops):
                if {op.switch for op in ops} == {"R7"}:
                    await answering.wait()
                await install(ops)

            async def switch():
                (found,) = [each for each in (await api.get("/v1/switches"))["items"] if each["name"] == "R7"]
                return found

            monkeypatch.setattr(network, "install", held)
            assert (await switch())["unconfirmed"] == 0
            wanted = {"schema": "stock", "filter": "true", "host": "h1", "key": "k"}
            problem = await api.error("POST", "/v1/advertisements", 503, "not_installed", json=wanted)
            assert problem["value"] == "R7"
            found, position = await switch(), (await api.get("/health"))["position"]
            assert (found["unconfirmed"], found["confirmed"], found["failure"]) == (1, position - 1, None)
            assert found["waiting"] >= 0.05
            gauge = next(
                line for line in (await api("GET", "/metrics")).text.splitlines()
                if line.startswith('pleroma_switch_unconfirmed_seconds{switch="R7"}')
            )  # fmt: skip
            assert float(gauge.split()[-1]) >= 0.05
            assert (await api.get("/health"))["status"] == "ok"
            with monkeypatch.context() as soon:
                soon.setattr("pleroma.service.http.health.service_health.UNCONFIRMED_TOO_LONG_SECONDS", 0.01)
                status, reasons = await api.health()
                assert status == "degraded"
                assert reasons["rules"].startswith("R7 has not confirmed 1 changes, the oldest for 0 s")
            answering.set()
            await api.post("/v1/advertisements", wanted)
            assert ((await switch())["unconfirmed"], (await switch())["confirmed"]) == (0, position)

    run(main)
