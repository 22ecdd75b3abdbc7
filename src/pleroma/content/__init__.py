"""What is said: schemas, events and filters. Pure Python, so that a sensor can afford it."""

from pleroma.content.attribute import Attribute, Value
from pleroma.content.boolean import Boolean
from pleroma.content.box import Box
from pleroma.content.category import Category
from pleroma.content.event import Event
from pleroma.content.filter import Filter
from pleroma.content.numeric import Integer, Real
from pleroma.content.range import Key, Range
from pleroma.content.schema import Schema
from pleroma.content.text import Text
from pleroma.content.timestamp import Timestamp

__all__ = [
    "Attribute",
    "Boolean",
    "Box",
    "Category",
    "Event",
    "Filter",
    "Integer",
    "Key",
    "Range",
    "Real",
    "Schema",
    "Text",
    "Timestamp",
    "Value",
]
