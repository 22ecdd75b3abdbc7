"""The engine: what it chooses and tells, what it refuses, and readers beside a writer."""

import threading

import numpy as np
import pytest

from pleroma.errors import ContentError, MatchingError, UnknownName
from pleroma.matching import Constraint, ConstraintTable, Engine, Occurrences
from pleroma.matching.matcher import Miss


def random_table(attributes, constraints, width, rows, start=0, seed=1):
    random = np.random.default_rng(seed)
    chosen = np.stack([random.permutation(attributes)[:constraints] for _ in range(rows)])
    low = random.uniform(0, 1 - width, (rows, constraints))
    first = np.arange(rows + 1) * constraints
    return ConstraintTable.of(np.arange(start, start + rows), first, chosen.ravel(), low.ravel(), (low + width).ravel())


def chosen(engine):
    return [part.structure for part in engine.statistics().parts]


@pytest.mark.parametrize(
    ("table", "structure"),
    [
        (random_table(500, 10, 0.01, 20_000), "pivots"),
        (random_table(20, 10, 0.3, 50_000), "bit-sets"),
        (random_table(3, 2, 0.3, 20), "scan"),
    ],
    ids=["narrow over many attributes", "wide over few", "a handful"],
)
def test_the_structure_follows_the_workload_and_is_named(table, structure):
    engine = Engine()
    engine.add_all(table)
    (part,) = engine.statistics().parts
    assert part.structure == structure
    assert "estimated microseconds" in part.why
    assert structure in part.why


def test_memory_is_a_few_times_the_constraints():
    engine = Engine()
    table = random_table(500, 10, 0.01, 50_000)
    engine.add_all(table)
    told = engine.statistics()
    assert (told.subscriptions, told.constraints) == (50_000, 500_000)
    assert 16 <= told.memory / told.constraints <= 4 * 16


def test_newcomers_become_parts_and_parts_are_joined():
    engine = Engine("scan", young=4)
    for number in range(200):
        engine.add(number, [Constraint(0, number, number + 1)])
    sizes = [part.subscriptions for part in engine.statistics().parts]
    assert sum(sizes) + engine.statistics().newcomers == 200
    assert len(sizes) <= 4, "few parts, however many came"
    for number in range(150):
        engine.remove(number)
    assert sum(part.removed for part in engine.statistics().parts) <= len(engine)
    assert engine.match({0: 160.5}).tolist() == [160]


def test_why_something_did_not_match():
    engine = Engine()
    engine.add(5, [Constraint(0, 1, 2), Constraint(1, 0, 9), Constraint(7, 0, 1)])
    assert engine.explain(5, {0: 3.0, 1: 4.0}) == [Miss((0, 1, 2), 3.0), Miss((7, 0, 1), None)]
    assert engine.explain(5, {0: 1.0, 1: 4.0, 7: 0.0}) == []
    with pytest.raises(MatchingError):
        engine.explain(6, {})


def test_what_no_engine_takes_is_refused_and_changes_nothing():
    engine = Engine()
    engine.add(1, [Constraint(0, 0, 1)])
    with pytest.raises(MatchingError, match="number"):
        engine.add(1, [])
    with pytest.raises(MatchingError, match="number"):
        engine.add_all(ConstraintTable.from_rows([(2, [], 0), (1, [], 0)]))
    with pytest.raises(MatchingError, match="twice"):
        engine.add_all(ConstraintTable.from_rows([(2, [], 0), (2, [], 0)]))
    with pytest.raises(ContentError, match="something in it"):
        engine.add(2, [Constraint(0, 1, 1)])
    with pytest.raises(ContentError, match="attributes are numbered"):
        engine.add(2, [Constraint(70_000, 0, 1)])
    with pytest.raises(ContentError, match="something in it"):
        ConstraintTable.from_rows([(2, [Constraint(0, float("nan"), 1)], 0)])
    with pytest.raises(ContentError, match="below infinity"):
        engine.match({0: float("nan")})
    with pytest.raises(ContentError, match="one value for an attribute"):
        Occurrences.of([0, 2], [3, 3], [0.0, 1.0])
    with pytest.raises(UnknownName, match="bit-sets"):
        Engine("bitsets")
    assert len(engine) == 1
    assert engine.match({0: 0.5}).tolist() == [1]


def test_readers_see_whole_states_while_a_writer_works():
    """Those that stay are found in every answer, however many others come and go meanwhile."""
    engine = Engine("pivots", young=16)
    engine.add_all(random_table(6, 3, 0.2, 400))
    everywhere = [Constraint(0, 0.0, 1.0)]
    for number in range(1000, 1010):
        engine.add(number, everywhere)
    events = Occurrences.dense(np.random.default_rng(2).random((50, 6)))
    staying = [set(each.tolist()) for each in engine.match_batch(events)]
    done = threading.Event()
    wrong = []

    def read():
        while not done.is_set():
            for found, kept in zip(engine.match_batch(events), staying, strict=True):
                listed = found.tolist()
                if not kept <= set(listed) or len(listed) != len(set(listed)):
                    wrong.append((sorted(kept), sorted(listed)))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(2000, 2600):
            engine.add(number, everywhere)
            if number % 2:
                engine.remove(number - 1)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert len(engine) == 410 + 300
