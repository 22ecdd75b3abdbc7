"""A Spark session with settings for our kind of work: few and large tasks whose time goes into Python kernels."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pleroma.errors import SetupError, SparkError
from pleroma.pipeline.spark_needs import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"
MAX_TASK_ATTEMPTS = 4

_LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
}
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@contextmanager
def session(master: str | None = None, name: str = "pleroma", **settings: str) -> Iterator[SparkSession]:
    """A session that ends with the block. Without a master: what `spark-submit` was told, or all cores here.

    `sc://` masters are reached by Spark Connect. Workers need this package in their Python, which is the one of
    PYSPARK_PYTHON, or at the same place as here.
    """
    check()
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = LOCAL_MASTER
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _is_here(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    wanted = _SETTINGS | (_HERE if _is_here(master) else {}) | {_dotted(key): value for key, value in settings.items()}
    builder = SparkSession.builder.appName(name)
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
        wanted = {key: value for key, value in wanted.items() if key.startswith("spark.sql.")}
    elif master is not None:
        builder = builder.master(_patient(master))
    for key, value in wanted.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # also what Java throws, which has a class of py4j's
        raise SetupError(f"Spark does not start: {_reason(error)}", field="--master", value=master) from None
    try:
        yield spark
    except PySparkException as error:
        raise SparkError(f"Spark gave up: {_reason(error)}") from error
    finally:
        spark.stop()


def _reason(error: Exception) -> str:
    """An error in one line: the exception that a task raised, or the first line of what Java threw."""
    lines = [line for line in str(getattr(error, "java_exception", error)).splitlines() if line.strip()]
    raised = [n for n, line in enumerate(lines) if line.startswith("Traceback ")]
    if raised:
        lines = [line for line in lines[raised[-1] + 1 :] if not line.startswith((" ", "\t"))]
    return lines[0].strip() if lines else type(error).__name__


def _patient(master: str) -> str:
    """A local master that tries a task several times: a busy machine may be too slow to start a worker at once."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return master if found is None else f"local[{found[1] or 1},{MAX_TASK_ATTEMPTS}]"


def _is_here(master: str | None) -> bool:
    """Whether driver and executors are on this machine and can talk by loopback, where nobody else can listen."""
    return master is not None and (master.startswith("local") or "//127.0.0.1" in master or "//localhost" in master)


def _dotted(key: str) -> str:
    return key.replace("__", ".")
