import asyncio
import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from pleroma.control import (
    AdoptPlan,
    Controller,
    ControlSettings,
    CreatePrincipal,
    CreateSchema,
    Expire,
    RemovePrincipal,
    SqliteLog,
    Withdraw,
    command_from_json,
)
from pleroma.control.kept_answers import error_from_json, error_to_json
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state.command import Begin, Rewire, canonical
from pleroma.control.state_snapshot import snapshot
from pleroma.errors import (
    AlreadyThere,
    ControlError,
    KeyConflict,
    LimitReached,
    LogLocked,
    NotAllowed,
    NotInstalled,
    NotLeading,
    NotThere,
    OtherControl,
    UnknownName,
)
from pleroma.index import Dz, GridIndex, Rectangle, SelectiveIndex, SelectiveRegion
from pleroma.routing import Change, FlowTable, build
from support.control_cases import (
    ANN,
    BEN,
    DIGEST,
    LINE,
    PAT,
    SMALL,
    SUE,
    TRAFFIC,
    WEATHER,
    Network,
    advertise,
    subscribe,
)

FIRST = [CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, PAT, SUE, BEN]  # positions 2 to 7


def run(coroutine, seconds=20):
    return asyncio.run(asyncio.wait_for(coroutine, seconds))


async def opened(folder, network=None, settings=SMALL, topology=LINE, **more):
    return await Controller.open(folder, topology, network or Network(), settings, **more)


async def begun(folder, network=None, **more):
    controller = await opened(folder, network, **more)
    for command in FIRST:
        await controller.submit(command)
    return controller


def contents(controller):
    return snapshot(controller.state, controller._logged._fold.answers)


def tables_of(network):
    """What a network has that was told these operations from the beginning."""
    tables = {switch: FlowTable() for switch in LINE.switches}
    for op in network.ops:
        if op.change is not Change.DELETE or op.flow.dz in tables[op.switch]:  # after a failure it may not be there
            tables[op.switch].apply(op)
    return tables


def test_a_request_is_durable_applied_and_installed_when_it_returns(tmp_path):
    async def scenario():
        network = Network()
        async with await begun(tmp_path, network) as controller:
            await controller.submit(advertise("pat", "wind < 4"))
            done = await controller.submit(subscribe("sue", "temperature < 4"))
            assert done.value["id"] == "s9"
            assert done.flows == network.ops
            assert controller.position == controller.installed == 9
            with closing(sqlite3.connect(tmp_path / LOG_FILE_NAME)) as other:
                (body,) = other.execute("SELECT body FROM entries WHERE position = 9").fetchone()
            assert json.loads(body)["command"] == subscribe("sue", "temperature < 4").to_json()

    run(scenario())


def test_a_refusal_is_raised_and_not_written(tmp_path):
    async def scenario():
        async with await begun(tmp_path) as controller:
            with pytest.raises(NotAllowed) as caught:
                await controller.submit(subscribe("sue", "true"), "a key")
            assert caught.value.allowed == "temperature < 8"
            assert controller.position == 7
            done = await controller.submit(subscribe("sue", "temperature < 4"), "a key")  # still free
            assert done.value["id"] == "s8"

    run(scenario())


def test_one_that_was_overtaken_is_refused_too(tmp_path):
    """Both were fine when they were checked; both are in the log; one is carried out."""

    async def scenario():
        async with await begun(tmp_path) as controller:
            joe = CreatePrincipal("joe", "both", DIGEST)
            results = await asyncio.gather(*[controller.submit(joe) for _ in range(3)], return_exceptions=True)
            assert [type(each).__name__ for each in results] == ["Done", "AlreadyThere", "AlreadyThere"]
            assert controller.position == 10
            await controller.submit(subscribe("sue", "temperature < 4"))
            many = [controller.submit(subscribe("sue", "temperature < 4"), f"key {i}") for i in range(3)]
            results = await asyncio.gather(*many, return_exceptions=True)
            assert [type(each).__name__ for each in results] == ["Done", "LimitReached", "LimitReached"]
            before = contents(controller)
        async with await opened(tmp_path) as controller:
            assert contents(controller) == before
            await controller.submit(Withdraw("s11", "sue"))
            with pytest.raises(LimitReached):  # what was answered once stays the answer
                await controller.submit(subscribe("sue", "temperature < 4"), "key 1")

    run(scenario())


