"""The figure that takes real switches: what can be said of it without them."""

import pytest

from pleroma.errors import SetupError
from pleroma.experiments.figures.catalogue import FIGURES
from pleroma.experiments.figures.latency import hardly_grow, scenario
from pleroma.lab import needs
from pleroma.routing import build
from pleroma.workloads import Model


def test_without_root_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError, match="takes root"):
        FIGURES["fig8a"].run(True, lambda _: None)


def test_events_are_those_that_somebody_gets_and_never_the_publisher():
    topology = build("line:3")
    tables, events = scenario(topology, Model(dimensions=2, low=0, high=63, width=0.3, subscriptions=10, events=200))
    assert 0 < len(events) <= 200
    assert {host for _, receivers in events for host in receivers} == {"h2", "h3"}
    assert max(map(len, tables.values())) > 1


def test_the_claim_can_fail():
    assert hardly_grow(1.2)({"a": [1.0, 5.0, 1.1], "b": [2.0, 2.0, 2.0]})
    assert not hardly_grow(1.2)({"a": [1.0, 1.0, 1.1], "b": [2.0, 2.0, 3.0]})
