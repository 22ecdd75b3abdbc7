"""Filters that are made to take long: they are refused or read beside the event loop, and rights come first.

Each of them kept the loop for seconds.
"""

import asyncio
import os
import time
from contextlib import suppress

import pytest

from pleroma.content import Category, Filter, Integer, Real, Schema
from pleroma.content.filter_json import to_json
from pleroma.content.work_budget import WorkBudget
from pleroma.control import ControlState, CreatePrincipal, CreateSchema, Done, Register
from pleroma.errors import ContentError, FilterTooCostly, UnknownName
from pleroma.service.http.given_filter import MAX_FILTER_WORK_UNITS
from support.control_cases import DIGEST, LINE, SMALL
from support.service.in_process import world
from support.stalls import MAX_BUSY_SECONDS, longest_stall
from support.waiting import run

WIDE = Schema("wide", (Integer("volume", False, 0, 99_999), Real("price", False, 0.0, 1e6), Integer("n", True, 0, 9)))
LONG = os.environ.get("PLEROMA_LONG") == "1"


def chained(attribute, count):
    return " and ".join(f"{attribute} != {3 * i + 1}" for i in range(count))


def points(count):
    return " or ".join(f"(price = {2 * i} and volume = {3 * i})" for i in range(count))


def spiral(turns):
    """Boxes of which each joins all those before it, and only after they were joined."""
    x0, x1, y0, y1 = 5000, 5001, 5000, 5001
    texts = [(x0, x1, y0, y1)]
    for turn in range(turns):
        match turn % 4:
            case 0:
                texts.append((x1, x1 + 1, y0, y1))
                x1 += 1
            case 1:
                texts.append((x0, x1, y1, y1 + 1))
                y1 += 1
            case 2:
                texts.append((x0 - 1, x0, y0, y1))
                x0 -= 1
            case _:
                texts.append((x0, x1, y0 - 1, y0))
                y0 -= 1
    return " or ".join(f"(price >= {a} and price < {b} and volume >= {c} and volume < {d})" for a, b, c, d in texts)


