"""Everything that can fail does, in any order, while requests go on. When it is over, all is as if nothing had been."""

from dataclasses import replace
from random import Random

import pytest

from pleroma.routing import build
from support.network.weather_requests import advertise, random_event, random_filter, subscribe
from support.network.world import HASTY, world

RING = build("ring:4")
HOSTS = [host.name for host in RING.hosts]
STEPS = 14


class Chaos:
    """One thing after another happens to a network, and each of them can be undone."""

    def __init__(self, made, draw):
        self._made = made
        self._draw = draw
        self._cut = set()
        self._gone = set()
        self._standing = []

    def step(self):
        kinds = [self.cut_or_mend, self.drop_or_restore, self.lose_power, self.meddle, self.restart]
        self._draw.choice([*kinds, self.ask, self.ask, self.cut_or_mend])()
        self.ask()

    def heal(self):
        for link in self._cut:
            self._made.lab.mend(link)
        for switch in self._gone:
            self._made.lab.restore_bridge(switch)

    def ask(self):
        draw = self._draw
        commands = [subscribe(draw.choice(HOSTS), random_filter(draw)) for _ in range(3)]
        commands.append(advertise(draw.choice(HOSTS), random_filter(draw, 0.9)))
        self._standing += [answer["id"] for answer in self._made.submit(*commands, patient=True)]
        draw.shuffle(self._standing)
        going, self._standing = self._standing[:2], self._standing[2:]
        self._made.withdraw(*going, patient=True)

    def cut_or_mend(self):
        link = self._draw.choice(RING.links)
        if link in self._cut:
            self._made.lab.mend(link)
        else:
            self._made.lab.cut(link)
        self._cut ^= {link}

    def drop_or_restore(self):
        switch = self._draw.choice(RING.switches)
        if switch in self._gone:
            self._made.lab.restore_bridge(switch)
        else:
            self._made.lab.drop_bridge(switch)
        self._gone ^= {switch}

    def lose_power(self):
        self._made.lab.kill_switches()
        self._made.lab.start_switches()

    def meddle(self):
        """Somebody deletes all rules of a switch."""
        switch = self._draw.choice([s for s in RING.switches if s not in self._gone] or [None])
        if switch is not None:
            self._made.lab.ofctl(switch, "del-flows")

    def restart(self):
        self._made.stop()
        self._made.start()


@pytest.mark.parametrize(("seed", "room"), [(1, None), (2, None), (3, 25)])
def test_after_any_failures_no_event_is_missing_and_no_rule_is_left(tmp_path, seed, room):
    draw = Random(seed)
    real = RING if room is None else replace(RING, limits={"R2": room})
    with world(RING, tmp_path, real=real, timeouts=HASTY) as made:
        chaos = Chaos(made, draw)
        for _ in range(STEPS):
            chaos.step()
        chaos.heal()
        made.until_right()
        assert made.check(*((draw.choice(HOSTS), random_event(draw)) for _ in range(200)))
        assert made.plane.presence().unreachable(RING) == []
