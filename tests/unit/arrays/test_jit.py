"""Machine code that was kept must be that of the code that is there now."""

import dis
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import BuiltinFunctionType, ModuleType

import pytest
from numba.core.dispatcher import Dispatcher

import pleroma
from pleroma.arrays.jit import CONSTANT_TYPES, compiled, stamp

CALLER = """
from called import SHARED, below
from pleroma.arrays.jit import compiled

@compiled
def kernel(x):
    return last(below(x)) + SHARED

@compiled
def last(x):
    return x

print(kernel(1), sum(kernel.stats.cache_hits.values()))
"""
CALLED = """
from deeper import AMOUNT
from pleroma.arrays.jit import compiled
SHARED = 1000

@compiled
def below(x):
    return x + AMOUNT
"""

RECORDS = """
from typing import NamedTuple

class Pair(NamedTuple):
    one: int
    other: int
"""
RECORD_USER = """
from records import Pair
from pleroma.arrays.jit import compiled

@compiled
def kernel(pair: Pair):
    return pair.one

print(kernel(Pair(7, 8)), sum(kernel.stats.cache_hits.values()))
"""


@pytest.mark.parametrize(
    ("changed", "old", "new", "answer"),
    [
        ("called.py", "x + AMOUNT", "x - AMOUNT", "991"),
        ("called.py", "SHARED = 1000", "SHARED = 2000", "2011"),
        ("deeper.py", "AMOUNT = 10", "AMOUNT = 20", "1021"),
    ],
    ids=["what it calls", "a constant it reads", "a constant of what it calls"],
)
def test_kept_machine_code_is_used_until_something_it_was_made_of_changes(
    tmp_path: Path, changed: str, old: str, new: str, answer: str
) -> None:
    texts = {"caller.py": CALLER, "called.py": CALLED, "deeper.py": "AMOUNT = 10\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert _printed(tmp_path / "caller.py") == ["1011", "0"]
    assert _printed(tmp_path / "caller.py") == ["1011", "1"]
    (tmp_path / changed).write_text(texts[changed].replace(old, new))
    assert _printed(tmp_path / "caller.py") == [answer, "0"]


def test_machine_code_kept_for_a_record_is_not_used_when_its_fields_or_its_name_change(tmp_path: Path) -> None:
    records, user = tmp_path / "records.py", tmp_path / "user.py"
    records.write_text(RECORDS)
    user.write_text(RECORD_USER)
    assert _printed(user) == ["7", "0"]
    assert _printed(user) == ["7", "1"]
    records.write_text(RECORDS.replace("one", "first").replace("other", "one"))
    assert _printed(user) == ["8", "0"]
    records.write_text(RECORDS.replace("Pair", "Couple"))
    user.write_text(RECORD_USER.replace("Pair", "Couple"))
    assert _printed(user) == ["7", "0"]


def _printed(program: Path) -> list[str]:
    given = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA")}
    done = subprocess.run([sys.executable, str(program)], env=given, check=True, capture_output=True, text=True)
    return done.stdout.split()


@compiled
def _even(number: int) -> bool:
    return number == 0 or _odd(number - 1)


@compiled
def _odd(number: int) -> bool:
    return number != 0 and _even(number - 1)


def test_kernels_that_call_each_other_have_stamps() -> None:
    assert stamp(_even.py_func) == stamp(_odd.py_func)  # type: ignore[attr-defined]  # made of the same


def test_kernels_read_nothing_that_their_stamp_does_not_see() -> None:
    strange, kernels = [], 0
    for module in _modules():
        for kernel in [each for each in vars(module).values() if isinstance(each, Dispatcher)]:
            kernels += 1
            for each in dis.get_instructions(kernel.py_func):
                value = kernel.py_func.__globals__.get(each.argval) if each.opname == "LOAD_GLOBAL" else None
                seen = (*CONSTANT_TYPES, Dispatcher, ModuleType, type, BuiltinFunctionType, type(None))
                if not isinstance(value, seen):
                    strange.append((module.__name__, kernel.py_func.__name__, each.argval))
    assert kernels > 50
    assert not strange


def _modules() -> list[ModuleType]:
    """Those of the package that have kernels."""
    folder = Path(pleroma.__file__).parent
    names = [name for _, name, _ in pkgutil.walk_packages([str(folder)], "pleroma.") if not name.endswith("__main__")]
    paths = {name: folder.parent / f"{name.replace('.', '/')}.py" for name in names}
    return [
        importlib.import_module(n) for n, path in paths.items() if path.exists() and "@compiled" in path.read_text()
    ]
