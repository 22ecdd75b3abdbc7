"""What the planning process is told: everything once, and then what has changed."""

from datetime import UTC, datetime

from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.index import EVERYTHING, ROOT, GridIndex, IndexPlan
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.routing import build
from pleroma.service.replanning.schema_mirror import SchemaMirror
from support.strategies import STOCK

NOW = datetime(2026, 11, 15, tzinfo=UTC)
NETWORK, OTHER = build("line:2"), build("line:3")
INDEX = GridIndex.regular(STOCK, 6)


def entry():
    return SchemaEntry(STOCK, 0, ROOT, [IndexPlan(1, INDEX, 8)])


def registered(of, id, kind="subscription", host="h2"):
    return Registered(id, kind, "ann", host, of, "[{}]", EVERYTHING, 0)


def test_everything_is_told_once():
    mirror, of = SchemaMirror(1), entry()
    held = [registered(of, "s1"), registered(of, "a2", "advertisement", "h1")]
    assert mirror.is_new
    assert not mirror.knows(held[0])
    first = mirror.news(NOW, of, held, NETWORK, ())
    assert (first.plan, first.topology) == (PlanInForce(1, INDEX, 8), NETWORK)
    assert first.subscriptions == ({"s1": ("h2", "[{}]")}, [])
    assert first.advertisements == ({"a2": ("h1", "[{}]")}, [])
    assert not mirror.is_new
    assert all(map(mirror.knows, held))
    again = mirror.news(NOW, of, held, NETWORK, ())
    assert (again.plan, again.topology, again.handed) == (None, None, None)
    assert again.subscriptions == again.advertisements == ({}, [])


def test_what_has_changed_is_told():
    mirror, of = SchemaMirror(1), entry()
    mirror.news(NOW, of, [registered(of, "s1"), registered(of, "s2")], NETWORK, ())
    of.plans.append(IndexPlan(2, INDEX, 99))
    mirror.handed = "adopted", 2
    news = mirror.news(NOW, of, [registered(of, "s2"), registered(of, "s3")], OTHER, ())
    assert (news.plan, news.topology, news.handed) == (PlanInForce(2, INDEX, 99), OTHER, ("adopted", 2))
    assert news.subscriptions == ({"s3": ("h2", "[{}]")}, ["s1"])
    assert mirror.news(NOW, of, [], OTHER, ()).handed is None
