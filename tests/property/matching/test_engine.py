"""The engine finds what asking every subscription would find, whoever came and went before, in any structure."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pleroma.errors import MatchingError
from pleroma.matching.choice import AUTOMATIC, STRUCTURES
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.engine import Engine
from support.matching_cases import events, subscriptions, wants

YOUNG = 8


class ComingsAndGoings(RuleBasedStateMachine):
    @initialize(structure=st.sampled_from([AUTOMATIC, *STRUCTURES]), asked=st.lists(events, min_size=1, max_size=4))
    def begin(self, structure, asked):
        self.structure = structure
        self.engine = Engine(structure, young=YOUNG)
        self.model = {}
        self.asked = asked
        self.next = 0

    @rule(wanted=subscriptions, interface=st.integers(0, 3), count=st.integers(1, 3))
    def join(self, wanted, interface, count):
        for _ in range(count):
            self.engine.add(self.next, wanted, interface)
            self.model[self.next] = wanted, interface
            self.next += 1

    @rule(several=st.lists(subscriptions, max_size=20), backwards=st.booleans())
    def join_together(self, several, backwards):
        numbers = range(self.next, self.next + len(several))
        self.next = numbers.stop
        rows = list(zip(reversed(numbers) if backwards else numbers, several, strict=True))
        self.engine.add_all(ConstraintTable.from_rows((number, wanted, 1) for number, wanted in rows))
        self.model.update({number: (wanted, 1) for number, wanted in rows})

    @precondition(lambda self: getattr(self, "model", None))
    @rule(data=st.data())
    def leave(self, data):
        number = data.draw(st.sampled_from(sorted(self.model)))
        self.engine.remove(number)
        del self.model[number]
        with pytest.raises(MatchingError):
            self.engine.remove(number)

    @precondition(lambda self: getattr(self, "model", None))
    @rule(data=st.data())
    def come_back_otherwise(self, data):
        number = data.draw(st.sampled_from(sorted(self.model)))
        wanted = data.draw(subscriptions)
        with pytest.raises(MatchingError):
            self.engine.add(number, wanted)
        self.engine.remove(number)
        self.engine.add(number, wanted, 2)
        self.model[number] = wanted, 2

    @precondition(lambda self: getattr(self, "model", None))
    @rule(data=st.data())
    def leave_by_content(self, data):
        wanted, interface = self.model[data.draw(st.sampled_from(sorted(self.model)))]
        gone = self.engine.remove_content(wanted[::-1], interface)
        assert sorted(self.model[gone][0]) == sorted(wanted)
        assert self.model.pop(gone)[1] == interface

    @rule(wanted=subscriptions)
    def nothing_leaves_that_is_not_there(self, wanted):
        with pytest.raises(MatchingError):
            self.engine.remove_content(wanted, interface=9)

    @invariant()
    def finds_what_matches(self):
        if not hasattr(self, "model"):
            return
        assert len(self.engine) == len(self.model)
        expected = [sorted(n for n, (wanted, _) in self.model.items() if wants(wanted, e)) for e in self.asked]
        for threads in (1, 2):
            found = self.engine.match_batch(Occurrences.from_events(self.asked), threads)
            assert [sorted(each.tolist()) for each in found] == expected
        first = self.asked[0]
        assert sorted(self.engine.match(first).tolist()) == expected[0]
        assert self.engine.match_interfaces(first) == sorted({self.model[n][1] for n in expected[0]})
        for number, (wanted, _) in list(self.model.items())[:3]:
            missed = [miss.constraint for miss in self.engine.explain(number, first)]
            assert sorted(missed) == sorted(c for c in wanted if not wants([c], first))


ComingsAndGoings.TestCase.settings = settings(deadline=None, max_examples=40, stateful_step_count=20)
TestComingsAndGoings = ComingsAndGoings.TestCase
