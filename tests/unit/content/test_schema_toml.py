"""A schema that is written as TOML is the schema that is read."""

from pleroma.content import Boolean, Category, Integer, Real, Schema, Text, Timestamp
from pleroma.content.schema_toml import schema_toml


def test_what_is_written_is_read_again(tmp_path):
    words = ('say "hi"', "back\\slash", "tab\tand\x7fmore", "日本")
    schema = Schema(
        "a name",
        (
            Integer("count", True, -3, 9),
            Real("share", False, 0.0, 1.0, open_low=True),
            Category("word", False, words),
            Text("free.text", True, "hash"),
        ),
    )
    path = tmp_path / "schema.toml"
    path.write_text(schema_toml(schema, {"count": "from -3\nto 9"}), encoding="utf-8")
    assert Schema.load(path) == schema
    assert "# from -3 to 9\n[[attribute]]" in path.read_text(encoding="utf-8")


def test_an_encrypted_schema_with_moments_is_read_again(tmp_path):
    at = Timestamp.of("at", True, "2026-01-01T00:00:00Z", "2026-12-31T23:59:59.999999Z")
    schema = Schema("alarm", (Boolean("armed", False), at), encrypted=True)
    (tmp_path / "s.toml").write_text(schema_toml(schema, {}), encoding="utf-8")
    assert Schema.load(tmp_path / "s.toml") == schema
