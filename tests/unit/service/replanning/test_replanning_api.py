"""The API of re-planning: who looks for plans, a watcher's claim, and what a plan would do."""

from pleroma.control import Controller, CreatePrincipal, CreateSchema
from pleroma.index import GridIndex
from pleroma.replanning.tree_balance import TreeBalance
from pleroma.routing import build
from pleroma.service import create_app
from pleroma.service.http.tokens import digest
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.service.replanning.watcher_claims import WatcherClaims
from pleroma.switches.live.live_network import LiveNetwork
from support.service.in_process import ADMIN, UNLIMITED, Api
from support.strategies import STOCK
from support.waiting import run

PATH = "/v1/schemas/stock/plan"
BLIND = GridIndex.regular(STOCK, 8, ["volume"])
TUNER, READER = "tuner-token", "reader-token"


async def with_api(folder, replanning, work):
    async with (
        LiveNetwork(build("line:2"), loopback=True) as network,
        await Controller.open(folder / "service", build("line:2"), network) as controller,
    ):
        for name, role, token in (("admin", "admin", ADMIN), ("t", "tuner", TUNER), ("r", "subscriber", READER)):
            await controller.submit(CreatePrincipal(name, role, digest(token)))
        await controller.submit(CreateSchema(STOCK))
        api = Api(create_app(controller, EmbeddedPlane(network), UNLIMITED, None, replanning))
        async with api.client, api.app.state.service.planner:
            await work(api)


def test_a_claim_makes_the_controller_stand_back_until_it_is_over(tmp_path):
    async def work(api):
        tuner = api.as_(TUNER)
        assert (await api.get(f"{PATH}/replanning"))["by"] == "controller"
        await tuner("POST", f"{PATH}/watching", 204, json={"seconds": 60})
        assert (await tuner.get(f"{PATH}/replanning"))["by"] == "watcher"
        await tuner("POST", f"{PATH}/watching", 204, json={"seconds": 0})
        answer = await api.get(f"{PATH}/replanning")
        assert answer["by"] == "controller"
        assert (answer["changes"], answer["window"], answer["decision"], answer["failure"]) == (0, None, None, None)
        assert answer["trees"] == {"choice": "single", "count": 1, "moves": 0, "busiest_cable": None}

    run(lambda: with_api(tmp_path, ReplanningSettings(), work))


def test_the_last_comparison_of_trees_is_told(tmp_path):
    async def work(api):
        loop = api.app.state.service.replanning
        loop.moves["stock"] += 2
        loop.balances["stock"] = TreeBalance((), 0.5, 0.25, 300, "not_better")
        answer = (await api.get(f"{PATH}/replanning"))["trees"]
        assert answer["moves"] == 2
        assert answer["busiest_cable"] == {"now": 0.5, "expected": 0.25, "events": 300, "outcome": "not_better"}

    run(lambda: with_api(tmp_path, ReplanningSettings(), work))


def test_where_it_is_off_nobody_looks_and_samples_are_not_wanted(tmp_path):
    async def work(api):
        assert (await api.get(f"{PATH}/replanning"))["by"] == "nobody"
        assert (await api.get(PATH))["sample"] == 0.0
        refused = await api("POST", "/v1/samples", 404, json=samples(2))
        assert "wants no samples" in refused.json()["error"]["reason"]

    run(lambda: with_api(tmp_path, None, work))


def test_bad_claims_and_callers_without_the_right_change_nothing(tmp_path):
    async def work(api):
        for body in ({"seconds": -1}, {"seconds": 4000}, {"seconds": "long"}, {}, {"seconds": 1, "more": 2}):
            await api("POST", f"{PATH}/watching", 400, json=body)
        await api.as_(READER)("POST", f"{PATH}/watching", 403, json={"seconds": 60})
        await api.as_(READER)("GET", f"{PATH}/replanning", 403)
        await api.as_(READER)("POST", f"{PATH}/forecast", 403, json={"index": GridIndex.regular(STOCK, 4).to_json()})
        await api("POST", "/v1/schemas/none/plan/watching", 404, json={"seconds": 60})
        assert (await api.get(f"{PATH}/replanning"))["by"] == "controller"

    run(lambda: with_api(tmp_path, ReplanningSettings(), work))


def samples(count):
    columns = {"price": [10.0 * i for i in range(count)], "volume": [1] * count, "ticker": ["A"] * count}
    return {"schema": "stock", "epoch": 1, "rate": 1.0, "ages": [0.0] * count, "columns": columns}


def test_a_forecast_tells_rules_of_every_switch_and_waste_of_both_plans(tmp_path):
    async def work(api):
        await api("POST", "/v1/advertisements", 201, json={"schema": "stock", "filter": "true", "host": "h1"})
        wanted = {"schema": "stock", "filter": "price < 20", "host": "h2"}
        await api("POST", "/v1/subscriptions", 201, json=wanted)
        found = await api.post(f"{PATH}/forecast", {"index": BLIND.to_json(), "members": 4}, 200)
        assert (found["events"], found["subscriptions"]) == (0, 1)
        assert found["planned"]["waste_at_hosts"] > found["in_force"]["waste_at_hosts"]
        assert set(found["planned"]["rules_by_switch"]) == {"R1", "R2"}
        for bad in ({"index": {"kind": "none"}}, {"index": BLIND.to_json(), "members": 0}, {}):
            await api("POST", f"{PATH}/forecast", 400, json=bad)

    run(lambda: with_api(tmp_path, None, work))


def test_a_forecast_where_nobody_subscribes_is_refused_in_one_line(tmp_path):
    async def work(api):
        refused = await api.error("POST", f"{PATH}/forecast", 409, "tuning_error", json={"index": BLIND.to_json()})
        assert refused["reason"] == "nobody subscribes to anything that is published"

    run(lambda: with_api(tmp_path, None, work))


def test_a_claim_ends_by_itself():
    now = [0.0]
    claims = WatcherClaims(lambda: now[0])
    assert not claims.is_claimed("stock")
    claims.claim("stock", 30)
    now[0] = 29.9
    assert claims.is_claimed("stock")
    assert not claims.is_claimed("other")
    now[0] = 30.0
    assert not claims.is_claimed("stock")
