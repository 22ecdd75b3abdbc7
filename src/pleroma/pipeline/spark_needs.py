"""What Spark needs of the machine: PySpark in this Python, and Java 17 or newer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec

from pleroma.errors import SetupError

MIN_JAVA_VERSION = 17
"""The oldest that Spark 4 runs on."""

_VERSION = re.compile(r'version "(\d+)')
_REMEDY = "please run scripts/setup experiments spark"


@cache
def missing() -> str | None:
    """Why there can be no Spark here, or None."""
    if find_spec("pyspark") is None:
        return f"PySpark is not installed; {_REMEDY}"
    java = _java()
    if java is None:
        return f"Java {MIN_JAVA_VERSION} or newer is missing; {_REMEDY}"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    found = _VERSION.search(said)
    if found is None or int(found[1]) < MIN_JAVA_VERSION:
        return f"Java {MIN_JAVA_VERSION} or newer is needed, and this is {found[1] if found else 'none'}; {_REMEDY}"
    return None


def check() -> None:
    reason = missing()
    if reason is not None:
        raise SetupError(reason, field="spark")


def _java() -> str | None:
    """The path of Java, looked for where Spark's own scripts look."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(os.path.join(home, "bin", "java") if home else "java")
