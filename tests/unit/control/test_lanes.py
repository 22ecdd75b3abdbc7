"""Each switch has a lane of its own: who waits for which switch, and who does not."""

import asyncio
import socket

import pytest

from pleroma.control import AdoptPlan, ChangePlan, Controller, CreatePrincipal, CreateSchema, PlanChangeTiming, Withdraw
from pleroma.control import installer as installer_module
from pleroma.control.installer import Installer
from pleroma.control.switch_batch import SwitchBatch
from pleroma.errors import NotInstalled
from pleroma.index import Dz, GridIndex
from pleroma.routing import AdmitOp, Change, DetourOp, Flow, FlowOp, build
from support.control_cases import ANN, BEN, DIGEST, SMALL, TRAFFIC, WEATHER, advertise, subscribe

LINE = build("line:4")  # h1 - h2 - h3 - h4
FIRST = [CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN]


def run(coroutine, seconds=20):
    return asyncio.run(asyncio.wait_for(coroutine, seconds))


def op(switch, bits, change=Change.ADD):
    return FlowOp(switch, change, Flow(Dz.parse(bits), ()))


class Switches:
    """Switches that confirm, refuse or say nothing, each as it is told. `calls` has the switch and how many ops."""

    def __init__(self):
        self.calls = []
        self.silent = {}
        self.refusing = set()

    def stop(self, switch):
        self.silent[switch] = asyncio.Event()

    def go_on(self, switch):
        self.silent.pop(switch).set()

    async def install(self, ops):
        for switch in {each.switch for each in ops}:
            self.calls.append((switch, len(ops)))
            if switch in self.silent:
                await self.silent[switch].wait()
            if switch in self.refusing:
                raise OSError("no room")


async def settle(turns=20):
    """Until nobody has anything to do but wait."""
    for _ in range(turns):
        await asyncio.sleep(0)


