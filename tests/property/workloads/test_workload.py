"""What is written is what is read, for any schema."""

from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.workloads import Workload
from support.strategies import events, filters, schemas


@st.composite
def workloads(draw):
    schema = draw(schemas())
    listed = draw(st.lists(events(schema), max_size=8))
    subscriptions = tuple(draw(st.lists(filters(schema), max_size=4)))
    description = draw(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=3))
    return Workload(schema, EventBatch.from_events(schema, listed), subscriptions, description)


@given(workloads())
def test_a_workload_comes_back_from_its_files_as_it_was(workload):
    with TemporaryDirectory() as folder:
        workload.save(folder)
        assert Workload.load(folder) == workload
