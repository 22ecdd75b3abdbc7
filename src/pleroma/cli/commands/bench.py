"""`pleroma bench`: run one of the benchmarks that live beside the sources."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, progress, show_json, show_table
from pleroma.errors import SetupError, UnknownName

BENCHMARK_FOLDER = Path(__file__).resolve().parents[4] / "benchmarks"


def bench(
    name: Annotated[str, typer.Argument(help="Which one; without a name, they are listed.")] = "",
    full: Annotated[bool, typer.Option("--full", help="At full size, where there is one; this takes long.")] = False,
    json: JsonFlag = False,
) -> None:
    """Measure on this machine, against a reference in the same run."""
    known = {path.stem: path for path in sorted(BENCHMARK_FOLDER.glob("*.py")) if not path.stem.startswith("_")}
    if not known:
        raise SetupError("benchmarks run from a checkout of the sources, and this is an installed copy")
    if not name:
        show_table("benchmarks", ("name", "what it measures"), [(n, _summary(p)) for n, p in known.items()])
        return
    if name not in known:
        raise UnknownName("benchmark", name, known)
    module = _load(known[name])
    sized = {"full": True} if full else {}
    if full and "full" not in inspect.signature(module.run).parameters:
        raise SetupError("has one size only", field="--full", value=name)
    with progress(f"bench {name}", getattr(module, "STEPS", None)) as advance:
        figures: dict[str, Any] = module.run(advance, **sized)
    if json:
        show_json(figures)
        return
    columns = getattr(module, "COLUMNS", ("figure", "value"))
    show_table(f"bench {name}", columns, module.rows(figures) if hasattr(module, "rows") else list(_flat(figures)))
    out.print("Absolute figures are of this machine; ratios compare two things in the same run.")


def _summary(path: Path) -> str:
    text = path.read_text(encoding="utf-8").removeprefix('"""')
    return text.split("\n", 1)[0].removesuffix('"""')


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SetupError("cannot be loaded", field=str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _flat(figures: dict[str, Any], before: str = "") -> Any:
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
