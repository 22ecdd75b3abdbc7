import json

import pytest

from pleroma.content import Category, Integer, Real, Schema, Text
from pleroma.errors import ContentError, DomainError, SchemaError, UnknownName
from support.strategies import STOCK


def table(**attribute):
    return {"name": "s", "attribute": [{"name": "a", **attribute}]}


# -- definitions -----------------------------------------------------------------------------------------------------


def test_the_example_has_every_kind():
    assert STOCK.name == "stock"
    assert STOCK.attributes == (
        Real("price", False, 0, 1000),
        Integer("volume", False, 0, 1023),
        Text("ticker", False),
        Category("market", True, ("xetra", "lse", "nyse", "nasdaq")),
    )
    assert STOCK.names == ("price", "volume", "ticker", "market")
    assert len(STOCK) == 4
    assert STOCK["volume"].kind == "integer"


def test_schemas_with_the_same_attributes_are_equal():
    again = Schema("stock", STOCK.attributes)
    assert again == STOCK
    assert hash(again) == hash(STOCK)
    assert Schema("stocks", STOCK.attributes) != STOCK


def test_an_attribute_defined_twice_is_refused():
    with pytest.raises(SchemaError, match=r"^a: the attribute is defined twice$"):
        Schema("s", (Integer("b", False, 0, 1), Integer("a", False, 0, 1), Text("a", False)))


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_schema_needs_a_name(name):
    with pytest.raises(SchemaError, match=r"^name: a schema needs a name$"):
        Schema(name, STOCK.attributes)


def test_a_schema_needs_an_attribute():
    with pytest.raises(SchemaError, match=r"^s: a schema needs at least one attribute$"):
        Schema("s", ())


@pytest.mark.parametrize("name", ["two words", "and", ""])
def test_a_name_the_language_cannot_say_is_refused_wherever_it_comes_from(name):
    with pytest.raises(SchemaError, match=r"^name: "):
        Schema("s", (Integer(name, False, 0, 1),))


@pytest.mark.parametrize("data", [None, [], "stock", 5, [["name", "stock"]]])
def test_a_schema_is_a_table(data):
    with pytest.raises(SchemaError, match=r"^a schema is a table with a name and attributes$"):
        Schema.from_json(data)


@pytest.mark.parametrize("listed", [None, {}, "a", 5])
def test_the_attributes_are_a_list(listed):
    with pytest.raises(SchemaError, match=r"^attribute: a schema lists its attributes under \[\[attribute\]\]$"):
        Schema.from_json({"name": "s", "attribute": listed})


@pytest.mark.parametrize("each", [None, "price", 5, ["price"]])
def test_an_attribute_is_a_table(each):
    with pytest.raises(SchemaError, match=r"^attribute: an attribute is a table with a name and a kind$"):
        Schema.from_json({"name": "s", "attribute": [each]})


def test_a_misspelt_field_comes_with_the_right_one():
    with pytest.raises(UnknownName, match=r"^unknown schema field 'attributes'; did you mean 'attribute'\?$"):
        Schema.from_json({"name": "s", "attributes": []})
    with pytest.raises(UnknownName, match=r"^a: unknown field of a real attribute 'maxx'; did you mean 'max'\?$"):
        Schema.from_json(table(kind="real", min=0, maxx=1))
    with pytest.raises(UnknownName, match=r"^a: unknown field of a text attribute 'min'; "):
        Schema.from_json(table(kind="text", min=0))


def test_a_misspelt_kind_comes_with_the_right_one():
    with pytest.raises(UnknownName, match=r"^a: unknown kind 'int'; did you mean 'integer'\?$"):
        Schema.from_json(table(kind="int"))


@pytest.mark.parametrize("kind", [None, 5, ["real"]])
def test_an_attribute_needs_a_kind(kind):
    with pytest.raises(
        SchemaError, match=r"^a: an attribute needs a kind, one of integer, real, timestamp, boolean, category, text$"
    ):
        Schema.from_json(table(kind=kind))


@pytest.mark.parametrize("kind", ["integer", "real"])
@pytest.mark.parametrize("bounds", [{}, {"min": 0}, {"max": 0}, {"min": 0, "above": 0, "max": 9}])
def test_each_end_of_a_domain_is_given_once(kind, bounds):
    with pytest.raises(SchemaError, match=r"^a: give one of (min and above|max and below)$"):
        Schema.from_json(table(kind=kind, **bounds))


def test_above_and_below_leave_the_bound_out():
    integer = Schema.from_json(table(kind="integer", above=0, below=4)).attributes[0]
    assert integer == Integer("a", False, 1, 3)
    real = Schema.from_json(table(kind="real", above=0, below=4)).attributes[0]
    assert real == Real("a", False, 0, 4, open_low=True, open_high=True)


