"""What measures real switches: the rig, the figure of the article, and the parts of the benchmark."""

import asyncio

from pleroma.experiments.figures.latency import LatencyFigure
from pleroma.index import Dz
from pleroma.lab.rig import HostSockets, rig
from pleroma.routing import AdmitOp, Change, Flow, FlowOp, Output, build
from pleroma.workloads import Model

MODEL = Model(dimensions=2, low=0, high=63, width=0.3)


def test_the_figure_is_measured_at_every_size():
    figure = LatencyFigure("fig8a", "a small one", "line:2", {"uniform": MODEL}, (10, 40), 60, {"none": lambda _: True})
    report = figure.run(False, lambda _: None)
    assert list(report.lines["uniform"]) == [10, 40]
    assert all(0 < seconds < 2 for seconds in report.lines["uniform"].values())
    assert [row[0] for row in report.rows] == ["uniform", "rules, uniform"]


def test_an_event_is_timed_where_it_comes_and_missed_where_it_does_not():
    topology = build("single:3")
    h1, h2, h3 = topology.hosts
    cell = Dz.parse("01")
    ops = [
        AdmitOp(h1.switch, Change.ADD, h1.port, Dz.parse("0")),
        FlowOp(h1.switch, Change.ADD, Flow(cell, (Output(h2.port, h2.address),))),
    ]

    async def work():
        async with rig(topology, ops) as made:
            with HostSockets(made.lab) as sockets:
                for _ in range(10):  # a switch confirms a rule some time before all its packets follow it
                    found = await asyncio.to_thread(sockets.flight, "h1", cell, ["h2"])
                    if found:
                        break
                assert list(found) == ["h2"]
                assert await asyncio.to_thread(sockets.flight, "h1", Dz.parse("00"), [h3.name]) == {}

    asyncio.run(work())
