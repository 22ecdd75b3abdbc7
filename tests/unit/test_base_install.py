"""What a publisher or subscriber installs: plain Python and one small package."""

import importlib.metadata
import re
import subprocess
import sys
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


def test_the_base_install_needs_one_package():
    needed = [r for r in importlib.metadata.requires("pleroma") or () if "extra ==" not in r]
    assert [re.split(r"[<>= ]", r)[0] for r in needed] == ["lark"]


def test_the_command_says_what_to_install_when_it_is_not_there():
    code = "import sys; sys.modules['typer'] = None; from pleroma.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.strip() == (
        "error: the pleroma command needs more than a sensor has; install pleroma[controller]"
    )


def test_the_readmes_program_does_what_its_comments_say(monkeypatch):
    monkeypatch.chdir(ROOT)
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    names = {}
    lines = block.splitlines()
    exec("\n".join(line for line in lines if "# " not in line), names)  # noqa: S102
    claims = [line.split("#", 1) for line in lines if "# True" in line]
    assert len(claims) == 2
    for expression, _ in claims:
        assert eval(expression.strip(), names) is True  # noqa: S307
    address = next(line.split("#")[0] for line in lines if "where the event is sent" in line)
    assert str(eval(address.strip(), names)).startswith("ff0e:")  # noqa: S307


def test_constraints_hold_names_and_versions_only():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line), line
