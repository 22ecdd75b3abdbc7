import asyncio
import threading

from pleroma.client.session.outbox import BufferLimits
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.resending import EVENTS_PER_TURN, Resending
from support.client_parts import Wire, channel, quote, wanted
from support.waiting import until


async def nothing(_):
    pass


def test_what_waits_is_sent_a_few_at_a_time_when_the_network_takes_it_again():
    async def work():
        wire, made = Wire(), []
        resending = Resending(lambda: made)
        staying = asyncio.create_task(resending.stay())
        for number in (1, 2):
            registration = ClientRegistration("advertisements", "stock", wanted("true"))
            made.append(
                Publisher(
                    registration, channel(), number, wire, nothing, limits=BufferLimits(), on_waiting=resending.begin
                )
            )
        wire.closed = True
        for each in made:
            thread = threading.Thread(target=each.publish_many, args=[[quote()] * 30 * EVENTS_PER_TURN])
            thread.start()
            thread.join()
        await asyncio.sleep(0.1)
        assert [each.waiting for each in made] == [30 * EVENTS_PER_TURN] * 2
        wire.closed = False
        await until(lambda: made[0].waiting < 30 * EVENTS_PER_TURN)
        assert made[0].waiting % EVENTS_PER_TURN == 0 < made[0].waiting  # other tasks have turns between
        await made[0].drain()
        await until(lambda: not made[1].waiting)
        assert len(wire.frames) == 60 * EVENTS_PER_TURN
        wire.closed = True  # and once more
        made[1].publish(quote())
        wire.closed = False
        await made[1].drain()
        staying.cancel()

    asyncio.run(asyncio.wait_for(work(), 20))
