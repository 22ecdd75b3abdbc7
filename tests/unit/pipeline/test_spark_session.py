"""What a session decides before Spark starts, and what it says of what went wrong."""

from pathlib import Path

import pytest

from pleroma.pipeline import spark_session
from pleroma.pipeline.spark_session import _is_here, _patient, _reason


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2, 1]", "local[2, 1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_task_is_tried_again_also_in_local_mode(asked, given):
    assert _patient(asked) == given


def test_only_what_stays_on_this_machine_goes_by_loopback():
    assert _is_here("local[2]")
    assert _is_here("spark://127.0.0.1:7077")
    assert not _is_here("spark://cluster:7077")
    assert not _is_here("yarn")
    assert not _is_here(None)


def test_spark_has_no_other_level_to_set_and_to_speak_of():
    """It says that it sets the level of a shell where that is another than the root's."""
    text = Path(spark_session.__file__).with_name("log4j2.properties").read_text(encoding="utf-8")
    said = dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line and not line.startswith("#"))
    assert said["logger.gateway.name"] == "org.apache.spark.api.python.PythonGatewayServer"
    assert (
        said["logger.gateway.level"] == said["rootLogger.level"] == spark_session._SETTINGS["spark.log.level"].lower()
    )


def test_of_a_long_story_the_line_that_matters_is_told():
    raised = RuntimeError(
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n    1 / 0\nZeroDivisionError: division by zero\n SQLSTATE: 38000'
    )
    assert _reason(raised) == "ZeroDivisionError: division by zero"
    assert _reason(RuntimeError("first\nsecond")) == "first"
    assert _reason(RuntimeError("")) == "RuntimeError"
