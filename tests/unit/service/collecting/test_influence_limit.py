"""The credit of a principal: for events that the network counted, or an equal part where it counts nothing."""

import asyncio

from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Registrations
from pleroma.index import DzSet
from pleroma.routing import HostId
from pleroma.service.collecting.influence_limit import (
    CREDIT_RATIO,
    FIRST_SAMPLES,
    MAX_SAVED_SAMPLES,
    InfluenceLimit,
)
from pleroma.service.collecting.sampling_rates import SAMPLES_PER_SECOND
from support.strategies import STOCK
from support.waiting import run

ENTRY = type("Entry", (), {"schema": STOCK})()


class Witness:
    def __init__(self, lag=0.0, *, counts_by_principal=True, **counts):
        self.count_lag_seconds = lag
        self.counts_by_principal = counts_by_principal
        self.counts = counts

    def published(self, host, _principal):
        return self.counts.get(host)


def advertisement(principal, host="h1", number=0):
    return Registered(f"a{number}", "advertisement", principal, HostId(host), ENTRY, "[{}]", DzSet(()), number + 1)


def limited(witness, *registered, now=None):
    standing = Registrations()
    made = InfluenceLimit(standing, witness, (lambda: 0.0) if now is None else lambda: now[0])
    for each in registered:
        standing.add(each)
    standing.tell(1_000)
    return standing, made


def test_credit_is_for_events_since_the_advertisement_and_at_its_hosts():
    witness = Witness(h1=1_000, h2=0)
    _, made = limited(witness, advertisement("ann"))
    assert made.counted("ann", 1_000, 1.0) == FIRST_SAMPLES
    witness.counts |= {"h1": 1_100, "h2": 5_000}
    assert made.counted("ann", 1_000, 1.0) == 100 * CREDIT_RATIO
    assert made.counted("ann", 1_000, 1.0) == 0
    assert made.counted("bob", 1, 1.0) == made.counted(None, 1, 1.0) == 0
    assert made.left_out == 950 + 850 + 1_000 + 2


def test_a_sample_costs_as_many_events_as_it_stands_for():
    witness = Witness(h1=0)
    _, made = limited(witness, advertisement("ann"))
    assert made.counted("ann", FIRST_SAMPLES, 0.01) == FIRST_SAMPLES
    witness.counts["h1"] = 1_000
    assert made.counted("ann", 100, 0.01) == 15
    witness.counts["h1"] += 1_000
    assert made.counted("ann", 10_000, 0.5) == 750


def test_credit_is_not_saved_for_ever_and_a_count_that_falls_is_none():
    witness = Witness(h1=0)
    _, made = limited(witness, advertisement("ann"))
    witness.counts["h1"] = 10**9
    assert made.counted("ann", 10**6, 1.0) == MAX_SAVED_SAMPLES
    witness.counts["h1"] = 5  # a switch lost its rules
    assert made.counted("ann", 10, 1.0) == 0
    witness.counts["h1"] = 9
    assert made.counted("ann", 10, 1.0) == 6


def test_a_host_counts_from_its_first_advertisement_to_its_last():
    witness = Witness(h1=0)
    one, two = advertisement("ann"), advertisement("ann", number=1)
    standing, made = limited(witness, one, two)
    made.counted("ann", FIRST_SAMPLES, 1.0)
    standing.remove(one)
    standing.tell(1_000)
    witness.counts["h1"] = 10
    assert made.counted("ann", 100, 1.0) == 15
    standing.remove(two)
    standing.tell(1_000)
    witness.counts["h1"] = 20
    standing.add(one)
    standing.tell(1_000)
    assert made.counted("ann", 100, 1.0) == 0


def test_principals_at_one_host_have_equal_parts_of_a_count_that_is_of_all():
    witness = Witness(counts_by_principal=False, h1=0, h2=0)
    here, there = advertisement("ann"), advertisement("ann", "h2", 1)
    another, second = advertisement("bob", number=2), advertisement("bob", number=3)
    standing, made = limited(witness, here, there, another, second)
    for name in ("ann", "bob"):
        made.counted(name, FIRST_SAMPLES, 1.0)
    witness.counts |= {"h1": 100, "h2": 10}
    assert made.counted("ann", 1_000, 1.0) == (50 + 10) * CREDIT_RATIO
    assert made.counted("bob", 1_000, 1.0) == 50 * CREDIT_RATIO
    standing.remove(another)  # the other one stands
    standing.tell(1_000)
    witness.counts["h1"] += 100
    assert made.counted("bob", 1_000, 1.0) == 50 * CREDIT_RATIO
    made.forget("ann")
    witness.counts["h1"] += 100
    assert made.counted("bob", 1_000, 1.0) == 100 * CREDIT_RATIO


def test_after_a_restart_a_count_of_before_is_no_credit():
    standing = Registrations()
    standing.add(advertisement("ann"))
    witness = Witness()
    made = InfluenceLimit(standing, witness, lambda: 0.0)
    made.counted("ann", FIRST_SAMPLES, 1.0)
    witness.counts["h1"] = 10**6  # the switch is connected now
    assert made.counted("ann", 10, 1.0) == 0
    witness.counts["h1"] += 4
    assert made.counted("ann", 10, 1.0) == 6


def test_a_switch_that_tells_its_count_later_has_counted_from_0():
    witness = Witness()
    _, made = limited(witness, advertisement("ann"))
    witness.counts["h1"] = 100
    assert made.counted("ann", 1_000, 1.0) == FIRST_SAMPLES + 150


def test_where_nothing_is_counted_all_who_advertise_have_equal_parts():
    now = [0.0]
    registered = [advertisement(name, number=number) for number, name in enumerate("abcd")]
    standing, made = limited(Witness(), *registered, now=now)
    assert made.counted("a", 10**6, 0.1) == FIRST_SAMPLES
    now[0] = 1.0
    assert made.counted("a", 10**6, 0.1) == SAMPLES_PER_SECOND / 4
    standing.remove(registered[3])
    standing.tell(1_000)
    standing.remove(registered[2])
    standing.tell(1_000)
    now[0] = 2.0
    assert made.counted("a", 10**6, 0.1) == SAMPLES_PER_SECOND / 2


def test_samples_wait_for_a_count_that_comes_late_and_not_for_one_that_never_comes():
    now = [0.0]
    witness = Witness(3.0, h1=0)
    _, made = limited(witness, advertisement("ann"), now=now)
    made.counted("ann", FIRST_SAMPLES, 1.0)

    async def main():
        waiting = asyncio.create_task(made.settled("ann", 100, 1.0))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        witness.counts["h1"] = 100
        await waiting
        assert made.counted("ann", 100, 1.0) == 100
        witness.counts["h1"] += 10
        waiting = asyncio.create_task(made.settled("ann", 1_000, 1.0))
        await asyncio.sleep(0)
        now[0] = 3.0
        await waiting

    run(main)


def test_nothing_is_kept_of_a_principal_that_was_removed():
    witness = Witness(h1=0)
    one = advertisement("ann")
    standing, made = limited(witness, one)
    made.counted("ann", 10, 1.0)
    made.forget("ann")
    standing.remove(one)  # listeners may hear of it later
    standing.tell(1_000)
    assert made._credits == {}
    assert not made._principals_at
    assert made.counted("ann", 10, 1.0) == 0
