"""A switch stops and says nothing: requests that do not rely on it are answered as fast as before."""

import statistics
import time

import pytest

from pleroma.control import Done, Withdraw
from pleroma.errors import NotInstalled
from pleroma.routing import build
from pleroma.switches.openflow.agent import SwitchTimeouts
from support.network.switch_apart import stopped, switch_apart
from support.network.weather_requests import advertise, subscribe
from support.network.world import HASTY, world
from support.waiting import LIMIT_SECONDS, wait_until

LINE = build("line:4")
SILENT = "R4"
WAITING = SwitchTimeouts(answer=30, audit=60, grace=60, dead=60)
"""A switch that says nothing is waited for."""
SLOWER = 3.0
"""How much longer a request may take at the median while one switch is silent. Waiting for the switch takes minutes."""
ROUNDS = 40


def delays_of(made):
    async def look():
        return made.controller.delays

    return made.run(look())


async def request_seconds(controller, host, rounds=ROUNDS):
    """How long it takes at the median to subscribe to something and to withdraw it."""
    took = []
    for number in range(rounds):
        begun = time.perf_counter()
        done = await controller.submit(subscribe(host, f"wind < 40 and temperature < {number}"))
        await controller.submit(Withdraw(done.value["id"], "root"))
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


@pytest.fixture
def apart(tmp_path, request):
    with world(LINE, tmp_path, timeouts=request.param) as made:
        controller = "tcp:{}:{}".format(*made.network.address)
        with switch_apart(made.lab, SILENT, controller) as process:
            made.submit(advertise("h1", "true"))
            made.submit(subscribe("h3", "wind > 60"))
            made.until_right()
            yield made, process


@pytest.mark.parametrize("apart", [WAITING], indirect=True)
def test_a_silent_switch_delays_nobody_who_does_not_rely_on_it(apart):
    made, process = apart
    before = made.run(request_seconds(made.controller, "h3"))
    with stopped(process):
        waiting = made.begin(subscribe("h4", "wind < 40"))
        wait_until(lambda: set(delays_of(made)) == {SILENT}, lambda: delays_of(made))
        during = made.run(request_seconds(made.controller, "h3"))
        assert not waiting[0].done()
        with pytest.raises(NotInstalled) as caught:
            made.run(made.controller.submit(subscribe("h4", "wind < 30"), "a key", patience=0.5))
        assert caught.value.value == SILENT
        delay = delays_of(made)[SILENT]
        assert delay.operations > 0
        assert delay.seconds > 0.5
        assert delay.confirmed == made.controller.installed < made.controller.position
    (answered,) = waiting[0].result(LIMIT_SECONDS)
    assert isinstance(answered, Done)
    made.run(made.controller.submit(subscribe("h4", "wind < 30"), "a key"))
    assert made.controller.installed == made.controller.position
    assert delays_of(made) == {}
    after = made.run(request_seconds(made.controller, "h3"))  # the machine may have become busy meanwhile
    assert during < SLOWER * max(before, after)
    wait_until(lambda: made.status[SILENT].state == "ready", lambda: made.status)


@pytest.mark.parametrize("apart", [HASTY], indirect=True)
def test_a_request_that_relies_on_a_silent_switch_is_answered_when_the_switch_is_gone(apart):
    made, process = apart
    with stopped(process):
        made.submit(subscribe("h4", "wind < 40"))
        assert made.status[SILENT].state == "gone"
        made.submit(subscribe("h3", "wind < 35"))
    made.until_right()
