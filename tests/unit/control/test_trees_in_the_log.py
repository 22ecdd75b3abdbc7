"""Trees and the network that they are on are what the log says, whatever happened on the way and however it ended."""

import asyncio
import time

import pytest

from pleroma.control import ChangePlan, Controller, ControlState, CreateSchema, SqliteLog
from pleroma.control.state.command import Advance, ChooseTrees, Rewire
from pleroma.control.state_snapshot import snapshot
from pleroma.errors import DiskFull
from pleroma.routing import build
from pleroma.routing.tree import low_latency_tree
from support.control_cases import ANN, SMALL, TRAFFIC, WEATHER, Network, advertise, state_after, subscribe

RING = build("ring:4")
FIRST = (CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN)


def cut(link):
    return Rewire(down=tuple(sorted(link.ends)))


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario, 120))  # covers may have to be compiled


async def opened(folder, **more):
    return await Controller.open(folder, RING, Network(), SMALL, **more)


def contents(controller):
    return snapshot(controller.state, controller._logged._fold.answers)


def links_of(state):
    return [family.tree.links for family in state.router.families]


@pytest.fixture
def full_disk(monkeypatch):
    """Call it with True, and nothing can be written to any log."""
    append, save, is_full = SqliteLog.append, SqliteLog.save_snapshot, [False]

    def guarded(original):
        def write(self, *arguments):
            if is_full[0]:
                raise DiskFull("the disk is full", field="log", value="log")
            return original(self, *arguments)

        return write

    monkeypatch.setattr(SqliteLog, "append", guarded(append))
    monkeypatch.setattr(SqliteLog, "save_snapshot", guarded(save))
    return lambda full: is_full.__setitem__(0, full)


def test_a_link_that_is_back_before_the_log_has_its_failure_is_not_left_out(tmp_path):
    async def scenario():
        async with await opened(tmp_path) as controller:
            for command in (*FIRST, advertise("ann", "true")):
                await controller.submit(command)
            down = cut(RING.links[0])
            await asyncio.gather(controller.rewire(down), controller.rewire(Rewire()))
            assert controller.state.there == Rewire()
            await asyncio.gather(controller.rewire(down), controller.rewire(Rewire()), controller.rewire(down))
            assert controller.state.there == down

    run(scenario())


def test_a_port_that_comes_and_goes_faster_than_it_can_be_routed_on_leaves_no_queue_behind(tmp_path):
    async def scenario():
        async with await opened(tmp_path) as controller:
            for command in (*FIRST, advertise("ann", "true"), subscribe("ann", "true")):
                await controller.submit(command)
            before = controller.position
            down = cut(RING.links[0])
            reports = [down if number % 2 else Rewire() for number in range(999)]
            await asyncio.gather(*(controller.rewire(each) for each in [*reports, down]))
            assert controller.state.there == down
            assert controller.position == before + 1

    run(scenario())


def test_between_two_changes_of_the_network_there_is_time_for_requests(tmp_path, monkeypatch):
    """However long it takes to route on another network, requests are answered meanwhile."""

    async def scenario():
        async with await opened(tmp_path) as controller:
            for command in (*FIRST, advertise("ann", "true")):
                await controller.submit(command)
            apply = ControlState.apply

            def slowly(state, position, command):
                if isinstance(command, Rewire):
                    time.sleep(0.05)
                return apply(state, position, command)

            monkeypatch.setattr(ControlState, "apply", slowly)
            before, loop = controller.position, asyncio.get_running_loop()
            until, flaps = loop.time() + 0.5, 0
            pending = []
            while loop.time() < until:
                flaps += 1
                pending.append(asyncio.create_task(controller.rewire(cut(RING.links[flaps % 2]))))
                await asyncio.sleep(0.002)
            await asyncio.gather(*pending)
            assert 2 <= controller.position - before <= 8  # ten would leave no time

    run(scenario())


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_happened_to_the_network_while_the_disk_was_full_is_known_after_a_restart(tmp_path, full_disk, is_killed):
    async def scenario():
        controller = await opened(tmp_path)
        for command in (*FIRST, ChooseTrees("forest"), advertise("ann", "wind < 4"), subscribe("ann", "true")):
            await controller.submit(command)
        before = controller.position
        full_disk(True)
        for link in RING.links[:2]:  # a tree that was repaired twice is not the one that is repaired once
            await controller.rewire(cut(link))
            assert link not in controller.state.router.families[0].tree.links
        with pytest.raises(DiskFull):
            await controller.submit(subscribe("ann", "wind < 2"))
        assert controller.position == before
        full_disk(False)
        if is_killed:
            await controller.submit(advertise("ann", "wind >= 4", host="h2"))
        held = contents(controller)
        assert len(links_of(controller.state)) == 1 + is_killed
        if is_killed:
            await controller._logged.close(with_snapshot=False)
        else:
            await controller.close()
        async with await opened(tmp_path) as again:
            assert again.state.there == cut(RING.links[1])
            assert contents(again) == held

    run(scenario())


def test_while_nothing_is_registered_trees_are_the_best_of_the_network_that_is_there():
    down = cut(low_latency_tree(RING).links[0])
    state = state_after(*FIRST, down, Rewire(), topology=RING)
    assert links_of(state) == [low_latency_tree(RING).links]
    state = state_after(*FIRST, advertise("ann", "true"), down, Rewire(), topology=RING)
    assert links_of(state) != [low_latency_tree(RING).links]  # nothing moves that may be under way


