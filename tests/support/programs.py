"""Programs among the tests that run in processes of their own."""

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]


def environment(**more: str) -> dict[str, str]:
    """Where such a program finds `support`, and what this process finds."""
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | more