@pytest.mark.parametrize("bound", [True, 1.5, "0", None, [], 10**400])
def test_an_integer_bound_of_another_type_is_refused(bound):
    with pytest.raises(SchemaError, match=r"^a: "):
        Schema.from_json(table(kind="integer", above=bound, max=9))


@pytest.mark.parametrize("optional", [1, 0, "true", None])
def test_optional_is_a_boolean(optional):
    with pytest.raises(SchemaError, match=r"^a: optional is true or false, not "):
        Schema.from_json(table(kind="text", optional=optional))


@pytest.mark.parametrize("values", [None, "abc", {"a": 1}])
def test_a_category_lists_its_values(values):
    with pytest.raises(SchemaError, match=r"^a: a category lists its values$"):
        Schema.from_json(table(kind="category", values=values))


# -- files -----------------------------------------------------------------------------------------------------------


def test_toml_and_json_files_say_the_same(tmp_path):
    path = tmp_path / "stock.json"
    path.write_text(json.dumps(STOCK.to_json()))
    assert Schema.load(path) == Schema.load(str(path)) == STOCK


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("s.toml", "name = ", "is not valid TOML: Invalid value"),
        ("s.toml", 'name = "s"\nname = "s"', "is not valid TOML: "),
        ("s", "<schema/>", "is not valid TOML: "),
        ("s.txt", "{}", "is not valid TOML: "),
        ("s.json", "{", "is not valid JSON: "),
        ("s.json", "", "is not valid JSON: "),
        ("s.JSON", "name = 's'", "is not valid JSON: "),
        pytest.param("s.json", "[" * 100_000, "is not valid JSON: ", id="deep JSON"),
        pytest.param("s.toml", "a = " + "[" * 100_000, "is not valid TOML: ", id="deep TOML"),
        pytest.param("s.json", '{"name": ' + "1" * 5000 + "}", "is not valid JSON: ", id="long number"),
    ],
)
def test_a_file_in_another_format_is_refused(tmp_path, name, text, reason):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SchemaError) as refused:
        Schema.load(path)
    assert str(refused.value).startswith(f"{path}: {reason}")
    assert str(refused.value).isprintable()


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(SchemaError, match=r"none.toml: cannot read the schema: No such file or directory$"):
        Schema.load(tmp_path / "none.toml")
    with pytest.raises(SchemaError, match=r"cannot read the schema: Is a directory$"):
        Schema.load(tmp_path)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800", "no\nsuch\nfile", pytest.param("x" * 5000, id="long")])
def test_what_is_no_path_is_refused_in_one_line(path):
    with pytest.raises(SchemaError, match=r"cannot read the schema: ") as refused:
        Schema.load(path)
    assert str(refused.value).isprintable()


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes(b'name = "caf\xe9"')
    with pytest.raises(SchemaError, match=r"latin.toml: cannot read the schema: it is not UTF-8 text$"):
        Schema.load(path)


# -- events ----------------------------------------------------------------------------------------------------------


def test_an_event_has_the_values_it_was_given():
    event = STOCK.event({"price": 150.25, "volume": 3.0}, ticker="AAPL")
    assert dict(event) == {"price": 150.25, "volume": 3, "ticker": "AAPL"}
    assert event["ticker"] == "AAPL"
    assert str(event) == "{price=150.25, volume=3, ticker='AAPL'}"
    assert len(event.coordinates()) == 4


def test_attributes_may_be_called_like_the_parameters():
    schema = Schema("s", (Integer("self", False, 0, 1), Integer("values", False, 0, 1)))
    assert dict(schema.event(self=1, values=0)) == {"self": 1, "values": 0}


def test_an_unknown_attribute_comes_with_the_nearest_one():
    with pytest.raises(UnknownName, match=r"^unknown attribute 'prise'; did you mean 'price'\?$") as refused:
        STOCK.event(prise=5)
    assert refused.value.suggestion == "price"
    with pytest.raises(UnknownName, match=r"^unknown attribute '1'; known: price, volume, ticker, market$"):
        STOCK.event({1: 2})


def test_a_missing_value_names_its_attribute():
    with pytest.raises(DomainError, match=r"^volume: a value is required$"):
        STOCK.event(price=5, ticker="A")


@pytest.mark.parametrize("values", [[], [("price", 5)], "price", 5, True])
def test_an_event_is_made_from_a_mapping(values):
    with pytest.raises(ContentError, match=r"^an event is an object of attribute to value$"):
        STOCK.event(values)
