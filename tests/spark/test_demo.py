"""The closed loop, small: real processes, a shift in the traffic, and a plan that the watcher hands over by itself."""

import asyncio
import time
from contextlib import asynccontextmanager

from pleroma.errors import LakeError
from pleroma.experiments.demonstration.closed_loop import ClosedLoop
from pleroma.experiments.demonstration.loop_story import AFTERWARDS, BEFORE, SHIFTED
from pleroma.experiments.demonstration.running_controller import LAND_SECONDS
from pleroma.experiments.demonstration.watch_process import MAX_WATCHER_STARTS, WatcherOutput
from pleroma.pipeline.audit.audit_pass import audit_here
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.period import Period
from pleroma.service.collecting.landing_queue import PATIENCE_FACTOR

SUBSCRIPTIONS, RATE, SECONDS = 100, 150.0, 6.0
PATIENCE = 30.0


def audited(lake, schema):
    """The audit of all that has landed, when nothing more comes."""
    period = Period.between(None, None)
    found, again = None, audit_here(lake, schema, period)
    end = time.monotonic() + PATIENCE
    while found != again and time.monotonic() < end:
        time.sleep((PATIENCE_FACTOR + 1) * LAND_SECONDS)  # the last few rows wait for so long
        found, again = again, audit_here(lake, schema, period)
    return again


def watch_in(spark, audits):
    """The watcher in the session of the tests, which is warm already. When all clients have gone, there is an audit."""
    from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder
    from pleroma.pipeline.watch.streaming_job import TrafficWindow, WatchSettings, start_watching

    settings = WatchSettings(
        window=2.0,
        lateness=0.5,
        threshold=0.5,
        patience=1,
        newcomers=0.0,
        cool_down=4.0,
        least=60,
        trigger=0.3,
    )

    @asynccontextmanager
    async def watch(lake, schema, url, token, on_decision):
        made, loop = WatcherOutput(on_decision=on_decision), asyncio.get_running_loop()

        def told(each):
            kind = "window" if isinstance(each, TrafficWindow) else "decision"
            loop.call_soon_threadsafe(made.hear, {kind: each.to_json()})

        with ControllerPlanHolder(url, token, schema) as controller:

            def begin():
                made.starts += 1
                return start_watching(spark, Lake.at(lake), schema, settings, controller, told)

            def check():
                """Spark gives a Python process ten seconds to begin: on a busy machine, once more."""
                try:
                    running[0].wait(0.001)
                except LakeError:
                    if made.starts == MAX_WATCHER_STARTS:
                        raise
                    running[0] = begin()

            running = [await asyncio.to_thread(begin)]
            while "Initializing" in running[0].query.status["message"]:
                await asyncio.sleep(0.1)
            made.check = check
            try:
                yield made
            finally:
                await asyncio.to_thread(running[0].stop)
                audits.append(await asyncio.to_thread(audited, Lake.at(lake), schema))

    return watch


def test_traffic_shifts_the_watcher_re_plans_and_nothing_is_lost(spark):
    looks, audits = [], []
    loop = ClosedLoop(SUBSCRIPTIONS, RATE, SECONDS, looks.append, watch=watch_in(spark, audits))
    story = asyncio.run(loop.run())
    assert (story.missed, story.too_many) == (0, 0)
    assert story.wanted > 0
    adopted = [each for each in story.decisions if each["outcome"] == "adopted"]
    assert adopted[0]["reason"] == "waste"
    assert adopted[0]["after"]["rate"] < adopted[0]["before"]["rate"]
    names = [each.name for each in story.stretches]
    assert (names[:2], names[-1]) == ([BEFORE, SHIFTED], AFTERWARDS)
    assert adopted[0]["new_epoch"] == story.stretches[0].epoch + 1
    assert story.stretches[-1].epoch == story.stretches[0].epoch + len(adopted)
    assert story.waste_at_hosts(SHIFTED) > story.waste_at_hosts(BEFORE)
    assert story.shift_to_plan <= story.shift_to_settled
    assert sum(each.published for each in story.stretches) == story.published
    assert looks[-1].epoch == story.stretches[-1].epoch
    (audit,) = audits  # every event was landed, and what clients reported is what was wanted of them
    assert (audit.events, audit.of, audit.unjudged) == (story.published, story.published, {})
    assert sum(each.deliveries.wanted for each in audit.subscriptions) == story.wanted
    assert sum(each.reported.delivered for each in audit.subscriptions if each.reported) == story.wanted
