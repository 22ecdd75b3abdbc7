"""What is counted as the fullest table of a switch while its rules change."""

import asyncio

from pleroma.experiments.figures.table_peaks import CountedSwitches, TablePeak, peaks_through
from pleroma.index import Dz
from pleroma.routing import AdmitOp, Change, DetourOp, Flow, FlowOp, Output, build

LINE = build("line:2")


def flows(change, prefix, count, switch="R1", port=1):
    return [FlowOp(switch, change, Flow(Dz.parse(f"{prefix}{n:012b}"), (Output(port),))) for n in range(count)]


def detour(change):
    return DetourOp("R1", change, Flow(Dz.parse(""), (Output(1),)))


def test_a_table_that_turns_over_below_a_detour_is_fullest_with_the_larger_of_both_and_the_detour():
    swap = [*flows(Change.ADD, "1", 1_400), *flows(Change.DELETE, "0", 1_500)]
    found = peaks_through(LINE, flows(Change.ADD, "0", 1_500), [[detour(Change.ADD)], swap, [detour(Change.DELETE)]])
    assert found == {"R1": TablePeak(1_500, 1_400, 1_501)}


def test_without_a_detour_it_is_fullest_with_most_of_both():
    swap = [*flows(Change.ADD, "1", 1_400), *flows(Change.DELETE, "0", 1_500)]
    (peak,) = peaks_through(LINE, flows(Change.ADD, "0", 1_500), [swap]).values()
    assert peak == TablePeak(1_500, 1_400, 2_500), "after the first bundle, which only adds"


def test_changed_rules_take_no_room_and_those_that_admit_have_a_table_of_their_own():
    steps = [flows(Change.MODIFY, "0", 3, port=2), [AdmitOp("R1", Change.ADD, 1, Dz.parse("0"))]]
    found = peaks_through(LINE, [*flows(Change.ADD, "0", 3), *flows(Change.ADD, "0", 2, "R2")], steps)
    assert found == {"R1": TablePeak(3, 3, 3), "R2": TablePeak(2, 2, 2)}


def test_rules_that_rewrite_to_a_host_are_counted_and_no_agent_goes_on_afterwards():
    host = LINE.hosts[0]

    async def main():
        async with CountedSwitches(LINE) as switches:
            await switches.install([FlowOp("R1", Change.ADD, Flow(Dz.parse("0"), (Output(host.port, host.address),)))])
            assert switches.peaks == {"R1": TablePeak(0, 1, 1)}
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_the_share_is_of_the_larger_table():
    assert (TablePeak(10, 8, 11).share, TablePeak(8, 10, 11).share) == (1.1, 1.1)
    assert (TablePeak(10, 8, 11).extra, TablePeak(8, 10, 10).extra) == (1, 0)
    assert TablePeak(0, 0, 1).share == 1.0
