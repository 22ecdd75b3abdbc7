"""The controller goes and comes back: what it has answered stands, and events do not notice."""

import subprocess
import sys
from collections import Counter
from random import Random

from pleroma.control import ControlSettings
from pleroma.lab import Lab
from pleroma.routing import build
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from support.control_cases import fresh_tables
from support.network.weather_requests import advertise, random_event, random_filter, subscribe
from support.network.world import HASTY, STEADY, World, free_port, world
from support.programs import environment

LINE = build("line:3")
REQUESTS = 1000
KILLED_AFTER = 250


def test_a_controller_killed_amid_a_thousand_requests_stands_by_what_it_has_answered(tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "support.network.killed_controller", tmp_path, str(port), "line:3", str(REQUESTS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(PYTHONWARNINGS=""))
    made = World(LINE, tmp_path, port, OpenFlowSettings(timeouts=STEADY), ControlSettings())
    try:
        with Lab.up(LINE, controller=f"tcp:127.0.0.1:{port}") as lab:
            answered = []
            for line in process.stdout:
                if line.startswith("s") and line[1:].strip().isdigit():
                    answered.append(line.strip())
                if len(answered) == KILLED_AFTER:
                    process.kill()
                    break
            answered += [line.strip() for line in process.stdout if line[1:].strip().isdigit() and line.endswith("\n")]
            process.wait()
            assert KILLED_AFTER <= len(answered) < REQUESTS, "it was killed too late to be worth looking at"
            made.move_in(lab)
            made.start()
            state = made.controller.state
            assert set(answered) <= set(state.registrations)
            assert made.switches.tables == fresh_tables(state)
            made.follow(state)
            made.until_right()
            draw = Random(4)
            assert made.check(*((f"h{draw.randint(1, 3)}", random_event(draw)) for _ in range(100)))
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
        made.close()


def test_a_restarted_controller_finds_its_rules_and_touches_none(tmp_path):
    with world(LINE, tmp_path) as made:
        draw = Random(6)
        made.submit(*(advertise(f"h{n}", "true") for n in (1, 2, 3)))
        made.submit(*(subscribe(f"h{1 + n % 3}", random_filter(draw)) for n in range(30)))
        made.stop()
        before = made.switches.tables
        assert sum(map(len, before.values())) > 10
        made.start()
        made.until_right()
        assert made.switches.tables == before
        assert [each.counts.changed for each in made.status.values()] == [0, 0, 0]
        assert made.check(*((f"h{draw.randint(1, 3)}", random_event(draw)) for _ in range(50)))


def test_what_was_deleted_while_the_controller_was_away_is_all_that_it_sends(tmp_path):
    with world(LINE, tmp_path) as made:
        draw = Random(7)
        made.submit(*(advertise(f"h{n}", "true") for n in (1, 2, 3)))
        made.submit(*(subscribe(f"h{1 + n % 3}", random_filter(draw)) for n in range(30)))
        made.stop()
        rule = made.switches.lines("R2", 1)[0]
        match = f"table=1,priority={rule.priority},udp6,ipv6_dst={rule.destination}"
        made.lab.ofctl("R2", "del-flows", "--strict", match)
        assert len(made.switches.table("R2")) == len(made.mirror.tables["R2"]) - 1
        made.start()
        made.until_right()
        assert [each.counts.changed for each in made.status.values()] == [0, 1, 0]


def test_not_one_event_is_lost_while_the_controller_is_away_and_comes_back(tmp_path):
    with world(LINE, tmp_path, timeouts=HASTY) as made:
        event = random_event(Random(8))
        made.submit(advertise("h1", "true"), subscribe("h3", "true"), subscribe("h2", "wind < 63"))
        stream = made.stream("h1", event)
        stream.start()
        try:
            for _ in range(2):
                stream.go_on(100)
                made.stop()
                stream.go_on(300)
                made.start()
                made.until_right()
        finally:
            stream.end()
        assert stream.sent > 600
        expected = Counter((host, payload) for host in ("h2", "h3") for payload in stream.payloads)
        assert made.hosts.gather(expected) == expected
