"""What Prometheus reads."""

from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families

from pleroma.routing import build
from pleroma.service.planes.openflow_plane import OpenFlowPlane
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.openflow_network import OpenFlowNetwork
from support.service.in_process import world
from support.waiting import run


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_can_be_parsed_and_follow_what_happens(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise()
            made = await api.subscribe("price > 7")
            other = await api.subscribe("price > 8")
            await api("DELETE", f"/v1/subscriptions/{made['id']}", 204)
            missed = {"subscriptions": {other["id"]: {"missed": 4}}}
            await api.post("/v1/reports", missed | {"published": 7, "unsent": 3, "overrun": 2}, 204)
            await api.post("/v1/hosts/h2/attachments", None)
            await api.as_("wrong")("GET", "/v1/hosts", 401)
            await api("GET", "/v1/some-secret-path", 404)
            answer = await api.as_(None)("GET", "/metrics", 200)
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            found = samples(answer.text)
            assert found["pleroma_registrations", ("kind", "subscription")] == 1
            assert found["pleroma_registrations", ("kind", "advertisement")] == 1
            assert found["pleroma_log_position",] == (await api.get("/health"))["position"]
            assert found["pleroma_installed_position",] == found["pleroma_log_position",]
            flows = await api.get("/v1/switches/R7/flows?limit=1000")
            assert found["pleroma_flow_rules", ("switch", "R7")] == len(flows["items"]) > 0
            assert found["pleroma_attachments", ("host", "h2")] == 1
            counted = {
                name: found[f"pleroma_events_{name}_total",] for name in ("published", "unsent", "overrun", "missed")
            }
            assert counted == {"published": 7, "unsent": 3, "overrun": 2, "missed": 4}
            assert found["pleroma_plan_epoch", ("schema", "stock")] == 1
            made = ("method", "POST"), ("route", "/v1/subscriptions"), ("status", "201")
            assert found["pleroma_requests_total", *made] == 2
            gone = ("method", "DELETE"), ("route", "/v1/subscriptions/{id}"), ("status", "204")
            assert found["pleroma_requests_total", *gone] == 1
            assert found["pleroma_request_seconds_count", ("route", "/v1/subscriptions")] == 2
            refused = ("method", "GET"), ("route", "none"), ("status", "401")
            assert found["pleroma_requests_total", *refused] == 1
            assert "secret" not in answer.text
            assert "admin" not in answer.text

    run(main)


def test_two_services_do_not_add_up(tmp_path):
    async def main():
        async with world(tmp_path / "a") as one, world(tmp_path / "b") as two:
            await one.get("/v1/hosts")
            route = ("method", "GET"), ("route", "/v1/hosts"), ("status", "200")
            assert ("pleroma_requests_total", *route) in samples((await one("GET", "/metrics")).text)
            assert ("pleroma_requests_total", *route) not in samples((await two("GET", "/metrics")).text)

    run(main)


def test_of_openflow_switches_both_why_and_how_often_they_refused_is_told():
    async def main():
        line = build("line:1")
        async with OpenFlowNetwork(DiscoveredTopology(line), listen=("127.0.0.1", 0)) as network:
            plane = OpenFlowPlane(network, SimpleNamespace(topology=line))
            for refusals in (0, 2):
                network.agents["R1"].counts.refusals = refusals
                told = {metric.name: [sample.value for sample in metric.samples] for metric in plane.metrics()}
                assert told["pleroma_switch_refusals"] == [refusals]
                assert told["pleroma_switch_rules_changed"] == [0]
                assert plane.switches()["R1"].refused == ()

    run(main)
