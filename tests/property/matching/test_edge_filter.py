"""The edge filter finds the owners that asking every filter would find, whoever came and went before."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pleroma.matching.edge_filter import MIN_CHANGES_FOR_TABLE, EdgeFilter
from support.strategies import events, filters, schemas


@given(st.data())
def test_all_that_match_are_found_and_no_other(data):
    schema = data.draw(schemas(most=3))
    wanted = data.draw(st.lists(filters(schema, 3), max_size=8))
    several = [*wanted, *wanted, *wanted, *wanted]  # enough for a table, with equal filters of several owners
    edge = EdgeFilter()
    for owner, each in enumerate(several):
        edge.add(owner, each)
    for event in data.draw(st.lists(events(schema), min_size=1, max_size=5)):
        found = edge.wanting(event)
        assert sorted(found) == [owner for owner, each in enumerate(several) if each.matches(event)]


class Comings(RuleBasedStateMachine):
    @initialize(data=st.data())
    def begin(self, data):
        self.schema = data.draw(schemas(most=2))
        self.known = [data.draw(filters(self.schema, 2)) for _ in range(4)]
        self.events = [data.draw(events(self.schema)) for _ in range(4)]
        self.edge = EdgeFilter()
        self.model = {}

    @rule(owner=st.integers(0, 60), which=st.integers(0, 3))
    def join(self, owner, which):
        self.edge.add(owner, self.known[which])
        self.model[owner] = self.known[which]

    @rule(first=st.integers(0, 60), count=st.integers(1, 3 * MIN_CHANGES_FOR_TABLE), which=st.integers(0, 3))
    def many_join(self, first, count, which):
        for owner in range(first, first + count):
            self.join(owner, which)

    @rule(owner=st.integers(0, 90))
    def leave(self, owner):
        self.edge.remove(owner)
        self.model.pop(owner, None)

    @rule(first=st.integers(0, 60), count=st.integers(1, 2 * MIN_CHANGES_FOR_TABLE))
    def many_leave(self, first, count):
        for owner in range(first, first + count):
            self.leave(owner)

    @invariant()
    def finds_what_is_wanted(self):
        if hasattr(self, "model"):
            assert len(self.edge) == len(self.model)
            for event in self.events:
                found = self.edge.wanting(event)
                assert sorted(found) == sorted(o for o, each in self.model.items() if each.matches(event))


TestComings = Comings.TestCase
