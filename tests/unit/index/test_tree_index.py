import json
import struct
import subprocess
import sys

import numpy as np
import pytest

from pleroma.content import Category, Filter, Integer, Real, Schema, Text
from pleroma.errors import DomainError, DzError, PlanError
from pleroma.index import Dz, DzSet, IndexPlan, TreeIndex, index_from_json
from pleroma.index.tree_walk import LEAF

PLANE = Schema("plane", (Integer("x", False, 0, 99), Integer("y", False, 0, 99)))
THREE = TreeIndex(PLANE, 4, (0, LEAF, 1, LEAF, LEAF), (50.0, 20.0))
"""x below 50; above it, y below 20 and the rest."""


def event(**values):
    return PLANE.event(values)


def test_an_event_has_the_path_to_its_leaf_and_zeros_behind_it():
    assert str(THREE.dz(event(x=49, y=99))) == "0000"
    assert str(THREE.dz(event(x=50, y=19))) == "1000"
    assert str(THREE.dz(event(x=50, y=20))) == "1100"


def test_a_filter_is_covered_by_the_leaves_it_meets():
    def cover(text, **limits):
        return THREE.cover(Filter.parse(PLANE, text), **limits)

    assert cover("x < 50") == DzSet.parse("0")
    assert cover("x <= 50") == DzSet.parse("ε")
    assert cover("x <= 50 and y < 20") == DzSet.parse("0", "10")
    assert cover("x >= 50") == DzSet.parse("1")
    assert cover("x > 60 and y >= 20 or x < 3") == DzSet.parse("0", "11")
    assert cover("x > 60 and y >= 20 or x < 3", max_members=1) == DzSet.parse("ε")
    assert cover("x > 60 and y >= 20", max_length=1) == DzSet.parse("1")


def test_few_members_take_in_the_fewest_other_leaves():
    chain = TreeIndex(PLANE, 8, (0, LEAF, 0, LEAF, 0, LEAF, 0, LEAF, 0, LEAF, LEAF), (10.0, 20.0, 30.0, 40.0, 50.0))
    wanted = Filter.parse(PLANE, "x < 5 or x between 32 and 35 or x > 60")
    assert chain.cover(wanted) == DzSet.parse("0", "1110", "11111")
    assert chain.cover(wanted, max_members=2) == DzSet.parse("0", "111")


def test_kinds_of_attributes_are_cut_where_their_values_are():
    schema = Schema(
        "mixed",
        (Text("name", False), Category("colour", False, ("red", "green", "blue")), Real("price", False, 0.0, 1.0)),
    )
    middle = schema.attributes[0].coordinate(schema.attributes[0].key("m"))
    tree = TreeIndex(schema, 3, (0, 1, LEAF, LEAF, 2, LEAF, LEAF), (middle, 1.0, float(np.nextafter(0.5, 1))))
    found = {
        (name, colour, price): str(tree.dz(schema.event(name=name, colour=colour, price=price)))
        for name, colour, price in [("a", "red", 0.0), ("a", "green", 0.0), ("m", "red", 0.5), ("z", "red", 0.6)]
    }
    assert list(found.values()) == ["000", "010", "100", "110"]
    assert tree.cover(Filter.parse(schema, 'name >= "m" and price <= 0.5')) == DzSet.parse("10")


def test_a_large_plan_is_a_few_hundred_kilobytes():
    splits = 16_383
    cuts = tuple(np.random.default_rng(1).random(splits).tolist())
    dims = []

    def balanced(depth):
        dims.append(0 if depth else LEAF)
        for _ in range(2 if depth else 0):
            balanced(depth - 1)

    balanced(14)
    index = TreeIndex(Schema("one", (Real("x", False, 0.0, 1.0),)), 23, tuple(dims), cuts)
    text = IndexPlan(3, index).dumps()
    assert len(text) < 256 * 1024
    assert IndexPlan.loads(text).index == index


