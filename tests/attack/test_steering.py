"""A publisher that floods samples of one corner does not draw the plan there, at the cost of the traffic of others."""

import httpx
import numpy as np

import pleroma
from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.control import CreatePrincipal, CreateSchema
from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Registrations
from pleroma.index import DzSet, GridIndex
from pleroma.pipeline.lake.landed import SampledEvents
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.replanning.proposals import outlook, propose
from pleroma.replanning.situation import NetworkSituation
from pleroma.routing import HostId, build
from pleroma.selection.traffic_summary import summarise_traffic
from pleroma.service import CollectingSettings, Deployment, running
from pleroma.service.collecting.influence_limit import FIRST_SAMPLES, InfluenceLimit
from pleroma.service.collecting.sample_intake import SampleIntake
from pleroma.service.collecting.sampling_rates import FIRST_RATE, SamplingRates
from pleroma.service.http.tokens import digest
from support.waiting import run, until

SCHEMA = Schema.from_json(
    {
        "name": "quotes",
        "attribute": [{"name": name, "kind": "real", "min": 0, "max": 100} for name in ("price", "size")],
    }
)
HONEST, HOSTILE = ("ann", "bob", "eve"), "mallory"
SECONDS, HONEST_RATE, HOSTILE_RATE = 60, 200, 1
"""Events a second of each."""
FLOOD_SAMPLES = 400
"""That the hostile one hands over in each second."""


class Everything:
    """No limit at all: what there was before."""

    def counted(self, _principal, samples, _rate):
        return samples


class Counted:
    """A network that counts the events of each host; a host has the name of its principal."""

    count_lag_seconds = 0.0
    counts_by_principal = True

    def __init__(self):
        self.events = dict.fromkeys((*HONEST, HOSTILE), 0)

    def published(self, host, _principal):
        return self.events[host]


def advertising():
    entry = type("Entry", (), {"schema": SCHEMA})()
    made = Registrations()
    for number, name in enumerate((*HONEST, HOSTILE)):
        made.add(Registered(f"a{number}", "advertisement", name, HostId(name), entry, "[{}]", DzSet(()), number + 1))
    return made


def events(draw, low, high, count):
    columns = {name: draw.uniform(low, high, count) for name in ("price", "size")}
    return EventBatch.from_columns(SCHEMA, columns)


def subscriptions():
    """Everybody wants small squares, half of them in the corner where nothing but the flood is."""
    draw = np.random.default_rng(3)
    corners = [(*draw.uniform(30, 88, 2), 4.0) for _ in range(40)] + [(*draw.uniform(0, 9, 2), 0.4) for _ in range(40)]
    return [
        Filter.parse(SCHEMA, f"price >= {x} and price < {x + w} and size >= {y} and size < {y + w}")
        for x, y, w in corners
    ]


def learned_from(influence, witness, is_attacked):
    """What the intake passes on to the planner in a minute of traffic."""
    draw, now = np.random.default_rng(1), [0.0]
    intake = SampleIntake(None, SamplingRates(), lambda _: None, influence, lambda: now[0])
    kept = []

    def hand_over(name, sampled):
        at = np.zeros(len(sampled), "datetime64[us]")
        intake.take(SampledEvents(sampled, at, 1, FIRST_RATE, principal=name))

    for second in range(SECONDS):
        now[0] = float(second)
        for name in HONEST:
            sent = events(draw, 30, 100, HONEST_RATE)
            witness.events[name] += len(sent)
            hand_over(name, sent[draw.random(len(sent)) < FIRST_RATE])
        if is_attacked:
            witness.events[HOSTILE] += HOSTILE_RATE
            hand_over(HOSTILE, events(draw, 0, 10, FLOOD_SAMPLES))
        kept += [each.events for each in intake.fresh("quotes")]
    return EventBatch.joined(SCHEMA, kept)


def cost_for_the_honest(learned):
    """The packets that honest traffic brings to hosts under the plan that is proposed for what was learned from."""
    wanted = subscriptions()
    situation, settings = NetworkSituation.star(SCHEMA, wanted), WatchSettings(rules=80)
    plan = PlanInForce(1, GridIndex.regular(SCHEMA, 16), 8)
    found = propose(plan, summarise_traffic(learned, wanted, draw=20_000), situation, settings)
    honest = events(np.random.default_rng(2), 30, 100, 20_000)
    return outlook(situation, found.index, found.members, honest).waste.deliveries


def test_a_flood_of_samples_changes_what_others_pay_by_a_few_percent_and_by_much_without_the_limit():
    def cost(is_limited, is_attacked):
        witness = Counted()
        influence = InfluenceLimit(advertising(), witness, lambda: 0.0) if is_limited else Everything()
        return cost_for_the_honest(learned_from(influence, witness, is_attacked))

    alone, limited, unlimited = cost(True, False), cost(True, True), cost(False, True)
    print(f"packets at hosts of honest events: {alone} alone, {limited} with the limit, {unlimited} without")
    assert limited < 1.05 * alone
    assert unlimited > 1.5 * alone


def test_honest_samples_are_not_cut():
    witness = Counted()
    influence = InfluenceLimit(advertising(), witness, lambda: 0.0)
    learned = learned_from(influence, witness, is_attacked=False)
    assert influence.left_out == 0
    assert len(learned) > 0.9 * SECONDS * HONEST_RATE * len(HONEST) * FIRST_RATE


def test_who_advertises_where_others_publish_has_no_credit_for_their_events(tmp_path):
    """On the simulated network everybody may be at every host."""
    corner = {"price": [1.0] * 1000, "size": [1.0] * 1000}
    flood = {"schema": "quotes", "epoch": 1, "rate": 0.5, "ages": [0.0] * 1000, "columns": corner}

    async def main():
        collecting = CollectingSettings(str(tmp_path / "lake"), sample=0.5)
        deployment = Deployment(port=0, collecting=collecting)
        async with running(tmp_path / "state", build("line:3"), deployment) as started:
            controller, network = started.service.controller, started.service.plane.network
            await controller.submit(CreateSchema(SCHEMA))
            for name in ("ann", HOSTILE):
                right = {"*": "true"}
                await controller.submit(CreatePrincipal(name, "publisher", digest(f"plr_{name}"), right))
            async with (
                pleroma.connect(started.url, "plr_ann", "h1") as ann,
                httpx.AsyncClient(base_url=started.url, headers={"Authorization": f"Bearer plr_{HOSTILE}"}) as hostile,
            ):

                async def flooded():
                    return [(await hostile.post("/v1/samples", json=flood)).json()["taken"] for _ in range(3)]

                for host in ("h1", "h2", "h3"):
                    body = {"schema": "quotes", "filter": "true", "host": host}
                    (await hostile.post("/v1/advertisements", json=body)).raise_for_status()
                assert await flooded() == [FIRST_SAMPLES, 0, 0]
                publisher = await ann.advertise("quotes")
                publisher.publish_many(SCHEMA.event(price=50.0, size=50.0) for _ in range(600))
                await until(lambda: network.hosts["h1"].published == 600)
                assert await flooded() == [0, 0, 0]

    run(main)
