"""What the planning process is told: everything once, and then what has changed."""

from datetime import UTC, datetime

from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.tree_choice import SchemaTrees, dealt
from pleroma.index import EVERYTHING, ROOT, GridIndex, IndexPlan
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.routing import OneTree, build
from pleroma.service.replanning.schema_mirror import SchemaMirror
from support.strategies import STOCK

NOW = datetime(2026, 11, 15, tzinfo=UTC)
NETWORK, OTHER = build("line:2"), build("line:3")
INDEX = GridIndex.regular(STOCK, 6)
TREES, OTHER_TREES = (SchemaTrees("balanced", tuple(dealt(OneTree().start(each)))) for each in (NETWORK, OTHER))


def entry():
    return SchemaEntry(STOCK, 0, ROOT, [IndexPlan(1, INDEX, 8)])


def registered(of, id, kind="subscription", host="h2"):
    return Registered(id, kind, "ann", host, of, "[{}]", EVERYTHING, 0)


def test_everything_is_told_once():
    mirror, of = SchemaMirror(1), entry()
    held = [registered(of, "s1"), registered(of, "a2", "advertisement", "h1")]
    assert mirror.is_new
    assert not mirror.knows(held[0])
    first = mirror.news(NOW, held, of.plan, NETWORK, TREES, ())
    assert (first.plan, first.topology, first.trees) == (PlanInForce(1, INDEX, 8), NETWORK, TREES)
    assert first.subscriptions == ({"s1": ("h2", "[{}]")}, [])
    assert first.advertisements == ({"a2": ("h1", "[{}]")}, [])
    assert not mirror.is_new
    assert all(map(mirror.knows, held))
    again = mirror.news(NOW, held, of.plan, NETWORK, TREES, ())
    assert (again.plan, again.topology, again.trees, again.handed) == (None, None, None, None)
    assert again.subscriptions == again.advertisements == ({}, [])


def test_what_has_changed_is_told():
    mirror, of = SchemaMirror(1), entry()
    mirror.news(NOW, [registered(of, "s1"), registered(of, "s2")], of.plan, NETWORK, TREES, ())
    of.plans.append(IndexPlan(2, INDEX, 99))
    mirror.handed = "adopted", 2
    news = mirror.news(NOW, [registered(of, "s2"), registered(of, "s3")], of.plan, OTHER, OTHER_TREES, ())
    assert (news.plan, news.handed) == (PlanInForce(2, INDEX, 99), ("adopted", 2))
    assert (news.topology, news.trees) == (OTHER, OTHER_TREES)
    assert news.subscriptions == ({"s3": ("h2", "[{}]")}, ["s1"])
    assert mirror.news(NOW, [], of.plan, OTHER, OTHER_TREES, ()).handed is None
