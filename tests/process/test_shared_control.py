"""Several processes on one log in a real etcd: gates and a process that leads, any of which may be killed."""

import asyncio
import os
import signal
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

import pleroma
from pleroma.control import ControlSettings
from pleroma.control.log.etcd.etcd_log import EtcdLog
from pleroma.control.logged_state import LoggedState
from pleroma.control.state_snapshot import snapshot
from pleroma.index import NOTHING, GridIndex
from pleroma.routing import build
from pleroma.service import Deployment
from pleroma.service.roles.lead_office import LEASE_SECONDS
from pleroma.service.roles.process_role import read_roles
from pleroma.service.shared_service import SharedService
from support.certificates import certified
from support.service.process import ServiceProcess
from support.strategies import STOCK

GATE = "gate"
PLAN = "/v1/schemas/stock/plan"
LONG = os.environ.get("PLEROMA_LONG") == "1"
MAX_TAKEOVER_SECONDS = 4 * LEASE_SECONDS
"""The lease, a start on a busy machine, and as much again."""
AWAY_SECONDS = 30
"""Longer than the lease, and than anybody tries to reach etcd."""


@pytest.fixture
def processes(tmp_path, url):
    """Makes processes on one log; all that are left are killed at the end."""
    made = []

    def make(name, roles=None):
        process = ServiceProcess(tmp_path / name, "line:3", log=url, roles=roles)
        made.append(process)
        return process.start()

    yield make
    for each in made:
        if each.is_running:
            each.send_signal(signal.SIGCONT)
            each.kill()


class Asker:
    """Asks processes with the administrator's token."""

    def __init__(self, token):
        self._headers = {"Authorization": f"Bearer {token}"}

    def __call__(self, process, method, path, body=None):
        answer = httpx.request(method, process.url + path, json=body, headers=self._headers, timeout=30)
        return answer.status_code, answer.json() if answer.content else None

    def subscribe(self, process, text, **more):
        return self(process, "POST", "/v1/subscriptions", {"schema": "stock", "filter": text, "host": "h3", **more})

    def ids(self, process):
        _, found = self(process, "GET", "/v1/subscriptions?limit=1000")
        return [each["id"] for each in found["items"]]


def begun(first):
    ask = Asker(first.token)
    assert ask(first, "POST", "/v1/schemas", {"schema": STOCK.to_json()})[0] == 201
    return ask


def within(seconds, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} seconds")


def leads(ask, process):
    """The process that leads knows its switches itself; a gate says that it is one."""
    status, health = ask(process, "GET", "/health")
    return status == 200 and "role" not in health


def health_parts(ask, process):
    return {each["part"]: each["status"] for each in ask(process, "GET", "/health")[1]["reasons"]}


def quote(price):
    return STOCK.event(price=price, volume=0, ticker="AAPL")


async def first_event(publisher, subscription, price, seconds=20.0):
    """Publish until one arrives."""
    async with asyncio.timeout(seconds):
        while True:
            publisher.publish(quote(price))
            try:
                async with asyncio.timeout(0.1):
                    if (await subscription.receive()).event["price"] == price:
                        return
            except TimeoutError:
                pass


def test_what_is_registered_at_one_gate_is_known_at_all_and_in_force_when_it_is_answered(processes):
    lead = processes("lead")
    ask = begun(lead)
    one, two = processes("one", GATE), processes("two", GATE)
    assert (leads(ask, lead), leads(ask, one)) == (True, False)
    status, made = ask.subscribe(one, "price < 100", key="k")
    assert (status, made["filter"]) == (201, "price < 100")
    for each in (lead, two):
        assert within(5, lambda each=each: ask(each, "GET", f"/v1/subscriptions/{made['id']}")[0] == 200)
    assert ask.subscribe(two, "price < 100", key="k") == (201, made)
    assert ask.subscribe(two, "price < 200", key="k")[0] == 409
    status, _ = ask(two, "POST", "/v1/advertisements", {"schema": "stock", "filter": "price < 900", "host": "h1"})
    assert status == 201
    status, many = ask(
        one,
        "POST",
        "/v1/subscriptions:batch",
        {"items": [{"schema": "stock", "filter": f"price < {n}", "host": "h2"} for n in range(1, 60)]},
    )
    assert {each["status"] for each in many["results"]} == {201}
    rules = ask(two, "GET", "/v1/switches/R1/flows")[1]["items"]
    assert rules, "the answer came, so the first switch forwards"
    assert within(5, lambda: len(ask.ids(lead)) == 60 and len(ask.ids(two)) == 60)
    status, refused = ask(two, "POST", "/v1/subscriptions", {"schema": "stock", "filter": "nothing < 1", "host": "h1"})
    assert (status, refused["error"]["field"]) == (400, "filter")
    assert ask(two, "DELETE", f"/v1/subscriptions/{made['id']}")[0] == 204
    assert within(5, lambda: len(ask.ids(one)) == 59)
    assert ask(one, "DELETE", f"/v1/subscriptions/{made['id']}")[0] == 404
    for each in (one, two):
        text = httpx.get(each.url + "/metrics").text
        assert "pleroma_log_position" in text
        assert "pleroma_lead_known 1.0" in text


