"""What Spark needs, and what is said when it is not there."""

import pytest

from pleroma.errors import SetupError
from pleroma.pipeline import spark_needs


@pytest.fixture(autouse=True)
def asked_anew():
    spark_needs.missing.cache_clear()
    yield
    spark_needs.missing.cache_clear()


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Be the Java of this version."""
    monkeypatch.setattr(spark_needs, "find_spec", lambda _: True)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def become(version):
        (tmp_path / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
        (tmp_path / "java").chmod(0o755)

    return become


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_java_17_or_newer_will_do(java, version):
    java(version)
    assert spark_needs.missing() is None
    spark_needs.check()


@pytest.mark.parametrize(("version", "shown"), [("1.8.0_402", "this is 1"), ("11.0.2", "this is 11")])
def test_an_older_java_is_named(java, version, shown):
    java(version)
    with pytest.raises(SetupError, match=shown) as refused:
        spark_needs.check()
    assert "scripts/setup experiments spark" in str(refused.value)


@pytest.mark.usefixtures("java")
def test_no_java_and_no_pyspark_are_told_apart(monkeypatch):
    assert "Java 17 or newer is missing" in spark_needs.missing()
    spark_needs.missing.cache_clear()
    monkeypatch.setattr(spark_needs, "find_spec", lambda _: None)
    assert "PySpark is not installed" in spark_needs.missing()
