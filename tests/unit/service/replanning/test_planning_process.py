"""The planning process: started when it is needed, told everything again after it died, and never left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pleroma.control import Controller, CreatePrincipal, CreateSchema, Register
from pleroma.errors import ServiceError, TuningError
from pleroma.index import GridIndex
from pleroma.routing import build
from pleroma.service.collecting.influence_limit import InfluenceLimit
from pleroma.service.collecting.sample_intake import SampleIntake
from pleroma.service.collecting.sampling_rates import SamplingRates
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.service.replanning.planner import Planner
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.switches.live.live_network import LiveNetwork
from support.strategies import STOCK
from support.waiting import LIMIT_SECONDS, run, until

BLIND = GridIndex.regular(STOCK, 8, ["volume"])


async def with_planner(folder, work):
    async with (
        LiveNetwork(build("line:2"), loopback=True) as network,
        await Controller.open(folder / "service", build("line:2"), network) as controller,
    ):
        await controller.submit(CreatePrincipal("admin", "admin", "a" * 64))
        await controller.submit(CreateSchema(STOCK))
        samples = SampleIntake(
            None,
            SamplingRates(),
            lambda _: None,
            InfluenceLimit(controller.state.registrations, EmbeddedPlane(network)),
        )
        async with Planner(controller, EmbeddedPlane(network), samples, ReplanningSettings()) as planner:
            await work(planner, controller, controller.state.schemas["stock"])


async def subscribe(controller):
    await controller.submit(Register("subscription", "admin", "h2", "stock", [{"price": {"<": 20}}]))


def pid_of(planner):
    return planner._process._process.pid


def is_there(pid):
    """Whether a process runs. One that has ended and that nobody has asked about is gone as well."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_process_that_died_is_started_anew_and_told_everything(tmp_path):
    async def work(planner, controller, entry):
        await subscribe(controller)
        assert (await planner.forecast(entry, BLIND, 4)).subscriptions == 1
        os.kill(pid_of(planner), signal.SIGSTOP)
        waiting = asyncio.create_task(planner.look(entry))
        await asyncio.sleep(0)
        os.kill(pid_of(planner), signal.SIGKILL)
        with pytest.raises(ServiceError, match="has died"):
            await waiting
        assert (await planner.forecast(entry, BLIND, 4)).subscriptions == 1

    run(lambda: with_planner(tmp_path, work), LIMIT_SECONDS)


def test_it_is_ready_for_a_search_before_anybody_subscribes(tmp_path):
    async def work(planner, _controller, entry):
        await planner.warm_up()
        assert planner._process.is_running
        assert not planner.has_work(entry)

    run(lambda: with_planner(tmp_path, work), LIMIT_SECONDS)


def test_questions_that_nobody_waits_for_do_not_mix_up_answers(tmp_path):
    async def work(planner, controller, entry):
        await subscribe(controller)
        given_up = [asyncio.create_task(planner.forecast(entry, BLIND, 4)) for _ in range(3)]
        await asyncio.sleep(0.01)
        for each in given_up:
            each.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        found = await asyncio.gather(planner.look(entry), planner.forecast(entry, BLIND, 4))
        assert found[0].decision.schema == "stock"
        assert found[1].subscriptions == 1

    run(lambda: with_planner(tmp_path, work), LIMIT_SECONDS)


def test_a_forecast_that_fails_leaves_what_looks_have_found(tmp_path):
    async def work(planner, controller, entry):
        with pytest.raises(TuningError, match="nobody subscribes"):
            await planner.forecast(entry, BLIND, 4)
        mirror = planner._mirrors["stock"]
        with pytest.raises(TuningError, match="nobody subscribes"):
            await planner.forecast(entry, BLIND, 4)
        assert planner._mirrors["stock"] is mirror
        await subscribe(controller)
        assert (await planner.look(entry)).decision.schema == "stock"

    run(lambda: with_planner(tmp_path, work), LIMIT_SECONDS)


def test_no_process_is_started_when_the_planner_is_closed(tmp_path):
    async def work(planner, controller, entry):
        await subscribe(controller)
        await planner.look(entry)
        pid = pid_of(planner)
        os.kill(pid, signal.SIGSTOP)
        asked = [asyncio.create_task(planner.forecast(entry, BLIND, 4)) for _ in range(3)]
        await asyncio.sleep(0)
        await planner.__aexit__()
        assert not is_there(pid)
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(each) for each in errors} == {ServiceError}
        assert not planner._process.is_running

    run(lambda: with_planner(tmp_path, work), LIMIT_SECONDS)


def test_a_process_that_cannot_be_started_is_a_failure_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))

    async def work(planner, _controller, entry):
        with pytest.raises(ServiceError, match="cannot be started: No such file"):
            await planner.forecast(entry, BLIND, 4)

    run(lambda: with_planner(tmp_path, work), LIMIT_SECONDS)


def test_the_folder_that_the_controller_was_started_in_lends_no_modules(tmp_path, monkeypatch):
    (tmp_path / "pickle.py").write_text("raise SystemExit('taken from the folder')")
    monkeypatch.chdir(tmp_path)

    async def work(planner, controller, entry):
        await subscribe(controller)
        assert (await planner.forecast(entry, BLIND, 4)).subscriptions == 1
        assert os.getsid(pid_of(planner)) != os.getsid(0)  # so that Ctrl-C does not reach it

    run(lambda: with_planner(tmp_path, work), LIMIT_SECONDS)


PARENT = """
import subprocess, sys
from datetime import UTC, datetime
from pleroma.content import Integer, Schema
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.live_replanner import SchemaNews
from pleroma.replanning.planning_worker import LENGTH_BYTES, Ask, framed

reading, writing = map(int, sys.argv[1:])
worker = [sys.executable, "-m", "pleroma.replanning.planning_worker"]
child = subprocess.Popen(worker, stdin=reading, stdout=subprocess.PIPE)
schema = Schema("s", (Integer("a", False, 0, 1),))
with open(writing, "wb", closefd=False) as questions:
    questions.write(framed(Ask(schema, WatchSettings(), SchemaNews(datetime.now(UTC)), False)))
child.stdout.read(LENGTH_BYTES)  # it answers, so it has begun
print(child.pid, flush=True)
"""


def test_it_ends_with_its_controller_whatever_it_does():
    reading, writing = os.pipe()
    try:
        words = [sys.executable, "-c", PARENT, str(reading), str(writing)]
        said = subprocess.run(words, pass_fds=(reading, writing), stdout=subprocess.PIPE, check=True, timeout=60)
        pid = int(said.stdout)

        async def gone():
            await until(lambda: not is_there(pid))

        run(gone)  # its input is still open: it would wait for a question for ever
    finally:
        os.close(reading)
        os.close(writing)
