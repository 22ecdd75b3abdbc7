import pytest

from pleroma.errors import DzError, RoutingError, UnknownName
from pleroma.index import DzSet
from pleroma.routing import Advertise, Router, Subscribe, build

BEFORE = [Advertise("a1", "h1", DzSet.parse("0")), *(Subscribe(f"s{i}", "h2", DzSet.parse("00")) for i in range(9))]


@pytest.mark.parametrize(
    ("gone", "come", "error"),
    [
        (["s9"], [], RoutingError),
        (["s1"], [Subscribe("s2", "h2", DzSet.parse("1"))], RoutingError),
        ([], [Subscribe("n", "h2", DzSet.parse("1")), Subscribe("n", "h2", DzSet.parse("1"))], RoutingError),
        (["s1"], [Subscribe("s1", "h9", DzSet.parse("1"))], UnknownName),
        (["s1"], [Subscribe("s1", "h2", DzSet())], RoutingError),
        (["s1"], [Subscribe("s1", "h2", DzSet.parse("111111"))], RoutingError),
    ],
)
def test_an_exchange_that_cannot_be_changes_nothing(gone, come, error):
    router = Router(build("line:2"), max_length=5)
    router.load(BEFORE)
    tables, registrations = {s: t.copy() for s, t in router.tables.items()}, dict(router.registrations)
    with pytest.raises(error):
        router.exchange(gone, come)
    assert (router.tables, router.registrations) == (tables, registrations)


def test_bytes_that_are_no_region_are_refused():
    with pytest.raises(DzError):
        DzSet.unpack(b"x" * 17)
