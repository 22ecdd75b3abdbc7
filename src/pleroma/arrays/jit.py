"""Kernels: functions that become machine code on first use, kept on disk while all that it was made of is the same.

numba keeps it until the function's own file changes. But the functions it calls and the constants it reads are part of
it too, wherever they stand: without their share in the stamp, a new release would run with cells of the old one.
"""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

P = ParamSpec("P")
R = TypeVar("R")

CONSTANT_TYPES = (bool, int, float, str, tuple, np.generic)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Runs without the interpreter's lock."""
    kernel = njit(nogil=True)(function)
    if isinstance(kernel, Dispatcher):  # not if somebody has switched compilation off
        cast(Any, kernel)._cache = cast(Any, _Cache)(function)
    return cast(Callable[P, R], kernel)


def stamp(function: FunctionType) -> str:
    """Differs with the text of the function and of all kernels that it calls, their constants and records' fields."""
    found = hashlib.sha256()
    waiting, seen = [function], {function}
    while waiting:
        one = waiting.pop()
        found.update(_text(one.__code__.co_filename))
        for name in sorted({*_globals(one.__code__), *_annotated(one)}):
            value = one.__globals__.get(name)
            if fields := getattr(value, "_fields", None):  # a record: its fields are known by their places
                found.update(f"{name}={fields!r};".encode())
            elif isinstance(value, CONSTANT_TYPES):
                found.update(f"{name}={value!r};".encode())
            elif isinstance(value, Dispatcher) and value.py_func not in seen:
                seen.add(value.py_func)
                waiting.append(value.py_func)
    return found.hexdigest()


class _Cache(FunctionCache):
    def load_overload(self, *asked: Any) -> Any:
        """Asked before anything is compiled or kept, and only now is all that a kernel calls sure to be defined."""
        made_of = stamp(self._py_func)
        kept: Any = IndexDataCacheFile(self.cache_path, self._impl.filename_base, made_of)  # type: ignore[no-untyped-call]
        kept._version += f" {made_of}"  # a file of other code is not unpickled: it may name types that are gone
        self._cache_file = kept
        return super().load_overload(*asked)  # type: ignore[no-untyped-call]


def _globals(code: CodeType) -> Iterator[str]:
    """Also those of what is defined within, such as comprehensions."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


def _annotated(function: FunctionType) -> Iterator[str]:
    """The names of the types that a function says it takes and returns."""
    return (getattr(each, "__name__", str(each)) for each in function.__annotations__.values())


@cache
def _text(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()