def test_clients_talk_to_any_gate_and_events_flow(processes):
    lead = processes("lead")
    begun(lead)
    one, two = processes("one", GATE), processes("two", GATE)

    async def work():
        async with (
            pleroma.connect(one.url, lead.token, "h1") as near,
            pleroma.connect(two.url, lead.token, "h3") as far,
        ):
            publisher = await near.advertise("stock", "price < 900")
            subscription = await far.subscribe("stock", "price < 500")
            for price in (1.0, 2.0, 3.0):
                publisher.publish(quote(price))
            got = [(await asyncio.wait_for(subscription.receive(), 10)).event["price"] for _ in range(3)]
            assert got == [1.0, 2.0, 3.0]

    asyncio.run(asyncio.wait_for(work(), 60))


def test_when_the_leading_process_is_killed_another_leads_and_nothing_answered_is_lost(processes):
    first = processes("first")
    ask = begun(first)
    second, gate = processes("second"), processes("gate", GATE)
    ids = [ask.subscribe(process, f"price < {n}")[1]["id"] for n, process in enumerate((first, second, gate) * 5, 1)]

    async def work():
        async with (
            pleroma.connect(gate.url, first.token, "h1") as near,
            pleroma.connect(gate.url, first.token, "h3") as far,
        ):
            publisher = await near.advertise("stock", "price < 900")
            subscription = await far.subscribe("stock", "price < 500")
            await first_event(publisher, subscription, 1.0)
            first.kill()
            began = time.monotonic()
            assert await asyncio.to_thread(within, MAX_TAKEOVER_SECONDS, lambda: leads(ask, second))
            print(f"takeover_s {time.monotonic() - began:.1f}")
            await first_event(publisher, subscription, 2.0, 40.0)

    asyncio.run(asyncio.wait_for(work(), 120))
    assert within(10, lambda: set(ids) <= set(ask.ids(gate)))
    assert set(ids) <= set(ask.ids(second))
    assert ask.subscribe(gate, "price < 800")[0] == 201
    assert leads(ask, second)
    first.start()
    assert not leads(ask, first)
    assert set(ids) <= set(ask.ids(first))


def test_a_leading_process_that_was_paused_and_goes_on_leads_no_more(processes):
    first = processes("first")
    ask = begun(first)
    second = processes("second")
    assert ask.subscribe(second, "price < 1")[0] == 201
    first.send_signal(signal.SIGSTOP)
    assert within(MAX_TAKEOVER_SECONDS, lambda: leads(ask, second))
    made = ask.subscribe(second, "price < 2")
    assert made[0] == 201
    first.send_signal(signal.SIGCONT)
    assert within(20, lambda: not leads(ask, first) and len(ask.ids(first)) == 2)
    assert leads(ask, second)
    assert ask.subscribe(first, "price < 3")[0] == 201
    assert within(5, lambda: len(ask.ids(second)) == 3)