@pytest.mark.parametrize("trees", ["forest", "balanced"])
def test_back_from_several_trees_all_schemas_share_the_tree_of_lowest_latency(trees):
    state = state_after(
        *FIRST,
        ChooseTrees(trees),
        *(advertise("ann", "true", host=f"h{n}", schema=schema) for n in (3, 4) for schema in (WEATHER, TRAFFIC)),
        *(subscribe("ann", "true", host="h1", schema=schema) for schema in (WEATHER, TRAFFIC)),
        ChooseTrees("single"),
        topology=RING,
    )
    position = 100
    for entry in state.schemas.values():
        for step in (
            ChangePlan(entry.name, entry.index, "versioning", trees=()),
            Advance(entry.name, "swap"),
            Advance(entry.name, "clear"),
        ):
            state.apply(position, step)
            position += 1
    used = {links for entry in state.schemas.values() for links in tree_links(state, entry)}
    assert used == {low_latency_tree(RING).links}
    assert {entry.trees for entry in state.schemas.values()} == {"single"}


def tree_links(state, entry):
    return [family.tree.links for family in state.router.families if family.region.overlaps(entry.prefix)]


@pytest.mark.parametrize("room", [2, 3])
def test_where_a_switch_has_no_room_for_a_rule_of_each_tree_all_events_go_on_one(room):
    hosts = ("h1", "h2", "h3", "h4")
    state = state_after(
        *FIRST,
        ChooseTrees("forest"),
        *(advertise("ann", f"temperature between {4 * n} and {4 * n + 3}", host=host) for n, host in enumerate(hosts)),
        *(subscribe("ann", f"wind > {n}", host=host) for n, host in enumerate(hosts)),
        topology=RING,
    )
    assert len(links_of(state)) == 4
    runs = state.router.family_rules
    assert len(state.router.tables["R2"]) > runs > room
    state.apply(99, Rewire(rooms=(("R2", runs),)))
    assert len(links_of(state)) == 4  # a coarser table is enough
    ops = state.apply(100, Rewire(rooms=(("R2", room),)))
    assert len(links_of(state)) == 1
    assert len(state.router.tables["R2"]) <= room
    assert ops.flows
    state.apply(101, Rewire())
    assert len(links_of(state)) == 1  # what is on one tree stays there


def test_events_go_on_one_tree_as_soon_as_a_subscription_needs_more_rules_than_a_switch_has_room_for():
    hosts, room = ("h1", "h2", "h3", "h4"), 3
    state = state_after(
        *FIRST,
        ChooseTrees("forest"),
        *(advertise("ann", f"temperature between {4 * n} and {4 * n + 3}", host=host) for n, host in enumerate(hosts)),
        subscribe("ann", "temperature < 4", host="h2"),
        Rewire(rooms=(("R2", room),)),
        topology=RING,
    )
    assert len(links_of(state)) == 4  # the table fits yet
    tables = {switch: table.copy() for switch, table in state.router.tables.items()}
    done = state.apply(99, subscribe("ann", "true", host="h3"))
    assert len(links_of(state)) == 1
    assert len(state.router.tables["R2"]) <= room
    for op in done.flows:
        tables[op.switch].apply(op)
    assert tables == state.router.tables


@pytest.mark.parametrize("path", [("forest", "single"), ("forest", "balanced"), ("balanced", "forest", "single")])
def test_no_table_exceeds_its_limit_while_schemas_move_between_trees(path):
    limit, hosts = 12, ("h1", "h2", "h3", "h4")
    state = state_after(
        *FIRST,
        ChooseTrees(path[0]),
        *(
            advertise(
                "ann", f"temperature between {5 * n} and {5 * n + 2} and wind > {n}", host=hosts[n], schema=WEATHER
            )
            for n in range(3)
        ),
        *(advertise("ann", f"speed between {4 * n} and {4 * n + 1}", host=hosts[n], schema=TRAFFIC) for n in range(4)),
        *(subscribe("ann", f"wind > {n}", host=host) for n, host in enumerate(hosts)),
        *(subscribe("ann", f"speed > {3 * n}", host=host, schema=TRAFFIC) for n, host in enumerate(hosts)),
        topology=RING.with_limit(limit),
    )
    position = 100
    for choice in path[1:]:
        steps = [ChooseTrees(choice), advertise("ann", "temperature = 4", host="h4")]
        for entry in state.schemas.values():
            steps += [ChangePlan(entry.name, entry.index, "versioning", trees=())]
            steps += [Advance(entry.name, "swap"), Advance(entry.name, "clear")]
        for step in steps:  # a move that needs more room than there is is refused, and nothing follows then
            state.apply(position, step)
            position += 1
            assert max(map(len, state.router.tables.values())) <= limit, step


def test_trees_that_need_more_rules_than_was_thought_become_one(monkeypatch):
    monkeypatch.setattr("pleroma.routing.forest.family_room", lambda _: 256)
    hosts = ("h1", "h2", "h3", "h4")
    offers = (
        advertise("ann", f"temperature between {4 * n} and {4 * n + 3}", host=host) for n, host in enumerate(hosts)
    )
    wishes = (subscribe("ann", "true", host=host) for host in hosts)
    state = state_after(*FIRST, ChooseTrees("forest"), *offers, *wishes, topology=RING.with_limit(3))
    assert len(links_of(state)) == 1
    assert max(map(len, state.router.tables.values())) <= 3
