"""What two schemas of one name differ in, in words."""

from dataclasses import replace

from pleroma.content import Category, Integer, Schema, Text
from pleroma.content.schema_difference import schema_differences
from support.strategies import STOCK


def schema(*attributes):
    return Schema("s", attributes)


def test_alike_schemas_do_not_differ():
    assert schema_differences(STOCK, STOCK) == []


def test_every_difference_is_named():
    there = schema(Integer("a", False, 0, 9), Text("b", False), Category("c", False, ("x", "y")), Text("gone", False))
    here = schema(Text("b", False, "hash"), Integer("a", False, 0, 12), Text("c", False), Text("new", True))
    assert schema_differences(there, here) == [
        "gone is only there",
        "new is only here",
        "max of a is 9 there and 12 here",
        "linearise of b is 'order' there and 'hash' here",
        "kind of c is 'category' there and 'text' here",
        "the attributes are in another order",
    ]


def test_an_attribute_that_may_be_absent_in_one_of_them_differs():
    there, here = schema(Integer("a", True, 0, 9)), schema(Integer("a", False, 0, 9))
    assert schema_differences(there, here) == ["optional of a is True there and False here"]


def test_whether_events_are_encrypted_is_a_difference():
    secret = replace(STOCK, encrypted=True)
    assert schema_differences(secret, STOCK) == ["events are encrypted there alone"]
    assert schema_differences(STOCK, secret) == ["events are encrypted here alone"]
