"""Snapshots: an engine comes back as it was, and a file that is not one is refused."""

import numpy as np
import pytest

from pleroma.errors import MatchingError
from pleroma.matching import Constraint, Engine, Occurrences, Table
from pleroma.matching.choice import STRUCTURES
from pleroma.matching.snapshot import PREFIX, VERSION, load, save


def some_engine(structure="auto"):
    random = np.random.default_rng(7)
    low = random.uniform(0, 0.8, 6000)
    engine = Engine(structure)
    engine.add_all(Table.of(np.arange(2000), np.arange(2001) * 3, np.tile([0, 1, 2], 2000), low, low + 0.2))
    for number in range(2000, 2010):
        engine.add(number, [Constraint(1, 0.1, 0.9)], interface=3)
    for number in range(0, 2005, 5):
        engine.remove(number)
    return engine


EVENTS = Occurrences.dense(np.random.default_rng(8).random((20, 3)))


def answers(engine):
    return [sorted(each.tolist()) for each in engine.match_batch(EVENTS)]


@pytest.mark.parametrize("structure", sorted(STRUCTURES))
def test_an_engine_comes_back_as_it_was(tmp_path, structure):
    engine = some_engine(structure)
    save(engine, tmp_path / "it")
    again = load(tmp_path / "it", structure, verify=True)
    assert len(again) == len(engine)
    assert answers(again) == answers(engine)
    assert again.match_interfaces({0: 2.0, 1: 0.5}) == [3]


def test_going_on_does_not_change_the_file(tmp_path):
    save(some_engine(), tmp_path / "it")
    before = (tmp_path / "it").read_bytes()
    again = load(tmp_path / "it")
    again.remove(1)
    again.add(1, [Constraint(0, 0.0, 1.0)])
    assert 1 in again
    assert (tmp_path / "it").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["it"], "nothing half-written is left"


def test_an_empty_engine_too(tmp_path):
    save(Engine(), tmp_path / "it")
    again = load(tmp_path / "it", verify=True)
    assert len(again) == 0
    assert answers(again) == [[]] * len(EVENTS)


def test_what_is_no_snapshot_is_refused(tmp_path):
    path = tmp_path / "it"
    save(some_engine(), path)
    good = path.read_bytes()
    magic, _, checksum, length = PREFIX.unpack_from(good)
    other_version = PREFIX.pack(magic, VERSION + 1, checksum, length) + good[PREFIX.size :]
    for data, reason in (
        (b"", "no snapshot"),
        (b"x" * 200, "no snapshot"),
        (other_version, "version"),
        (good[: PREFIX.size] + b"?" + good[PREFIX.size + 1 :], "header is damaged"),
        (good[:-64], "shorter or longer"),
        (good + b"x", "shorter or longer"),
    ):
        path.write_bytes(data)
        with pytest.raises(MatchingError, match=reason):
            load(path)


def test_damage_anywhere_is_seen_when_asked_to_verify(tmp_path):
    path = tmp_path / "it"
    save(some_engine(), path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(MatchingError, match="is damaged"):
        load(path, verify=True)
