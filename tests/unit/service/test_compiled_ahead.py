"""No request compiles anything: whatever it asks for, the code was made before anybody could connect."""

import subprocess
import sys

from support.programs import environment

PROGRAM = """
import sys

from numba.core.dispatcher import Dispatcher

from pleroma.control import Advance, ChangePlan, ControlState, CreatePrincipal, CreateSchema, Done, Register
from pleroma.content import Filter, Integer, Schema
from pleroma.content.filter_json import to_json
from pleroma.index import GridIndex, TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.routing import build
from pleroma.service.compiled_ahead import compile_ahead

SCHEMA = Schema("s", (Integer("a", False, 0, 1023), Integer("b", False, 0, 1023)))
LEVELS = 8


def halves(level, low, high):
    # the dimensions and the cuts of a tree that halves a and b in turn
    if level == LEVELS:
        return (LEAF,), ()
    d = level % 2
    cut = (low[d] + high[d]) / 2
    lower, upper = [*high], [*low]
    lower[d] = upper[d] = cut
    parts = halves(level + 1, low, lower), halves(level + 1, upper, high)
    return (d, *parts[0][0], *parts[1][0]), (cut, *parts[0][1], *parts[1][1])


TREE = TreeIndex(SCHEMA, LEVELS, *halves(0, (0.0, 0.0), (1024.0, 1024.0)))


def made():
    kernels = {id(each): each for name, module in list(sys.modules.items()) if name.startswith("pleroma")
               for each in vars(module).values() if isinstance(each, Dispatcher)}
    return {(each.py_func.__module__, each.py_func.__qualname__, kind) for each in kernels.values()
            for kind in each.signatures}


compile_ahead()
before = made()
assert before
for limit in (None, 3):
    state, position = ControlState(build("testbed").with_limit(limit)), 0

    def do(command):
        global position
        position += 1
        result = state.apply(position, command)
        assert isinstance(result, Done), result

    def register():
        do(Register("advertisement", "ann", "h1", "s", to_json(Filter.parse(SCHEMA, "true"))))
        for n in range(9):
            text = f"a > {n * 90} and a < {n * 90 + 9} or b > {n * 80} and b < {n * 80 + 15} or a = {n}"
            do(Register("subscription", "ann", f"h{n % 8 + 1}", "s", to_json(Filter.parse(SCHEMA, text))))

    do(CreateSchema(SCHEMA))
    do(CreatePrincipal("ann", "admin", "0" * 64))
    register()
    for method in ("lightweight", "versioning"):
        for index in (TREE, GridIndex.regular(SCHEMA, 70, ["a", "b"])):
            do(ChangePlan("s", index, method))
            register()
            for step in ("swap", "clear"):
                do(Advance("s", step))
                register()
    assert bool(state.router.coarsened) == (limit is not None)
late = {(module, name) for module, name, _ in made() - before}
assert not late, late
"""


def test_requests_that_register_change_plans_and_fill_tables_compile_nothing():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment(), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
