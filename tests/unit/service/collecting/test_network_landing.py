"""The network in the lake: when it changes, and with the room that switches turned out to have."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pleroma.index.address import IPV6
from pleroma.pipeline.lake.lake import Lake
from pleroma.routing import build
from pleroma.service.collecting import network_landing
from pleroma.service.planes.openflow_plane import OpenFlowPlane
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from support.service.with_lake import collecting, landed, sample_body
from support.waiting import run, until


class Network:
    def __init__(self):
        self.known, self.found = build("line:2"), {}

    def topology(self):
        return self.known

    def rooms(self):
        return self.found


def test_the_embedded_network_is_landed_once(tmp_path):
    async def main():
        for _ in range(2):
            async with collecting(tmp_path, running=True) as (_, _, lake):
                await until(lambda lake=lake: lake.topology() is not None, 20)
                assert (lake.topology().topology, lake.topology().rooms) == (build("line:2"), {})
        assert len(lake.table("topology").rows()) == 1

    run(main)


def test_links_limits_and_rooms_are_landed_when_they_change(tmp_path):
    async def main():
        network = Network()
        async with collecting(tmp_path, network=network) as (_, collection, lake):
            for _ in range(2):
                await collection.land(everything=True)
            first = lake.topology()
            assert (first.topology, first.rooms) == (network.known, {})
            network.found["R1"] = 300
            await collection.land(everything=True)
            network.known = replace(network.known, limits={"R1": 300})
            await collection.land(everything=True)
            assert lake.topology().topology.limits == {"R1": 300}
            rows = sorted(lake.table("topology").rows().to_pylist(), key=lambda row: row["since"])
            assert [(row["limits"], row["rooms"]) for row in rows] == [
                ([], []),
                ([], [("R1", 300)]),
                ([("R1", 300)], [("R1", 300)]),
            ]
            assert lake.topology(first.since).rooms == {}

    run(main)


def test_a_network_that_cannot_be_asked_is_a_line_in_health_and_ends_nothing(tmp_path):
    class Faulty(Network):
        def topology(self):
            if self.found:
                raise ValueError("half a link")
            return self.known

    async def main():
        network = Faulty()
        async with collecting(tmp_path, running=True, network=network) as (api, collection, lake):
            network.found["R1"] = 1
            await until(lambda: collection.failure, 20)
            assert (await api.health())[1] == {"lake": "ValueError('half a link')"}
            network.found.clear()
            await until(lambda: collection.failure is None, 20)
            await until(lambda: lake.topology() is not None, 20)

    run(main)


def test_the_network_is_looked_at_now_and_then_or_when_it_must_be(tmp_path, monkeypatch):
    class Asked(Network):
        times = 0

        def topology(self):
            self.times += 1
            return self.known

    async def main():
        network = Asked()
        async with collecting(tmp_path, network=network) as (_, collection, _):
            monkeypatch.setattr(network_landing, "_CHECK_SECONDS", 1e6)
            for at_once, times in ((False, 1), (False, 1), (True, 2)):
                await collection.land(everything=at_once)
                assert network.times == times
            monkeypatch.setattr(network_landing, "_CHECK_SECONDS", 0.0)
            for times in (3, 4):
                await collection.land(everything=times == 3)
                assert network.times == times

    run(main)


def test_samples_are_landed_while_the_network_cannot_be_asked_and_also_when_the_service_stops(tmp_path):
    class Faulty(Network):
        def topology(self):
            raise ValueError("half a link")

    async def main():
        async with collecting(tmp_path, running=True, network=Faulty()) as (api, collection, lake):
            await until(lambda: collection.failure, 20)
            await api.post("/v1/samples", sample_body(), 202)
        assert len(landed(lake)) == 2
        with pytest.raises(RuntimeError, match="shutdown"):
            await collection.writer.write(print)

    run(main)


def test_a_network_that_was_not_landed_and_is_as_before_is_no_failure_any_more(tmp_path, monkeypatch):
    async def main():
        network = Network()
        async with collecting(tmp_path, network=network) as (_, collection, lake):
            await collection.land(everything=True)
            network.found["R1"] = 300
            with monkeypatch.context() as broken:
                broken.setattr(Lake, "land_topology", None)
                await collection.land(everything=True)
            assert "topology" in collection.failure
            network.found.clear()
            await collection.land(everything=True)
            assert collection.failure is None
            assert len(lake.table("topology").rows()) == 1

    run(main)


def test_the_room_that_a_switch_turned_out_to_have_comes_from_the_openflow_network(tmp_path):
    line = build("line:2")
    discovered, layout = DiscoveredTopology(line), SimpleNamespace(addresses=IPV6)
    switches = SimpleNamespace(discovered=discovered, limits={}, rule_layout=layout)
    controller = SimpleNamespace(topology=line)
    plane = OpenFlowPlane(switches, controller)

    async def main():
        async with collecting(tmp_path, network=plane) as (_, collection, lake):
            await collection.land(everything=True)
            assert (lake.topology().topology, lake.topology().rooms) == (line, {})
            switches.limits["R1"] = 12  # it refused the thirteenth rule
            await collection.land(everything=True)
            assert (lake.topology().topology.limits, lake.topology().rooms) == ({"R1": 12}, {"R1": 12})
            assert plane.topology() is plane.topology()

    run(main)