class TestKeys:
    def test_a_repetition_gets_the_same_answer_whatever_has_happened(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                first = await controller.submit(subscribe("sue", "temperature < 4"), "k")
                again = await controller.submit(subscribe("sue", "temperature < 4"), "k")
                assert again.value == first.value
                assert controller.position == 8
                await controller.submit(subscribe("sue", "temperature < 4"))  # the limit
                await controller.submit(AdoptPlan("weather", GridIndex.regular(WEATHER, 3)))
                await controller.submit(Withdraw("s8", "sue"), "w")
                for key, command in (("k", subscribe("sue", "temperature < 4")), ("w", Withdraw("s8", "sue"))):
                    again = await controller.submit(command, key)
                    assert again.value == (first.value if key == "k" else {"id": "s8"})
            for _ in range(2):  # from the log alone, then from a snapshot
                async with await opened(tmp_path) as controller:
                    assert (await controller.submit(subscribe("sue", "temperature < 4"), "k")).value == first.value
                    assert (await controller.submit(Withdraw("s8", "sue"), "w")).value == {"id": "s8"}
                    assert controller.position == 11

        run(scenario())

    def test_an_expiry_is_repeated_without_harm_and_counters_go_with_it(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                await controller.submit(subscribe("sue", "temperature < 4", lease="one"), "k")
                controller.report("sue", {"s8": {"delivered": 3}})
                with controller.feed.subscribe() as news:
                    first = await controller.submit(Expire("one", "sue"), "e")
                    item = await anext(news)
                assert first.value["withdrawn"] == ["s8"]
                assert (item["command"], item["value"]) == (Expire("one", "sue").to_json(), first.value)
                assert controller.client_counters.subscriptions == {}
                assert controller.client_counters.principals["sue"]["delivered"] == 3
                await controller.submit(subscribe("sue", "temperature < 4", lease="one"))
            for _ in range(2):  # from the log alone, then from a snapshot
                async with await opened(tmp_path) as controller:
                    assert (await controller.submit(Expire("one", "sue"), "e")).value == first.value
                    assert list(controller.state.registrations) == ["s10"]

        run(scenario())

    def test_repetitions_at_the_same_time_are_one_request(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                results = await asyncio.gather(*[controller.submit(another, "k") for _ in range(5)])
                assert all(each.value == results[0].value for each in results)
                assert sorted(controller.state.schemas) == ["another", "traffic", "weather"]
                assert (await controller.submit(another, "k")).value == results[0].value
                assert controller.position == 12  # the log has all that came at once, and the first one counts

        another = CreateSchema(type(WEATHER)("another", WEATHER.attributes))
        run(scenario())

    def test_another_request_with_the_same_key_is_a_conflict(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                await controller.submit(subscribe("sue", "temperature < 4"), "k")
                for other in (subscribe("sue", "temperature < 5"), Withdraw("s8", "sue")):
                    with pytest.raises(KeyConflict) as caught:
                        await controller.submit(other, "k")
                    assert (caught.value.field, caught.value.value) == ("key", "k")
                assert controller.position == 8

        run(scenario())

    def test_a_key_that_cannot_be_one_is_refused(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                for key in ("", "x" * 201):
                    with pytest.raises(ControlError, match="a key has 1 to 200"):
                        await controller.submit(subscribe("sue", "temperature < 4"), key)
                assert not controller._logged._commit._pending

        run(scenario())


def test_errors_survive_as_json():
    for sent in (
        NotAllowed("no", field="filter", value="x < 1", allowed="x < 0"),
        UnknownName("schema", "whether", ["weather"], field="schema"),
        ControlError("odd", value={1}),
    ):
        received = error_from_json(json.loads(canonical(error_to_json(sent))))
        assert (type(received), str(received), received.args) == (type(sent), str(sent), sent.args)
        assert getattr(received, "allowed", None) == getattr(sent, "allowed", None)


class TestRestart:
    async def history(self, controller):
        await controller.submit(advertise("pat", "wind < 4"))
        await controller.submit(advertise("ben", "true", "h2"), "k")
        await controller.submit(subscribe("sue", "temperature < 4"))
        await controller.submit(AdoptPlan("weather", GridIndex.regular(WEATHER, 5, ["temperature"])))
        await controller.submit(subscribe("ben", "speed > 8", "h1", TRAFFIC))
        await controller.submit(advertise("ben", "true", "h3", TRAFFIC))
        await controller.submit(subscribe("ben", "true", "h2"))
        await controller.submit(Withdraw("s10", "sue"))
        await controller.submit(RemovePrincipal("pat"))

    def test_the_log_alone_gives_the_state_and_the_tables(self, tmp_path):
        async def scenario():
            network = Network()
            controller = await begun(tmp_path, network)
            await self.history(controller)
            before, tables = contents(controller), controller.state.router.tables
            assert tables == tables_of(network)
            assert any(len(table) for table in tables.values())
            await controller._logged.close(with_snapshot=False)  # as a crash leaves it: no snapshot
            await controller._installer.close()
            network = Network()
            async with await opened(tmp_path, network) as controller:
                assert contents(controller) == before
                assert controller.state.router.tables == tables == tables_of(network)
                assert controller.position == controller.installed == 16

        run(scenario())

    @pytest.mark.parametrize("every", [1, 3, 7])
    def test_snapshots_and_the_rest_of_the_log_give_the_same(self, tmp_path, every):
        async def scenario():
            expected = await begun(tmp_path / "whole")
            await self.history(expected)
            controller = await begun(tmp_path / "cut", snapshot_every=every)
            await self.history(controller)
            while controller._logged._saving:
                await controller._logged._saving
            await controller._logged.close(with_snapshot=False)
            await controller._installer.close()
            with SqliteLog.open(tmp_path / "cut" / LOG_FILE_NAME) as log:
                assert log.latest_snapshot().position > 16 - 2 * every - 4  # some came while one was written
            async with await opened(tmp_path / "cut") as controller:
                assert contents(controller) == contents(expected)
                assert controller.state.router.tables == expected.state.router.tables
                assert list(controller.state.registrations) == list(expected.state.registrations)
                await controller.submit(subscribe("sue", "temperature < 4"))
                await expected.submit(subscribe("sue", "temperature < 4"))
                assert contents(controller) == contents(expected)
            await expected.close()

        run(scenario())

    def test_closing_saves_a_snapshot_once(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path):
                pass
            with SqliteLog.open(tmp_path / LOG_FILE_NAME) as log:
                assert log.latest_snapshot().position == 7
                kept = log.latest_snapshot().snapshot.state
            async with await opened(tmp_path) as controller:
                assert contents(controller) == kept

        run(scenario())

    def test_another_network_or_other_settings_are_refused(self, tmp_path):
        async def scenario(crash):
            controller = await begun(tmp_path / str(crash))
            if crash:
                await controller._logged.close(with_snapshot=False)
                await controller._installer.close()
            else:
                await controller.close()
            for wrong in ({"settings": ControlSettings()}, {"topology": build("line:4")}):
                with pytest.raises(OtherControl) as caught:
                    await opened(tmp_path / str(crash), **wrong)
                assert caught.value.field == next(iter(wrong))
            async with await opened(tmp_path / str(crash)):  # and the log is free again
                pass

        run(scenario(crash=False))
        run(scenario(crash=True))

    def test_only_one_controller_at_a_time(self, tmp_path):
        async def scenario():
            async with await opened(tmp_path):
                with pytest.raises(LogLocked):
                    await opened(tmp_path)

        run(scenario())

    def test_a_network_that_refuses_at_the_start_leaves_the_log_free(self, tmp_path):
        class Broken:
            async def install(self, _ops):
                raise OSError("no switches")

        async def scenario():
            with pytest.raises(OSError, match="no switches"):
                await opened(tmp_path, Broken())
            async with await opened(tmp_path):
                pass

        run(scenario())


class Moody(Network):
    """Refuses while it is told to, and notes which switches every call was about."""

    def __init__(self):
        super().__init__()
        self.refusing = False
        self.calls = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def install(self, ops):
        self.calls.append({op.switch for op in ops})
        await self.gate.wait()
        if self.refusing:
            raise OSError("the switch is away")
        await super().install(ops)


class TestInstalling:
    def test_what_comes_while_a_batch_is_under_way_goes_together_and_in_order(self, tmp_path):
        async def scenario():
            network = Moody()
            async with await begun(tmp_path, network) as controller:
                await controller.submit(advertise("ben", "true"))
                network.gate.clear()
                first = asyncio.create_task(controller.submit(subscribe("ben", "wind < 4")))
                network.calls.clear()
                while not network.calls:
                    await asyncio.sleep(0.001)
                rest = [
                    asyncio.create_task(controller.submit(subscribe("ben", f"temperature < {i}", "h2")))
                    for i in range(1, 6)
                ]
                while controller.position < 14:
                    await asyncio.sleep(0.001)
                assert not any(each.done() for each in (first, *rest))
                network.gate.set()
                await asyncio.gather(first, *rest)
                by_switch = Counter(switch for call in network.calls for switch in call)
                assert by_switch == {"R1": 2, "R2": 2, "R3": 1}  # h2 is nearer than R3
                assert by_switch.total() == len(network.calls)
                assert tables_of(network) == controller.state.router.tables

        run(scenario())

    def test_a_network_that_fails_is_told_again_until_it_follows(self, tmp_path):
        async def scenario():
            network = Moody()
            async with await begun(tmp_path, network) as controller:
                await controller.submit(advertise("ben", "true"))
                network.refusing = True
                with pytest.raises(NotInstalled) as caught:
                    await controller.submit(subscribe("ben", "wind < 4"), "k")
                assert isinstance(caught.value.__cause__, OSError)
                assert controller.network_failure is caught.value.__cause__
                assert controller.position == 9
                assert controller.installed == 8
                network.refusing = False
                done = await controller.submit(subscribe("ben", "wind < 4"), "k")  # waits for the next attempt
                assert done.value["id"] == "s9"
                assert controller.installed == 9
                assert controller.network_failure is None
                assert tables_of(network) == controller.state.router.tables

        run(scenario())

    def test_what_comes_after_a_failure_goes_with_what_failed(self, tmp_path):
        async def scenario():
            network = Moody()
            async with await begun(tmp_path, network) as controller:
                await controller.submit(advertise("ben", "true"))
                network.refusing = True
                with pytest.raises(NotInstalled):
                    await controller.submit(subscribe("ben", "wind < 4"))
                others = [
                    asyncio.create_task(controller.submit(subscribe("ben", f"temperature < {i}", "h2"))) for i in (2, 3)
                ]
                while controller.position < 11:
                    await asyncio.sleep(0.001)
                network.refusing = False
                await asyncio.gather(*others, return_exceptions=True)
                while controller.installed < 11:
                    await asyncio.sleep(0.001)
                assert tables_of(network) == controller.state.router.tables

        run(scenario())

    def test_a_network_that_changes_gets_the_difference_and_requests_wait_for_their_host(self, tmp_path):
        async def scenario():
            network = Network()
            async with await begun(tmp_path, network) as controller:
                await controller.submit(advertise("ben", "true"))
                await controller.submit(subscribe("ben", "wind < 4"))
                whole = tables_of(network)
                await controller.rewire(Rewire(absent=("R3",)))
                await controller.submit(subscribe("ben", "temperature < 3"))
                assert tables_of(network) == {switch: FlowTable() for switch in LINE.switches}
                await controller.rewire(Rewire())
                await controller.submit(Withdraw("s11", "ben"))
                assert tables_of(network) == whole == controller.state.router.tables
                assert [(op.switch, op.port, op.change) for op in network.admitted] == [("R1", 1, "add")]

        run(scenario())

    def test_closing_does_not_wait_for_ever(self, tmp_path, monkeypatch):
        monkeypatch.setattr("pleroma.control.controller.CLOSING_INSTALL_SECONDS", 0.05)

        async def scenario():
            network = Moody()
            controller = await begun(tmp_path, network)
            await controller.submit(advertise("ben", "true"))
            network.gate.clear()
            waiting = asyncio.create_task(controller.submit(subscribe("ben", "wind < 4")))
            while controller.position < 9:
                await asyncio.sleep(0.001)
            await controller.close()
            with pytest.raises(NotInstalled):
                await waiting

        run(scenario())

    def test_one_that_is_cancelled_leaves_nothing_behind(self, tmp_path):
        async def scenario():
            network = Moody()
            async with await begun(tmp_path, network) as controller:
                await controller.submit(advertise("ben", "true"))
                network.gate.clear()
                calls = [asyncio.create_task(controller.submit(subscribe("ben", "wind < 4"))) for _ in range(3)]
                while controller.position < 11:
                    await asyncio.sleep(0.001)
                calls[0].cancel()
                network.gate.set()
                results = await asyncio.gather(*calls, return_exceptions=True)
                assert [type(each).__name__ for each in results] == ["CancelledError", "Done", "Done"]
                assert not controller._logged._commit._pending

        run(scenario())


class TestTheFeed:
    def test_it_tells_what_happened(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                with controller.feed.subscribe() as news:
                    await controller.submit(CreatePrincipal("joe", "both", DIGEST))
                    await controller.submit(advertise("pat", "wind < 4"))
                    await controller.submit(subscribe("sue", "temperature < 4"))
                    await controller.submit(AdoptPlan("weather", GridIndex.regular(WEATHER, 2)))
                    controller.report("sue", {"s10": {"delivered": 3, "wasted": 1}}, {"published": 2})
                items = [item async for item in news]
            kinds = [item["type"] for item in items]
            assert kinds == ["request"] * 3 + ["flows", "request", "flows", "plan", "counters"]
            assert DIGEST not in json.dumps(items)
            assert items[2]["value"]["id"] == "s10"
            assert items[3]["count"] == len(items[3]["ops"]) > 0
            assert items[3]["ops"][0].keys() == {"switch", "change", "dz", "ports"}
            assert items[6] == {"type": "plan", "position": 11, "schema": "weather", "epoch": 2}
            assert items[7]["totals"]["delivered"] == 3
            assert items[7]["subscriptions"] == {"s10": {"delivered": 3, "wasted": 1}}
            assert (items[7]["principal"], items[7]["published"]) == ("sue", 2)

        run(scenario())

    def test_counters_that_are_reported_again_are_told_once(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                await controller.submit(subscribe("sue", "temperature < 4"))
                with controller.feed.subscribe() as news:
                    for is_new in (True, False):
                        assert controller.report("sue", {"s8": {"delivered": 1}}, batch=("sender", 1)) is is_new
                items = [item async for item in news]
            assert [(item["type"], item["totals"]["delivered"]) for item in items] == [("counters", 1)]

        run(scenario())

    def test_a_plan_that_a_subscription_opens_is_news(self, tmp_path):
        cold = Rectangle(((0.0, 4.0), (0.0, 8.0)))
        grid = GridIndex.regular(WEATHER, 4)
        quiet = SelectiveIndex(
            WEATHER,
            (SelectiveRegion(Dz.parse("0"), cold, grid), SelectiveRegion(Dz.parse("1"), None, grid)),
            quiet=True,
        )

        async def scenario():
            async with await begun(tmp_path) as controller:
                await controller.submit(AdoptPlan("weather", quiet))
                with controller.feed.subscribe() as news:
                    await controller.submit(subscribe("sue", "temperature < 3"))
                    await controller.submit(subscribe("sue", "temperature < 7"))
                plans = [item async for item in news if item["type"] == "plan"]
                assert plans == [{"type": "plan", "position": 10, "schema": "weather", "epoch": 3}]

        run(scenario())

    def test_it_ends_with_the_controller(self, tmp_path):
        async def scenario():
            controller = await opened(tmp_path)
            news = controller.feed.subscribe()
            reading = asyncio.create_task(anext(news, None))
            await asyncio.sleep(0)
            await controller.close()
            assert await reading is None

        run(scenario())


class TestClientCounters:
    def test_reports_add_up(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                await controller.submit(subscribe("sue", "temperature < 4"))
                await controller.submit(subscribe("ben", "true"))
                for _ in range(2):
                    controller.report("sue", {"s8": {"delivered": 3, "wasted": 1}})
                controller.report("ben", {"s9": {"dropped": 5, "duplicates": 2}}, {"published": 10, "unsent": 4})
                counters = controller.client_counters
                assert counters.subscriptions["s8"] == {"delivered": 6, "wasted": 2}
                assert counters.totals == {
                    "published": 10, "delivered": 6, "wanted": 0, "wasted": 2, "duplicates": 2, "dropped": 5,
                    "forged": 0, "missed": 0, "unsent": 4, "overrun": 0,
                }  # fmt: skip
                await controller.submit(Withdraw("s8", "sue"))
                await controller.submit(RemovePrincipal("ben"))
                assert counters.subscriptions == {}
                assert counters.totals["delivered"] == 6

        run(scenario())

    def test_a_bad_report_adds_nothing(self, tmp_path):
        async def scenario():
            async with await begun(tmp_path) as controller:
                await controller.submit(subscribe("sue", "temperature < 4"))
                await controller.submit(advertise("ben", "true"))
                for who, counted, wrong in (
                    ("ben", {"s8": {"delivered": 1}}, NotThere),
                    ("ben", {"a9": {"delivered": 1}}, NotThere),
                    ("sue", {"s8": {"delivered": 1, "lost": 1}}, UnknownName),
                    ("sue", {"s8": {"delivered": -1}}, ControlError),
                    ("sue", {"s8": {"delivered": True}}, ControlError),
                    ("sue", {"s8": {"delivered": 2**53}}, ControlError),
                ):
                    with pytest.raises(wrong):
                        controller.report(who, counted)
                for sums, wrong in (({"lost": 1}, UnknownName), ({"unsent": -1}, ControlError)):
                    with pytest.raises(wrong):
                        controller.report("sue", {"s8": {"delivered": 1}}, sums)
                assert controller.client_counters.totals["delivered"] == 0
                assert not any(controller.client_counters.subscriptions.values())

        run(scenario())


def test_a_closed_controller_takes_nothing(tmp_path):
    async def scenario():
        controller = await begun(tmp_path)
        with pytest.raises(ControlError):
            await controller.submit(Begin({}, ""))
        await controller.close()
        await controller.close()
        with pytest.raises(ControlError):
            await controller.submit(CreateSchema(WEATHER))

    run(scenario())


def test_what_was_taken_before_closing_is_answered(tmp_path):
    async def scenario():
        controller = await begun(tmp_path)
        calls = [asyncio.create_task(controller.submit(subscribe("ben", "wind < 4"))) for _ in range(50)]
        await asyncio.sleep(0)
        await controller.close()
        answered = {each.value["id"] for each in await asyncio.gather(*calls)}
        async with await opened(tmp_path) as controller:
            assert set(controller.state.registrations) == answered

    run(scenario())


@pytest.mark.parametrize(
    "command",
    [
        *FIRST,
        Begin(SMALL.to_json(), "network"),
        CreateSchema(WEATHER, 5),
        AdoptPlan("weather", GridIndex.regular(WEATHER, 5)),
        RemovePrincipal("sue"),
        subscribe("sue", "temperature < 4"),
        advertise("ben", "road == 'a1' or speed > 4", schema=TRAFFIC),
        Withdraw("s5", "sue"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_commands_survive_as_json(command):
    text = canonical(command.to_json())
    assert command_from_json(json.loads(text)) == command
    assert canonical(command_from_json(json.loads(text)).to_json()) == text


@pytest.mark.parametrize("data", [None, [], {}, {"do": "dance"}, {"do": "withdraw", "id": "s1"}])
def test_what_is_no_command_is_refused(data):
    with pytest.raises(ControlError):
        command_from_json(data)


def test_a_name_that_is_taken_is_refused_at_once(tmp_path):
    async def scenario():
        async with await begun(tmp_path) as controller:
            with pytest.raises(AlreadyThere):
                await controller.submit(ANN)
            assert controller.position == 7

    run(scenario())


class TestDeposed:
    """A controller in whose place another process tells the switches."""

    def test_it_tells_switches_nothing_more_and_does_not_say_that_they_know(self, tmp_path):
        class Stuck(Network):
            is_stuck = False

            async def install(self, ops):
                if self.is_stuck:
                    await asyncio.Event().wait()
                await super().install(ops)

        async def scenario():
            network = Stuck()
            controller = await Controller.open(tmp_path, LINE, network, SMALL)
            for command in (*FIRST, advertise("ann", "true"), subscribe("ann", "true", "h2")):
                await controller.submit(command)
            told, network.is_stuck = len(network.ops), True
            assert told
            waiting = asyncio.ensure_future(controller.submit(subscribe("ann", "true", "h3")))
            while controller.position < 10:
                await asyncio.sleep(0.01)
            asked = asyncio.ensure_future(controller.in_force(10, None, None, 8.0))
            await asyncio.sleep(0.02)
            await controller.depose()
            network.is_stuck = False
            with pytest.raises(NotInstalled, match="is durable"):
                await waiting
            with pytest.raises(NotLeading):
                await asked
            with pytest.raises(NotInstalled, match="another process tells the switches"):
                await controller.submit(Withdraw("s9", "ann"))
            with pytest.raises(NotLeading):
                await controller.in_force(11, None, None, 8.0)
            await controller.close()
            assert len(network.ops) == told

        run(scenario())