HOSTILE = {
    "chained": chained("volume", 1000),
    "short": f"{chained('volume', 9)} and {chained('price', 9)}",
    "complement": f"not ({points(600)})",
    "clauses": " and ".join(f"(price > {i} or volume > {1000 - i})" for i in range(900)),
    "staircase": " or ".join(f"(price < {i + 1} and volume > {i})" for i in range(1000)),
    "spiral": spiral(700),
    "values": f"volume in ({', '.join(str(2 * i) for i in range(8000))}) and volume < 9",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_that_a_filter_takes_is_bounded_whatever_its_text(name):
    began = time.thread_time()
    with suppress(FilterTooCostly):
        Filter.parse(WIDE, HOSTILE[name], WorkBudget(MAX_FILTER_WORK_UNITS))
    assert time.thread_time() - began < 3


@pytest.mark.parametrize(
    "text",
    [
        lambda n: chained("volume", n),
        lambda n: f"volume in ({', '.join(str(2 * i) for i in range(n))})",
        lambda n: f"not ({points(n)})",
        lambda n: " and ".join(f"not (price < {i + 1} and price > {i} and volume = {i})" for i in range(n)),
    ],
    ids=["chained", "in", "not", "nots"],
)
def test_twice_as_many_values_or_boxes_that_are_left_out_are_twice_the_work(text):
    """Two hundred boxes that are left out were too much work; a hundred took more than a hundred thousand units."""

    def units(count):
        budget = WorkBudget(MAX_FILTER_WORK_UNITS)
        Filter.parse(WIDE, text(count), budget)
        return MAX_FILTER_WORK_UNITS - budget.left

    assert units(300) <= 2.1 * units(150) + 10
    assert units(300) <= 50 * 300


def test_hostile_filters_of_many_at_once_do_not_stop_the_loop(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.post("/v1/schemas", {"schema": WIDE.to_json()})
            mallory = await api.principal("mallory", read={"*": "true"})
            await mallory.subscribe("price > 1")  # the grammar is read on first use
            async with longest_stall() as stall:
                asked = [
                    mallory("POST", "/v1/subscriptions", json={"schema": "wide", "filter": text, "host": "h1"})
                    for text in (*HOSTILE.values(), *HOSTILE.values())[: None if LONG else 7]
                ]
                answers = asyncio.gather(*asked)
                while not answers.done():
                    await api.get("/health")
                    await asyncio.sleep(0.01)
            assert {answer.status_code for answer in await answers} <= {201, 400}
            assert stall.busy_seconds < MAX_BUSY_SECONDS

    run(main)


def test_who_may_not_read_the_schema_is_told_so_before_anybody_reads_its_filter(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.post("/v1/schemas", {"schema": WIDE.to_json()})
            nobody = await api.principal("nobody", "both")
            publisher = await api.principal("publisher", "publisher", publish={"*": "true"})
            for who, field in ((nobody, "schema"), (publisher, "role")):
                for path in ("/v1/subscriptions", "/v1/explain"):
                    body = {"schema": "wide", "filter": "this is no filter ((("}
                    more = {} if path == "/v1/explain" else {"host": "h1"}
                    error = await who.error("POST", path, 403, "not_allowed", json=body | more)
                    assert error["field"] == field

    run(main)


def test_a_costly_comparison_with_what_is_allowed_is_refused_too():
    limit = Filter.parse(WIDE, " or ".join(f"(price < {i + 0.5} and volume < {901 - i})" for i in range(900)))
    wanted = Filter.parse(
        WIDE, " or ".join(f"(price < {i + 1} and price > {i} and volume < {800 - i})" for i in range(800))
    )
    assert limit.covers(wanted)
    with pytest.raises(FilterTooCostly):
        limit.covers(wanted, WorkBudget(1000))


def test_a_filter_that_would_be_long_when_written_out_is_refused(tmp_path):
    words = [f"word{i}" for i in range(3000)]
    schema = {"name": "words", "attribute": [{"name": "n", "kind": "integer", "min": 0, "max": 9999}]}
    schema["attribute"].append({"name": "word", "kind": "category", "values": words})

    async def main():
        async with world(tmp_path) as api:
            await api.post("/v1/schemas", {"schema": schema})
            listed = ", ".join(str(2 * i) for i in range(500))
            body = {"schema": "words", "filter": f"n in ({listed}) and word != 'word1500'", "host": "h1"}
            await api.error("POST", "/v1/subscriptions", 400, "filter_too_costly", json=body)

    run(main)


def test_a_word_that_is_not_in_a_long_list_is_refused_quickly():
    schema = Schema("words", (Category("word", False, tuple(f"w{i:05}" for i in range(20_000))),))
    began = time.thread_time()
    with pytest.raises(UnknownName):
        Filter.parse(schema, f"word == '{'w' * 5000}'")
    listed = ", ".join(f"'w{i:05}'" for i in range(0, 12_000, 2))
    with pytest.raises(ContentError, match="boxes allowed"):
        Filter.parse(schema, f"word in ({listed})")
    assert time.thread_time() - began < 2


def test_what_was_accepted_once_is_accepted_again_however_much_work_it_is():
    """The log is read without a budget: it may be of an earlier version, which had none."""
    wanted = Filter.parse(WIDE, f"not ({points(120)})")
    costly = Filter.parse(WIDE, f"not ({points(110)})")
    state = ControlState(LINE, SMALL)
    commands = (
        CreateSchema(WIDE),
        CreatePrincipal("ann", "both", DIGEST, {}, {"wide": str(costly)}),
        Register("subscription", "ann", "h1", "wide", to_json(wanted)),
    )
    for position, command in enumerate(commands, 1):
        assert isinstance(state.apply(position, command), Done)
    with pytest.raises(FilterTooCostly):
        costly.covers(wanted, WorkBudget(1000))


def test_the_rights_of_a_new_principal_are_read_with_a_budget(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.post("/v1/schemas", {"schema": WIDE.to_json()})
            new = {"name": "ann", "role": "subscriber", "read": {"wide": f"not ({points(600)})"}}
            await api.error("POST", "/v1/principals", 400, "filter_too_costly", json=new)

    run(main)
