"""Imagined events lie in subscriptions, as far as somebody publishes there."""

from pleroma.content import Filter
from pleroma.replanning.imagined_traffic import imagined_events
from pleroma.replanning.situation import NetworkSituation, PlacedFilter
from pleroma.routing import build
from pleroma.workloads.vans import VANS_SCHEMA, VansModel, generate_vans
from support.watch_cases import SCHEMA


def situation(schema, wanted, promised=None):
    def placed(texts):
        return tuple(PlacedFilter("h1", Filter.parse(schema, text)) for text in texts)

    return NetworkSituation(schema, placed(wanted), build("line:2"), None if promised is None else placed(promised))


def test_most_events_are_in_a_subscription_and_the_others_anywhere():
    events = imagined_events(situation(SCHEMA, ["price < 10 and volume > 900", "venue = 'b' and price > 95"]), 400)
    assert len(events) == 400
    inside = events.matches(Filter.parse(SCHEMA, "price < 10 and volume > 900 or venue = 'b' and price > 95"))
    assert 0.6 < inside.mean() < 0.95


def test_events_are_of_what_is_published_alone():
    events = imagined_events(situation(SCHEMA, ["price < 50", "volume > 500"], ["price > 40 and venue = 'a'"]), 200)
    assert len(events) > 50
    assert events.matches(Filter.parse(SCHEMA, "price > 40 and venue = 'a'")).all()


def test_nothing_is_imagined_where_nobody_publishes_what_is_wanted_or_anything_at_all():
    assert len(imagined_events(situation(SCHEMA, ["price < 50"], ["price < 1 and price > 2"]), 50)) == 0


def test_an_attribute_that_has_to_be_absent_is():
    events = imagined_events(situation(SCHEMA, ["not exists venue"]), 100)
    assert events.matches(Filter.parse(SCHEMA, "not exists venue")).mean() > 0.5


def test_texts_are_those_that_subscriptions_name_and_every_kind_of_attribute_is_drawn():
    wanted = generate_vans(VansModel(events=0, subscriptions=60)).subscriptions
    placed = NetworkSituation(VANS_SCHEMA, tuple(PlacedFilter("h1", each) for each in wanted), build("line:2"))
    events = imagined_events(placed, 500)
    named = {each for text in map(str, wanted) if "id == " in text for each in [text.split("'")[1]]}
    assert named & set(events.columns[0].tolist())
    assert set(events.columns[0].tolist()) <= named | {""}


def test_the_same_seed_gives_the_same_events():
    placed = situation(SCHEMA, ["price < 50"])
    assert imagined_events(placed, 50, seed=3) == imagined_events(placed, 50, seed=3)
    assert imagined_events(placed, 50, seed=3) != imagined_events(placed, 50, seed=4)