class TestAnInstaller:
    def test_operations_of_several_switches_are_sent_before_the_next_packet_is_read(self):
        async def scenario():
            network, near, far = Switches(), *socket.socketpair()
            installer, read = Installer(network), []
            asyncio.get_running_loop().add_reader(near, lambda: read.append((near.recv(1), list(network.calls))))
            far.send(b"x")  # ready to be read from now on
            await installer.give(1, [op("R1", "0"), op("R2", "0"), op("R3", "0")])
            while not read:
                await asyncio.sleep(0)
            assert read == [(b"x", [("R1", 1), ("R2", 1), ("R3", 1)])]
            asyncio.get_running_loop().remove_reader(near)
            near.close()
            far.close()

        run(scenario())

    def test_what_is_given_in_one_turn_goes_together_and_what_comes_later_gathers(self):
        async def scenario():
            network = Switches()
            installer = Installer(network)
            network.stop("R1")
            for position in (1, 2, 3):
                await installer.give(position, [op("R1", "0" * position), op("R2", "0" * position)])
            await settle()
            for position in (4, 5):
                await installer.give(position, [op("R1", "1" * position)])
            await settle()
            assert network.calls == [("R1", 3), ("R2", 3)]
            assert installer.installed == 0
            network.go_on("R1")
            await installer.confirmed(installer.until(5))
            assert network.calls[2:] == [("R1", 2)]
            assert installer.installed == 5
            assert installer.delays == {}

        run(scenario())

    def test_very_many_operations_are_a_batch_of_their_own_and_keep_their_place(self, monkeypatch):
        monkeypatch.setattr(installer_module, "MAX_OPS_PER_TURN", 3)

        async def scenario():
            network = Switches()
            installer = Installer(network)
            network.stop("R1")
            await installer.give(1, [op("R1", "0")])
            await settle()
            await installer.give(2, [op("R1", "10")])
            many = [op("R1", "11"), op("R1", "0", Change.DELETE), op("R1", "1"), op("R2", "1")]
            await installer.give(3, many)
            await installer.give(4, [op("R1", "111")])
            assert (installer.installed, installer.delays["R1"].operations) == (0, 6)
            assert list(installer.following_from(3)) in (["R1"], ["R1", "R2"])
            assert installer.overlapping([Dz.parse("110")], 2) == {}
            (awaited,) = installer.overlapping([Dz.parse("110")], 3)["R1"]
            network.go_on("R1")
            await awaited.confirmed
            await installer.confirmed(installer.until(4))
            assert [call for call in network.calls if call[0] == "R1"] == [("R1", 1), ("R1", 1), ("R1", 4)]
            assert ("R2", 1) in network.calls
            assert installer.installed == 4

        run(scenario())

    def test_very_many_operations_that_fail_are_tried_again_with_the_next(self, monkeypatch):
        monkeypatch.setattr(installer_module, "MAX_OPS_PER_TURN", 1)

        async def scenario():
            network = Switches()
            installer = Installer(network)
            network.refusing.add("R1")
            await installer.give(1, [op("R1", "0"), op("R1", "1")])
            awaited = installer.until(1)
            await installer.give(2, [op("R1", "00"), op("R1", "11")])
            with pytest.raises(NotInstalled):
                await installer.confirmed(awaited)
            network.refusing.clear()
            await installer.confirmed(installer.until(2))
            assert network.calls == [("R1", 2), ("R1", 4)]
            assert installer.installed == 2

        run(scenario())

    def test_a_lane_that_fails_tries_again_alone_with_what_came_since(self):
        async def scenario():
            network = Switches()
            installer = Installer(network)
            network.refusing.add("R1")
            await installer.give(1, [op("R1", "0"), op("R2", "0")])
            with pytest.raises(NotInstalled) as caught:
                await installer.confirmed(installer.until(1))
            assert isinstance(caught.value.__cause__, OSError)
            assert caught.value.value == "R1"
            assert installer.failure is caught.value.__cause__ is installer.delays["R1"].failure
            await installer.give(2, [op("R1", "1")])
            later = installer.following_from(2)
            network.refusing.clear()
            await installer.confirmed(later)
            assert network.calls == [("R1", 1), ("R2", 1), ("R1", 2)]
            assert installer.failure is None
            assert installer.installed == 2

        run(scenario())

    def test_those_who_wait_for_the_next_attempt_are_told_of_its_failure_too(self):
        async def scenario():
            network = Switches()
            installer = Installer(network)
            network.refusing.add("R1")
            await installer.give(1, [op("R1", "0")])
            for _ in range(3):
                with pytest.raises(NotInstalled):
                    await installer.confirmed(installer.following_from(1))
            assert len(network.calls) >= 3
            await installer.close()

        run(scenario())

    def test_the_pauses_between_attempts_grow_and_begin_anew_after_a_success(self, monkeypatch):
        pauses, turn = [], asyncio.sleep

        async def sleep(seconds):
            pauses.append(seconds)
            await turn(0)

        async def scenario():
            network = Switches()
            installer = Installer(network)
            with monkeypatch.context() as patched:
                patched.setattr("pleroma.control.lane.asyncio.sleep", sleep)
                for _ in range(2):
                    network.refusing.add("R1")
                    await installer.give(1, [op("R1", "0")])
                    for _ in range(9):
                        with pytest.raises(NotInstalled):
                            await installer.confirmed(installer.until(1))
                    network.refusing.clear()
                    await installer.confirmed(installer.until(1))

        run(scenario())
        assert pauses[:9] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        assert pauses.count(0.05) == 2

    def test_patience_ends_with_the_name_of_the_switch(self):
        async def scenario():
            network = Switches()
            installer = Installer(network)
            network.stop("R2")
            await installer.give(1, [op("R1", "0"), op("R2", "0")])
            with pytest.raises(NotInstalled, match=r"R2 has not confirmed it: no answer in 0.01 s") as caught:
                await installer.confirmed(installer.until(1), 0.01)
            assert caught.value.value == "R2"
            delay = installer.delays["R2"]
            assert (delay.confirmed, delay.operations, delay.failure) == (0, 1, None)
            assert delay.seconds >= 0.01
            await installer.close()

        run(scenario())

    def test_closing_tells_all_who_wait(self):
        async def scenario():
            network = Switches()
            installer = Installer(network)
            network.stop("R1")
            await installer.give(1, [op("R1", "0")])
            await settle()
            await installer.give(2, [op("R1", "1")])
            waiting = [asyncio.create_task(installer.confirmed(installer.until(position))) for position in (1, 2)]
            await settle()
            await installer.close()
            for each in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(each, NotInstalled)

        run(scenario())

    def test_the_oldest_change_counts_also_after_a_failure(self):
        async def scenario():
            loop, network = asyncio.get_running_loop(), Switches()
            installer = Installer(network)
            network.refusing.add("R1")
            begun = loop.time()
            await installer.give(1, [op("R1", "0")])
            await asyncio.sleep(0.02)
            await installer.give(2, [op("R1", "1")])
            assert 0.02 <= installer.delays["R1"].seconds <= loop.time() - begun
            assert installer.delays["R1"].operations == 2
            await installer.close()

        run(scenario())