def test_requests_are_answered_while_a_member_of_etcd_is_away_and_refused_while_most_are(processes, etcd):
    lead = processes("lead")
    ask = begun(lead)
    gate = processes("gate", GATE)
    acknowledged = []

    def subscribe(number):
        status, answer = ask.subscribe(gate, f"price < {number}", key=f"k{number}")
        if status == 201:
            acknowledged.append(answer["id"])
        return status

    assert subscribe(1) == 201
    etcd.kill("m1")
    assert within(20, lambda: subscribe(2) == 201)
    etcd.kill("m2")
    status = subscribe(3)
    assert status == 503
    assert within(30, lambda: health_parts(ask, gate).get("log") == "failing")
    assert ask(gate, "GET", "/health")[1]["status"] == "failing"
    assert ask(gate, "GET", "/health/ready")[0] == 503
    etcd.start("m1", "m2")
    assert within(30, lambda: subscribe(4) == 201)
    assert within(20, lambda: set(acknowledged) <= set(ask.ids(gate)))
    assert len(acknowledged) == len(set(acknowledged))
    assert within(20, lambda: ask(gate, "GET", "/health")[1]["status"] == "ok")


def test_a_gate_that_asks_nothing_of_etcd_notices_that_it_is_away(processes, etcd):
    lead = processes("lead")
    ask = begun(lead)
    gate = processes("gate", GATE)
    assert health_parts(ask, gate) == {}
    etcd.kill("m1")
    etcd.kill("m2")
    assert within(40, lambda: health_parts(ask, gate).get("log") == "failing")
    etcd.start("m1", "m2")
    assert within(40, lambda: health_parts(ask, gate) == {})


def test_a_gate_without_a_leading_process_says_so_and_finds_the_next(processes):
    lead = processes("lead")
    ask = begun(lead)
    gate = processes("gate", GATE)
    lead.kill()
    assert within(MAX_TAKEOVER_SECONDS, lambda: health_parts(ask, gate) == {"lead": "degraded"})
    assert ask(gate, "GET", "/health/ready")[0] == 503
    status, answer = ask(gate, "GET", "/v1/schemas")
    assert (status, answer["error"]["code"]) == (503, "not_ready")
    lead.start()
    assert within(MAX_TAKEOVER_SECONDS, lambda: ask(gate, "GET", "/v1/schemas")[0] == 200)
    assert within(5, lambda: ask(gate, "GET", "/health")[1]["status"] == "ok")
    assert ask.subscribe(gate, "price < 5")[0] == 201


def test_what_was_changed_through_a_gate_is_known_there_at_once(processes):
    lead = processes("lead")
    ask = begun(lead)
    gate = processes("gate", GATE)
    for number in range(20):
        name = f"s{number}"
        schema = STOCK.to_json() | {"name": name}
        assert ask(gate, "POST", "/v1/schemas", {"schema": schema})[0] == 201
        wanted = {"schema": name, "filter": "price < 5", "host": "h3"}
        assert ask(gate, "POST", "/v1/subscriptions", wanted)[0] == 201, number
        status, made = ask(gate, "POST", "/v1/principals", {"name": name, "role": "publisher", "publish": {}})
        assert status == 201, made
        assert Asker(made["token"])(gate, "GET", "/v1/subscriptions")[0] == 200, number


def test_a_subscription_is_withdrawn_at_any_gate_right_after_it_was_made(processes):
    lead = processes("lead")
    ask = begun(lead)
    one, two = processes("one", GATE), processes("two", GATE)
    for number in range(40):
        status, made = ask.subscribe(one, f"price < {number + 1}")
        assert status == 201
        assert ask(two, "DELETE", f"/v1/subscriptions/{made['id']}")[0] == 204, number
    began = time.monotonic()
    assert ask(one, "DELETE", "/v1/subscriptions/s99999999")[0] == 404
    assert ask(one, "GET", "/v1/subscriptions/nobody")[0] == 404
    assert time.monotonic() - began < 10


def test_processes_go_on_after_etcd_was_away_for_long(processes, etcd):
    lead = processes("lead")
    ask = begun(lead)
    gate = processes("gate", GATE)
    assert ask.subscribe(gate, "price < 1", key="1")[0] == 201
    for name in ("m1", "m2"):
        etcd.kill(name)
    began, number = time.monotonic(), 2
    while time.monotonic() < began + AWAY_SECONDS:
        assert ask.subscribe(gate, f"price < {number}", key=f"{number}")[0] == 503
        number += 1
    etcd.start("m1", "m2")
    assert within(60, lambda: ask.subscribe(gate, "price < 900", key="end")[0] == 201)
    assert gate.is_running
    assert lead.is_running
    assert within(20, lambda: leads(ask, lead) and set(ask.ids(gate)) == set(ask.ids(lead)))


