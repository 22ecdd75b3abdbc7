"""Spark takes Java and PySpark. Without them these tests are skipped, and the summary says so.

There is one session at a time, in one process: pytest-xdist leaves all of these tests to one worker (see the conftest
above). First come the tests in local mode, then those on a cluster, whose session follows in the same Java process.
"""

import os
from pathlib import Path

import pytest

from pleroma.pipeline.spark_needs import missing

HERE = Path(__file__).parent

QUICKLY_UP = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"

os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICKLY_UP)  # of drivers, also of those that tests start as processes


def pytest_collection_modifyitems(items):
    reason = missing()
    places = [place for place, item in enumerate(items) if HERE in item.path.parents]
    ours = sorted((items[place] for place in places), key=lambda item: "cluster" in getattr(item, "fixturenames", ()))
    for place, item in zip(places, ours, strict=True):
        items[place] = item
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"NO SPARK TESTS: {reason}"))


@pytest.fixture(scope="session")
def spark():
    """A small session in this process. Only this fixture stops it."""
    with _session("local[2]") as made:
        yield made


@pytest.fixture(scope="session")
def cluster():
    """A master and two workers with a core each. Where a worker was killed, the next test starts it."""
    from pleroma.lab.spark_cluster import SparkCluster

    with SparkCluster.up(workers=2, cores=1, memory="1g") as made:
        yield made


@pytest.fixture(scope="session")
def cluster_spark(cluster):
    """A session on the cluster; that of the tests in local mode is over."""
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    if before is not None:
        before.stop()
    with _session(cluster.url) as made:
        yield made


def _session(master):
    from pleroma.pipeline.spark_session import session

    settings = {
        "spark__driver__memory": "1g",
        "spark__executor__extraJavaOptions": QUICKLY_UP,
        "spark__sql__shuffle__partitions": "2",
    }
    if jars := os.environ.get("PLEROMA_DELTA_JARS"):
        settings["spark__jars"] = jars
    return session(master, "tests", **settings)