class TestABatch:
    @pytest.mark.parametrize(("asked", "until", "meets"), [
        ("0", 9, True), ("01", 9, True), ("011", 9, True), ("0110", 9, True), ("010", 9, False), ("1", 9, True),
        ("11", 9, False), ("10", 9, True), ("", 9, True), ("1", 4, False), ("0", 4, True), ("0", 2, False),
        ("", 2, False),
    ])  # fmt: skip
    def test_it_overlaps_what_covers_an_operation_or_lies_in_one(self, asked, until, meets):
        async def scenario():
            batch = SwitchBatch()
            batch.add(3, [op("R1", "011")])
            assert batch.overlaps([Dz.parse("0")], 9)
            batch.add(
                5, [AdmitOp("R1", Change.ADD, 1, Dz.parse("100")), DetourOp("R1", Change.ADD, op("R1", "101")[2])]
            )
            assert batch.overlaps([Dz.parse(asked)], until) == meets

        run(scenario())

    def test_the_first_operation_at_a_cell_counts(self):
        async def scenario():
            batch = SwitchBatch()
            batch.add(3, [op("R1", "01")])
            batch.add(5, [op("R1", "01", Change.MODIFY), op("R1", "0")])
            assert batch.overlaps([Dz.parse("01")], 3)
            assert batch.overlaps([Dz.parse("011")], 4)
            assert not batch.overlaps([Dz.parse("00")], 4)
            assert batch.overlaps([Dz.parse("00")], 5)
            assert [batch.follows_from(position) for position in (2, 3, 4, 5, 6)] == [False, True, False, True, False]

        run(scenario())

    def test_of_several_operations_on_a_rule_it_keeps_what_they_come_to(self):
        async def scenario():
            batch = SwitchBatch()
            batch.add(1, [op("R1", "00"), op("R1", "01", Change.DELETE), op("R1", "10", Change.MODIFY), op("R1", "11")])
            batch.add(2, [op("R1", "00", Change.DELETE), op("R1", "01"), op("R1", "10", Change.DELETE)])
            batch.add(
                3, [DetourOp("R1", Change.ADD, op("R1", "00").flow), AdmitOp("R1", Change.DELETE, 1, Dz.parse("0"))]
            )
            batch.add(4, [AdmitOp("R1", Change.ADD, 1, Dz.parse("0")), op("R1", "11", Change.MODIFY)])
            assert {(type(each), str(each)) for each in batch.ops} == {
                (FlowOp, "R1: modify 01 -> "), (FlowOp, "R1: delete 10 -> "), (FlowOp, "R1: add 11 -> "),
                (DetourOp, "R1: add detour 00 -> "),
            }  # fmt: skip
            assert len(batch) == 4
            assert all(map(batch.follows_from, (1, 2, 3, 4)))

        run(scenario())

    def test_after_a_failure_a_rule_that_may_be_there_is_deleted(self):
        async def scenario():
            failed, later = SwitchBatch(), SwitchBatch()
            failed.add(1, [op("R1", "0"), AdmitOp("R1", Change.DELETE, 1, Dz.parse("0"))])
            later.add(2, [op("R1", "0", Change.DELETE), AdmitOp("R1", Change.ADD, 1, Dz.parse("0"))])
            later.add(3, [op("R1", "11")])
            both = failed.then(later)
            assert [each.change for each in both.ops] == ["delete", "add", "add"]
            assert (both.first, both.confirmed) == (1, later.confirmed)
            assert [both.overlaps([Dz.parse("11")], until) for until in (2, 3)] == [False, True]
            assert all(map(both.follows_from, (1, 2, 3)))
            failed.add(1, [op("R1", "101")])
            again = failed.then(SwitchBatch())
            again.add(4, [op("R1", "101", Change.DELETE)])  # while the next attempt waits
            assert str(again.ops[-1]) == "R1: delete 101 -> "

        run(scenario())

    def test_requests_that_come_and_go_for_days_take_no_room(self):
        async def scenario():
            batch, standing = SwitchBatch(), []
            for position in range(1, 20_001):
                standing.append(op("R1", f"{position:020b}"))
                batch.add(position, standing[-1:])
                if len(standing) > 50:
                    batch.add(position, [standing.pop(0)._replace(change=Change.DELETE)])
            assert batch.ops == standing
            assert len(batch._first) == len(batch._ordered) + len(batch._unordered) < 5_000
            assert batch.overlaps([Dz.parse("0")], 20_000)
            assert not batch.overlaps([Dz.parse("1")], 20_000)
            assert not batch.overlaps([standing[-1].flow.dz], 19_999)
            await asyncio.sleep(0)

        run(scenario())


async def begun(folder, network, **more):
    controller = await Controller.open(folder, LINE, network, SMALL, **more)
    for command in FIRST:
        await controller.submit(command)
    return controller