def test_a_part_can_be_taken_out_and_put_elsewhere():
    assert THREE.subtree(Dz.parse("1")) == TreeIndex(PLANE, 3, (1, LEAF, LEAF), (20.0,))
    grown = THREE.regrown(Dz.parse("0"), TreeIndex(PLANE, 3, (1, LEAF, LEAF), (70.0,)))
    assert grown == TreeIndex(PLANE, 4, (0, 1, LEAF, LEAF, 1, LEAF, LEAF), (50.0, 70.0, 20.0))
    assert THREE.changed(grown) == DzSet.parse("0")
    assert not THREE.changed(THREE)
    assert THREE.changed(TreeIndex(PLANE, 5, THREE.dimensions, THREE.cuts)) == DzSet.parse("ε")
    with pytest.raises(DzError, match="below a leaf"):
        THREE.subtree(Dz.parse("00"))
    with pytest.raises(PlanError, match="longer than 4 bits"):
        THREE.regrown(Dz.parse("11"), TreeIndex(PLANE, 9, (0, 0, 0, LEAF, LEAF, LEAF, LEAF), (1.0, 2.0, 3.0)))


def test_the_extent_of_a_leaf_is_for_drawing():
    assert THREE.extent(Dz.parse("11")) == {0: (50.0, 100.0), 1: (20.0, 100.0)}
    assert THREE.extent(Dz.parse("0000")) == {0: (0.0, 50.0), 1: (0.0, 100.0)}


@pytest.mark.parametrize(
    ("bits", "dims", "cuts", "field"),
    [
        (4, (), (), "dimensions"),
        (4, (0, LEAF), (1.0,), "dimensions"),
        (4, (LEAF, LEAF), (), "dimensions"),
        (4, (2, LEAF, LEAF), (1.0,), "dimensions"),
        (4, (True, LEAF, LEAF), (1.0,), "dimensions"),
        (0, (0, LEAF, LEAF), (1.0,), "dimensions"),
        (4, (0, LEAF, LEAF), (), "cuts"),
        (4, (0, LEAF, LEAF), (1.0, 2.0), "dimensions"),
        (4, (0, LEAF, LEAF), (float("nan"),), "cuts"),
        (113, (LEAF,), (), "bits"),
        (-1, (LEAF,), (), "bits"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_field(bits, dims, cuts, field):
    with pytest.raises(PlanError) as caught:
        TreeIndex(PLANE, bits, dims, cuts)
    assert caught.value.field == field


@pytest.mark.parametrize("change", [{"nodes": "!"}, {"nodes": 3}, {"cuts": "AAAA"}, {"bits": None}, {"nodes": "AAAA"}])
def test_a_damaged_plan_is_refused(change):
    with pytest.raises(PlanError):
        index_from_json(PLANE, THREE.to_json() | change)


def test_cuts_are_kept_to_the_last_bit():
    cut = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\x45\x40")[0]
    index = TreeIndex(PLANE, 1, (0, LEAF, LEAF), (cut,))
    assert index_from_json(PLANE, json.loads(json.dumps(index.to_json()))).cuts == (cut,)


def test_a_batch_with_something_that_is_no_number_is_refused():
    with pytest.raises(DomainError) as caught:
        THREE.encode(np.array([[1.0, 2.0], [1.0, np.nan]]))
    assert caught.value.field == "y"
    with pytest.raises(DomainError, match="2 columns"):
        THREE.encode(np.zeros((1, 3)))


def test_a_sensor_needs_neither_numpy_nor_a_compiler():
    program = """
import sys
sys.modules["numpy"] = sys.modules["numba"] = None
from pleroma.content import Filter
from pleroma.index import IndexPlan
plan = IndexPlan.loads(sys.stdin.read())
print(plan.index.dzs(plan.schema.event(x=70, y=3)), plan.index.cover(Filter.parse(plan.schema, "y < 5")))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], input=IndexPlan(1, THREE).dumps(), capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "(Dz('1000'),) {0, 10}"