def test_a_gate_that_fell_behind_what_the_log_keeps_begins_anew(processes, url):
    lead = processes("lead")
    ask = begun(lead)
    gate = processes("gate", GATE)
    ids = [ask.subscribe(gate, "price < 1")[1]["id"]]
    gate.send_signal(signal.SIGSTOP)
    with EtcdLog.open(url) as log:
        for _ in range(2):  # a log keeps what is behind the older of two snapshots
            ids += [ask.subscribe(lead, f"price < {n}")[1]["id"] for n in range(2, 5)]
            state = LoggedState.open(EtcdLog.open(url), build("line:3"), ControlSettings(), 10**6, NOTHING)
            log.save_snapshot(state.position, snapshot(state.state, state._fold.answers))
            asyncio.run(state.close(with_snapshot=False))
        while log.compact():
            pass
        assert log.first > 6
    gate.send_signal(signal.SIGCONT)
    assert within(30, lambda: set(ask.ids(gate)) == set(ids))
    assert ask.subscribe(gate, "price < 9")[0] == 201


def test_a_gate_answers_while_another_process_takes_the_lead(processes):
    first = processes("first")
    ask = begun(first)
    others = [processes("second"), processes("third")]
    unanswered = dict.fromkeys(others, 0)

    def there_is_a_lead():
        found = False
        for each in others:
            try:
                found |= leads(ask, each)
            except httpx.TransportError:
                unanswered[each] += 1
        return found

    first.kill()
    assert within(MAX_TAKEOVER_SECONDS, there_is_a_lead)
    assert min(unanswered.values()) == 0, "the one that does not lead need not stop"


def test_a_gate_finds_a_leading_process_that_listens_everywhere_and_speaks_https(url, tmp_path):
    certificate = certified(tmp_path / "certificates")
    everything = Deployment(host="0.0.0.0", port=0, https=certificate, log=url)  # noqa: S104
    gate = replace(everything, host="127.0.0.1", roles=read_roles(GATE))

    async def main():
        began, services = asyncio.Queue(), []
        for name, deployment in (("lead", everything), ("gate", gate)):
            service = SharedService(tmp_path / name, build("line:3"), deployment, began.put_nowait)
            services.append((service, asyncio.create_task(service.run())))
            running = await asyncio.wait_for(began.get(), 60)
        token = (tmp_path / "lead" / "admin.token").read_text().strip()
        trusted = ssl.create_default_context(cafile=certificate.certificate)
        async with httpx.AsyncClient(verify=trusted, headers={"Authorization": f"Bearer {token}"}) as client:
            made = await client.post(running.url + "/v1/schemas", json={"schema": STOCK.to_json()})
            wanted = {"schema": "stock", "filter": "price < 1", "host": "h3"}
            subscribed = await client.post(running.url + "/v1/subscriptions", json=wanted)
        for service, task in reversed(services):
            service.stop.set()
            await task
        assert (made.status_code, subscribed.status_code) == (201, 201), (made.text, subscribed.text)

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_plan_change_of_a_killed_process_is_finished_by_the_next(processes):
    first = processes("first")
    ask = begun(first)
    second = processes("second")
    assert ask(second, "POST", "/v1/advertisements", {"schema": "stock", "filter": "true", "host": "h1"})[0] == 201
    assert ask.subscribe(second, "price < 300")[0] == 201
    index = GridIndex.regular(STOCK, 16, ["volume"]).to_json()
    with ThreadPoolExecutor(1) as aside:
        changing = aside.submit(ask, second, "PUT", PLAN, {"index": index})
        assert within(10, lambda: ask(first, "GET", PLAN)[1]["phase"] != "settled")
        first.kill()
        status, answer = changing.result()
    assert (status, answer["error"]["code"]) == (503, "controller_away"), "it may have been carried out, and will be"
    assert within(MAX_TAKEOVER_SECONDS, lambda: leads(ask, second))
    assert within(20, lambda: ask(second, "GET", PLAN)[1]["phase"] == "settled")
    assert ask(second, "GET", PLAN)[1]["epoch"] == 2
    assert ask.subscribe(second, "volume < 3")[0] == 201
