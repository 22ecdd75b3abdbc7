"""What a publisher or subscriber installs: plain Python, a parser and an HTTP client."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SENSOR = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "numba", "pyarrow", "typer", "rich", "matplotlib", "networkx", "pyspark"}:
            raise ModuleNotFoundError(f"a sensor has no {name}")

sys.meta_path.insert(0, Refuse())

from pleroma.content import Filter, Schema
from pleroma.index import IPV6, GridIndex, IndexPlan, evaluate

stock = Schema.load("examples/stock.toml")
plan = IndexPlan.loads(IndexPlan(1, GridIndex.regular(stock, 23)).dumps())
event = stock.event(price=151.5, volume=20, ticker="AAPL")
wanted = Filter.parse(stock, "price > 150 and ticker startswith 'AA'")
assert plan.index.cover(wanted, max_members=32).covers(plan.index.dz(event))
print(IPV6.address(plan.index.dz(event)), wanted.matches(event))
"""


def test_a_sensor_encodes_and_filters_without_numpy():
    done = subprocess.run([sys.executable, "-c", SENSOR], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    address, matched = done.stdout.split()
    assert address.startswith("ff0e:")
    assert matched == "True"


def test_the_base_install_needs_two_packages():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [re.split(r"[<>= ]", r)[0] for r in needed] == ["lark", "httpx"]


def test_the_command_says_what_to_install_when_it_is_not_there():
    code = "import sys; sys.modules['typer'] = None; from pleroma.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.strip() == (
        "error: the pleroma command needs more than a sensor has; install pleroma[controller]"
    )


def test_constraints_hold_names_and_versions_only():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line), line