class TestARequest:
    def test_it_does_not_wait_for_a_switch_that_it_does_not_rely_on(self, tmp_path):
        async def scenario():
            network = Switches()
            async with await begun(tmp_path, network) as controller:
                await controller.submit(advertise("ben", "true"))
                network.stop("R4")
                far = asyncio.create_task(controller.submit(subscribe("ben", "wind < 4", "h4"), "far"))
                while not controller.delays:
                    await asyncio.sleep(0)
                near = await controller.submit(subscribe("ben", "wind < 4", "h3"))  # the same events, not so far
                await controller.submit(Withdraw(near.value["id"], "ben"))
                await controller.submit(subscribe("ben", "speed > 4", "h4", TRAFFIC))  # nobody says anything of it
                assert not far.done()
                assert set(controller.delays) == {"R4"}
                assert controller.installed == 6 < controller.position
                assert controller.network_failure is None
                again = asyncio.create_task(controller.submit(subscribe("ben", "wind < 4", "h4"), "far"))
                with pytest.raises(NotInstalled):
                    await controller.submit(subscribe("ben", "wind < 4", "h4"), "far", patience=0.01)
                assert not again.done()
                network.go_on("R4")
                assert (await far).value == (await again).value
                assert controller.installed == controller.position

        run(scenario())

    @pytest.mark.parametrize("request_", [
        subscribe("ben", "wind < 4", "h3"), subscribe("ben", "wind < 1", "h3"), advertise("ben", "wind < 4", "h2"),
        subscribe("ben", "true", "h4"),
    ])  # fmt: skip
    def test_it_waits_for_rules_that_an_earlier_request_asked_for(self, tmp_path, request_):
        """What it asks for itself may be nothing at all."""

        async def scenario():
            network = Switches()
            async with await begun(tmp_path, network) as controller:
                await controller.submit(advertise("ben", "true"))
                network.stop("R3")
                first = asyncio.create_task(controller.submit(subscribe("ben", "wind < 4", "h3")))
                await asyncio.sleep(0.05)
                second = asyncio.create_task(controller.submit(request_))
                await asyncio.sleep(0.05)
                assert not first.done()
                assert not second.done()
                network.go_on("R3")
                await asyncio.gather(first, second)

        run(scenario())

    def test_it_waits_for_the_rules_of_a_plan_that_came_with_the_next_command(self, tmp_path):
        async def scenario():
            network = Switches()
            async with await begun(tmp_path, network) as controller:
                await controller.submit(advertise("ben", "true"))
                await controller.submit(subscribe("ben", "wind < 4", "h3"))
                network.stop("R3")
                commands = [  # the log takes the first alone, and the others together
                    CreatePrincipal("joe", "both", DIGEST),
                    subscribe("ben", "wind < 4", "h3"),
                    AdoptPlan("weather", GridIndex.regular(WEATHER, 3, ("wind",))),
                ]
                tasks = [asyncio.create_task(controller.submit(command)) for command in commands]
                await asyncio.sleep(0.1)
                assert [task.done() for task in tasks] == [True, False, False]
                network.go_on("R3")
                await asyncio.gather(*tasks)

        run(scenario())

    def test_a_publisher_waits_until_its_own_switch_lets_it_in(self, tmp_path):
        async def scenario():
            network = Switches()
            async with await begun(tmp_path, network) as controller:
                network.stop("R1")
                first = asyncio.create_task(controller.submit(advertise("ben", "true")))
                await asyncio.sleep(0.05)
                second = asyncio.create_task(controller.submit(advertise("ben", "wind < 4")))  # it changes nothing
                await controller.submit(advertise("ben", "true", "h2"))
                assert not first.done()
                assert not second.done()
                network.go_on("R1")
                await asyncio.gather(first, second)

        run(scenario())

    def test_whatever_else_is_to_be_waited_for_comes_after_the_switches(self, tmp_path):
        async def scenario():
            network, waited = Switches(), []

            async def wait():
                waited.append(len(network.calls))

            async with await begun(tmp_path, network, also_wait_for=wait) as controller:
                assert waited == [0] * len(FIRST)
                await controller.submit(advertise("ben", "true"))
                assert waited[-1] == len(network.calls) == 1

        run(scenario())

    def test_a_plan_change_waits_for_switches_that_have_something_of_its_schema_to_do(self, tmp_path):
        async def scenario():
            network = Switches()
            timing = PlanChangeTiming(in_flight_seconds=0.0, unleased_seconds=0.0)
            async with await begun(tmp_path, network, timing=timing) as controller:
                await controller.submit(advertise("ben", "true"))
                await controller.submit(subscribe("ben", "wind < 4", "h2"))
                await controller.submit(advertise("ben", "true", "h3", TRAFFIC))
                network.stop("R4")
                far = asyncio.create_task(controller.submit(subscribe("ben", "speed > 4", "h4", TRAFFIC)))
                changed = ChangePlan("weather", GridIndex.regular(WEATHER, 3), "lightweight")
                await controller.plan_changes.change(changed)
                assert not far.done()
                changing = ChangePlan("traffic", GridIndex.regular(TRAFFIC, 3), "lightweight")
                late = asyncio.create_task(controller.plan_changes.change(changing))
                await asyncio.sleep(0.05)
                assert controller.state.plans.change.phase == "prepared"
                network.go_on("R4")
                await asyncio.gather(far, late)

        run(scenario())
