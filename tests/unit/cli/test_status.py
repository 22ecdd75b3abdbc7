"""`pleroma status` as an operator reads it when something is wrong."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.control import CreatePrincipal
from pleroma.routing import Port, Presence, SwitchId, build
from pleroma.service import Deployment, running
from pleroma.service.http.tokens import digest
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.switches.switch_status import SwitchStatus
from support.waiting import run

STAR = build("star:8")
CUT = [str(link) for link in STAR.links[:6]]


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """What the command prints on a network with a switch that is gone and seven links that carry nothing."""
    gone = STAR.links[6].b
    down = {(link.b, Port(link.b_port)) for link in STAR.links[:6]}
    monkeypatch.setattr(EmbeddedPlane, "presence", lambda _: Presence({gone}, down))
    states = {name: SwitchStatus("gone" if name == gone else "ready") for name in STAR.switches}
    monkeypatch.setattr(EmbeddedPlane, "switches", lambda _: states)

    def ask(url, token, *more):
        answer = CliRunner().invoke(app, ["status", "--url", url, "--token", token, *more])
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    async def main():
        async with running(tmp_path, STAR, Deployment(port=0)) as service:
            controller = service.service.controller
            await controller.submit(CreatePrincipal("ann", "both", digest("plr_ann")))
            asked = ((service.token, "--json"), (service.token,), ("plr_ann",))
            return [await asyncio.to_thread(ask, service.url, *each) for each in asked]

    with capture_logs():  # they would stand among what the command prints
        return run(main)


def test_status_shows_the_state_cut_links_and_hosts_that_are_not_reached(shown):
    listed, text, of_ann = json.loads(shown[0]), shown[1], shown[2]
    gone, links = str(STAR.links[6].b), [*CUT, str(STAR.links[6])]
    assert listed["health"]["status"] == "degraded"
    assert {each["part"] for each in listed["health"]["reasons"]} == {"switches", "links", "hosts"}
    assert listed["network"]["cut"] == links
    assert len(listed["network"]["unreachable"]) == 7
    assert [each["name"] for each in listed["switches"] if each["state"] == "gone"] == [gone]
    assert text.startswith("degraded; version")
    assert f"degraded: switches: gone: {gone}\n" in text
    assert f"degraded: links: cut: {', '.join(links)}\n" in text
    for host in listed["network"]["unreachable"]:
        assert host in text.splitlines()[3]
    assert "cut: " + ", ".join(CUT[:5]) + " and 2 more\n" in of_ann  # who may not see the whole network
    rows = [line for line in text.splitlines() if " gone " in line]
    assert len(rows) == 1
    assert SwitchId(gone) in rows[0]
