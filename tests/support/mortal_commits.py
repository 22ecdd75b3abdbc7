"""A process that dies before or after one of its commits to a lake."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import deltalake
import pytest

from pleroma.pipeline.lake import lake_table


class Died(BaseException):
    """What cannot be caught by mistake, as little as a death."""


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, moment: int) -> Iterator[None]:
    """Die at a moment, counted from 1: before the first commit, after it, before the second, and so on."""
    real, left = deltalake.write_deltalake, moment

    def passed() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Died

    def mortal(*given: Any, **more: Any) -> None:
        passed()
        real(*given, **more)
        passed()

    with monkeypatch.context() as patched:
        patched.setattr(lake_table, "write_deltalake", mortal)
        yield
