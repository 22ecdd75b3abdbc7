"""A controller that plans by itself: from subscriptions alone, then from traffic, and whatever happens meanwhile."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import cycle

import pytest

from pleroma.client import connect
from pleroma.control import ChangePlan
from pleroma.index import GridIndex, TreeIndex
from pleroma.replanning.decisions import WatchSettings
from pleroma.routing import build
from pleroma.service import Deployment, running
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.workloads.vans import VansModel, generate_vans
from support.planning_processes import is_planning, planning_pids
from support.waiting import run, until, wait_until

VANS = generate_vans(VansModel(events=1_200, subscriptions=30, seed=5))
LOOKING = WatchSettings(
    window=0.5, lateness=0, cool_down=0.5, period=600, least=100, newcomers=0.1, rules=300, threshold=0.05
)
SEARCH_SECONDS = 60.0
"""A planning process takes a while to start on a busy machine."""


@asynccontextmanager
async def planned(folder, looking=LOOKING):
    """A controller that plans, with a publisher at one host and clients for subscriptions at the others."""
    deployment = Deployment(port=0, replanning=ReplanningSettings(looking))
    async with running(folder, build("line:6"), deployment) as service, AsyncExitStack() as stack:
        clients = [connect(service.url, service.token, f"h{number}") for number in range(1, 7)]
        sender, *receivers = [await stack.enter_async_context(each) for each in clients]
        await sender.create_schema(VANS.schema)
        async with await sender.advertise("vans") as publisher:
            yield service.service, publisher, receivers


async def subscribed(clients, filters):
    turns = zip(cycle(clients), filters)
    return [await client.subscribe("vans", each, queue=10_000) for client, each in turns]


async def until_planned(service, epoch):
    """Until a plan of at least this epoch is in force, and no change is under way."""
    entry = service.state.schemas["vans"]
    await until(lambda: entry.epoch >= epoch and service.state.plans.change is None, SEARCH_SECONDS)
    return entry


def test_a_plan_comes_from_subscriptions_alone_then_from_traffic_and_nothing_is_missed(tmp_path):
    async def main():
        async with planned(tmp_path) as (service, publisher, receivers):
            members = await subscribed(receivers, VANS.subscriptions[:20])
            entry = await until_planned(service, 2)
            assert isinstance(entry.index, TreeIndex)
            first = service.replanning.looks["vans"]
            assert first.window.events == 0
            assert first.proposal.after.wasted < first.proposal.before.wasted
            sent = []
            later = asyncio.create_task(_arriving(receivers, sent))
            async with asyncio.timeout(SEARCH_SECONDS):
                while entry.epoch < 3 or not later.done() or not _has_learned_from_events(service):
                    event = VANS.events.event(len(sent) % len(VANS.events))
                    publisher.publish(event)
                    sent.append(event)
                    await asyncio.sleep(0.002)
            joined = await later
            await until_planned(service, 3)
            for since, each in [*((0, each) for each in members), *joined]:
                wanted = Counter(event.value_keys for event in sent[since:] if each.filter.matches(event))
                await until(lambda each=each, wanted=wanted: each.info.delivered >= wanted.total())
                got = Counter([(await each.receive()).event.value_keys for _ in range(each.waiting)])
                assert not wanted - got
            assert service.replanning.changes["vans"] >= 2
            assert not service.replanning.failures

    run(main, 3 * SEARCH_SECONDS)


def _has_learned_from_events(service):
    decision = service.replanning.looks["vans"].decision
    return decision is not None and decision.learned is not None and decision.learned.events >= LOOKING.least


async def _arriving(receivers, sent):
    """Subscriptions that come while events are sent, each with the number of events before it was confirmed."""
    made = []
    for client, each in zip(cycle(receivers), VANS.subscriptions[20:]):
        (subscription,) = await subscribed([client], [each])
        made.append((len(sent), subscription))
        await asyncio.sleep(0.05)
    return made


def test_while_a_plan_changes_no_other_is_put_in_force(tmp_path):
    async def main():
        async with planned(tmp_path) as (service, _, receivers):
            controller = service.controller
            await controller.submit(ChangePlan("vans", GridIndex(VANS.schema, (1, 2) * 24)))
            assert controller.state.plans.change is not None
            epoch = service.state.schemas["vans"].epoch
            await service.replanning.look(service.state.schemas["vans"])
            assert service.replanning.looks == {}
            await controller.plan_changes.finished()
            await subscribed(receivers, VANS.subscriptions)
            await until_planned(service, epoch + 2)

    run(main, 2 * SEARCH_SECONDS)


def test_what_a_watcher_claims_is_left_to_it(tmp_path):
    async def main():
        async with planned(tmp_path) as (service, _, receivers):
            service.claims.claim("vans", 600.0)
            await subscribed(receivers, VANS.subscriptions)
            for _ in range(3):
                await service.replanning.look(service.state.schemas["vans"])
            assert service.replanning.looks == {}
            service.claims.claim("vans", 0.0)
            await until_planned(service, 2)

    run(main, 2 * SEARCH_SECONDS)


def test_if_the_planning_process_dies_another_is_told_everything(tmp_path):
    async def main():
        async with planned(tmp_path) as (service, _, receivers):
            await subscribed(receivers, VANS.subscriptions[:20])
            await until_planned(service, 2)
            (pid,) = planning_pids(os.getpid())
            os.kill(pid, signal.SIGKILL)
            before = service.replanning.looks["vans"]
            await subscribed(receivers, VANS.subscriptions[20:])
            await until(lambda: planning_pids(os.getpid()) not in ([], [pid]), SEARCH_SECONDS)
            await until(lambda: service.replanning.looks["vans"] is not before, SEARCH_SECONDS)
            await until(lambda: not service.replanning.failures, SEARCH_SECONDS)
        assert not planning_pids(os.getpid())

    run(main, 3 * SEARCH_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_planning_process_ends_with_the_controller(tmp_path, number):
    arguments = [sys.executable, "-m", "pleroma.cli", "up", "--folder", str(tmp_path / "state"), "--port", "0"]
    controller = subprocess.Popen([*arguments, "--topology", "line:3", "--json"], stdout=subprocess.PIPE, text=True)
    try:
        url = controller.stdout.readline().split('"url": "')[1].split('"')[0]
        token = (tmp_path / "state" / "admin.token").read_text().strip()

        async def subscribe():
            async with connect(url, token, "h3") as client:
                await client.create_schema(VANS.schema)
                await subscribed([client], VANS.subscriptions[:3])
                await until(lambda: planning_pids(controller.pid), SEARCH_SECONDS)

        run(subscribe, 2 * SEARCH_SECONDS)
        (pid,) = planning_pids(controller.pid)
        controller.send_signal(number)
        controller.wait(30)
        wait_until(lambda: not is_planning(pid), "the planning process ends")
    finally:
        controller.kill()
        controller.wait()
        controller.stdout.close()


def test_few_plans_are_enough_for_subscriptions_that_come_one_by_one(tmp_path):
    """Subscriptions that follow each other quickly are waited for, and get one plan together."""

    async def main():
        async with planned(tmp_path, replace(LOOKING, window=30.0, cool_down=30.0)) as (service, _, receivers):
            await subscribed(receivers, VANS.subscriptions)
            entry = await until_planned(service, 2)
            assert entry.epoch == 2
            assert service.replanning.looks["vans"].decision.reason == "subscriptions"

    run(main, 2 * SEARCH_SECONDS)
