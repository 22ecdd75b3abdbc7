"""One run of a network has one waste at hosts, whoever tells it; what a subscription brings is told before it waits."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import pleroma
from pleroma.client import blocking
from pleroma.client.session.traffic_share import TrafficShare
from pleroma.errors import LakeError
from pleroma.evaluation.placement import place_randomly
from pleroma.pipeline.lake.lake import Lake
from pleroma.routing import build
from pleroma.workloads import EXPRESSIVE, generate
from support.service.process import ServiceProcess
from support.waiting import run, until

TOPOLOGY = "line:4"
EVENTS, SUBSCRIPTIONS = 400, 9


def command(service, *arguments, code=0):
    env = os.environ | {"PLEROMA_URL": service.url, "PLEROMA_TOKEN": service.token}
    env = {name: value for name, value in env.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    listed = [sys.executable, "-m", "pleroma.cli", *map(str, arguments)]
    done = subprocess.run(listed, capture_output=True, text=True, check=False, env=env, timeout=120)
    assert done.returncode == code, done.stderr
    return done


def answer(service, *arguments):
    return json.loads(command(service, *arguments, "--json").stdout.splitlines()[-1])


def placed():
    """A seed, the host that publishes, and the hosts of the subscriptions, none of which is that one."""
    network = build(TOPOLOGY)
    for seed in range(1000):
        senders, homes = place_randomly(network, 1, SUBSCRIPTIONS, np.random.default_rng(seed))
        if senders[0] not in homes and len(set(homes.tolist())) > 1:
            names = [host.name for host in network.hosts]
            return seed, names[senders[0]], [names[home] for home in homes]
    raise AssertionError("no such placement")


def landed_subscriptions(lake, name):
    try:
        return len(lake.subscriptions(name))
    except LakeError:  # nothing has landed yet
        return 0


def landed_events(lake, name):
    try:
        return len(lake.event_table(name).rows())
    except LakeError:
        return 0


async def run_network(service, lake, data, sender, homes):
    """Publish all events to subscribers with one client a host; on return the controller has all reports."""
    name = data.schema.name
    clients = {host: pleroma.connect(service.url, service.token, host) for host in {sender, *homes}}
    try:
        for client in clients.values():
            await client.__aenter__()
        wanted = zip(homes, data.subscriptions, strict=True)
        members = [await clients[host].subscribe(name, each) for host, each in wanted]
        publisher = await clients[sender].advertise(name)
        await until(lambda: landed_subscriptions(lake, name) == SUBSCRIPTIONS, 30)
        for row in range(EVENTS):
            publisher.publish(data.events.event(row))
            if row % 20 == 0:
                await asyncio.sleep(0.005)
        expected = [int(data.events.matches(each).sum()) for each in data.subscriptions]
        await until(lambda: [each.info.delivered for each in members] == expected, 30)
        packets = {host: client.info["packets"] for host, client in clients.items() if host != sender}

        def reported():
            return service.ask("GET", "/v1/statistics")["reported"]

        for _ in range(300):
            counted = await asyncio.to_thread(reported)
            if counted["wanted"] + counted["wasted"] == sum(packets.values()) and counted["published"] == EVENTS:
                break
            await asyncio.sleep(0.1)
        await until(lambda: landed_events(lake, name) == EVENTS, 30)
        sampled = service.ask("GET", f"/v1/schemas/{name}/plan/tree?depth=0")
        assert sampled["events"] == EVENTS
        status = await asyncio.to_thread(answer, service, "status")
        assert all(each.share is None for each in members)  # nothing was sampled when they subscribed
        return status["statistics"], sampled["items"][0]
    finally:
        for client in clients.values():
            await client.close()


def test_status_simulate_audit_and_the_plans_tree_tell_the_same_waste_at_hosts(tmp_path):
    seed, sender, homes = placed()
    data = generate(replace(EXPRESSIVE, events=EVENTS, subscriptions=SUBSCRIPTIONS, width=0.3, placement="inside"))
    data.save(tmp_path / "workload")
    lake = Lake.at(str(tmp_path / "lake"))
    collecting = {"lake": lake.url, "sample": 1.0, "land_seconds": 0.2}
    with ServiceProcess(tmp_path / "service", TOPOLOGY, collecting=collecting) as service:
        service.ask("POST", "/v1/schemas", {"schema": data.schema.to_json()})
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(service.ask("GET", f"/v1/schemas/{data.schema.name}/plan")["plan"]))
        statistics, root = run(lambda: run_network(service, lake, data, sender, homes), 90)
        audit = answer(service, "audit", lake.url, "--local", "--no-best")
        network = ("--topology", TOPOLOGY, "--publishers", 1, "--seed", seed)
        simulated = answer(service, "simulate", tmp_path / "workload", "--plan", plan, *network)
    reported, since = statistics["reported"], statistics["by_schema"][data.schema.name]["since_plan"]
    assert 0 < reported["waste_at_hosts"] < 1
    assert since["waste_at_hosts"] == statistics["last_minute"]["waste_at_hosts"] == reported["waste_at_hosts"]
    assert simulated["waste_at_hosts"] == reported["waste_at_hosts"]
    assert (simulated["deliveries"], simulated["wasted"]) == (
        reported["wanted"] + reported["wasted"],
        reported["wasted"],
    )
    assert audit["at_hosts"]["waste_at_hosts"] == reported["waste_at_hosts"]
    assert (root["deliveries"], root["wasted_at_hosts"]) == (simulated["deliveries"], simulated["wasted"])
    # several subscriptions share a host, so the papers' figure is another one, under another name
    assert max(Counter(homes).values()) > 1
    assert audit["waste_at_subscriptions"] != audit["at_hosts"]["waste_at_hosts"]
    assert audit["delivered"] == sum(each["delivered"] for each in audit["subscriptions"])


@pytest.fixture
def sampled(tmp_path):
    """A controller with events of which hardly any is wanted, whose plan looks at the price alone."""
    with ServiceProcess(
        tmp_path / "service", "line:2", collecting={"lake": str(tmp_path / "lake"), "sample": 1.0}
    ) as up:
        attributes = [{"name": name, "kind": "real", "min": 0, "max": 100} for name in ("price", "speed")]
        up.ask("POST", "/v1/schemas", {"schema": {"name": "vans", "attribute": attributes}})
        index = {"kind": "grid", "order": [0, 0], "boundaries": {}}
        up.ask("PUT", "/v1/schemas/vans/plan", {"index": index, "method": "at_once"})
        up.ask("POST", "/v1/advertisements", {"schema": "vans", "filter": "true", "host": "h1"})
        columns = {"price": [float(n) for n in range(0, 100, 2)], "speed": [float(n) for n in range(0, 100, 2)]}
        body = {"schema": "vans", "epoch": 2, "rate": 1.0, "ages": [0.0] * 50, "columns": columns}
        up.ask("POST", "/v1/samples", body)
        yield up


def test_who_subscribes_to_what_the_plan_does_not_look_at_is_warned_and_told_why(sampled, tmp_path):
    poor = command(sampled, "subscribe", "vans", "speed > 95", "--seconds", 0.1)
    warning = poor.stderr.splitlines()[-1]
    assert warning == (
        "warning: 100.0% of the traffic comes, 4.0% is wanted; "
        f"see pleroma explain 'speed > 95' --schema vans --url {sampled.url}"
    )
    good = command(sampled, "subscribe", "vans", "price < 25", "--seconds", 0.1)
    assert "warning" not in good.stderr
    picture = tmp_path / "cells.png"
    how = ("explain", "speed > 95", "--schema", "vans", "--url", sampled.url)
    said = command(sampled, *how, "--plot", picture).stdout
    assert "grid of 2 bits over price, plan 2" in said
    assert "speed is not looked at" in said
    assert "Of 50 events sampled of late: 100.0% of the traffic comes, 4.0% is wanted." in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    told = answer(sampled, *how)
    assert (told["ignored"], told["share"]) == (["speed"], {"delivered": 1.0, "wanted": 0.04, "events": 50})
    refused = command(sampled, "explain", "spede > 95", "--schema", "vans", "--url", sampled.url, code=2)
    assert len(refused.stderr.splitlines()) == 1
    shown = command(sampled, "status").stdout
    assert "vans, since plan 2" in shown
    assert "waste at hosts" in shown


def test_both_clients_know_what_a_subscription_brings(sampled):
    expected = TrafficShare(1.0, 0.04, 50)
    with blocking.connect(sampled.url, sampled.token, "h1") as client, client.subscribe("vans", "speed > 95") as poor:
        assert poor.share == expected

    async def main():
        async with (
            pleroma.connect(sampled.url, sampled.token, "h1") as client,
            await client.subscribe("vans", "speed > 95") as poor,
            await client.advertise("vans") as publisher,
        ):
            assert poor.share == expected
            assert publisher.registration.share is None

    run(main)
